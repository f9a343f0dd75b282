"""Where the time of an operation goes: parts that sum to it exactly, and what differs."""
