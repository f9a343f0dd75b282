"""Evidence: one folder a kind, from the tables of a run to the sentences of a report."""
