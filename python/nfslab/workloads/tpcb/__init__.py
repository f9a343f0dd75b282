"""The workload `tpcb`: the same TPC-B-like load on PostgreSQL, MariaDB and SQLite.

workload      what is loaded, run and checked; the way of a run: nfslab.workloads.sysbench
parameters    what the experiment file may say
tables        pgbench's four tables on each engine;  the engines: nfslab.databases
tpcb.lua      the transaction, for sysbench
"""
