"""Captures of hosts that are simulated: exact times, and causes known since they were planted.

    network   events in the order of time; one-way paths with delay, queue, loss and a tap
    tcp       one end of a connection: SACK, D-SACK, delayed ACK, timeouts, fast retransmit, RST
    hosts     a server (threads, freezes, death), clients (closed loop, pauses, reconnecting), UDP
    made      a scenario with its truth: what may, must and must not be said of it
    scenarios hosts, connections and paths that fail
    adverse   captures and paths that deceive
    planted   all of them by name
    judged    what the product says, beside it

Packets are written by `tests.trace.generator`, which shares no line with the product. Everything
random comes from a scenario's seed.
"""
