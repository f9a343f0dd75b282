"""PostgreSQL's part of the workload `sql`.

statements   the text of each query, what pins its plan, which plan that is
plans        plans as EXPLAIN gives them: read, compared, shown
loading      tables, rows, indexes
dialect      the session that checks, runs and counts
"""
