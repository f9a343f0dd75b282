"""What the kernel's NFS client counts of its mounts, from /proc/self/mountstats."""
