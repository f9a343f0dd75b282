"""How an NFS export is mounted: one file per kind, see `base` and `registry`."""
