"""Figures of system calls: successive syncs, what they wait for, single accesses over time.

Points are bounded: of a series longer than `POINTS_SERIES` one call in k is drawn, and the slowest
of each k; of a class with more than `ACCESSES_MOST` single calls one in k is drawn, and all of them
are counted in cells. The figure says so. Levels, changes and quantiles are of all calls.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.display.figures import (
    Axis,
    Cloud,
    Figure,
    Heat,
    Level,
    Lines,
    Panel,
    Points,
    Rule,
    Series,
    View,
)
from nfslab.display.numbers import count, counted, p_value, quantity
from nfslab.evidence.latency_parts import NS, stacked, whole_of
from nfslab.evidence.syscalls.accesses import (
    KINDS,
    PLACE_NAMES,
    Accesses,
    FoundAccesses,
    accesses_of,
)
from nfslab.evidence.syscalls.sentences import BLOCK_WORDS, STEP_WORDS
from nfslab.evidence.syscalls.sync_blocks import PARTS
from nfslab.evidence.syscalls.sync_series import SyncSeries, series_of
from nfslab.evidence.syscalls.sync_steps import STEPS
from nfslab.evidence.syscalls.tables import SyscallTables, names_of, read_syscall_tables, timed
from nfslab.statistics.quantile_estimator import quantile_grid, quantiles, samples_needed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nfslab.evidence.syscalls.facts import SyscallFacts

    Tables = Callable[[], SyscallTables | None]

SERIES_MOST: Final = 8
POINTS_SERIES: Final = 12_000
LABELS_MOST: Final = 8
"""Changes of one series whose labels are drawn; all have a line."""
CLASSES_MOST: Final = 8
ACCESSES_MOST: Final = 200_000
"""Single calls of a class that are drawn."""
CELL_COLUMNS: Final = 600
CELL_ROWS: Final = 128
PAD: Final = 1.25
"""Of the common scale of latency, on both sides."""
COLOURS: Final = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
STEP_COLOURS: Final = ("c5", "c1", "c3", "c8")
BLOCK_COLOURS: Final = ("c3", "c1", "c6", "c8")
CURVE_CAPTION: Final = (
    "Every call that makes bytes durable, timed from its entry to its return, in the order of the "
    "calls. Levels are medians between changes; a change is one that noise gives in at most one "
    "series of a hundred, and of a quarter or more in the median."
)
STEPS_CAPTION: Final = (
    "Shares of the syncs' summed time, by the WRITEs and COMMITs of the same file that were under "
    "way; an instant at which several were counts for the first of these."
)
BLOCKS_CAPTION: Final = (
    "Shares of the syncs' summed time, by the requests that the file's disks were busy with."
)
ACCESSES_CAPTION: Final = (
    "Single reads and writes over time, by their place in the file; files of a class lie over each "
    "other."
)


@lru_cache(maxsize=1)
def tables_of_run(folder: Path) -> SyscallTables | None:
    """Of a sealed run; figures of one run follow each other. ResultsError."""
    return read_syscall_tables(folder)


def figures_of(
    facts: SyscallFacts, tables: Tables, key: str, latencies_s: tuple[float, float] | None = None
) -> list[Figure]:
    """The figures of one run or watch; `key` tells their names from those of others.

    `latencies_s`: a scale in common with other runs (`latency_range`).
    """
    made = []
    if facts.series:
        made.append(_curve(_Curves(tables, latencies_s or latency_range([facts])), facts, key))
    waits = facts.waits
    for name, title, caption, parts, rows in (
        ("steps", "What syncs on NFS wait for", STEPS_CAPTION,
         [(STEP_WORDS[p], c) for p, c in zip(STEPS, STEP_COLOURS, strict=True)],
         [(f"{r.what}, {r.file_class} · {r.target}", r.summary) for r in waits.steps or ()]),
        ("blocks", "What syncs on local disks wait for", BLOCKS_CAPTION,
         [(BLOCK_WORDS[p], c) for p, c in zip(PARTS, BLOCK_COLOURS, strict=True)],
         [(f"{r.what}, {r.file_class}", r.summary) for r in waits.blocks or ()]),
    ):  # fmt: skip
        if wholes := [whole_of(label, summary) for label, summary in rows[:SERIES_MOST]]:
            made.append(stacked(f"{key}-{name}", title, caption, parts, wholes))
    if facts.accesses:
        made.append(_accesses(facts, tables, key))
    return made


def latency_range(runs: Sequence[SyscallFacts]) -> tuple[float, float] | None:
    """Of all series that are drawn, in seconds."""
    series = [one for facts in runs for one in facts.series[:SERIES_MOST]]
    if not series:
        return None
    low = min(max(one.min_ns, 1) for one in series) / NS
    high = max(max(one.quantiles_ns[-1], 1) for one in series) / NS
    return low / PAD, high * PAD


def _curve(curves: _Curves, facts: SyscallFacts, key: str) -> Figure:
    left = len(facts.series) - SERIES_MOST
    said = f" {left} more kinds of syncs are in the table." if left > 0 else ""
    views = [
        View(curves.by_number, ("number of the call",)),
        View(curves.by_time, ("time",)),
        View(curves.by_quantile, ("quantile",)),
    ]
    return Figure(f"{key}-syncs", "Successive syncs", CURVE_CAPTION + said, views, ("Against",))


class _Curves:
    """The series of one run, thinned; read when the first of its drawings is asked for."""

    def __init__(self, tables: Tables, latencies_s: tuple[float, float] | None) -> None:
        self._tables = tables
        low, high = latencies_s or (None, None)
        self._axis = Axis("latency", "s", "log", low=low, high=high)

    @cached_property
    def _drawn(self) -> list[_Drawn]:
        tables = self._tables()
        if tables is None:
            return []
        found = series_of(timed(tables.syncs)[0], names_of(tables.files)[0])
        return [
            _Drawn(one, colour)
            for one, colour in zip(found[:SERIES_MOST], COLOURS, strict=False)
            if one.calls
        ]

    def by_number(self) -> Lines | None:
        """In the order of the calls."""
        return self._lines(Axis("number of the call"), lambda one: one.by_number)

    def by_time(self) -> Lines | None:
        """In seconds from the timed start."""
        return self._lines(Axis("time", "s"), lambda one: one.by_time)

    def by_quantile(self) -> Lines | None:
        """How latencies are spread."""
        series = [one.quantiles for one in self._drawn]
        panel = Panel("latency", self._axis, series)
        return Lines(Axis("quantile", scale="nines"), [panel]) if series else None

    def _lines(self, x: Axis, of: Callable[[_Drawn], _Marks]) -> Lines | None:
        marks = [of(one) for one in self._drawn]
        panel = Panel(
            "latency",
            self._axis,
            [one.series for one in marks],
            rules=[rule for one in marks for rule in one.rules],
            levels=[level for one in marks for level in one.levels],
            height=2.0,
        )
        return Lines(x, [panel]) if marks else None


class _Marks:
    """One series against one axis."""

    def __init__(self, series: Series, rules: list[Rule], levels: list[Level]) -> None:
        self.series, self.rules, self.levels = series, rules, levels


class _Drawn:
    """What is drawn of one series."""

    def __init__(self, one: SyncSeries, colour: str) -> None:
        rows, stride = drawn_rows(one.latency_ns, POINTS_SERIES)
        label = f"{one.file_class}, {one.what}"
        if stride > 1:
            label += f" (1 in {stride}, and the slowest of each {stride})"
        seconds = np.maximum(one.latency_ns[rows], 1) / NS
        levels = one.steps.levels
        texts = [
            f"after {count(level.start)}: {quantity(before.median_ns, 'ns')} → "
            f"{quantity(level.median_ns, 'ns')} (p = {p_value(p)})"
            for before, level, p in zip(levels, levels[1:], one.steps.p_values, strict=False)
        ]
        texts = [text if i < LABELS_MOST else "" for i, text in enumerate(texts)]
        starts = [level.start for level in levels[1:]]
        t_s = one.t_ns / NS
        between = [float(t_s[at - 1] + t_s[at]) / 2 for at in starts]

        def marks(x: Any, at: list[float], spans: list[tuple[float, float]]) -> _Marks:
            return _Marks(
                Series(label, x, seconds, draw="dots", colour=colour, group=label),
                [Rule(place, "x", text, colour) for place, text in zip(at, texts, strict=True)],
                [
                    Level(*span, level.median_ns / NS, f"{counted(level.calls, 'call')}", label)
                    for span, level in zip(spans, levels, strict=True)
                ],
            )

        self.by_number = marks(
            rows + 1, [at + 0.5 for at in starts], [(a.start + 0.5, a.end + 0.5) for a in levels]
        )
        self.by_time = marks(
            t_s[rows], between, [(float(t_s[a.start]), float(t_s[a.end - 1])) for a in levels]
        )
        grid, values = _quantiles(one)
        self.quantiles = Series(f"{one.file_class}, {one.what}", grid, values, colour=colour)


def drawn_rows(values: Any, most: int) -> tuple[Any, int]:
    """Rows that are drawn: all, or one in k and the largest of each k; and k."""
    n = values.size
    if n <= most:
        return np.arange(n), 1
    stride = math.ceil(2 * n / most)
    firsts = np.arange(0, n, stride)
    whole = n // stride * stride
    largest = values[:whole].reshape(-1, stride).argmax(axis=1) + firsts[: n // stride]
    return np.unique(np.concatenate([firsts, largest])), stride


def _quantiles(one: SyncSeries) -> tuple[list[float], list[float]]:
    """At a grid; NaN beyond what so many calls can tell."""
    grid = quantile_grid()
    made = quantiles(one.latency_ns, grid)
    return grid, [
        found.value / NS if q in (0, 1) or one.calls >= samples_needed(q) else math.nan
        for q, found in zip(grid, made, strict=True)
    ]


def _accesses(facts: SyscallFacts, tables: Tables, key: str) -> Figure:
    shown = facts.accesses[:CLASSES_MOST]
    views = []
    for place, one in enumerate(shown):
        calls, one_in = one["calls"], -(-one["calls"] // ACCESSES_MOST)
        said = f"{counted(calls, 'call')}, {quantity(one['bytes'], 'B')}"
        said += f"; one in {one_in} is drawn." if one_in > 1 else "."
        by_file = bool(facts.files)
        views.append(
            View(partial(_points, tables, place, one_in, by_file), (one["name"], "calls"), said)
        )
        if one_in > 1:
            said = f"{counted(calls, 'call')}, all of them counted."
            counts = partial(_cells, tables, place, by_file)
            views.append(View(counts, (one["name"], "counts"), said))
    caption = ACCESSES_CAPTION
    if rest := facts.accesses[CLASSES_MOST:]:
        calls = sum(one["calls"] for one in rest)
        caption += (
            f" The {CLASSES_MOST} with the most calls: {counted(calls, 'call')} on "
            f"{len(rest):,} others are not drawn."
        )
    return Figure(
        f"{key}-accesses", "Sizes and offsets", caption, views, ("Files", "Drawn"), rank=2
    )


def _group(tables: Tables, place: int, by_file: bool) -> tuple[Accesses, FoundAccesses] | None:
    read = tables()
    found = None if read is None else accesses_of(read, by_file=by_file)
    return None if found is None or place >= len(found.groups) else (found.groups[place], found)


def _axes(one: Accesses) -> tuple[Axis, Axis]:
    top = max(int((one.offset + one.size).max()), 1)
    return Axis("time", "s"), Axis("offset", "B", low=0, high=float(top))


def _points(tables: Tables, place: int, one_in: int, by_file: bool) -> Points | None:
    """Single calls of a class, a cloud for each kind."""
    if (known := _group(tables, place, by_file)) is None:
        return None
    one, found = known
    rows = np.arange(0, one.calls, one_in)
    x, y = _axes(one)
    clouds = []
    for code, (kind, colour) in enumerate(zip(KINDS, COLOURS, strict=False)):
        own = rows[one.kind[rows] == code]
        if not own.size:
            continue
        paths = [found.path_of.get(number, "") for number in one.file_id[own].tolist()]
        extra = {
            "size": (one.size[own], "B"),
            "place": ([PLACE_NAMES[place] for place in one.place[own].tolist()], ""),
            "file": (paths, ""),
        }
        clouds.append(
            Cloud(kind, one.t_ns[own] / NS, one.offset[own], colour, size=2.0, extra=extra)
        )
    return Points(x, y, clouds, drawn_of=one.calls if one_in > 1 else None)


def _cells(tables: Tables, place: int, by_file: bool) -> Heat | None:
    """Exact counts over time and offset."""
    if (known := _group(tables, place, by_file)) is None:
        return None
    one, _ = known
    x, y = _axes(one)
    x_edges = np.linspace(0, max(float(one.t_ns.max()) / NS, 1e-6), CELL_COLUMNS + 1)
    y_edges = np.linspace(0, y.high or 1.0, CELL_ROWS + 1)
    cells, _, _ = np.histogram2d(one.offset, one.t_ns / NS, bins=(y_edges, x_edges))
    return Heat(x, y, x_edges, y_edges, cells.astype(np.int64), "calls")
