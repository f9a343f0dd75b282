"""How many NFS calls each collector counted, side by side."""
