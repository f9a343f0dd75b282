"""Sources of evidence beside a workload: one file each, see `base` and `registry`."""
