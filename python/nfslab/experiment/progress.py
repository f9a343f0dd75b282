"""What a person sees while an experiment runs: a bar on a terminal, plain lines elsewhere.

Watching must not disturb what is measured: there is no thread that redraws. The bar is
drawn when a phase begins or a run ends, so during the timed part of a run nothing happens
at all, and phases that follow each other quickly are drawn at most `REDRAWS_PER_S` times a
second. Lines are written between runs only.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from nfslab.quantities import format_duration, format_size

if TYPE_CHECKING:
    from nfslab.experiment.plan import PlannedRun
    from nfslab.results.records import CatalogueLine, Metric

REDRAWS_PER_S = 4.0
LABEL_CHARACTERS = 60


class View(Protocol):
    """Told of everything that happens while an experiment runs."""

    def message(self, text: str) -> None:
        """Something the person should know."""

    def begin(self, planned: int, done: int, left_s: float) -> None:
        """The experiment begins (or goes on): runs planned and done, seconds left."""

    def run_begins(self, run: PlannedRun) -> None:
        """A run begins."""

    def phase(self, name: str) -> None:
        """A phase of the run begins."""

    def run_ended(
        self, run: PlannedRun, line: CatalogueLine, metric: tuple[str, Metric] | None, left_s: float
    ) -> None:
        """A run is sealed; `metric` is its primary one."""

    def end(self) -> None:
        """Nothing more comes."""


def figure(value: float, unit: str = "") -> str:
    """A figure for people: four digits, no exponent for what people count; with its unit."""
    if unit in ("bytes", "bytes/s") and value >= 0:
        return format_size(round(value)) + unit.removeprefix("bytes")
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        text = f"{value:.4g}"
    else:
        text = f"{value:.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return text if unit in ("", "1/s") else f"{text} {unit}"


def outcome_text(line: CatalogueLine, metric: tuple[str, Metric] | None) -> str:
    """What a run came to, in a few words."""
    if line.status == "failed":
        return f"FAILED: {line.reason.splitlines()[0] if line.reason else 'no reason given'}"
    if metric is None:
        return "ok"
    name, value = metric
    return f"{name} {figure(value.value, value.unit)}"


class LineView:
    """One line a run, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._planned = 0
        self._done = 0

    def message(self, text: str) -> None:
        """Print it. A reader that went away (`| head`) does not end the experiment."""
        with contextlib.suppress(OSError):
            print(text, file=self._stream, flush=True)

    def begin(self, planned: int, done: int, left_s: float) -> None:
        """Print how much there is to do."""
        self._planned, self._done = planned, done
        if planned > done:
            before = f", {done} done before" if done else ""
            self.message(f"{planned} runs{before}; about {format_duration(left_s)} to go")

    def run_begins(self, run: PlannedRun) -> None:
        """Nothing: the line comes when the run has ended."""

    def phase(self, name: str) -> None:
        """Nothing."""

    def run_ended(
        self, run: PlannedRun, line: CatalogueLine, metric: tuple[str, Metric] | None, left_s: float
    ) -> None:
        """Print the run's line."""
        self._done += 1
        took = format_duration(line.duration_ns / 1e9)
        left = f", about {format_duration(left_s)} left" if left_s > 0 else ""
        self.message(
            f"[{self._done}/{self._planned}] block {run.block + 1}  {run.point.label()}  "
            f"{outcome_text(line, metric)}  ({took}{left})"
        )

    def end(self) -> None:
        """Nothing: every line is printed."""


class BarView:
    """A bar with the points done, the current phase and the time left (rich)."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", style="cyan"),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[phase]}", style="magenta", markup=False),
            console=self._console,
            auto_refresh=False,
            transient=True,
        )
        self._task: Any = None
        self._drawn_at = 0.0

    def message(self, text: str) -> None:
        """Print it above the bar."""
        with contextlib.suppress(OSError):
            self._console.print(text, markup=False, soft_wrap=True)

    def begin(self, planned: int, done: int, left_s: float) -> None:
        """Show the bar."""
        if planned <= done:
            return
        self._progress.start()
        self._task = self._progress.add_task(
            "", total=planned, completed=done, left=_left(left_s), phase=""
        )
        self._progress.refresh()

    def run_begins(self, run: PlannedRun) -> None:
        """Show which point is measured."""
        if self._task is not None:
            label = run.point.label()
            if len(label) > LABEL_CHARACTERS:
                label = label[: LABEL_CHARACTERS - 1] + "…"
            text = f"block {run.block + 1}  {label}"
            self._progress.update(self._task, description=text, phase="")

    def phase(self, name: str) -> None:
        """Show the phase."""
        if self._task is not None:
            self._progress.update(self._task, phase=name)
            now = time.monotonic()
            # "measure" stays on the screen for long, so it is always drawn.
            if name == "measure" or now - self._drawn_at >= 1 / REDRAWS_PER_S:
                self._drawn_at = now
                self._progress.refresh()

    def run_ended(
        self, run: PlannedRun, line: CatalogueLine, metric: tuple[str, Metric] | None, left_s: float
    ) -> None:
        """Count the run; a failure is told at once."""
        if line.status == "failed":
            self.message(
                f"block {run.block + 1}  {run.point.label()}  {outcome_text(line, metric)}"
            )
        if self._task is not None:
            self._progress.update(self._task, advance=1, left=_left(left_s))
            self._progress.refresh()

    def end(self) -> None:
        """Take the bar away."""
        self._progress.stop()


def _left(seconds: float) -> str:
    return f"{format_duration(seconds)} left" if seconds > 0 else ""


def make_view(*, plain: bool, stream: TextIO | None = None) -> View:
    """The bar on a terminal, lines elsewhere (or when `plain`)."""
    if plain or not sys.stderr.isatty() or not sys.stdout.isatty():
        return LineView(stream)
    return BarView()
