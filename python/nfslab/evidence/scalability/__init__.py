"""How throughput goes with clients or threads: the universal scalability law of an experiment."""
