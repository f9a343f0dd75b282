"""Axes, exclude rules, and the points that they leave: the matrix of an experiment.

The matrix is the full product of the axes in the order of the file (the first axis varies
slowest), without the points that an exclude rule matches. An axis sets one parameter, or
several that move together ("zipped").

An exclude rule is a table of conditions; a point that meets all of them is left out. A
condition names an axis (its label or its value as written) or a parameter, and gives one
value or a list of them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfslab.experiment.explain import shown, validate
from nfslab.experiment.overrides import axis_name
from nfslab.experiment.parameters import UnknownParameter, get
from nfslab.experiment.sections import IDENTIFIER, MAX_POINTS, AxisSection
from nfslab.experiment.setup import Axis
from nfslab.plugins import meant, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.experiment.parameters import Catalogue, ParameterPath
    from nfslab.experiment.problems import Problems
    from nfslab.experiment.source import Tree

Levels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of an exclude rule: of an axis, the levels that meet it."""

    axis: int
    levels: frozenset[int]


@dataclass(frozen=True, slots=True)
class Rule:
    """One `[[exclude]]`: all conditions have to be met."""

    number: int
    conditions: tuple[Condition, ...]

    def matches(self, levels: Levels) -> bool:
        """Is the point with these levels left out?"""
        return all(levels[condition.axis] in condition.levels for condition in self.conditions)


def read_axes(tree: Tree, catalogue: Catalogue, problems: Problems) -> list[Axis]:
    """The axes of a file; what is wrong with them goes to `problems`."""
    sections = tree.get("axes", [])
    if not isinstance(sections, list) or not all(isinstance(s, dict) for s in sections):
        problems.add(("axes",), "axes is not a list of tables", "write [[axes]] above each axis")
        return []
    axes: list[Axis] = []
    names: dict[str, int] = {}
    taken: dict[ParameterPath, str] = {}
    for index, data in enumerate(sections):
        section = validate(
            AxisSection,
            data,
            lambda path, what, fix, at=index: problems.add(  # type: ignore[misc]
                ("axes", at, *path), what, fix, key=what.startswith("unknown")
            ),
        )
        axis = _axis(index, section, data, catalogue, problems) if section else None
        if axis is None:
            continue
        where = ("axes", index)
        if axis.name in names:
            problems.add(where, f"a second axis named {axis.name!r}", 'give it another "name"')
        for path in axis.parameters:
            if path in taken:
                problems.add(
                    where,
                    f"{'.'.join(path)} is set by axis {taken[path]!r} already",
                    "let one axis set it; parameters that move together share an axis",
                )
            taken[path] = axis.name
        names[axis.name] = index
        axes.append(axis)
    for steps in problems.source.overridden:
        if steps in taken:
            problems.add(
                steps,
                f"this parameter is set by axis {taken[steps]!r}",  # type: ignore[index]
                f"change the axis instead: --set 'axes.{taken[steps]}=[...]'",  # type: ignore[index]
            )
    return axes


def _axis(
    index: int, section: AxisSection, data: Tree, catalogue: Catalogue, problems: Problems
) -> Axis | None:
    """One axis; None when it cannot be understood."""
    where = ("axes", index)
    if (section.parameter is None) == (section.parameters is None):
        problems.add(
            where,
            "an axis needs either parameter or parameters",
            'for example: parameter = "workload.clients"',
        )
        return None
    key = "parameter" if section.parameter is not None else "parameters"
    texts = [section.parameter] if section.parameter is not None else section.parameters or []
    paths: list[ParameterPath] = []
    for number, text in enumerate(texts):
        place = (*where, key) if key == "parameter" else (*where, key, number)
        try:
            path = catalogue.resolve(text)
        except UnknownParameter as error:
            problems.add(place, error.what, error.fix)
            continue
        if path in paths:
            problems.add(place, f"{text} stands twice in one axis")
        paths.append(path)
    name = axis_name(data)
    if not name:
        problems.add(
            where, "an axis of several parameters needs a name", 'for example: name = "placement"'
        )
    elif not IDENTIFIER.fullmatch(name):
        problems.add(
            (*where, "name") if section.name else where,
            f"{shown(name)} cannot name an axis",
            'letters, digits, "_" and "-"; give a short "name"',
        )
    raw = _raw_values(where, section, len(texts), problems)
    labels = _labels(where, section, raw, problems)
    if len(paths) != len(texts) or raw is None or labels is None or not name:
        return None
    return Axis(name, tuple(paths), labels, raw, section.scale, section.parameters is not None)


def _raw_values(
    where: tuple[str, int], section: AxisSection, width: int, problems: Problems
) -> tuple[tuple[Any, ...], ...] | None:
    """Per level one value for each parameter; None when the lengths do not fit."""
    if section.parameters is None:
        return tuple((value,) for value in section.values)
    good = True
    for level, value in enumerate(section.values):
        if not isinstance(value, list) or len(value) != width:
            given = f"{len(value)} values" if isinstance(value, list) else shown(value)
            problems.add(
                (*where, "values", level),
                f"{given} where {width} parameters are set together",
                f"give a list of {width} for each level: {section.parameters}",
            )
            good = False
    return tuple(tuple(value) for value in section.values) if good else None


def _labels(
    where: tuple[str, int],
    section: AxisSection,
    raw: tuple[tuple[Any, ...], ...] | None,
    problems: Problems,
) -> tuple[Any, ...] | None:
    """What people see on the axis: labels, or the values themselves."""
    if raw is None:
        return None
    for level, values in enumerate(raw):
        if values in raw[:level]:
            problems.add(
                (*where, "values", level),
                f"{shown(list(values))} stands twice",
                "name each value once; repetitions are experiment.repetitions",
            )
    if section.labels is not None:
        if len(section.labels) != len(raw):
            problems.add(
                (*where, "labels"),
                f"{len(section.labels)} labels for {len(raw)} values",
                "give one label for each value, in the same order",
            )
            return None
        if len(set(section.labels)) != len(section.labels):
            problems.add((*where, "labels"), "a label stands twice")
        return tuple(section.labels)
    if len(raw[0]) == 1:
        plain = tuple(values[0] for values in raw)
        return tuple(v if isinstance(v, str | int | float) else shown(v) for v in plain)
    return tuple(" / ".join(v if isinstance(v, str) else shown(v) for v in vs) for vs in raw)


def read_rules(
    tree: Tree, axes: list[Axis], catalogue: Catalogue, problems: Problems
) -> list[Rule]:
    """The exclude rules of a file; what is wrong with them goes to `problems`."""
    sections = tree.get("exclude", [])
    if not isinstance(sections, list) or not all(isinstance(s, dict) for s in sections):
        problems.add(
            ("exclude",), "exclude is not a list of tables", "write [[exclude]] above each rule"
        )
        return []
    rules = []
    for number, data in enumerate(sections):
        where = ("exclude", number)
        entries = [
            _condition((*where, key), key, value, tree, axes, catalogue, problems)
            for key, value in _flat(data, axes)
        ]
        if not entries:
            problems.add(where, "an exclude rule without entries would leave out all")
        elif all(entry is not None for entry in entries):
            conditions = tuple(e for e in entries if isinstance(e, Condition))
            rules.append(Rule(number, conditions))
    return rules


def _flat(data: Tree, axes: list[Axis]) -> Iterator[tuple[str, Any]]:
    """Entries of a rule; an unquoted dotted key, a table in TOML, is joined again."""
    for key, value in data.items():
        while isinstance(value, dict) and len(value) == 1 and key not in {a.name for a in axes}:
            inner, value = next(iter(value.items()))
            key = f"{key}.{inner}"
        yield key, value


def _condition(
    where: tuple[str | int, ...],
    key: str,
    value: Any,
    tree: Tree,
    axes: list[Axis],
    catalogue: Catalogue,
    problems: Problems,
) -> Condition | bool | None:
    """The levels that meet an entry; True when a fixed value meets it; None when wrong."""
    for number, axis in enumerate(axes):
        if key == axis.name:
            return _levels_of(where, number, axis, None, value, problems)
    try:
        path = catalogue.resolve(key)
    except UnknownParameter as error:
        guess = nearest(key, [axis.name for axis in axes])
        names = ", ".join(axis.name for axis in axes) or "none"
        problems.add(
            where,
            f"{key!r} is neither an axis nor a parameter",
            f"did you mean {guess!r}?" if guess else f"axes: {names}; {error.fix}",
            key=True,
        )
        return None
    for number, axis in enumerate(axes):
        if path in axis.parameters:
            column = axis.parameters.index(path)
            return _levels_of(where, number, axis, column, value, problems)
    fixed = get(tree, path)
    if fixed == value or (isinstance(value, list) and fixed in value):
        return True
    problems.add(
        where,
        f"{key} is no axis, and its value is {shown(fixed)} everywhere: the rule matches nothing",
        "remove the entry, or make the parameter an axis",
    )
    return None


def _levels_of(
    where: tuple[str | int, ...],
    number: int,
    axis: Axis,
    column: int | None,
    value: Any,
    problems: Problems,
) -> Condition | None:
    """The levels of an axis that a value, or one of a list of values, means."""

    def meaning(wanted: Any) -> set[int]:
        found = set()
        for level, (label, raw) in enumerate(zip(axis.labels, axis.raw, strict=True)):
            meanings = (
                [raw[column]]
                if column is not None
                else [label, list(raw), *(raw if len(raw) == 1 else ())]
            )
            if any(_same(one, wanted) for one in meanings):
                found.add(level)
        return found

    whole = meaning(value)
    wanted = [value] if whole or not isinstance(value, list) else value
    levels: set[int] = set()
    for item in wanted:
        found = meaning(item)
        if not found and ("axes", number, "values") in problems.source.overridden:
            # A call with fewer levels than the file has: the rule has less to do.
            problems.warn(where, f"{shown(item)} is no level of axis {axis.name!r} in this call")
        elif not found:
            known = axis.labels if column is None else tuple(raw[column] for raw in axis.raw)
            problems.add(
                where,
                f"{shown(item)} is no level of axis {axis.name!r}",
                meant(str(item), map(str, known))
                + f"levels: {', '.join(shown(k) for k in dict.fromkeys(known))}",
            )
            return None
        levels |= found
    return Condition(number, frozenset(levels))


def _same(one: Any, other: Any) -> bool:
    """Equal as TOML sees it: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def enumerate_points(
    axes: list[Axis], rules: list[Rule], problems: Problems
) -> tuple[list[Levels], int]:
    """(levels of every point, number of points left out), in the order of the file."""
    size = math.prod(len(axis.labels) for axis in axes)
    if size > MAX_POINTS:
        problems.add(
            ("axes",),
            f"the axes span {size} configurations, more than the {MAX_POINTS} that one "
            "experiment may have",
            "give fewer values, or split it into several files",
        )
        return [], 0
    kept: list[Levels] = []
    used: set[int] = set()
    for levels in itertools.product(*(range(len(axis.labels)) for axis in axes)):
        matching = [rule.number for rule in rules if rule.matches(levels)]
        used.update(matching)
        if not matching:
            kept.append(levels)
    for rule in rules:
        if rule.number not in used:
            problems.warn(("exclude", rule.number), "this rule matches no configuration")
    if not kept and not problems.found:
        problems.add(
            ("exclude",), "no configuration is left: the rules exclude all of them", "remove a rule"
        )
    return kept, size - len(kept)
