"""What this machine is and what it can do: processes, cgroups, page cache, provenance."""
