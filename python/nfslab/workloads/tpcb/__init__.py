"""The workload `tpcb`: the same TPC-B-like load on PostgreSQL, MariaDB and SQLite.

workload      prepare, measure, verify, finish; the engines: nfslab.databases
parameters    what the experiment file may say
tables        pgbench's four tables on each engine
tpcb.lua      the transaction, for sysbench;  client: running and watching it
rows          what it left, as samples, metrics and checks
"""
