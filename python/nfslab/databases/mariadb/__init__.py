"""MariaDB: a server of a run's own."""
