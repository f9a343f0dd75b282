"""PostgreSQL: installations, clusters, servers of a run, its files by relation.

installation   which programs; relocation: a copy that another user can reach
deployment     how they are run in a run: where, as whom
settings       what a server is given; preflight: does it take them
cluster        loaded once, restored for every run; what is loaded, a workload says
server         one server: started, reached, watched, stopped; failures: its log's words
service        what collectors are told of it
relations      which table or index a file is
"""
