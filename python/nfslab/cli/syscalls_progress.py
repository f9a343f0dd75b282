"""Progress of `nfslab syscalls`: one line on a terminal, nothing without one."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nfslab.evidence.syscalls.watch import SyscallWatch

SHOWN_EVERY_S: Final = 0.5


@contextmanager
def progress_on(stream: TextIO, watch: SyscallWatch) -> Iterator[Callable[[], None]]:
    """A function that shows how far it is; call it several times a second."""
    if not stream.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.status import Status

    began = last = time.monotonic()
    with Status("watching", console=Console(file=stream), refresh_per_second=4) as status:

        def show() -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= SHOWN_EVERY_S:
                last = now
                status.update(line(watch, now - began))

        yield show


def line(watch: SyscallWatch, elapsed_s: float) -> str:
    """Such as: 12 s, 1,234 syncs, the latest 0.412 ms, 3 processes."""
    from nfslab.display.numbers import quantity

    figures = watch.figures()
    parts = [f"{elapsed_s:.0f} s", f"{figures.get('syncs', 0):,} syncs"]
    calls, mean_ns = watch.latest
    if calls:
        parts.append(f"the latest {quantity(mean_ns, 'ns')}")
    if watched := figures.get("watched"):
        parts.append(f"{watched:,} process{'' if watched == 1 else 'es'}")
    if lost := sum(count for name, count in figures.items() if name.startswith("lost_")):
        parts.append(f"{lost:,} records lost")
    return ", ".join(parts) + " (Ctrl-C ends)"
