"""Progress of `nfslab sfs` on standard error: a bar on a terminal, a line a step without.

The core calls back several times a second with a dict; this only shows it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


class Progress(Protocol):
    """What is told of points, and what the core calls."""

    def begin(self, rate: float, number: int, of: int | None) -> None:
        """The point number `number` (from 1) of `of` (None: a search) at this load begins."""

    def __call__(self, state: dict[str, Any], /) -> bool:
        """Take a report of the core; false would stop it."""


@contextmanager
def progress_on(stream: TextIO) -> Iterator[Progress]:
    """A display on `stream` while the context lasts."""
    if not stream.isatty():
        yield _Lines(stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(), TextColumn("{task.fields[now]}"),
    )  # fmt: skip
    # Few refreshes: the bar shares the machine with what is measured.
    with Bar(*columns, console=Console(file=stream), transient=True, refresh_per_second=4) as bar:
        yield _OnTerminal(bar)


class _Titled:
    """What both displays know: the point under way."""

    title = ""

    def begin(self, rate: float, number: int, of: int | None) -> None:
        place = f"{number}" if of is None else f"{number}/{of}"
        self.title = f"[{place}] {rate:,.0f} ops/s"

    def step(self, state: dict[str, Any]) -> str:
        if state["stage"] == "prepare":
            mount = f" of mount {state['mount'] + 1}" if state["mounts"] > 1 else ""
            return f"{self.title}: file set, {state['step']}{mount}"
        return f"{self.title}: {state['phase'].replace('_', ' ')}"


class _Lines(_Titled):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = ""

    def __call__(self, state: dict[str, Any], /) -> bool:
        step = self.step(state)
        if step != self._shown:
            self._shown = step
            print(step, file=self._stream, flush=True)
        return True


class _OnTerminal(_Titled):
    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=1, now="")
        self._shown = ""

    def __call__(self, state: dict[str, Any], /) -> bool:
        step = self.step(state)
        if state["stage"] == "prepare":
            done, total = state["done"], state["total"]
            now = f"{state['written_bytes'] / 2**20:,.0f} MiB written"
        else:
            done, total = state["elapsed_ns"], state["total_ns"]
            now = f"{state['answered']:,} answered, {state['outstanding']:,} outstanding"
        key = state["stage"] + state.get("step", "")
        if key != self._shown:
            self._shown = key
            self._bar.reset(self._task)
        self._bar.update(self._task, description=step, total=max(total, 1), completed=done, now=now)
        return True
