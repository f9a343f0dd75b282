"""Selections: "EXPERIMENT_DIR[:factor=value[,factor=value...]]" on the command line.

A factor is an axis by its name (`placement=log apart`), or any parameter path that an
axis sets or that the experiment fixes (`workload.clients=10`). A value is matched as the
text of the level or as a number: `10`, `10.0`; `128k`, `128 KiB` and `131072` are equal.
The same factor given twice means either value. A value with a comma in it is put in
double quotes: `placement="a, b"`.

A folder whose name has a colon in it works: the longest beginning that is a folder is
taken as the folder. Unknown factors and levels are errors that name the nearest known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.errors import UsageError
from nfslab.plugins import meant
from nfslab.quantities import parse_size_bytes
from nfslab.results.outcomes import Outcomes, locate
from nfslab.results.store import ExperimentFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.results.records import AxisRecord, ExperimentRecord, PointRecord

MAX_CONDITIONS = 64
"""Of one selection; no experiment has more axes times levels worth naming by hand."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Some points of one experiment."""

    outcomes: Outcomes
    points: list[int]
    """Indices of the points selected, in order."""
    conditions: dict[str, list[str]] = field(default_factory=dict)
    """Factor as given -> values as given; empty: the whole experiment."""

    @property
    def label(self) -> str:
        """The experiment's folder with the conditions, for people."""
        name = self.outcomes.folder.path.name
        chosen = ",".join(
            f"{factor}={value}" for factor, values in self.conditions.items() for value in values
        )
        return f"{name}:{chosen}" if chosen else name

    def axes(self) -> set[str]:
        """Names of the axes that the conditions are about."""
        found = set()
        for factor in self.conditions:
            for axis in self.outcomes.record.axes:
                if factor == axis.name or factor in axis.parameters:
                    found.add(axis.name)
        return found


def parse_selection(text: str) -> Selection:
    """The selection that a person wrote; `UsageError` or `ResultsError` when impossible."""
    path, conditions = split_selection(text)
    return select(Outcomes(ExperimentFolder.open(locate(path))), conditions)


def parse_two(base: str, new: str) -> tuple[Selection, Selection]:
    """Two selections; of the same experiment its catalogue is read once."""
    first = parse_selection(base)
    path, conditions = split_selection(new)
    folder = locate(path)
    if folder.resolve() == first.outcomes.folder.path.resolve():
        return first, select(first.outcomes, conditions)
    return first, select(Outcomes(ExperimentFolder.open(folder)), conditions)


def split_selection(text: str) -> tuple[Path, dict[str, list[str]]]:
    """(folder, conditions) of the text; nothing is opened but the folder looked for."""
    whole = Path(text).expanduser()
    if whole.exists() or ":" not in text:
        return whole, {}
    colons = [position for position, letter in enumerate(text) if letter == ":"]
    for position in reversed(colons):
        path = Path(text[:position]).expanduser()
        if path.exists():
            return path, _conditions(text[position + 1 :], text)
    first = colons[0]
    return Path(text[:first]).expanduser(), _conditions(text[first + 1 :], text)


def select(outcomes: Outcomes, conditions: Mapping[str, list[str]]) -> Selection:
    """The points of the experiment that meet all conditions."""
    chosen = list(range(len(outcomes.points)))
    for factor, values in conditions.items():
        levels = _levels(outcomes, factor)
        for value in values:
            if not any(_means(level, value) for level in levels.values()):
                shown = sorted({str(level[0]) for level in levels.values()})
                raise UsageError(
                    f"{outcomes.record.name} has no {factor} = {value!r}",
                    fix=f"{meant(value, shown)}it has: {', '.join(shown)}",
                )
        chosen = [
            index for index in chosen if any(_means(levels[index], value) for value in values)
        ]
    if not chosen:
        raise UsageError(
            f"no configuration of {outcomes.record.name} meets all of: "
            + ", ".join(f"{factor}={'|'.join(v)}" for factor, v in conditions.items()),
            why="the experiment excludes that combination",
            fix="`nfslab show` lists its configurations",
        )
    return Selection(outcomes, chosen, {factor: list(v) for factor, v in conditions.items()})


def same_level(level: Any, other: Any) -> bool:
    """Do both mean the same level: equal text, equal number, or equal size?"""
    if str(level) == str(other):
        return True
    if isinstance(level, bool) or isinstance(other, bool):
        return str(level).lower() == str(other).lower()
    mine, theirs = level_number(level), level_number(other)
    return mine is not None and mine == theirs


def level_number(level: Any) -> float | None:
    """The number that a level stands for ("128k" is 131072); None for a name."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level)
    try:
        return float(str(level))
    except ValueError:
        pass
    try:
        return float(parse_size_bytes(level))
    except ValueError:
        return None


def understood(axis: AxisRecord, point: PointRecord) -> Any:
    """The level of a point on an axis: as a number where the axis is one ("10m" is 600.0)."""
    if axis.numeric and len(axis.parameters) == 1:
        return point.settings.get(axis.parameters[0])
    return point.factors.get(axis.name)


def _means(levels: tuple[Any, ...], value: str) -> bool:
    return any(same_level(level, value) for level in levels)


def _levels(outcomes: Outcomes, factor: str) -> dict[int, tuple[Any, ...]]:
    """Point index -> level of the factor, as written and as understood."""
    record = outcomes.record
    for axis in record.axes:
        if axis.name == factor:
            return {
                index: (point.factors.get(factor), understood(axis, point))
                for index, point in enumerate(record.points)
            }
    if any(factor in axis.parameters for axis in record.axes):
        return {index: (point.settings.get(factor),) for index, point in enumerate(record.points)}
    fixed = fixed_parameters(record)
    if factor in fixed:
        return dict.fromkeys(range(len(record.points)), (fixed[factor],))
    known = [axis.name for axis in record.axes]
    known += [path for axis in record.axes for path in axis.parameters if path not in known]
    raise UsageError(
        f"{record.name} has no factor {factor!r}",
        fix=f"{meant(factor, [*known, *fixed])}its axes: {', '.join(known) or 'none'}",
    )


UNCOMPARED = frozenset({"experiment", "axes", "exclude", "reference"})
"""Parts of the resolved file that are the plan, not the conditions of a run."""


def fixed_parameters(record: ExperimentRecord) -> dict[str, Any]:
    """Parameter path -> value, for every parameter that no axis sets."""
    conditions = {key: item for key, item in record.resolved.items() if key not in UNCOMPARED}
    varied = {path for axis in record.axes for path in axis.parameters}
    return {
        path: value
        for path, value in scalar_paths(conditions).items()
        # Where an axis sets a parameter the resolved file has {"axis": its name}.
        if path not in varied and path.removesuffix(".axis") not in varied
    }


def scalar_paths(resolved: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every parameter path of the resolved experiment with its value (lists as they are)."""
    found: dict[str, Any] = {}
    for key, value in resolved.items():
        if isinstance(value, dict):
            found |= scalar_paths(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def point_label(point: PointRecord) -> str:
    """Such as: placement=log apart, clients=10; "all" without axes."""
    return ", ".join(f"{name}={level}" for name, level in point.factors.items()) or "all"


def _conditions(text: str, whole: str) -> dict[str, list[str]]:
    """Factor -> values of "factor=value,factor=value", with double quotes around commas."""
    conditions: dict[str, list[str]] = {}
    parts = _split_quoted(text, whole)
    if len(parts) > MAX_CONDITIONS:
        raise UsageError(
            f"more than {MAX_CONDITIONS} conditions in {whole!r}",
            fix="leave some out: what is not named is not restricted",
        )
    for part in parts:
        factor, equals, value = part.partition("=")
        if not equals or not factor.strip():
            raise UsageError(
                f"{part!r} in {whole!r} is no condition",
                fix="write EXPERIMENT_DIR:factor=value,factor=value (and check the folder's name)",
            )
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        conditions.setdefault(factor.strip(), []).append(value)
    return conditions


def _split_quoted(text: str, whole: str) -> list[str]:
    """The text split at commas outside double quotes."""
    parts, current, quoted = [], "", False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        if letter == "," and not quoted:
            parts.append(current)
            current = ""
        else:
            current += letter
    if quoted:
        raise UsageError(f"a double quote is not closed in {whole!r}", fix='close it: factor="a,b"')
    return [*parts, current]
