"""What a person sees while an experiment runs: a bar on a terminal, a line a run elsewhere.

The bar is drawn when a phase begins or a run ends: during the timed part of a run nothing
happens at all. Lines are written between runs only.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, TextIO

from nfslab.display.called import as_called
from nfslab.display.numbers import quantity
from nfslab.display.progress import Progress
from nfslab.quantities import format_duration

if TYPE_CHECKING:
    from nfslab.experiment.plan import PlannedRun
    from nfslab.results.records import CatalogueLine, Metric

LABEL_CHARACTERS = 60


class View:
    """Told of everything that happens while an experiment runs."""

    def __init__(self, *, plain: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        on_terminal = not plain and sys.stderr.isatty() and sys.stdout.isatty()
        self._bar = Progress(sys.stderr) if on_terminal else None
        self._planned = self._done = 0
        self._left_s = 0.0
        self._run = ""

    def message(self, text: str) -> None:
        """Something the person should know."""
        text = as_called(text)
        if self._bar is not None:
            self._bar.say(text)
            return
        with contextlib.suppress(OSError):
            print(text, file=self._stream, flush=True)

    def begin(self, planned: int, done: int, left_s: float) -> None:
        """The experiment begins (or goes on): runs planned and done, seconds left."""
        self._planned, self._done, self._left_s = planned, done, left_s
        if planned > done and self._bar is None:
            before = f", {done} done before" if done else ""
            self.message(f"{planned} runs{before}; about {format_duration(left_s)} to go")

    def more(self, runs: int, left_s: float) -> None:
        """A block is added."""
        self._planned += runs
        self._left_s = left_s

    def run_begins(self, run: PlannedRun) -> None:
        """A run begins."""
        label = run.point.label()
        if len(label) > LABEL_CHARACTERS:
            label = label[: LABEL_CHARACTERS - 1] + "…"
        self._run = f"[{self._done + 1}/{self._planned}] repetition {run.block + 1}  {label}"

    def phase(self, name: str) -> None:
        """A phase of the run begins; "measure" stays on the screen for long."""
        if self._bar is not None:
            self._bar.show(
                self._run, self._done, self._planned, name,
                left_s=self._left_s, at_once=name == "measure",
            )  # fmt: skip

    def run_ended(
        self, run: PlannedRun, line: CatalogueLine, metric: tuple[str, Metric] | None, left_s: float
    ) -> None:
        """A run is sealed, `metric` is its primary one."""
        self._done += 1
        self._left_s = left_s
        took = format_duration(line.duration_ns / 1e9)
        left = f", about {format_duration(left_s)} left" if left_s > 0 else ""
        self.message(
            f"[{self._done}/{self._planned}] repetition {run.block + 1}  {run.point.label()}  "
            f"{_outcome(line, metric)}  ({took}{left})"
        )

    def end(self) -> None:
        """Nothing more comes."""
        if self._bar is not None:
            self._bar.close()


def _outcome(line: CatalogueLine, metric: tuple[str, Metric] | None) -> str:
    """What a run came to, in a few words."""
    if line.status == "failed":
        return f"FAILED: {line.reason.splitlines()[0] if line.reason else 'no reason given'}"
    if metric is None:
        return "ok"
    name, value = metric
    return f"{name} {quantity(value.value, value.unit)}"
