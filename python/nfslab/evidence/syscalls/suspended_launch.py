"""A program suspended before its first instruction until whoever watches it is ready.

    the program's place: sh that tells its pid, waits, and becomes the program (exec)
    here:                await_pid() ──> attach to that pid ──> resume()

Nothing of the program has run when watching begins, and no call of it is missed. Two named pipes
in a folder of our own, so that it works through any wrapper that starts programs (another user, a
control group): no descriptor has to be passed on. If we die, the shell reads the end of the pipe
and runs the program.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

SUSPEND: Final = 'exec 9<"$0/go"; echo $$ >"$0/pid"; read _ <&9; exec 9<&-; exec "$@"'
POLL_S: Final = 0.01
START_LIMIT_S: Final = 20.0
PID_BYTES_MOST: Final = 64


class SuspendedLaunch:
    """One launch. A context: its pipes go at the end."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nfslab-suspended-"))
        self.resumed_ns = 0
        """Just before; 0 until then."""
        for name in ("pid", "go"):
            os.mkfifo(self._folder / name, 0o600)
        # Open both ways: neither side ever waits for the other to open the pipe.
        self._pid, self._go = (
            os.open(self._folder / name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            for name in ("pid", "go")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def argv(self, argv: Sequence[str]) -> list[str]:
        """What to start instead; the program is looked up by the shell's PATH."""
        return ["/bin/sh", "-c", SUSPEND, str(self._folder), *argv]

    def await_pid(self, gone: Callable[[], bool] = lambda: False) -> int:
        """Pid of what will be the program; RunFailed when it was not started."""
        deadline = clock.monotonic() + START_LIMIT_S
        while clock.monotonic() < deadline:
            readable, _, _ = select.select([self._pid], [], [], POLL_S)
            if readable:
                return int(os.read(self._pid, PID_BYTES_MOST).split()[0])
            if gone():
                break
        raise RunFailed("the program to be watched was not started", fix="start it by itself")

    def resume(self) -> None:
        """The program runs from now on."""
        self.resumed_ns = clock.monotonic_ns()
        os.write(self._go, b"\n")

    def close(self) -> None:
        """The pipes go; a shell that still waits reads their end and is let go."""
        for descriptor in (self._pid, self._go):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._pid = self._go = -1
        shutil.rmtree(self._folder, ignore_errors=True)
