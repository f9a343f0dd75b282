"""Where the CPU time goes: perf samples stacks while a load runs."""
