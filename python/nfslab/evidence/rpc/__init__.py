"""What an NFS client of ours does: queue, window, rates, round trips."""
