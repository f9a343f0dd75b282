"""What a query reads: blocks, by system calls, and what the storage was asked for."""
