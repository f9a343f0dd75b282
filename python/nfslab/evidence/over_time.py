"""A run's tables over time, as panels of figures.

Two shapes of tables: a column a quantity (`system_cpu`), and a row a time and name
(`system_devices`). Where a table holds more samples than `POINTS_MOST`, a point is the mean of its
samples (never a single one picked out), at the end of the last of them. Of many names those that
the run's places are on come first, then those with the largest values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.display.figures import Axis, Panel, Series
from nfslab.evidence.clocks import client_of, on_clock_of
from nfslab.results.coded_texts import coded_texts
from nfslab.results.evidence_tables import has_evidence, read_evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    import pyarrow as pa
    from numpy.typing import NDArray

    from nfslab.evidence.base import SealedRun

    Floats = NDArray[np.float64]

NS: Final = 1e9
POINTS_MOST: Final = 400
"""Points of a series; a screen shows no more."""
NAMES_MOST: Final = 4
"""Devices, interfaces and the like in one panel: more cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Quantities of one table: `columns[name]` over `t_s`, in time order; NaN is missing."""

    t_s: Floats
    columns: dict[str, Floats] = field(default_factory=dict)

    def pick(self, wanted: Iterable[str]) -> list[str]:
        """Those of the wanted that are there."""
        return [name for name in wanted if name in self.columns]

    def most(self, name: str) -> float:
        """The largest value of the timed part; 0 without one."""
        values = self.columns[name][self.t_s >= 0]
        known = values[np.isfinite(values)]
        return float(known.max()) if known.size else 0.0


def read_rows(
    run: SealedRun, table: str, columns: Sequence[str], optional: Sequence[str] = ()
) -> pa.Table | None:
    """Rows with t_ns on the clock of the run's timed part; None without any. ResultsError."""
    if not has_evidence(run.folder, table):
        return None
    rows = read_evidence(run.folder, table, columns, optional=optional)
    return on_clock_of(client_of(run.record), rows)[0] if rows.num_rows else None


def read_samples(run: SealedRun, table: str, columns: Sequence[str]) -> Samples | None:
    """Those of the columns that the table has; None without the table or a row. ResultsError."""
    rows = read_rows(run, table, ["t_ns"], columns)
    if rows is None:
        return None
    t_s = rows["t_ns"].to_numpy() / NS
    order = np.argsort(t_s, kind="stable")
    found = {
        name: np.asarray(rows[name].to_numpy(), dtype=np.float64)[order]
        for name in columns
        if name in rows.column_names
    }
    return Samples(t_s[order], found)


@dataclass(frozen=True, slots=True)
class Named:
    """Quantities by name (of a device): `samples` has columns "quantity:name"."""

    names: list[str]
    samples: Samples
    favoured: frozenset[str] = frozenset()
    """Names that the run's places are on."""

    def busiest(self, quantities: Sequence[str], least: float = 0.0) -> list[str]:
        """At most `NAMES_MOST` names with a value above `least`, favoured ones first."""
        weight = {
            name: max(
                (self.samples.most(key) for key in self.samples.pick(of_name(quantities, name))),
                default=0.0,
            )
            for name in self.names
        }
        loud = [name for name in self.names if weight[name] > least]
        loud.sort(key=lambda name: (name not in self.favoured, -weight[name], name))
        return loud[:NAMES_MOST]


def of_name(quantities: Iterable[str], name: str) -> list[str]:
    """Columns of one name."""
    return [f"{quantity}:{name}" for quantity in quantities]


def read_named(
    run: SealedRun, table: str, key: str, quantities: Sequence[str], mark: str = ""
) -> Named | None:
    """A table with a row a time and name, on the times of all. `mark`: a column of texts that is
    not empty for names that the run's places are on. ResultsError."""
    rows = read_rows(run, table, ["t_ns", key], [*quantities, mark] if mark else quantities)
    if rows is None:
        return None
    names, which = coded_texts(rows[key])
    times, place = np.unique(rows["t_ns"].to_numpy(), return_inverse=True)
    columns: dict[str, Floats] = {}
    for quantity in quantities:
        if quantity not in rows.column_names:
            continue
        wide = np.full((len(names), times.size), np.nan)
        wide[which, place] = np.asarray(rows[quantity].to_numpy(), dtype=np.float64)
        columns.update(zip((f"{quantity}:{name}" for name in names), wide, strict=True))
    favoured: set[str] = set()
    if mark and mark in rows.column_names:
        marks, marked = coded_texts(rows[mark])
        full = np.asarray([bool(one) for one in marks])[marked]
        favoured = {names[k] for k in np.unique(which[full])}
    return Named(names, Samples(times / NS, columns), frozenset(favoured))


def timed_mean(t_s: Floats, values: Floats, weights: Floats | None = None) -> float | None:
    """Mean of rates over the timed part, each for the interval that ends at its time.

    `weights`: by sample beside its length (calls of which each value is the mean). None: nothing is
    known of an interval that begins in the timed part.
    """
    begins = t_s[:-1]
    width_s = np.diff(t_s) * (1.0 if weights is None else weights[1:])
    counted = (begins >= 0) & np.isfinite(values[1:])
    total = float(width_s[counted].sum())
    return float((values[1:] * width_s)[counted].sum()) / total if total else None


def middle(values: Iterable[float | None]) -> float | None:
    """Median of those that are known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def thinned(t_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    """(times, values): means over equal spans of time where there are more than `POINTS_MOST`."""
    if t_s.size <= POINTS_MOST:
        return t_s, values
    edges = np.linspace(t_s[0], t_s[-1], POINTS_MOST + 1)
    place = np.clip(np.searchsorted(edges, t_s, side="left") - 1, 0, POINTS_MOST - 1)
    known = np.isfinite(values)
    n = np.bincount(place[known], minlength=POINTS_MOST)
    sums = np.bincount(place[known], weights=values[known], minlength=POINTS_MOST)
    means = np.full(POINTS_MOST, np.nan)
    np.divide(sums, n, out=means, where=n > 0)
    return edges[1:], means


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """A panel of a table: which quantities it draws, in which unit."""

    key: str
    title: str
    unit: str
    labels: Mapping[str, str]
    """Quantity -> label; of a named table what stands behind the name."""
    draw: Literal["line", "stack"] = "line"
    top: float | None = None
    """The least top of the scale (shares reach 100 %)."""
    least: float = 0.0
    """Names that never had more are not drawn."""
    colours: Mapping[str, str] = field(default_factory=dict)


def panel(spec: PanelSpec, samples: Samples | None) -> list[Panel]:
    """The panel of a table with a column a quantity; none without one of them."""
    if samples is None:
        return []
    entries = {name: spec.labels[name] for name in samples.pick(spec.labels)}
    return _panel(spec, samples, entries)


def named_panel(spec: PanelSpec, named: Named | None) -> list[Panel]:
    """The panel of a table with a row a time and name; none where nothing was above `least`."""
    if named is None:
        return []
    entries = {
        f"{quantity}:{name}": f"{name} {label}".strip()
        for name in named.busiest(list(spec.labels), spec.least)
        for quantity, label in spec.labels.items()
    }
    present = named.samples.pick(entries)
    return _panel(spec, named.samples, {column: entries[column] for column in present})


def _panel(spec: PanelSpec, samples: Samples, entries: Mapping[str, str]) -> list[Panel]:
    if not entries:
        return []
    series = []
    for column, label in entries.items():
        t_s, values = thinned(samples.t_s, samples.columns[column])
        colour = spec.colours.get(column, "")
        series.append(Series(label, t_s, values, draw=spec.draw, colour=colour))
    high = None
    if spec.top is not None:
        # A share measured over intervals may be a little above one.
        high = max([spec.top, *(samples.most(column) for column in entries)])
    axis = Axis("", spec.unit, low=0.0, high=high)
    return [Panel(spec.title, axis, series, key=spec.key)]
