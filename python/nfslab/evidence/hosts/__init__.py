"""Several client hosts that made a run's load together: shares, starts, clocks, differences."""
