"""Several machines as one: who they are, their clocks, agents of ours on them."""
