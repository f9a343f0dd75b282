"""The time of each statement of a transaction, by the clock of who sent it."""
