"""What `nfslab sfs` measured as a section: its curve, its tables. One run of each point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.display.cells import count, quantity, share, text
from nfslab.display.figures import Axis, Figure, Lines, Panel, Rule, Series, View
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.offered.tables import EXPLAINED, RESPONSES, meaning, uncounted, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

NS_PER_MS: Final = 1e6
ROOM: Final = 1.05
"""Axes end this much behind the largest value."""


def section(result: dict[str, Any]) -> Section:
    """`result` as `nfslab sfs --json` has it, with its curve."""
    points = result["points"]
    measured = [point for point in points if not point.get("failed")]
    return Section(
        ", ".join(result["targets"]),
        intro=result["mix"],
        sentences=list(meaning(result)),
        figures=_figures(points, result["curve"]),
        tables=[_points(result), *map(_operations, measured)],
        notes=[" ".join(EXPLAINED)],
        problems=list(uncounted(points)),
    )


def _points(result: dict[str, Any]) -> Table:
    rows = []
    for number, point in enumerate(result["points"]):
        rows.append(
            [
                quantity(point["offered_ops_per_s"], "1/s"),
                quantity(point["achieved_ops_per_s"], "1/s"),
                *_responses(point["response"]),
                quantity(point.get("outstanding_mean"), ""),
                Cell(
                    verdict(number, point, result["curve"]),
                    tone="" if point["valid"] else "severe",
                ),
            ]
        )
    columns = [Column("offered"), Column("achieved"), *RESPONSE_COLUMNS, Column("outstanding")]
    return Table("At every point", [*columns, Column("", numeric=False)], rows)


def _operations(point: dict[str, Any]) -> Table:
    rows = [
        [
            text(row["operation"]),
            share(row["share"]),
            count(row["answered"]),
            *_responses(row["response"]),
            count(row["unexpected"], "severe"),
        ]
        for row in sorted(point["operations"], key=lambda row: -row["share"])
    ]
    columns = [Column("operation", numeric=False), Column("share"), Column("answered")]
    columns += [*RESPONSE_COLUMNS, Column("unexpected")]
    title = f"Operations at {point['offered_ops_per_s']:,.0f} offered"
    return Table(title, columns, rows, open=False)


RESPONSE_COLUMNS: Final = [Column(name.removesuffix(" ms")) for name in RESPONSES]


def _responses(response: dict[str, Any]) -> list[Cell]:
    found = (response.get(key) for key in RESPONSES.values())
    return [quantity(None if ns is None else ns / NS_PER_MS, "ms") for ns in found]


def _figures(points: Sequence[dict[str, Any]], curve: dict[str, Any]) -> list[Figure]:
    """Achieved over offered load, response time over achieved load."""
    in_order = sorted(points, key=lambda point: point["offered_ops_per_s"])
    valid = [point for point in in_order if point["valid"]]
    others = [point for point in in_order if not point["valid"]]
    most = max(point["offered_ops_per_s"] for point in in_order)

    def achieved() -> Lines:
        series = [_series("achieved", valid, "offered_ops_per_s", "achieved_ops_per_s")]
        if others:
            lost = _series("does not count", others, "offered_ops_per_s", "achieved_ops_per_s")
            series.append(Series(lost.label, lost.x, lost.y, draw="dots"))
        series.append(Series("all that is offered", [0.0, most], [0.0, most], dash=True))
        rules = []
        if curve["peak"] is not None:
            rules.append(Rule(points[curve["peak"]]["offered_ops_per_s"], "x", "peak"))
        y = Axis("achieved load", "1/s", low=0.0, high=most * ROOM)
        x = Axis("offered load", "1/s", low=0.0, high=most * ROOM)
        return Lines(x, [Panel("", y, series, rules=rules)])

    def responses() -> Lines | None:
        if not valid:
            return None
        series = []
        for name, key in RESPONSES.items():
            known = [point for point in valid if point["response"].get(key) is not None]
            x = [point["achieved_ops_per_s"] for point in known]
            y = [point["response"][key] / NS_PER_MS for point in known]
            series.append(Series(name.removesuffix(" ms"), x, y))
        axis = Axis("response time", "ms", low=None, log_choice=True)
        return Lines(Axis("achieved load", "1/s", low=0.0), [Panel("", axis, series)])

    return [
        Figure("load-achieved", "Achieved against offered load", "", [View(achieved)]),
        Figure(
            "load-response",
            "Response time against achieved load",
            "Points are joined by offered load: where a line bends back, more is offered and less "
            "achieved.",
            [View(responses)],
        ),
    ]


def _series(label: str, points: Sequence[dict[str, Any]], x: str, y: str) -> Series:
    return Series(label, [point[x] for point in points], [point[y] for point in points])
