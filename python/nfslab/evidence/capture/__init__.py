"""Every NFS call of a run, out of the packets on the wire."""
