"""What PostgreSQL itself says under load: waits, counters, flushes of its log."""
