"""The HTML report: one file that opens offline and stays below 10 MB (`document`)."""
