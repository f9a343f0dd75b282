"""The anatomy in reports: a bar for each point, tables of parts, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.display import cells
from nfslab.display.figures import Axis, Figure, Part, Stacked, View, Whole
from nfslab.display.numbers import interval, percent, quantity
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.evidence.anatomy.differences import (
    Compared,
    Difference,
    PointAnatomy,
    compared,
    point_anatomies,
)
from nfslab.evidence.anatomy.parts import REQUEST, TRANSACTION, label_of, meaning_of
from nfslab.evidence.anatomy.slow_transactions import SEVERAL
from nfslab.evidence.same import noted
from nfslab.evidence.slowest import left_out, slowest_of, slowest_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import Found

NS: Final = 1e9
ANCHOR: Final = "anatomy"
COLOURS: Final = (*(f"c{n}" for n in range(1, 9)), "cpu-irq", "wait-running", "cpu-iowait")
"""Of the page, for parts that have none of their own."""
SENTENCES_MOST: Final = 8
PARTS_TOLD: Final = 3
LEAST_LISTED: Final = 0.05
"""Of the whole: smaller differences that are not shown are not listed (the JSON has all)."""
LEAST_DRAWN: Final = 0.01
"""Of the whole, at some point: smaller parts are drawn as one."""
LEAST_INNER: Final = 0.005
"""Of the whole: smaller parts within parts are not shown (they are in the JSON)."""
LEAST_SHARE: Final = 0.1
"""Of the whole's difference: less is not told in a sentence."""
SUMS: Final = "Means over the runs of a configuration; the parts sum to the whole."
SAMPLED: Final = (
    "Sampled parts may be off besides: of PostgreSQL by a tenth where its memory was read, by two "
    "fifths over SQL, by far more over SQL with one client; of MariaDB by half."
)
OF_REQUESTS: Final = (
    "A request's time is from one reply to the next on its connection, the load's warm-up included."
)
WITHIN: Final = "Parts within parts are shares of other records of the same run."
ALONE: Final = (
    "Differences within blocks, each with its own 95 % interval, wider where it was sampled; "
    "shown: also after Holm's correction over the parts of that comparison. Small ones are "
    "left out."
)


def section(title: str, found: Found[AnatomyFacts]) -> Section | None:
    """By point, then what differs between the points that are compared."""
    points = point_anatomies(found)
    if not points:
        return None
    pairs = compared(found, found.analysis) if found.analysis is not None else []
    order = ranked(points, pairs)
    metric = found.analysis.primary if found.analysis is not None else None
    said = _sentences(pairs, metric or "the metric") or [
        alone(point) for point in points[:SENTENCES_MOST]
    ]
    tables = [_points_table(points, order)]
    if pairs:
        tables.append(differences_table(pairs, "part", label_of))
    slow = slowest_of(found, lambda facts: facts.slowest)
    if slow:
        tables.append(slowest_table(slow, label_of))
        most = max(slow, key=lambda one: one.slow_ns - one.mean_ns)
        said.append(most.sentence(label_of))
    tables += [_inner_table(points, part) for part in order if _has_inner(points, part)]
    notes = noted(found)
    wants = sorted(
        {name for run in found.runs for name in run.facts.wants if not run.run.summary(name)}
    )
    notes += left_out((run.label, run.facts.slowest) for run in found.runs)
    if _several_watched(found):
        notes.append(SEVERAL)
    if wants:
        listed = ", ".join(f'"{name}"' for name in wants)
        notes.append(f"More would be explained with collectors = [{listed}, ...].")
    intro = [SUMS, *([SAMPLED] if _any_sampled(found) else []), WITHIN]
    if any(point.operation == REQUEST for point in points):
        intro.insert(0, OF_REQUESTS)
    return Section(
        title,
        ANCHOR,
        " ".join(intro),
        sentences=said,
        tables=tables,
        figures=[_figure(points, order)],
        notes=notes,
    )


def _any_sampled(found: Found[AnatomyFacts]) -> bool:
    """Is a part known by samples alone?"""
    return any(part.source == "sampled" for run in found.runs for part in run.facts.parts)


def _several_watched(found: Found[AnatomyFacts]) -> bool:
    """Were syncs timed of transactions that cannot be told apart?"""
    return any(
        run.facts.operation == TRANSACTION
        and "fsync" not in run.facts.wants
        and run.run.record.load is not None
        and (run.run.record.load.clients or 0) > 1
        for run in found.runs
    )


def _sentences(pairs: Sequence[Compared], metric: str) -> list[str]:
    """What is shown of that metric, the largest difference first; the rest in one."""
    shown = sorted(
        (pair for pair in pairs if pair.shown), key=lambda p: -abs(p.whole.difference_ns)
    )
    said = [sentence(pair) for pair in shown[:SENTENCES_MOST]]
    rest = [pair for pair in pairs if not pair.shown]
    if len(rest) > 1:
        of = f"{len(rest)} of {len(pairs)} configurations"
        said.append(f"No difference of {metric} is shown at {of}.")
    for pair in rest if len(rest) == 1 else ():
        means = f"{_ms(pair.new.mean_ns)}, {pair.result.base_label} {_ms(pair.base.mean_ns)}"
        said.append(
            f"No difference of {metric} is shown; the mean {pair.new.operation}: "
            f"{pair.result.label} {means}."
        )
    return said


def ranked(points: Sequence[PointAnatomy], pairs: Sequence[Compared]) -> list[str]:
    """Parts of the top level: the largest difference first; without one, the largest first."""
    weight: dict[str, float] = {}
    for pair in pairs:
        for one in pair.parts:
            weight[one.path] = max(weight.get(one.path, 0.0), abs(one.difference_ns))
    for point in points:
        for path, ns in point.top().items():
            weight[path] = max(weight.get(path, 0.0), 0.0 if pairs else ns)
    return sorted(weight, key=lambda path: -weight[path])


def told(pair: Compared) -> list[Difference]:
    """The parts that a sentence names: shown, in the whole's direction, and large enough."""
    whole = pair.whole.difference_ns
    return [
        one
        for one in pair.parts
        if one.shown and one.difference_ns * whole > 0
        and abs(one.difference_ns) >= LEAST_SHARE * abs(whole)
    ][:PARTS_TOLD]  # fmt: skip


def sentence(pair: Compared) -> str:
    """What differs (it is shown), and where it is."""
    said = f"{pair.result.label}: {pair.new.operation} {_ms(pair.new.mean_ns)}"
    base = f"{pair.result.base_label} {_ms(pair.base.mean_ns)}"
    change = "longer" if pair.whole.difference_ns > 0 else "shorter"
    said += f" on average, {_ms(abs(pair.whole.difference_ns))} {change} than {base}"
    parts = [
        f"{_ms(abs(one.difference_ns))}{ends(one)} in {meaning_of(one.path).label}"
        for one in told(pair)
    ]
    if not parts:
        return f"{said}. No single part's difference is shown."
    return f"{said}: {', '.join(parts)}."


def alone(point: PointAnatomy) -> str:
    """The largest parts of a point without a comparison."""
    largest = sorted(point.top().items(), key=lambda item: -item[1])[:PARTS_TOLD]
    parts = [f"{meaning_of(path).label} {percent(ns / point.mean_ns)}" for path, ns in largest]
    return f"{point.label}: {point.operation} {_ms(point.mean_ns)} on average: {', '.join(parts)}."


def _ms(ns: float) -> str:
    return quantity(ns, "ns")


def ends(one: Difference) -> str:
    """The interval behind a difference that is told as a length, whatever its sign."""
    if one.interval_ns is None:
        return ""
    low, high = one.interval_ns
    if one.difference_ns < 0:
        low, high = -high, -low
    return f" ({interval(low, high, 'ns')})"


def _figure(points: Sequence[PointAnatomy], order: Sequence[str]) -> Figure:
    inner = [part for part in order if _has_inner(points, part)]
    operation = points[0].operation
    views = [View(lambda: _stacked(points, order, operation), ["all parts"] if inner else [])]
    for part in inner:
        views.append(View(lambda part=part: _inside(points, part), [meaning_of(part).label]))  # type: ignore[misc]
    return Figure(
        "anatomy-parts",
        f"Mean time: {operation}, by what it was spent in",
        "Means over the runs of a configuration; the parts sum to the bar.",
        views,
        choices=["Inside"] if inner else [],
        rank=0,
    )


def _stacked(points: Sequence[PointAnatomy], order: Sequence[str], operation: str) -> Stacked:
    large = [
        name
        for name in order
        if any(point.parts_ns.get(name, 0.0) >= LEAST_DRAWN * point.mean_ns for point in points)
    ]
    parts = _coloured(large)
    if len(large) < len(order):
        parts.append(Part("smaller parts", "wait-other"))
    wholes = []
    for point in points:
        drawn = [point.parts_ns.get(name, 0.0) for name in large]
        rest = [max(point.mean_ns - sum(drawn), 0.0)] if len(large) < len(order) else []
        hint = f"{_ms(point.mean_ns)}, {point.runs} runs"
        wholes.append(Whole(point.label, [ns / NS for ns in [*drawn, *rest]], hint=hint))
    return Stacked(Axis(f"mean time, {operation}", "s", low=0.0), parts, wholes, shares=False)


def _coloured(names: Sequence[str]) -> list[Part]:
    """Each part with a colour of its own, as long as there are colours."""
    taken = {meaning_of(name).colour for name in names}
    free = iter([one for one in COLOURS if one not in taken])
    return [
        Part(meaning_of(name).label, meaning_of(name).colour or next(free, "")) for name in names
    ]


def _inside(points: Sequence[PointAnatomy], part: str) -> Stacked:
    paths = [path for path in _inner_paths(points, part) if path.count("/") == part.count("/") + 1]
    parts = [Part(meaning_of(path.rpartition("/")[2]).label) for path in paths]
    wholes = [
        Whole(point.label, [point.parts_ns.get(path, 0.0) / NS for path in paths])
        for point in points
        if point.within(part)
    ]
    return Stacked(Axis(meaning_of(part).label, "s", low=0.0), parts, wholes, shares=False)


def _has_inner(points: Sequence[PointAnatomy], part: str) -> bool:
    return bool(_inner_paths(points, part))


def _points_table(points: Sequence[PointAnatomy], order: Sequence[str]) -> Table:
    return Table.of("Mean time by part", points, [
        (Column("configuration", False), lambda point: cells.text(point.label)),
        (Column("runs"), lambda point: cells.count(point.runs)),
        (Column(f"mean {points[0].operation}"), lambda point: cells.quantity(point.mean_ns, "ns")),
        ([Column(meaning_of(name).label, hint=meaning_of(name).meaning) for name in order],
         lambda point: [_cell(point, name) for name in order]),
    ])  # fmt: skip


def _cell(point: PointAnatomy, path: str) -> Cell:
    ns = point.parts_ns.get(path)
    if ns is None:
        return cells.text("")
    error = point.error_ns.get(path)
    hint = f"sampled: within {_ms(error)} with 95 %" if error is not None else ""
    return Cell(_ms(ns), ns, hint=hint)


def _inner_table(points: Sequence[PointAnatomy], part: str) -> Table:
    """All that lies within a part, level by level."""
    paths = _inner_paths(points, part)
    columns = [Column("configuration", False)]
    columns += [Column(label_of(path.removeprefix(f"{part}/"))) for path in paths]
    rows = [
        [cells.text(point.label), *(_cell(point, path) for path in paths)]
        for point in points
        if point.within(part)
    ]
    return Table(f"Inside: {meaning_of(part).label}", columns, rows, open=False)


def _inner_paths(points: Sequence[PointAnatomy], part: str) -> list[str]:
    """All paths within a part that are large enough at some point."""
    paths = [
        path
        for point in points
        for path, ns in point.parts_ns.items()
        if path.startswith(f"{part}/") and ns >= LEAST_INNER * point.mean_ns
    ]
    return list(dict.fromkeys(paths))


def differences_table(pairs: Sequence[Compared], what: str, label: Callable[[str], str]) -> Table:
    """Whole and parts of each comparison. `label`: of a part's path."""
    rows = [
        (pair, one)
        for pair in pairs
        for one in [pair.whole, *pair.parts]
        if one is pair.whole
        or one.shown
        or abs(one.difference_ns) >= LEAST_LISTED * pair.new.mean_ns
    ]
    return Table.of(f"What differs, {what} by {what}", rows, [
        (Column("configuration", False), lambda row: cells.text(row[0].result.label)),
        (Column("against", False), lambda row: cells.text(row[0].result.base_label)),
        (Column(what, False), lambda row: cells.text(
            label(row[1].path) if row[1].path else f"whole {row[0].new.operation}")),
        (Column("baseline"), lambda row: cells.quantity(row[1].base_ns, "ns")),
        (Column("new"), lambda row: cells.quantity(row[1].new_ns, "ns")),
        (Column("difference"), lambda row: cells.quantity(row[1].difference_ns, "ns")),
        (Column("95 % interval"), lambda row: cells.text(_between(row[1]))),
        (Column("shown", False), lambda row: cells.text("yes" if row[1].shown else "no")),
    ], note=ALONE, open=False)  # fmt: skip


def _between(one: Difference) -> str:
    return interval(*one.interval_ns, "ns") if one.interval_ns else ""
