"""Progress of `nfslab files` on standard error: a bar on a terminal, a line a phase without.

The core calls back about five times a second with JSON; this only shows it. Nothing is
shown when standard error is closed or not a terminal and a phase takes less than a second.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

QUIET_NS = 1_000_000_000
"""Without a terminal, a phase is announced once it has taken this long."""


class Progress(Protocol):
    """What the core calls."""

    def __call__(self, text: str, /) -> None:
        """Take one report of the core (JSON)."""


@contextmanager
def progress_on(stream: TextIO, names: Mapping[str, str]) -> Iterator[Progress]:
    """A progress display on `stream` while the context lasts; `names` are the phases'."""
    if stream.isatty():
        with _bar(stream, names) as bar:
            yield bar
    else:
        yield _lines(stream, names)


@contextmanager
def _bar(stream: TextIO, names: Mapping[str, str]) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    # Few refreshes: the bar shares the machine with what is measured.
    console = Console(file=stream)
    with Bar(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("", total=1, rate="")
        shown = ""

        def show(text: str, /) -> None:
            nonlocal shown
            report = json.loads(text)
            title = _title(report, names)
            if title != shown:
                shown = title
                bar.reset(task)
            rate = ""
            if report["elapsed_ns"]:
                rate = f"{report['bytes'] / 2**20 / (report['elapsed_ns'] / 1e9):,.0f} MiB/s"
            bar.update(
                task,
                description=title,
                total=report["total"],
                completed=report["done"],
                rate=rate,
            )

        yield show


def _lines(stream: TextIO, names: Mapping[str, str]) -> Progress:
    shown = ""

    def show(text: str, /) -> None:
        nonlocal shown
        report = json.loads(text)
        title = _title(report, names)
        if title != shown and report["elapsed_ns"] >= QUIET_NS:
            shown = title
            print(title, file=stream, flush=True)

    return show


def _title(report: dict[str, Any], names: Mapping[str, str]) -> str:
    step = "making files for " if report["step"] == "fill" else ""
    return f"{report['phase_index'] + 1}/{report['phases']} {step}{names[report['phase']]}"
