"""What the kernel's NFS server counts: calls, reply cache, bytes, threads, pools."""
