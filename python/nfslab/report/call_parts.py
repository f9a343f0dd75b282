"""Where a call's time goes, for all outputs: which runs are shown, in words and as rows of text.

The calls themselves are taken apart by `nfslab.results.call_parts`; reading millions of rows
takes seconds a run, so at most `RUNS_MOST` runs are: one of every point, then second ones.
Runs without both records have no part in it; one whose tables cannot be read is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from nfslab.errors import ResultsError
from nfslab.report.text import ABSENT, number
from nfslab.results.call_parts import PARTS, has_call_parts, read_call_parts
from nfslab.results.catalogue import RUNS
from nfslab.results.outcomes import locate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.report.model import Analysis
    from nfslab.results.call_parts import CallParts, OperationParts

RUNS_MOST = 12
NS_PER_MS = 1e6
EXPLAINED = (
    "Client queue: taken by the client until it is given to its kernel. Way there: until the "
    "server has read its last byte (both kernels, the wire, a server busy elsewhere). Waiting: "
    "until the server begins with it. Service: until it is done. Sending: until the server gives "
    "its kernel the reply's last byte (a modelled delay or wire lies here). Way back: until the "
    "client has noticed the reply. The parts of each call sum to its time."
)


class _Placed(Protocol):
    @property
    def point(self) -> int: ...
    @property
    def block(self) -> int: ...


Run = TypeVar("Run", bound=_Placed)


def first_of_each_point(runs: Iterable[Run]) -> list[Run]:
    """First runs of all points, then second ones: the order in which room is given away."""
    seen: dict[int, int] = {}
    ranked = []
    for run in sorted(runs, key=lambda run: (run.point, run.block)):
        seen[run.point] = seen.get(run.point, 0) + 1
        ranked.append((seen[run.point], run.point, run))
    return [run for _, _, run in sorted(ranked, key=lambda entry: entry[:2])]


@dataclass(frozen=True, slots=True)
class RunParts:
    """A counted run whose calls were taken apart."""

    run_id: str
    point: int
    block: int
    parts: CallParts


@dataclass(slots=True)
class FoundParts:
    """What is shown, in the order of points and blocks."""

    runs: list[RunParts] = field(default_factory=list)
    left_out: int = 0
    """Runs with both records that are not shown."""
    problems: list[str] = field(default_factory=list)
    """Runs whose records cannot be read."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    run_id: str
    point: int
    block: int


def read_parts(analysis: Analysis, most: int = RUNS_MOST) -> FoundParts:
    """The calls of an experiment's counted runs, as many runs as may be."""
    folder = locate(Path(analysis.path)) / RUNS
    candidates = [
        _Candidate(run.run_id, run.point, run.block)
        for run in analysis.runs
        if run.counted and run.point is not None and has_call_parts(folder / run.run_id)
    ]
    found = FoundParts(left_out=max(0, len(candidates) - most))
    for run in first_of_each_point(candidates)[:most]:
        try:
            parts = read_call_parts(folder / run.run_id)
        except ResultsError as error:
            found.problems.append(f"{run.run_id}: {error.what}")
            continue
        if parts is not None:
            found.runs.append(RunParts(run.run_id, run.point, run.block, parts))
    found.runs.sort(key=lambda run: (run.point, run.block))
    return found


def sentences(parts: CallParts) -> list[str]:
    """What is largest, for each target: of all its time, and in its slowest calls."""
    several = len({row.target for row in parts.rows}) > 1
    found = []
    for row in parts.rows[:1] if not several else _wholes(parts):
        if row.largest is None:
            continue
        place, share = row.largest
        of = f" of {row.target}" if several else ""
        text = (
            f"The largest part of the calls' time{of} is {PARTS[place]}: {percent(share)}, "
            f"{milliseconds(row.summary.mean_ns[place])} of "
            f"{milliseconds(row.summary.whole_mean_ns)} on average"
        )
        if row.largest_slow is not None:
            slow, slow_share = row.largest_slow
            also = "too" if slow == place else f"it is {PARTS[slow]}"
            text += f"; in the slowest 1 % {also} ({percent(slow_share)})"
        found.append(text + ".")
    return found


def _wholes(parts: CallParts) -> list[OperationParts]:
    """The row of all calls of each target: the first one."""
    firsts: dict[str, OperationParts] = {}
    for row in parts.rows:
        firsts.setdefault(row.target, row)
    return list(firsts.values())


HEADER = ("target", "operation", "calls", "mean ms", *PARTS, "p99 ms", "largest in the slowest 1 %")
NUMBERS = tuple(range(2, 2 + 2 + len(PARTS) + 1))
"""Columns of numbers."""


def text_row(row: OperationParts) -> list[str]:
    """One operation as texts, below `HEADER`; parts as shares."""
    one = row.summary
    return [
        row.target,
        row.operation,
        f"{one.calls:,}",
        number(one.whole_mean_ns / NS_PER_MS),
        *map(percent, one.share),
        number(one.whole_p99_ns / NS_PER_MS),
        slowest(row),
    ]


def slowest(row: OperationParts) -> str:
    """ "waiting (81 %)": the largest part among the slowest calls."""
    if row.largest_slow is None:
        return ABSENT
    place, share = row.largest_slow
    return f"{PARTS[place]} ({percent(share)})"


def percent(share: float | None) -> str:
    """A share with as many digits as a reader can use."""
    if share is None:
        return ABSENT
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.1f} %"


def milliseconds(time_ns: float) -> str:
    """A time that is mostly around a millisecond."""
    return f"{number(time_ns / NS_PER_MS, 3)} ms"
