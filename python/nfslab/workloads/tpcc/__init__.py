"""Order entry like TPC-C's on a database of its own: PostgreSQL by pgbench, MariaDB by sysbench.

    rows ──> tables (keys, procedures) ──> conditions (clause 3.3.2) ──> the loaded database
    scripts ──> client ──> log ──> tally: transactions of each kind ──> conditions again

Engines share rows, conditions, and tally; what each has for itself is in its folder. It is like
DBT-2 and not TPC-C: results are not comparable with published TPC results.
"""
