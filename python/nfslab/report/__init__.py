"""Outputs made from a results folder alone: one file per output, plots in one place."""
