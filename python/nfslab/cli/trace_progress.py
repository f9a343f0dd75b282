"""Progress of `nfslab trace` on standard error: a bar with the time left, or a line now and then.

A capture of a gigabyte takes seconds, so nothing is shown at first; without a terminal a line
comes every ten seconds. A stream has no known end: what was read so far is shown.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nfslab._core import TraceProgress

    Show = Callable[[TraceProgress], None]

QUIET_S = 1.0
"""Shorter than this, nobody waits."""
LINE_EVERY_S = 10.0
REFRESH_PER_S = 4
"""Few: the bar shares the machine with the decoder."""


@contextmanager
def progress_on(
    stream: TextIO, label: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[Show]:
    """A progress display on `stream` while the context lasts."""
    if not stream.isatty():
        yield _lines(stream, label, clock)
        return
    began, bar = clock(), _Bar(stream, label)

    def show(state: TraceProgress) -> None:
        if clock() - began >= QUIET_S:
            bar.show(state)

    try:
        yield show
    finally:
        bar.close()


class _Bar:
    """rich's bar; imported when it is first shown."""

    def __init__(self, stream: TextIO, label: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(
            *columns,
            console=Console(file=stream),
            transient=True,
            refresh_per_second=REFRESH_PER_S,
        )
        self._task = self._bar.add_task(label, total=None, done="")
        self._started = False

    def show(self, state: TraceProgress) -> None:
        if not self._started:
            self._bar.start()
            self._started = True
        self._bar.update(
            self._task,
            completed=state["read_bytes"],
            total=state["total_bytes"],
            done=_done(state),
        )

    def close(self) -> None:
        if self._started:
            self._bar.stop()


def _lines(stream: TextIO, label: str, clock: Callable[[], float]) -> Show:
    began = shown = clock()

    def show(state: TraceProgress) -> None:
        nonlocal shown
        now = clock()
        if now - shown < LINE_EVERY_S:
            return
        shown = now
        print(f"{label}: {_done(state)}{time_left(state, now - began)}", file=stream, flush=True)

    return show


def _done(state: TraceProgress) -> str:
    total = state["total_bytes"]
    share = f"{state['read_bytes'] / total:.0%}, " if total else ""
    from nfslab.quantities import format_size

    read = format_size(state["read_bytes"])
    return f"{share}{read}, {state['frames']:,} packets, {state['calls']:,} calls"


def time_left(state: TraceProgress, elapsed_s: float) -> str:
    """How long the rest takes at the speed so far; empty where that is not known."""
    total, read = state["total_bytes"], state["read_bytes"]
    if not total or not read:
        return ""
    from nfslab.quantities import format_duration

    return f", {format_duration(elapsed_s * max(0, total - read) / read)} left"
