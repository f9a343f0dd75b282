"""Database servers that workloads run on a run's places, and what is known of each."""
