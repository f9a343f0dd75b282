"""Operations at each point of offered load: shares, means, tails, out of the runs' own tables.

Each run has `samples/operations.parquet`, a row an operation. Over the runs of a point counts
are summed and times are medians of the runs' own (a run without an answer has none). A table
that cannot be read is named, and its run is left out of this only.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.report.text import ABSENT, number
from nfslab.results.catalogue import RUNS
from nfslab.results.outcomes import locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.model import Analysis

RUNS_READ_MOST: Final = 5000
"""Tables of some ten rows each; a millisecond a run."""
OPERATIONS_MOST: Final = 64
"""Rows of one run: NFS version 3 has 22 procedures."""
NS_PER_MS: Final = 1e6
COLUMNS: Final = ("operation", "share", "answered", "unexpected", "mean_ns", "p99_ns")
HEADER: Final = (
    "operation", "share asked", "share of answers", "answered", "mean ms", "p99 ms", "unexpected",
)  # fmt: skip
NUMBERS: Final = tuple(range(1, len(HEADER)))
"""Columns of numbers."""


@dataclass(frozen=True, slots=True)
class OperationResult:
    """One operation at one point."""

    operation: str
    asked: float
    """Share of the mix, 0 to 1."""
    answered_share: float | None
    answered: int
    unexpected: int
    mean_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class Operations:
    """By point, in the mix's order of shares."""

    of_point: dict[int, list[OperationResult]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    left_out: int = 0
    """Runs beyond `RUNS_READ_MOST`."""


def read_operations(analysis: Analysis) -> Operations:
    """The operations of every point with a run that counts."""
    folder = locate(Path(analysis.path)) / RUNS
    made = Operations()
    tables: dict[int, list[list[dict[str, Any]]]] = {}
    counted = [run for run in analysis.runs if run.counted and run.point is not None]
    made.left_out = max(0, len(counted) - RUNS_READ_MOST)
    for run in counted[:RUNS_READ_MOST]:
        try:
            rows = read_run(folder / run.run_id)
        except (OSError, ValueError) as error:
            made.problems.append(f"{run.run_id}: its operations cannot be read: {error}")
            continue
        if rows and run.point is not None:
            tables.setdefault(run.point, []).append(rows)
    made.of_point = {point: merged(found) for point, found in sorted(tables.items())}
    return made


def read_run(run: Path) -> list[dict[str, Any]]:
    """The rows of one run; empty without the table. OSError, ValueError (pyarrow's)."""
    path = run / "samples" / "operations.parquet"
    if not path.exists():
        return []
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    if file.metadata.num_rows > OPERATIONS_MOST:
        raise ValueError(f"{file.metadata.num_rows} operations, at most {OPERATIONS_MOST}")
    if missing := set(COLUMNS) - set(file.schema_arrow.names):
        raise ValueError(f"it has no column {', '.join(sorted(missing))}")
    return list(file.read(columns=list(COLUMNS)).to_pylist())


def merged(tables: Sequence[Sequence[dict[str, Any]]]) -> list[OperationResult]:
    """The runs of one point together."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        for row in table:
            rows.setdefault(row["operation"], []).append(row)
    total = sum(row["answered"] for same in rows.values() for row in same)
    found = []
    for operation, same in rows.items():
        answered = sum(row["answered"] for row in same)
        found.append(
            OperationResult(
                operation=operation,
                asked=same[0]["share"],
                answered_share=answered / total if total else None,
                answered=answered,
                unexpected=sum(row["unexpected"] for row in same),
                mean_ms=_median_ms([row["mean_ns"] for row in same]),
                p99_ms=_median_ms([row["p99_ns"] for row in same]),
            )
        )
    return sorted(found, key=lambda one: (-one.asked, one.operation))


def _median_ms(values_ns: Sequence[float | None]) -> float | None:
    known = [value for value in values_ns if value is not None]
    return statistics.median(known) / NS_PER_MS if known else None


def text_row(one: OperationResult) -> list[str]:
    """One operation as texts, below `HEADER`."""
    return [
        one.operation,
        percent(one.asked),
        percent(one.answered_share),
        f"{one.answered:,}",
        number(one.mean_ms, 3),
        number(one.p99_ms, 3),
        f"{one.unexpected:,}",
    ]


def percent(share: float | None) -> str:
    """A share with one digit behind the point."""
    return ABSENT if share is None else f"{share * 100:.1f} %"
