"""A host whose next program is watched: what a collector puts in the place of a run's own.

The program that a workload times is the first that it starts on this host after the collectors
began (`command` spawns it, `files` runs it to its end); all others are started as ever. Where it is
held until the watch is ready, the workload is told of it only then: its clock has not begun.
Collectors start their own tools beside it (`unwatched`), in whatever order they begin.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from nfslab.errors import NfslabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nfslab.evidence.syscalls.watch import SyscallWatch
    from nfslab.machine.host import Completed, Host
    from nfslab.machine.started import Process


class WatchedHost:
    """A `Host`; `open_watch` gets the argument list of the program and gives its watch."""

    def __init__(self, host: Host, open_watch: Callable[[Sequence[str]], SyscallWatch]) -> None:
        self.host, self.name = host, host.name
        self._open = open_watch
        self.watch: SyscallWatch | None = None
        self.problem = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def spawn(self, argv: Sequence[str], **options: Any) -> Process:
        """As `Host.spawn`; returns when the first program is watched."""
        wrapped = self._wrapped(argv, options)
        process = self.host.spawn(wrapped or argv, **options)
        if wrapped is not None:
            self._launched(lambda: process.poll() is not None)
            if self.watch is not None:
                begun_ns = max(process.started_monotonic_ns, self.watch.let_go_ns)
                process.started_monotonic_ns = begun_ns
        return process

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        """As `Host.run`; the first program is watched from its first instruction."""
        wrapped = self._wrapped(argv, options)
        if wrapped is None:
            return self.host.run(argv, **options)
        over = threading.Event()
        beside = threading.Thread(
            target=self._launched, args=(over.is_set,), name="watched launch", daemon=True
        )
        beside.start()
        try:
            return self.host.run(wrapped, **options)
        finally:
            over.set()
            beside.join()

    def _wrapped(self, argv: Sequence[str], options: dict[str, Any]) -> list[str] | None:
        """None when this is not the one, or cannot be watched: then `problem` says why."""
        from nfslab._core import CoreError

        if self.watch is not None or self.problem:
            return None
        try:
            self.watch = self._open(argv)
            wrapped, added = self.watch.wrap(argv)
        except (NfslabError, CoreError, OSError) as error:
            self.problem = _words(error)
            return None
        environment: Mapping[str, str] = options.get("env") or {}
        options["env"] = {**environment, **added}
        return wrapped

    def _launched(self, gone: Callable[[], bool]) -> None:
        from nfslab._core import CoreError

        if self.watch is None:
            return
        try:
            self.watch.launched(gone)
        except (NfslabError, CoreError, OSError) as error:
            self.problem = _words(error)


def unwatched(host: Host) -> Host:
    """The same host for what is not the workload's: tcpdump, perf."""
    return host.host if isinstance(host, WatchedHost) else host


def _words(error: Exception) -> str:
    what, why = getattr(error, "what", str(error)), getattr(error, "why", "")
    return f"{what}: {why}" if why else str(what)
