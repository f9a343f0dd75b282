"""MariaDB's (InnoDB's) part of the workload `sql`.

statements   the text of each query with its hints, and which plan it is to have
plans        plans as EXPLAIN gives them: read, compared, shown
loading      tables, rows, indexes
dialect      the session that checks, runs and counts
"""
