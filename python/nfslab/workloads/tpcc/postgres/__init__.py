"""Order entry on PostgreSQL: what is loaded and what pgbench runs.

tables     filled by COPY, checked
scripts    of pgbench, from the templates in sql/
pacing     keying and think times
"""
