"""The time by statement, as a kind of evidence: by point, and between two points.

The same estimators as of the anatomy's parts (`anatomy.differences`): a statement is a part of the
mean transaction here. It is another cut through the same time, and no level of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from nfslab.display import cells
from nfslab.display.figures import Axis, Figure, Part, Stacked, Whole
from nfslab.display.numbers import interval, quantity
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.evidence.anatomy.differences import compared, point_anatomies
from nfslab.evidence.anatomy.section import differences_table, ends, ranked, told
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, Found, RunFacts, TableSpec
from nfslab.evidence.statements.facts import (
    BETWEEN,
    COLUMNS,
    LATE,
    TABLE,
    StatementFacts,
    recorded,
    statements_of,
)
from nfslab.evidence.statements.names import labels
from nfslab.statistics.intervals import t_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nfslab.evidence.anatomy.differences import Compared, Difference, PointAnatomy
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import SealedRun

NS: Final = 1e9
INTRO: Final = (
    "The mean transaction by its statements, by pgbench's own clock: another cut through the same "
    "time, not a level within the parts. Each statement holds all that its backend did or waited "
    "for. Intervals are 95 %, over the runs of a configuration, or over the blocks."
)
CAPTION: Final = "Means over the runs of a configuration; the statements sum to the bar."
OTHERS: Final = {
    BETWEEN: "between statements",
    LATE: "late start",
}
SMALLER: Final = "smaller ones"
LEAST: Final = 0.01
"""Of the whole, at some point: smaller ones are one row and one part of a bar (JSON has all)."""
LEAST_RUNS: Final = 3
SENTENCES_MOST: Final = 8
CONFIDENCE: Final = 0.95


class StatementsEvidence(EvidenceKind[StatementFacts]):
    """Means of single statements."""

    kind: ClassVar[str] = "statements"
    title: ClassVar[str] = "By statement"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec(
            TABLE,
            tuple(
                ColumnSpec(name, kind, "ns" if name.endswith("_ns") else "")
                for name, kind in COLUMNS.items()
            ),
        ),
    )
    Facts: ClassVar[type[Facts]] = StatementFacts

    def present(self, run: SealedRun) -> bool:
        """It is the workload's own table."""
        return recorded(run)

    def facts(self, run: SealedRun) -> StatementFacts | None:
        """Of pgbench's report."""
        return statements_of(run)

    def section(self, found: Found[StatementFacts]) -> Section | None:
        """By point, then what differs between points that are compared."""
        points = point_anatomies(of_wholes(found))
        notes = _notes(found)
        if not points:
            return Section(self.title, "statements", notes=notes) if notes else None
        pairs = pairs_of(found)
        label = label_of(found)
        order = ranked(points, pairs)
        large = [
            key
            for key in order
            if any(point.parts_ns.get(key, 0.0) >= LEAST * point.mean_ns for point in points)
        ]
        tables = [_points_table(found, points, large, label)]
        if pairs:
            tables.append(differences_table(pairs, "statement", label))
        return Section(
            self.title, "statements", INTRO, sentences=sentences(pairs, label), tables=tables,
            figures=[_figure(points, large, label)], notes=notes,
        )  # fmt: skip

    def content(self, found: Found[StatementFacts]) -> dict[str, Any]:
        """By point and comparison; of every run the sum is in its folder."""
        return {
            "points": [
                {"point": point.point, "statements": at_point(found, point)}
                for point in point_anatomies(of_wholes(found))
            ],
            "comparisons": [
                {
                    "base_point": pair.result.base_point,
                    "point": pair.result.point,
                    "statements": between_points(found, pair),
                }
                for pair in pairs_of(found)
            ],
        }


def of_wholes(found: Found[StatementFacts]) -> Found[AnatomyFacts]:
    """The transactions of all runs whose statements sum to them."""
    runs = [
        RunFacts(run.run, run.point, run.block, run.label, run.facts.whole)
        for run in found.runs
        if run.facts.whole is not None
    ]
    return Found(found.name, runs, found.points, analysis=found.analysis)


def pairs_of(found: Found[StatementFacts]) -> list[Compared]:
    """Comparisons of the primary metric whose points have statements."""
    return compared(of_wholes(found), found.analysis) if found.analysis is not None else []


def label_of(found: Found[StatementFacts]) -> Callable[[str], str]:
    """Of a statement's key, for all points together."""
    known = labels(one for run in found.runs for one in run.facts.statements)
    return lambda key: OTHERS.get(key) or known[key]


def at_point(found: Found[StatementFacts], point: PointAnatomy) -> list[dict[str, Any]]:
    """Every statement of a point, for programs: "ns" of the mean transaction."""
    label, texts = label_of(found), _texts(found)
    ends_ns = _intervals(found, point)
    return [
        {
            "statement": label(key),
            "text": texts.get(key),
            "ns": ns,
            "interval_ns": ends_ns.get(key) and list(ends_ns[key]),
        }
        for key, ns in point.parts_ns.items()
    ]


def between_points(found: Found[StatementFacts], pair: Compared) -> list[dict[str, Any]]:
    """Every statement's difference, for programs, the largest first."""
    label, texts = label_of(found), _texts(found)
    return [
        {
            "statement": label(one.path),
            "text": texts.get(one.path),
            "base_ns": one.base_ns,
            "new_ns": one.new_ns,
            "difference_ns": one.difference_ns,
            "interval_ns": one.interval_ns and list(one.interval_ns),
            "shown": one.shown,
        }
        for one in pair.parts
    ]


def sentences(pairs: Sequence[Compared], label: Callable[[str], str]) -> list[str]:
    """Which statements a longer transaction is longer in, where the difference is shown."""
    shown = sorted(
        (pair for pair in pairs if pair.shown), key=lambda p: -abs(p.whole.difference_ns)
    )
    said = []
    for pair in shown[:SENTENCES_MOST]:
        whole = pair.whole.difference_ns
        parts = [_told(one, label) for one in told(pair)]
        listed = ", ".join(parts) or "no single statement's difference is shown"
        said.append(
            f"{pair.result.label} against {pair.result.base_label}: {listed}; of "
            f"{quantity(abs(whole), 'ns')} that the transaction is "
            f"{'longer' if whole > 0 else 'shorter'} in all."
        )
    return said


def _told(one: Difference, label: Callable[[str], str]) -> str:
    change = "longer" if one.difference_ns > 0 else "shorter"
    return f"{label(one.path)} takes {quantity(abs(one.difference_ns), 'ns')}{ends(one)} {change}"


def _texts(found: Found[StatementFacts]) -> Mapping[str, str]:
    return {one.key: one.text for run in found.runs for one in run.facts.statements}


def _intervals(
    found: Found[StatementFacts], point: PointAnatomy
) -> Mapping[str, tuple[float, float]]:
    """Student's, of each part's mean over the runs; none with fewer than three."""
    tables = [
        run.facts.whole.by_path()
        for run in found.runs
        if run.point == point.point and run.facts.whole is not None
    ]
    if len(tables) < LEAST_RUNS:
        return {}
    keys = list(point.parts_ns)
    rows = [[table[key].ns if key in table else 0.0 for table in tables] for key in keys]
    low, high = t_interval(np.array(rows), CONFIDENCE)
    # No time is below zero, whatever few runs spread.
    ends_ns = zip(np.maximum(low, 0.0).tolist(), high.tolist(), strict=True)
    return dict(zip(keys, ends_ns, strict=True))


def _points_table(
    found: Found[StatementFacts],
    points: Sequence[PointAnatomy],
    large: Sequence[str],
    label: Callable[[str], str],
) -> Table:
    columns = [
        Column("configuration", False), Column("statement", False), Column("mean"),
        Column("95 % interval"), Column("of the transaction"),
    ]  # fmt: skip
    texts = _texts(found)
    rows: list[list[Cell]] = []
    for point in points:
        ends_ns = _intervals(found, point)
        mine = [key for key in large if key in point.parts_ns]
        for key in mine:
            ns = point.parts_ns[key]
            between = interval(*ends_ns[key], "ns") if key in ends_ns else ""
            name = Cell(label(key), hint=texts.get(key, ""))
            rows.append([cells.text(point.label), name, *_time(point, ns, between)])
        left = [key for key in point.parts_ns if key not in mine]
        if left:
            ns = sum(point.parts_ns[key] for key in left)
            name = Cell(f"{len(left)} {SMALLER}", hint=", ".join(label(key) for key in left))
            rows.append([cells.text(point.label), name, *_time(point, ns, "")])
    return Table("Mean time by statement", columns, rows)


def _time(point: PointAnatomy, ns: float, between: str) -> list[Cell]:
    return [cells.quantity(ns, "ns"), Cell(between), cells.share(ns / point.mean_ns)]


def _figure(
    points: Sequence[PointAnatomy], large: Sequence[str], label: Callable[[str], str]
) -> Figure:
    wholes = []
    for point in points:
        drawn = [point.parts_ns.get(key, 0.0) for key in large]
        drawn.append(max(point.mean_ns - sum(drawn), 0.0))
        hint = f"{quantity(point.mean_ns, 'ns')}, {point.runs} runs"
        wholes.append(Whole(point.label, [ns / NS for ns in drawn], hint=hint))
    parts = [Part(label(key)) for key in large]
    parts.append(Part(SMALLER, "wait-other"))
    axis = Axis("mean time, transaction", "s", low=0.0)
    title = "Mean time: transaction, by statement"
    return Figure.of("statements", title, CAPTION, Stacked(axis, parts, wholes, shares=False))


def _notes(found: Found[StatementFacts]) -> list[str]:
    """What limits it: runs that do not sum, and failed or repeated transactions."""
    why = {run.facts.why_not: run.label for run in reversed(found.runs) if run.facts.why_not}
    said = [f"Not by statement ({label} and alike): {reason}." for reason, label in why.items()]
    again = sum(
        (one.failures or 0) + (one.retries or 0)
        for run in found.runs
        for one in run.facts.statements
    )
    if again:
        said.append(
            f"{again:,} tries of transactions failed: their statements are in the means; what was "
            f'done again is in "{OTHERS[BETWEEN]}".'
        )
    return said
