"""Operations at each point of offered load: shares, means, quantiles, out of the runs' own tables.

Each run has `samples/operations.parquet`, a row an operation, and `samples/histograms.parquet`,
the buckets of its responses (those of several generator processes are one histogram already).
Over the runs of a point all of this is put together: counts are summed, the mean is that of all
answers (each run's exact mean by its answers), quantiles are read from the sum of the histograms
and bounded by the longest response. No quantile is averaged. They are those of the HdrHistogram,
0.1 % too long at most.

A run whose tables cannot be read is named, and left out of this only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import ResultsError
from nfslab.evidence.found import problem
from nfslab.results.catalogue import RUNS
from nfslab.results.coded_texts import coded_texts
from nfslab.results.evidence_tables import evidence_path, read_evidence
from nfslab.results.groups import grouped
from nfslab.results.outcomes import locate
from nfslab.statistics.quantile_estimator import Buckets, histogram_quantiles, summed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nfslab.report.model import Analysis

RUNS_READ_MOST: Final = 5000
"""Tables of some ten thousand buckets each; milliseconds a run."""
OPERATIONS_MOST: Final = 64
"""Rows of one run: NFS version 3 has 22 procedures."""
BUCKETS_MOST: Final = 1 << 21
"""Of one run: what `OPERATIONS_MOST` histograms of three digits from 1 ns to 1 h can have."""
NS_PER_MS: Final = 1e6
COLUMNS: Final = ("operation", "share", "answered", "unexpected", "mean_ns", "max_ns")
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
RESPONSES: Final = ("mean", *QUANTILES)
PUT_TOGETHER: Final = (
    "All answers of the runs that count together: quantiles of the summed histograms. Of fewer "
    "than 1,000 answers p99.9 is the longest."
)


@dataclass(frozen=True, slots=True)
class RunOperation:
    """One operation in one run."""

    operation: str
    share: float
    answered: int
    unexpected: int
    mean_ns: float | None
    max_ns: float | None
    buckets: Buckets


@dataclass(frozen=True, slots=True)
class OperationResult:
    """One operation at one point."""

    operation: str
    asked: float
    """Share of the mix, 0 to 1."""
    answered_share: float | None
    answered: int
    unexpected: int
    response_ms: dict[str, float]
    """By `RESPONSES`; empty without an answer."""


@dataclass(slots=True)
class Operations:
    """By point, in the mix's order of shares."""

    of_point: dict[int, list[OperationResult]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    left_out: int = 0
    """Runs beyond `RUNS_READ_MOST`."""


def read_operations(analysis: Analysis, only: Collection[int] | None = None) -> Operations:
    """The operations of every point with a run that counts; `only`: of these points."""
    folder = locate(Path(analysis.path)) / RUNS
    made = Operations()
    runs: dict[int, list[str]] = {}
    for run in analysis.runs:
        if run.counted and run.point is not None and (only is None or run.point in only):
            runs.setdefault(run.point, []).append(run.run_id)
    room = RUNS_READ_MOST
    for point, run_ids in sorted(runs.items()):
        made.left_out += max(0, len(run_ids) - room)
        tables = []
        for run_id in run_ids[:room]:
            try:
                tables.append(read_run(folder / run_id))
            except ResultsError as error:
                made.problems.append(problem(run_id, error))
        room = max(0, room - len(run_ids))
        try:
            if found := together(tables):
                made.of_point[point] = found
        except ValueError as error:
            label = analysis.points[point].label
            made.problems.append(f"{label}: its runs' operations cannot be added up: {error}")
    return made


def read_run(run: Path) -> list[RunOperation]:
    """The operations of one run; empty without the table. ResultsError."""
    if not evidence_path(run, "operations", "samples").exists():
        return []
    rows = read_evidence(
        run, "operations", COLUMNS, rows_max=OPERATIONS_MOST, folder="samples"
    ).to_pylist()
    buckets = _buckets(run)
    return [
        RunOperation(
            row["operation"], row["share"], row["answered"], row["unexpected"],
            row["mean_ns"], row["max_ns"], buckets.get(row["operation"], Buckets.none()),
        )
        for row in rows
    ]  # fmt: skip


def _buckets(run: Path) -> dict[str, Buckets]:
    """The histogram of each operation in a run."""
    columns = ("low_ns", "high_ns", "count")
    table = read_evidence(
        run, "histograms", ("phase", *columns), rows_max=BUCKETS_MOST, folder="samples"
    )
    names, place = coded_texts(table.column("phase"))
    low, high, count = (table.column(name).to_numpy() for name in columns)
    return {
        name: Buckets(low[place == index], high[place == index], count[place == index])
        for index, name in enumerate(names)
    }


def together(tables: Iterable[Sequence[RunOperation]]) -> list[OperationResult]:
    """The runs of one point as one; ValueError if histograms cannot be added up."""
    rows = grouped((row.operation, row) for table in tables for row in table)
    total = sum(row.answered for same in rows.values() for row in same)
    found = []
    for operation, same in rows.items():
        answered = sum(row.answered for row in same)
        found.append(
            OperationResult(
                operation=operation,
                asked=same[0].share,
                answered_share=answered / total if total else None,
                answered=answered,
                unexpected=sum(row.unexpected for row in same),
                response_ms=_responses(same),
            )
        )
    return sorted(found, key=lambda one: (-one.asked, one.operation))


def _responses(same: Sequence[RunOperation]) -> dict[str, float]:
    known = [row for row in same if row.mean_ns is not None and row.buckets.total]
    if not known:
        return {}
    buckets = summed([row.buckets for row in known])
    sum_ns = sum((row.mean_ns or 0.0) * row.buckets.total for row in known)
    longest_ns = max(row.max_ns or 0.0 for row in known)
    found = {"mean": sum_ns / buckets.total / NS_PER_MS}
    quantiles = histogram_quantiles(
        buckets.count, buckets.low, buckets.high, list(QUANTILES.values())
    )
    for name, quantile in zip(QUANTILES, quantiles, strict=True):
        found[name] = min(quantile.value, longest_ns) / NS_PER_MS
    return found


def as_values(one: OperationResult) -> dict[str, Any]:
    """With all digits, for programs."""
    return {
        "operation": one.operation,
        "share_asked": one.asked,
        "share_of_answers": one.answered_share,
        "answered": one.answered,
        "unexpected": one.unexpected,
        "response_ms": {name: one.response_ms.get(name) for name in RESPONSES},
    }
