"""What an experiment has come to so far: a table of the points, and what failed.

Shown at the end of `nfslab run`, as text or as JSON. It is the first look only; intervals,
comparisons and warnings are the report's.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab.display.called import as_called
from nfslab.display.numbers import quantity
from nfslab.display.terminal import table
from nfslab.results.catalogue import newest_attempts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.experiment.session import Session
    from nfslab.results.records import CatalogueLine

MAX_FAILURES_SHOWN = 20
MAX_FLAGS_SHOWN = 10
FAILURE = {"run_id", "block", "attempt", "factors", "reason"}
"""What is told of a failed run."""


@dataclass(frozen=True, slots=True)
class PointSummary:
    """One row of the table."""

    point_id: str
    factors: dict[str, Any]
    n: int
    planned: int
    failed: int
    median: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The experiment as it stands."""

    folder: str
    name: str
    identity: str
    metric: str
    unit: str
    planned: int
    ok: int
    made: int
    points: list[PointSummary]
    failures: list[dict[str, Any]] = field(default_factory=list)
    flags: dict[str, int] = field(default_factory=dict)
    """"check:verdict" -> number of runs."""
    skipped: list[dict[str, Any]] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 when a run that counts has failed."""
        return 1 if self.failures else 0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {**asdict(self), "failed": len(self.failures), "exit_code": self.exit_code}


def summarise(session: Session) -> Summary:
    """The runs that count (newest attempts), by point."""
    from nfslab.statistics.quantile_estimator import median

    folder = session.folder
    wanted = {(run.point.point_id, run.block) for run in session.planned}
    lines = [
        line
        for line in newest_attempts(folder.sealed_runs())
        if (line.point_id, line.block) in wanted
    ]
    good = [line for line in lines if line.status == "ok"]
    metric, unit = _primary(session, good)
    points = {run.point.point_id: run.point for run in session.planned}
    planned = Counter(run.point.point_id for run in session.planned)
    by_point: dict[str, list[CatalogueLine]] = {point_id: [] for point_id in points}
    for line in lines:
        by_point[line.point_id].append(line)
    rows = []
    for point in sorted(points.values(), key=lambda p: p.index):
        own = by_point[point.point_id]
        values = [
            line.metrics[metric] for line in own if line.status == "ok" and metric in line.metrics
        ]
        rows.append(
            PointSummary(
                point_id=point.point_id,
                factors=point.factors,
                n=len(values),
                planned=planned[point.point_id],
                failed=sum(line.status == "failed" for line in own),
                median=median(values) if values else None,
            )
        )
    record = folder.record
    return Summary(
        folder=str(folder.path),
        name=record.name,
        identity=record.identity,
        metric=metric,
        unit=unit,
        planned=len(session.planned),
        ok=len(good),
        made=session.made,
        points=rows,
        failures=[line.model_dump(include=FAILURE) for line in lines if line.status == "failed"],
        flags=dict(Counter(flag for line in good for flag in line.flags)),
        skipped=(record.model_extra or {}).get("skipped", []),
    )


def _primary(session: Session, good: Sequence[CatalogueLine]) -> tuple[str, str]:
    """Name and unit of the metric that is shown first; empty without a good run."""
    if not good:
        return "", ""
    metrics = session.folder.run_record(good[-1].run_id).metrics
    name = next((name for name, m in metrics.items() if m.primary), next(iter(metrics), ""))
    return name, metrics[name].unit if name else ""


def summary_lines(summary: Summary, again: str) -> list[str]:
    """The table and what failed, as text; `again` is the command to run it again."""
    lines = [*_table(summary), ""]
    unknown = [flag for flag in summary.flags if flag.endswith(":unknown")]
    told = {flag: n for flag, n in summary.flags.items() if flag not in unknown}
    for flag, count in sorted(told.items(), key=lambda item: -item[1])[:MAX_FLAGS_SHOWN]:
        name, _, verdict = flag.rpartition(":")
        lines.append(f"{verdict}: {name} in {count} of {summary.ok} runs (see the report)")
    for entry in summary.failures[:MAX_FAILURES_SHOWN]:
        factors = " ".join(f"{k}={v}" for k, v in entry["factors"].items())
        lines.append(f"failed: {entry['run_id']}  {factors}")
        lines += [f"    {line}" for line in entry["reason"].splitlines()]
    hidden = len(summary.failures) - MAX_FAILURES_SHOWN
    if hidden > 0:
        lines.append(f"... and {hidden} more failed runs")
    if summary.failures:
        lines.append(as_called(f"failed runs are tried again by: {again}"))
    if summary.skipped:
        lines.append(f"left out: {len(summary.skipped)} configurations that cannot run here")
    done = summary.ok + len(summary.failures)
    lines.append(
        f"{summary.ok} of {summary.planned} runs good, {len(summary.failures)} failed, "
        f"{summary.planned - done} not made"
    )
    lines.append(as_called(f"report: nfslab report {shlex.quote(summary.folder)}"))
    return lines


def _table(summary: Summary) -> list[str]:
    """Points with the median of the primary metric and the number of runs."""
    names = list(dict.fromkeys(name for point in summary.points for name in point.factors))
    header = [*names, f"median {summary.metric}".rstrip(), "n"]
    rows = [
        [
            *(str(point.factors.get(name, "")) for name in names),
            "-" if point.median is None else quantity(point.median, summary.unit),
            f"{point.n}" if point.n == point.planned else f"{point.n} of {point.planned}",
        ]
        for point in summary.points
    ]
    right = (len(names), len(names) + 1)
    return ["", table(header, rows, right=right)]
