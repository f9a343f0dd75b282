"""The workload `pgbench`: a PostgreSQL of its own on the targets, and pgbench against it.

workload      prepare, measure, verify, finish: the way of one run; its server: databases.postgres
parameters    what the experiment file may say
loading       what pgbench loads
invocation    pgbench's arguments;  execution: running and watching it
transaction_log, printed, outcome: what it left, as samples, metrics and checks
invariant     does the database hold what was committed
"""
