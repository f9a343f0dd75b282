"""SQLite's part of the workload `sql`.

statements   the text of each query, and which plan it is to have
plans        plans as EXPLAIN QUERY PLAN gives them
loading      tables, rows, indexes
dialect      the session that checks, runs and counts, in a process of its own
"""
