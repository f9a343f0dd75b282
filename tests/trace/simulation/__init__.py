"""Captures of hosts that are simulated: exact times, and causes known since they were planted.

    network   events in the order of time; one-way paths with delay, queue, loss and a tap
    tcp       one end of a connection: SACK, D-SACK, delayed ACK, timeouts, fast retransmit, RST
    hosts     a server (threads, freezes, death), clients (closed loop, pauses, reconnecting), UDP
    scenarios what is planted, and what may, must and must not be said of it
    judged    what the product says, beside it

Packets are written by `tests.trace.generator`, which shares no line with the product. Everything
random comes from a scenario's seed.
"""
