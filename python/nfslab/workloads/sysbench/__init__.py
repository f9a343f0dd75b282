"""What workloads share that sysbench drives: on PostgreSQL, MariaDB or SQLite.

driven             the way of a run: warm-up, timed part, counters of the server
client             sysbench: its arguments, running and watching it
rows               what a script left of its transactions, as samples, metrics and a check
transactions.lua   for scripts: a transaction that is tried again, and the log of it
"""
