"""Offered load: achieved load and response times over the load that was offered."""
