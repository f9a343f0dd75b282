"""One experiment at a time on a machine: whose turn it is.

The turn is the name of an abstract socket (unix(7)): one process has it, it is gone with that
process whatever ends it, all users see the same one, and no file is left. It belongs to the network
namespace, so an experiment in another container is not seen; nor is one on another machine.

Who goes on beside (`--anyway`) stays connected and says so, for the one whose turn it is to know.

`NFSLAB_TURN` is another name for the turn; empty: nobody is asked.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAME: Final = "nfslab-experiment"
PEER: Final = struct.Struct("3i")
"""ucred of SO_PEERCRED (unix(7)): of who listens."""
BACKLOG: Final = 128
BESIDE: Final = b"b"
"""What a guest says; others ask who it is and leave."""
ADDRESS_CHARACTERS: Final = 100
"""unix(7) has room for 108 bytes."""
COMMAND_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose turn it is."""

    pid: int
    """0: of another process namespace."""
    user: str
    command: str
    """Empty where the system hides it."""

    def __str__(self) -> str:
        called = f": {self.command}" if self.command else ""
        return f"process {self.pid or 'unknown'} of {self.user}{called}"


class Turn:
    """This process and the turn. A context manager: what was taken is given back."""

    def __init__(self) -> None:
        name = os.environ.get("NFSLAB_TURN", NAME)
        self._address = f"\0{name}"[:ADDRESS_CHARACTERS] if name else ""
        self._held: socket.socket | None = None
        self._guest_of: socket.socket | None = None
        self._guests: list[socket.socket] = []

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_error: object) -> None:
        for one in (self._held, self._guest_of, *self._guests):
            if one is not None:
                one.close()
        self._held = self._guest_of = None
        self._guests.clear()

    def take(self) -> bool:
        """It is ours, from now on or already (or nobody is asked)."""
        if self._held is not None or not self._address:
            return True
        mine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            mine.bind(self._address)
        except OSError:
            mine.close()
            return False
        mine.listen(BACKLOG)
        mine.setblocking(False)
        self._held = mine
        return True

    def holder(self) -> Holder | None:
        """Who has it; None if nobody does any more."""
        with contextlib.suppress(OSError), self._connected() as other:
            return _holder(other)
        return None

    def go_beside(self) -> None:
        """Say that this process measures, too."""
        with contextlib.suppress(OSError):
            other = self._connected()
            other.sendall(BESIDE)
            self._guest_of = other

    def beside(self) -> bool:
        """Did another experiment run beside this one at any instant since the last call?"""
        if self._held is None:
            return not self.take()
        with contextlib.suppress(BlockingIOError):
            while True:
                guest, _ = self._held.accept()
                guest.setblocking(False)
                self._guests.append(guest)
        told = [_looked_at(guest) for guest in self._guests]
        kept = []
        for guest, (_, stays) in zip(self._guests, told, strict=True):
            if stays:
                kept.append(guest)
            else:
                guest.close()
        self._guests = kept
        return any(is_beside for is_beside, _ in told)

    def _connected(self) -> socket.socket:
        other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            other.setblocking(False)
            other.connect(self._address)
        except OSError:
            other.close()
            raise
        return other


def _looked_at(guest: socket.socket) -> tuple[bool, bool]:
    """(it measures, or did until just now; it is still connected). Its word is left in place."""
    try:
        measures = guest.recv(1, socket.MSG_PEEK) == BESIDE
    except BlockingIOError:
        measures = False
    except OSError:
        return False, False
    poll = select.poll()
    poll.register(guest, select.POLLRDHUP)
    ended = any(events & (select.POLLRDHUP | select.POLLHUP) for _, events in poll.poll(0))
    return measures, not ended


def _holder(other: socket.socket) -> Holder:
    """By the kernel's word for who listens."""
    asked = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    pid, uid, _ = PEER.unpack(asked)
    user, command = str(uid), ""
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(uid).pw_name
    if pid:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            command = " ".join(words).strip()[:COMMAND_CHARACTERS]
    return Holder(pid, user, command)
