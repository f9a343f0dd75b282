"""NFS servers that targets are served by: one file per kind, see `base` and `registry`."""
