"""On the loopback interface the kernel offers a capture each packet twice: as sent, as received.

libpcap throws the first copy away, but only once the kernel has cloned it, run the filter over
it and copied it into the ring, all in the time of the program that sent it. A filter cannot
ask for one of them: `inbound` works in the kernel, but libpcap runs the filter itself over the
first ring of packets (those may be from before the filter was set), has no direction there,
and rejects them all (libpcap 1.10).

What helps is the socket option PACKET_IGNORE_OUTGOING (Linux 4.20): nothing is cloned at all.
No tool sets it, so it is set on the tool's own socket, which pidfd_getfd(2) (Linux 5.6) lends
to whoever may trace the tool: root. Others pay for both copies, and get the same packets.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket

PIDFD_GETFD = 438
"""pidfd_getfd(2) on every architecture (all calls since Linux 5.0 have one number)."""
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23


def ignore_outgoing(pid: int) -> bool:
    """Free the program's packet sockets of the copies of what is sent; was there one?"""
    try:
        process = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return False
    try:
        return sum(_ignore_on(process, number) for number in _sockets(pid)) > 0
    finally:
        os.close(process)


def _sockets(pid: int) -> list[int]:
    """Its descriptors that are sockets."""
    folder = f"/proc/{pid}/fd"
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(f"{folder}/{name}").startswith("socket:"):
                    found.append(int(name))
    return found


def _ignore_on(process: int, number: int) -> bool:
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, number, 0)
    if descriptor < 0:
        return False
    with socket.socket(fileno=descriptor) as borrowed, contextlib.suppress(OSError):
        if borrowed.family == socket.AF_PACKET:
            borrowed.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            return True
    return False
