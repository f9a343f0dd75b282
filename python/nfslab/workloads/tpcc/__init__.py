"""Order entry like TPC-C's on a PostgreSQL of its own, driven by pgbench.

    rows ──> tables (COPY, keys, procedures) ──> conditions (clause 3.3.2) ──> the loaded cluster
    scripts ──> pgbench ──> log ──> transactions of each kind ──> conditions again

It is like DBT-2 and not TPC-C: results are not comparable with published TPC results.
"""
