"""What lies between client and server: two captures of the same calls, joined."""
