"""Base against new: two experiments, or two selections, point by point.

Points are paired by the axes that both sides have, except those that a selection was made
by: `x:placement=together` against `x:placement=apart` pairs by clients. Every point has to
find at most one partner; what finds none is listed.

Within one experiment both sides were measured in the same blocks, so the test is paired by
block. Two experiments were measured at different times: unpaired. All points of a metric
are one family for Holm's correction. The statistics are those of `nfslab.statistics`.

Everything else that differs is listed: parameters, options in effect, kernel, versions; and
of both sides the checks that did not come out "ok". It is for the reader to judge whether
the comparison is one of what was meant to be compared.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nfslab.errors import UsageError
from nfslab.results import durability
from nfslab.results.baseline import alpha_of
from nfslab.results.emulation import emulated_points, sentence, without_emulated
from nfslab.results.selection import (
    fixed_parameters,
    level_number,
    point_label,
    scalar_paths,
    understood,
)
from nfslab.statistics.comparison import Comparison, compare_many
from nfslab.statistics.observations import Observations
from nfslab.statistics.verdicts import INCONCLUSIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from nfslab.results.outcomes import Outcomes, Setup
    from nfslab.results.selection import Selection

Sense = Literal["better", "worse", "changed", "none", "unknown"]

MAX_DIFFERENCES = 200
"""Lines of differences listed; how many more there are is said."""
DAMAGED_LISTED = 5

NOT_INTERLEAVED = (
    "p-values and intervals between two experiments take runs for independent: where neighbouring "
    "runs resemble each other, equal experiments are called different in more than 5 % "
    "(simulated: in 11 to 58 %); make what differs an axis of one experiment where that is possible"
)
"""AR(1) of 0.5 and 0.9 with 3 to 10 runs a side: docs/decisions/statistics.md."""


@dataclass(frozen=True, slots=True)
class PairedPoint:
    """One comparison's two points."""

    label: str
    """The common levels: "clients=10"."""
    base: int
    new: int
    """Indices of the points in their experiments."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that was not the same on both sides."""

    what: str
    base: str
    new: str


@dataclass(frozen=True, slots=True)
class SelectionComparison:
    """Everything that a comparison of two selections says."""

    base_label: str
    new_label: str
    paired_by_block: bool
    emulated_line: str
    """To be printed before all else; empty when no point was emulated on either side."""
    durability_line: str
    """To be printed first; empty when both sides are equally durable."""
    points: list[PairedPoint]
    metrics: list[str]
    units: dict[str, str]
    results: dict[str, list[Comparison]]
    """Metric -> one comparison for each of `points`."""
    base_only: list[str]
    new_only: list[str]
    """Labels of the points without a partner."""
    differences: list[Difference]
    checks: list[Difference]
    """Each check that was not "ok" in a compared run ("busy_machine: warning"), equal or not."""
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        return dataclasses.asdict(self)


def sense_of(result: Comparison) -> Sense:
    """Is what was shown an improvement?"""
    return _SENSES.get(result.verdict, "unknown")


_SENSES: dict[str, Sense] = {
    "faster": "better",
    "slower": "worse",
    "higher": "changed",
    "lower": "changed",
    INCONCLUSIVE: "none",
}


def compare_selections(
    base: Selection, new: Selection, metrics: Sequence[str] | None = None
) -> SelectionComparison:
    """Compare the counted runs of two selections; default: the primary metric of `base`.

    Raises `UsageError` for unknown metrics, for sides that share runs, and when no points
    can be paired.
    """
    same = len({side.outcomes.folder.path.resolve() for side in (base, new)}) == 1
    if same and set(base.points) & set(new.points):
        raise UsageError(
            "both sides hold the same runs",
            why=f"{base.label} and {new.label} overlap",
            fix="select different levels: EXPERIMENT_DIR:factor=value",
        )
    names = _metrics(base.outcomes, new.outcomes, metrics)
    alpha = min(alpha_of(side.outcomes.record) for side in (base, new))
    pairs, base_only, new_only = match_points(base, new)
    emulated = [emulated_points(side.outcomes) for side in (base, new)]
    of_emulated = [pair.base in emulated[0] or pair.new in emulated[1] for pair in pairs]
    results = {}
    for name in names:
        better = base.outcomes.metric(name).better
        observed = (
            _observations(base.outcomes, name, [pair.base for pair in pairs], blocks=same),
            _observations(new.outcomes, name, [pair.new for pair in pairs], blocks=same),
        )
        compared = compare_many(*observed, n_groups=len(pairs), better=better, alpha=alpha)
        results[name] = without_emulated(compared, of_emulated)
    apart, more = differences(base, new)
    notes = [f"{more} more differences are not listed"] if more else []
    if not same:
        notes.append(NOT_INTERLEAVED)
    for side in (base,) if same else (base, new):
        damaged = side.outcomes.catalogue.damaged
        for run_id, why in list(damaged.items())[:DAMAGED_LISTED]:
            notes.append(f"run {run_id} of {side.label} is damaged, and left out: {why}")
        if len(damaged) > DAMAGED_LISTED:
            notes.append(f"so are {len(damaged) - DAMAGED_LISTED} more")
    for side in (base, new):
        if not side.outcomes.setups_complete:
            notes.append(f"not every setup of {side.label} could be read and compared")
    return SelectionComparison(
        base_label=base.label,
        new_label=new.label,
        paired_by_block=same,
        emulated_line=_emulated_line(base, new) if any(of_emulated) else "",
        durability_line=_durability_line(base, new, pairs),
        points=pairs,
        metrics=names,
        units={name: base.outcomes.metric(name).unit for name in names},
        results=results,
        base_only=base_only,
        new_only=new_only,
        differences=apart,
        checks=_checks(base, new, pairs),
        notes=notes,
    )


def match_points(base: Selection, new: Selection) -> tuple[list[PairedPoint], list[str], list[str]]:
    """(pairs, labels only in base, labels only in new)."""
    axes = _pairing_axes(base, new)
    base_keys = _keyed(base, axes)
    new_keys = _keyed(new, axes)
    pairs = []
    for key, index in base_keys.items():
        if key in new_keys:
            factors = base.outcomes.points[index].factors
            label = ", ".join(f"{axis}={factors[axis]}" for axis in axes) or "all"
            pairs.append(PairedPoint(label, index, new_keys[key]))
    if not pairs:
        raise UsageError(
            f"{base.label} and {new.label} have no configuration in common",
            why=f"paired by {', '.join(axes)}" if axes else "they have no axis in common",
            fix="compare selections of single configurations, or experiments with equal levels",
        )
    sides = ((base, base_keys, new_keys), (new, new_keys, base_keys))
    left, right = (
        [point_label(side.outcomes.points[i]) for key, i in mine.items() if key not in theirs]
        for side, mine, theirs in sides
    )
    return pairs, left, right


def _pairing_axes(base: Selection, new: Selection) -> list[str]:
    """Axes by which points are paired: common to both, and not what the sides differ in.

    The sides differ in an axis when one was selected by it and they share no level of it.
    """
    apart = {
        axis
        for axis in base.axes() | new.axes()
        if not _selected_levels(base, axis) & _selected_levels(new, axis)
    }
    new_axes = {axis.name for axis in new.outcomes.record.axes}
    return [
        axis.name
        for axis in base.outcomes.record.axes
        if axis.name in new_axes and axis.name not in apart
    ]


def _selected_levels(selection: Selection, axis: str) -> set[Any]:
    return {_level_key(selection, index, axis) for index in selection.points}


def _keyed(selection: Selection, axes: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """Levels of the pairing axes -> point; `UsageError` when two points share them."""
    found: dict[tuple[Any, ...], int] = {}
    for index in selection.points:
        factors = selection.outcomes.points[index].factors
        key = tuple(_level_key(selection, index, axis) for axis in axes)
        if key in found:
            others = [
                name
                for name, level in factors.items()
                if selection.outcomes.points[found[key]].factors.get(name) != level
            ]
            raise UsageError(
                f"{selection.label} has several configurations for one of the other side",
                why=f"they differ in {', '.join(others)}, which the other side does not have "
                "(or was selected by)",
                fix=f"select one level: {selection.outcomes.folder.path.name}:{others[0]}=..."
                if others
                else "",
            )
        found[key] = index
    return found


def _level_key(selection: Selection, index: int, name: str) -> Any:
    """Equal for levels that mean the same ("128k" and 131072, 10 and "10")."""
    point = selection.outcomes.points[index]
    axis = next((axis for axis in selection.outcomes.record.axes if axis.name == name), None)
    level = point.factors.get(name) if axis is None else understood(axis, point)
    number = level_number(level)
    return str(level) if number is None else number


def _metrics(base: Outcomes, new: Outcomes, asked: Sequence[str] | None) -> list[str]:
    """Names of the metrics to compare: known to both, in the same unit."""
    names = list(dict.fromkeys(asked or []))
    if not names:
        if base.primary is None:
            raise UsageError(
                f"{base.folder.path} has no run that can be compared",
                fix="`nfslab show` tells why its runs failed or are missing",
            )
        names = [base.primary]
    for name in names:
        mine, theirs = base.metric(name), new.metric(name)
        if mine.unit != theirs.unit:
            raise UsageError(
                f"{name} is in {mine.unit} on one side, in {theirs.unit} on the other",
                fix="compare another metric, or runs of the same workload",
            )
        if mine.better != theirs.better:
            raise UsageError(
                f"{name} has another direction of improvement on the other side",
                fix="compare another metric, or give both the same `better`",
            )
    return names


def _observations(
    outcomes: Outcomes, metric: str, points: Sequence[int], *, blocks: bool
) -> Observations:
    """Values of the metric; group k is the k-th of `points`."""
    groups = group_of_runs(outcomes, points)
    mine = groups >= 0
    return Observations.of(
        outcomes.values(metric)[mine],
        groups=groups[mine],
        blocks=outcomes.block[mine] if blocks else None,
    )


def group_of_runs(outcomes: Outcomes, points: Sequence[int]) -> NDArray[np.int64]:
    """Per counted run the place of its point in `points` (each at most once), else -1."""
    group = np.full(len(outcomes.points), -1, dtype=np.int64)
    group[np.asarray(points, dtype=np.int64)] = np.arange(len(points))
    return group[outcomes.point_index]


def _emulated_line(base: Selection, new: Selection) -> str:
    """Which side, and how much of it."""
    sides = (("baseline", sentence(base.outcomes)), ("new", sentence(new.outcomes)))
    return "; ".join(f"{name} is {said}" for name, said in sides if said)


def _durability_line(base: Selection, new: Selection, pairs: Sequence[PairedPoint]) -> str:
    base_levels = durability.point_levels(base.outcomes)
    new_levels = durability.point_levels(new.outcomes)
    apart = [
        pair
        for pair in pairs
        if base_levels[pair.base]
        and new_levels[pair.new]
        and durability.unequal(base_levels[pair.base], new_levels[pair.new])
    ]
    if not apart:
        return ""
    why = durability.reasons(base.outcomes, [pair.base for pair in apart])
    why += [
        reason
        for reason in durability.reasons(new.outcomes, [pair.new for pair in apart])
        if reason not in why
    ]
    return durability.sentence(
        "baseline",
        set().union(*(base_levels[pair.base] for pair in apart)),
        "new",
        set().union(*(new_levels[pair.new] for pair in apart)),
        why,
    )


def _checks(base: Selection, new: Selection, pairs: Sequence[PairedPoint]) -> list[Difference]:
    """Of both sides in how many of the compared runs a check was not "ok"."""
    flags, runs = [], []
    for side, points in (
        (base.outcomes, {pair.base for pair in pairs}),
        (new.outcomes, {pair.new for pair in pairs}),
    ):
        lines = [line for line in side.counted if side.index_of[line.point_id] in points]
        flags.append(Counter(flag for line in lines for flag in set(line.flags)))
        runs.append(len(lines))
    return [
        Difference(
            flag.replace(":", ": "),
            *(f"{seen[flag]} of {n} runs" for seen, n in zip(flags, runs, strict=True)),
        )
        for flag in sorted(flags[0] | flags[1])
    ]


def differences(base: Selection, new: Selection) -> tuple[list[Difference], int]:
    """What was not the same, parameters first; and how many more there were."""
    found = _apart(_parameter_values(base), _parameter_values(new))
    used = [{name for s in _selected_setups(side) for name in s.disks} for side in (base, new)]
    shared = used[0] & used[1]  # that a side used others is in its places

    def disks(setup: Setup) -> dict[str, Any]:
        mine = {name: disk for name, disk in setup.disks.items() if name in shared}
        return scalar_paths(mine, "disk ")

    for facts in (_in_effect, lambda setup: scalar_paths(setup.machine), disks):
        found += _apart(_gathered(base, facts), _gathered(new, facts))
    return found[:MAX_DIFFERENCES], max(0, len(found) - MAX_DIFFERENCES)


def _apart(base: Mapping[str, set[str]], new: Mapping[str, set[str]]) -> list[Difference]:
    return [
        Difference(name, _values(base.get(name)), _values(new.get(name)))
        for name in sorted(base.keys() | new.keys())
        if base.get(name) != new.get(name)
    ]


def _values(values: Iterable[str] | None) -> str:
    shown = sorted(values or [])
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "") or "-"


def _parameter_values(selection: Selection) -> dict[str, set[str]]:
    """Parameter path -> its values over the selected points."""
    record = selection.outcomes.record
    found = {path: {str(value)} for path, value in fixed_parameters(record).items()}
    varied = {path for index in selection.points for path in record.points[index].settings}
    for path in varied:
        found[path] = {str(record.points[index].settings.get(path)) for index in selection.points}
    return found


def _selected_setups(selection: Selection) -> list[Setup]:
    ids = {selection.outcomes.points[index].point_id for index in selection.points}
    return [
        setup
        for setup in selection.outcomes.setups
        if any(line.point_id in ids for line in setup.lines)
    ]


def _in_effect(setup: Setup) -> dict[str, Any]:
    """Options of the places, settings of the server."""
    found = scalar_paths(setup.server, "server: ")
    for role, place in setup.places.items():
        found |= scalar_paths(place, f"{role} in effect: ")
    return found


def _gathered(
    selection: Selection, facts: Callable[[Setup], dict[str, Any]]
) -> dict[str, set[str]]:
    """Fact -> its values over the setups of the selected points."""
    found: dict[str, set[str]] = {}
    for setup in _selected_setups(selection):
        for name, value in facts(setup).items():
            found.setdefault(name, set()).add(str(value))
    return found
