"""Order entry on MariaDB: what is loaded (schema, keys, procedures) and what sysbench runs.

tables        filled by LOAD DATA, checked
tpcc.lua      what a terminal draws, and the call of a procedure
procedures/   the five transactions, each in one call
"""
