"""Watching the launch of one program: an option of `Host.spawn` and `Host.run`.

The first launch that is given a watcher is the watched one; where it is held until the watch is
ready, the caller is told of it only then: its clock has not begun. All others start as ever.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Protocol

from nfslab.errors import NfslabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nfslab.machine.started import Process


class LaunchWatch(Protocol):
    """What watches one launch (`syscall_watch.SyscallWatch`)."""

    @property
    def resumed_ns(self) -> int:
        """When the program was resumed; 0: it was not suspended."""
        ...

    def wrap(
        self, argv: Sequence[str], user: int | None = None
    ) -> tuple[list[str], dict[str, str]]:
        """What to start instead, as this user, and what to add to its environment."""
        ...

    def launched(self, gone: Callable[[], bool]) -> None:
        """It was started: watch it, let it go. `gone` says that it ended meanwhile."""
        ...


class LaunchWatcher:
    """`open_watch` gets the argument list of the program and gives its watch."""

    def __init__(self, open_watch: Callable[[Sequence[str]], LaunchWatch]) -> None:
        self._open = open_watch
        self.watch: LaunchWatch | None = None
        self.process: Process | None = None
        """The one that runs by itself and is watched."""
        self.problem = ""
        """Why the launch was not watched, in words."""

    def wrapped(
        self, argv: Sequence[str], env: Mapping[str, str] | None, user: int | None
    ) -> tuple[Sequence[str], Mapping[str, str] | None, bool]:
        """What to start, with which environment; and whether it is the watched launch."""
        from nfslab._core import CoreError

        if self.watch is not None or self.problem:
            return argv, env, False
        try:
            self.watch = self._open(argv)
            instead, added = self.watch.wrap(argv, user)
        except (NfslabError, CoreError, OSError) as error:
            self.problem = _words(error)
            return argv, env, False
        return instead, {**(env or {}), **added}, True

    def launched(self, gone: Callable[[], bool]) -> None:
        """Watch what was started, and let it go."""
        from nfslab._core import CoreError

        if self.watch is None:
            return
        try:
            self.watch.launched(gone)
        except (NfslabError, CoreError, OSError) as error:
            self.problem = _words(error)

    def spawned(self, process: Process) -> None:
        """Watch a program that runs by itself: its clock begins when it was let go."""
        self.process = process
        self.launched(lambda: process.poll() is not None)
        if self.watch is not None:
            begun_ns = max(process.started_monotonic_ns, self.watch.resumed_ns)
            process.started_monotonic_ns = begun_ns

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Watch a program that the block runs to its end."""
        over = threading.Event()
        thread = threading.Thread(
            target=self.launched, args=(over.is_set,), name="watched launch", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _words(error: Exception) -> str:
    what, why = getattr(error, "what", str(error)), getattr(error, "why", "")
    return f"{what}: {why}" if why else str(what)
