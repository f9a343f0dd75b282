"""What loads a target: one file (or folder) per workload, see `base` and `registry`."""
