"""SQLite: a database file on a run's places, used by the program that loads it."""
