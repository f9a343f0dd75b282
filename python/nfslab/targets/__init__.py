"""Places that data can live on: one file per kind, see `base` and `registry`."""
