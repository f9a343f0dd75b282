"""Where things run: one file per kind of host, see `base` and `registry`."""
