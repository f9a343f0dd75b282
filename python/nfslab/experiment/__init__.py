"""The experiment file, the matrix, the order of runs, the runner."""
