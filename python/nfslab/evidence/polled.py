"""A source of counters, read once an interval and over the timed part.

    begin: a reading ──> one at the start of the timed part, one an interval ──> end: the last

Rows are differences of two readings, at the time of the later one, so nothing is lost between them.
Totals are the difference between the start of the timed part and the last reading, never a sum of
rows. A source that cannot be read any more ends the reading, and nothing that was taken before.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Evidence
from nfslab.storage.counters import FormError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from nfslab.workloads.base import RunContext

NS_PER_S: Final = 1e9
ROWS_MAX: Final = 2_000_000
"""Of one table: a mount with 20 operations a second for a day."""


class PolledWatch(ABC):
    """One run's reading: by a thread of its own until `end`."""

    kind: ClassVar[str]
    """The collector."""
    source: str
    """The file, for errors."""

    def __init__(self, context: RunContext, interval_s: float) -> None:
        self._context, self._interval_s = context, interval_s
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.kind, daemon=True)
        self._began_ns = clock.monotonic_ns()
        self._cpu_s = 0.0
        self._readings = 0
        self._problem = ""

    @abstractmethod
    def read(self) -> None:
        """Take a reading; OSError, FormError."""

    @abstractmethod
    def mark(self) -> None:
        """The timed part's totals are counted from the last reading on."""

    @abstractmethod
    def missing(self) -> str:
        """After the first reading: why it shows nothing of this run; empty: it does."""

    @abstractmethod
    def notes(self) -> list[str]:
        """What the figures lack."""

    @abstractmethod
    def tables(self, zero_ns: int) -> dict[str, pa.Table]:
        """Rows, with t_ns from `zero_ns` on."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Totals of the timed part."""

    def begin(self) -> None:
        """RunFailed: it cannot be read, or shows nothing of the run."""
        self._read()
        self._problem = self._problem or self.missing()
        if self._problem:
            raise RunFailed(
                f"{self.source} is of no use",
                why=self._problem,
                fix=f"leave the collector {self.kind} out, and please report this with the file",
            )
        self._context.timed.at_start(self._mark)
        self._thread.start()

    def end(self) -> Evidence:
        """The last reading; tables and totals."""
        self._over.set()
        self._thread.join()
        self._read()
        zero_ns = self._context.timed.start_or(self._began_ns)
        begun = clock.thread_cpu()
        notes = self.notes()
        if self._problem:
            notes.append(f"reading ended early: {self._problem}")
        self._context.notes.extend(f"collector {self.kind}: {note}" for note in notes)
        summary = self.summary() | {
            "interval_s": self._interval_s,
            "readings": self._readings,
            "notes": notes,
        }
        if self._problem:
            summary["incomplete"] = f"reading ended early: {self._problem}"
        tables = self.tables(zero_ns)
        return Evidence(
            tables=tables,
            summary=summary,
            cpu_s=self._cpu_s + clock.thread_cpu() - begun,
            wall_s=(clock.monotonic_ns() - self._began_ns) / NS_PER_S,
        )

    def _run(self) -> None:
        due = clock.monotonic() + self._interval_s
        while not clock.wait(self._over, max(0.0, due - clock.monotonic())) and not self._problem:
            self._read()
            # What was missed is not caught up with: a row has its own exact interval.
            due = max(due + self._interval_s, clock.monotonic())

    def _mark(self) -> None:
        self._read()
        with self._lock:
            self.mark()

    def _read(self) -> None:
        with self._lock:
            if self._problem:
                return
            begun = clock.thread_cpu()
            try:
                self.read()
            except (OSError, FormError) as error:
                self._problem = str(error)
                return
            self._readings += 1
            self._cpu_s += clock.thread_cpu() - begun


def table_of(
    rows: Sequence[Mapping[str, Any]], zero_ns: int, types: Mapping[str, str], usual: str
) -> pa.Table:
    """Rows with an `at_ns` each -> a table with `t_ns` from `zero_ns` on, in the order of time.

    `types`: of columns that are not the `usual` one ("int64", "double", "string").
    """
    import pyarrow as pa

    ordered = sorted(rows, key=lambda row: row["at_ns"])
    kinds: list[Any] = [(name, types.get(name, usual)) for name in rows[0] if name != "at_ns"]
    return pa.Table.from_pylist(
        [{**row, "t_ns": row["at_ns"] - zero_ns} for row in ordered],
        schema=pa.schema([("t_ns", pa.int64()), *kinds]),
    )
