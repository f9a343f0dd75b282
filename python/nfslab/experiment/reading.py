"""From the text of an experiment file to a validated `Experiment`, or to all its problems.

The steps: parse, apply `--set`, read the fixed sections, load the plug-ins that are named,
read axes and exclude rules, then validate every point of the matrix with the plug-ins' own
models (a value that is fine by itself may be impossible together with another). A section
that looks the same at many points is validated once. Problems carry the line of the value
that caused them: of the axis where an axis set it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab.errors import NfslabError
from nfslab.experiment.explain import shown, validate
from nfslab.experiment.identity import experiment_identity, point_ids
from nfslab.experiment.matrix import enumerate_points, read_axes, read_rules
from nfslab.experiment.overrides import apply_overrides
from nfslab.experiment.parameters import Catalogue, put
from nfslab.experiment.points import PointReader, axis_records
from nfslab.experiment.problems import Problem, Problems
from nfslab.experiment.reference import check_reference
from nfslab.experiment.sections import (
    IDENTIFIER,
    OF_A_POINT,
    SECTIONS,
    ExperimentSection,
    Reference,
)
from nfslab.experiment.setup import Axis, Point
from nfslab.experiment.source import Source, read_source
from nfslab.plugins import meant, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from nfslab.results.records import AxisRecord


@dataclass(frozen=True, slots=True)
class Experiment:
    """A validated experiment file: every point with its typed parameters."""

    source: Source
    section: ExperimentSection
    axes: list[Axis]
    axis_records: list[AxisRecord]
    points: list[Point]
    excluded: int
    """Points that exclude rules left out."""
    reference: dict[str, Any]
    identity: str
    resolved: dict[str, Any]
    """The file after --set with defaults; what an axis sets is {"axis": its name}."""
    warnings: list[Problem] = field(default_factory=list)


def read_experiment(
    path: Path, settings: Sequence[str] = (), *, repetitions: int | dict[str, Any] | None = None
) -> Experiment:
    """Read and validate a file; `UsageError` with everything that is wrong in it."""
    source = read_source(path)
    apply_overrides(source, settings)
    if repetitions is not None:
        table = source.tree.setdefault("experiment", {})
        if isinstance(table, dict):
            table["repetitions"] = repetitions
            source.overridden[("experiment", "repetitions")] = "--repetitions"
    return validate_source(source)


def validate_source(source: Source) -> Experiment:
    """Validate a parsed file; raises `InvalidExperiment` with every problem."""
    problems = Problems(source)
    _check_top_level(source, problems)
    section = _section(source, "experiment", ExperimentSection, problems)
    catalogue, kinds = _load_plugins(source, section, problems)
    axes = read_axes(source.tree, catalogue, problems)
    rules = read_rules(source.tree, axes, catalogue, problems)
    matrix_sound = not any("axes" in p.where or "exclude" in p.where for p in problems.found)
    levels, excluded = enumerate_points(axes, rules, problems) if matrix_sound else ([], 0)
    reader = PointReader(source, catalogue, kinds, axes, problems)
    # With axes that are wrong the base is still worth a look: more is told at once.
    setups = [reader.read(point) for point in levels or [tuple(0 for _ in axes)]]
    if levels and setups[0] is not None:
        reader.check_replaced(levels[0], setups[0])
    reference = _section(source, "reference", Reference, problems, optional=True)
    if reference is not None:
        check_reference(reference, axes, catalogue, problems)
    problems.raise_any()
    assert section is not None
    whole = [setup for setup in setups if setup is not None]
    settings = [reader.settings(point, setup) for point, setup in zip(levels, whole, strict=True)]
    ids = point_ids(settings)
    points = [
        Point(
            point_id=ids[index],
            index=index,
            levels=point,
            factors={a.name: a.labels[n] for a, n in zip(axes, point, strict=True)},
            settings=settings[index],
            setup=whole[index],
        )
        for index, point in enumerate(levels)
    ]
    reader.warn_unused(points)
    records = axis_records(axes, points)
    if section.stopping is not None:
        _require_comparison(records, points, problems)
    conditions = [point.setup.resolved() for point in points]
    return Experiment(
        source=source,
        section=section,
        axes=axes,
        axis_records=records,
        points=points,
        excluded=excluded,
        reference=reference.model_dump() if reference else {},
        identity=experiment_identity(
            order=section.order,
            seed=section.seed,
            axes=[record.model_dump(mode="json", exclude={"scale"}) for record in records],
            points=conditions,
        ),
        resolved=_resolved(source, section, axes, conditions),
        warnings=problems.warnings,
    )


def _check_top_level(source: Source, problems: Problems) -> None:
    """Unknown sections, and sections that are missing or of the wrong shape."""
    for key in source.tree:
        if key not in SECTIONS:
            fix = f"{meant(key, SECTIONS)}known: {', '.join(SECTIONS)}"
            problems.add((key,), f"unknown section {key!r}", fix, key=True)
    for key in OF_A_POINT:  # the others are looked at where they are read
        if not isinstance(source.tree.get(key, {}), dict):
            problems.add((key,), f"{key} is not a table", f"write [{key}] on a line of its own")
    for key, why in (
        ("experiment", 'it names the experiment: [experiment] name = "log-placement"'),
        ("targets", 'a target is declared by [targets.disk] kind = "local"'),
        ("workload", 'a workload is declared by [workload] kind = "pgbench"'),
    ):
        if key not in source.tree:
            problems.add((), f"the section [{key}] is missing", why)


def _require_comparison(records: list[AxisRecord], points: list[Point], problems: Problems) -> None:
    """Blocks until an interval is narrow need one."""
    from nfslab.results.baseline import baseline_pairs, choose_baseline

    axis, level, _ = choose_baseline(records)
    if axis is None or not baseline_pairs(points, axis.name, level):
        problems.add(
            ("experiment", "repetitions"),
            "repetitions until an interval is narrow: no two configurations are compared",
            "give a number of repetitions, or an axis with two levels",
        )
        problems.raise_any()


def _section(
    source: Source,
    name: str,
    model: type[Any],
    problems: Problems,
    *,
    optional: bool = False,
) -> Any:
    """One fixed section, validated; None when it is wrong (or absent and optional)."""
    data = source.tree.get(name)
    if data is None:
        if optional:
            return None
        return validate(model, {}, lambda path, what, fix: None)
    if not isinstance(data, dict):
        problems.add((name,), f"{name} is not a table", f"write [{name}] on a line of its own")
        return None
    return validate(
        model,
        data,
        lambda path, what, fix: problems.add(
            (name, *path), what, fix, key=what.startswith("unknown")
        ),
    )


def _load_plugins(
    source: Source, section: ExperimentSection | None, problems: Problems
) -> tuple[Catalogue, dict[str, str]]:
    """The models of the plug-ins that the file names, and "target name" -> kind.

    The workload's kind is under the key "" of the second value.
    """
    from nfslab.evidence.registry import collector_class
    from nfslab.targets.registry import target_class
    from nfslab.workloads.registry import workload_class

    kinds: dict[str, str] = {}
    targets: dict[str, type[BaseModel]] = {}
    declared = source.tree.get("targets", {})
    if not isinstance(declared, dict):
        problems.add(("targets",), "targets is not a table", "write [targets.disk]")
        declared = {}
    elif not declared and "targets" in source.tree:
        problems.add(("targets",), "no target is declared", "write [targets.disk]")
    for name, data in declared.items():
        where = ("targets", name)
        if not IDENTIFIER.fullmatch(name):
            problems.add(
                where, f"{shown(name)} cannot name a target", 'letters, digits, "_" and "-"'
            )
        loaded = _plugin(where, data, target_class, "a target's", "local", problems)
        if loaded is not None:
            kinds[name], targets[name] = loaded[0], loaded[1].Parameters
    workload = None
    if "workload" in source.tree:
        data = source.tree["workload"]
        loaded = _plugin(("workload",), data, workload_class, "the workload's", "pgbench", problems)
        if loaded is not None:
            kinds[""], workload = loaded[0], loaded[1].Parameters
    collectors = _collectors(source, section, collector_class, problems)
    return Catalogue(targets, workload, collectors), kinds


def _plugin(
    where: tuple[str, ...],
    data: Any,
    load: Callable[[str], Any],
    whose: str,
    example: str,
    problems: Problems,
) -> tuple[str, Any] | None:
    """(kind, class) of the plug-in that a section names; None when it names none."""
    if not isinstance(data, dict):
        problems.add(where, f"{'.'.join(where)} is not a table", f"write [{'.'.join(where)}]")
        return None
    kind = data.get("kind")
    if not isinstance(kind, str):
        what = "kind is missing" if kind is None else f"kind = {shown(kind)} is not a text"
        problems.add(
            where if kind is None else (*where, "kind"),
            f"{'.'.join(where)}: {what}",
            f'{whose} kind, for example: kind = "{example}"',
        )
        return None
    try:
        return kind, load(kind)
    except NfslabError as error:
        problems.add((*where, "kind"), error.what, error.fix)
        return None


def _collectors(
    source: Source,
    section: ExperimentSection | None,
    load: Callable[[str], Any],
    problems: Problems,
) -> dict[str, type[BaseModel]]:
    """Name -> model of the collectors that the experiment uses."""
    models: dict[str, type[BaseModel]] = {}
    used = section.collectors if section is not None else _collectors_as_written(source)
    for index, name in enumerate(used):
        where = ("experiment", "collectors", index)
        if name in used[:index]:
            problems.add(where, f"collector {name!r} stands twice")
            continue
        try:
            models[name] = load(name).Parameters
        except NfslabError as error:
            problems.add(where, error.what, error.fix)
    options = source.tree.get("collectors", {})
    if not isinstance(options, dict):
        problems.add(("collectors",), "collectors is not a table", "write [collectors.system]")
        return models
    for name, data in options.items():
        if not isinstance(data, dict):
            problems.add(
                ("collectors", name), f"collectors.{name} is not a table", f"[collectors.{name}]"
            )
        elif name not in used:
            guess = nearest(name, used)
            problems.add(
                ("collectors", name),
                f"collector {name!r} has options but is not used",
                f"did you mean {guess!r}?"
                if guess
                else f"name it in [experiment] collectors (now: {', '.join(used) or 'none'})",
                key=True,
            )
    return models


def _collectors_as_written(source: Source) -> list[str]:
    """The names in a section that has other problems, so that they are looked at too."""
    table = source.tree.get("experiment")
    names = table.get("collectors") if isinstance(table, dict) else None
    return [n for n in names if isinstance(n, str)] if isinstance(names, list) else []


def _resolved(
    source: Source, section: ExperimentSection, axes: list[Axis], points: list[dict[str, Any]]
) -> dict[str, Any]:
    """The whole file with defaults; where an axis sets a parameter stands its name.

    What follows from an axis, such as the definition of each engine's scripts, is left out: runs
    have their own.
    """
    resolved: dict[str, Any] = {
        "experiment": section.model_dump(mode="json"),
        **copy.deepcopy(points[0]),
        "axes": copy.deepcopy(source.tree.get("axes", [])),
        "exclude": copy.deepcopy(source.tree.get("exclude", [])),
        "reference": copy.deepcopy(source.tree.get("reference", {})),
    }
    paths = [path for axis in axes for path in axis.parameters]
    first = points[0]["workload"]
    for name in first.keys() - {path[1] for path in paths if path[0] == "workload"}:
        if any(point["workload"].get(name) != first[name] for point in points):
            del resolved["workload"][name]
    for axis in axes:
        for path in axis.parameters:
            put(resolved, path, {"axis": axis.name})
    return resolved
