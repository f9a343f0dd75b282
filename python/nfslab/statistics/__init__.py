"""Statistics that can be defended: pure functions on arrays, for everything after a run.

No file, no clock, no knowledge of runs: values in, frozen results out. Every number of nfslab
is estimated here and only here. Many at once (`summary.summarise_many`,
`comparison.compare_many`) cost little more than one: a report has thousands. Why these
estimators, and how often they err: docs/decisions/statistics.md.
"""
