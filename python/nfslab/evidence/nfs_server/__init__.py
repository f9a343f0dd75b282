"""What our NFS server recorded of each call, and where the calls' time went."""
