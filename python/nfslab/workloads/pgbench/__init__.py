"""The workload `pgbench`: a PostgreSQL of its own on the targets, and pgbench against it.

workload      prepare, measure, verify, finish: the way of one run
parameters    what the experiment file may say;  settings, preflight: server settings
installation  which PostgreSQL;  relocation: a copy that the server's user can reach
deployment    how its programs are started;  server: one server;  failures: its words
cluster       making, copying and restoring a loaded database
invocation    pgbench's arguments;  execution: running and watching it
transaction_log, printed, outcome: what it left, as samples, metrics and checks
invariant     does the database hold what was committed
service       what the collectors are told
"""
