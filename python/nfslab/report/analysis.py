"""From a results folder to the one model that every report shows.

Every run is read from its own files, not from the catalogue (a cache), and what cannot be
read is named. Estimates and comparisons are those of `nfslab.statistics`, on the runs that
`Outcomes.counted` yields. Nothing is computed again in a report.

Which points are compared with which: `nfslab.results.baseline`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.evidence.base import SealedRun
from nfslab.evidence.found import content_of, figures_at_point
from nfslab.report import conditions, validity
from nfslab.report.model import (
    Analysis,
    AxisInfo,
    ComparisonResult,
    Failure,
    MetricInfo,
    PointResult,
    RunResult,
)
from nfslab.report.next_step import next_step
from nfslab.report.reference import reference_of
from nfslab.report.verdict import verdict_of
from nfslab.results import alike, durability, emulation
from nfslab.results.baseline import alpha_of, baseline_pairs, choose_baseline, compare_pairs
from nfslab.results.catalogue import read_every_run
from nfslab.results.comparison import sense_of
from nfslab.results.durable import to_json
from nfslab.results.outcomes import Outcomes, locate
from nfslab.results.precision import precision_of, precision_sentence
from nfslab.results.selection import fixed_parameters, point_label
from nfslab.results.store import ExperimentFolder
from nfslab.statistics.summary import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.results.records import AxisRecord, CatalogueLine, ExperimentRecord, RunRecord

OF_RECORD = (
    "name", "title", "description", "identity", "seed", "order", "repetitions", "created_unix_ns",
    "command", "nfslab_version", "nfslab_commit",
)  # fmt: skip
"""What an analysis has of its experiment's record, under the same names."""
OF_LINE = (
    "run_id", "block", "position", "attempt", "status", "reason", "started_unix_ns", "duration_ns",
    "metrics", "flags", "durability", "setup",
)  # fmt: skip
"""What a run has of its line of the catalogue."""
LOG_SPAN = 10.0
"""A numeric axis whose largest level is this many times its smallest is drawn on a log scale."""


def render_json(source: Path | Analysis) -> str:
    """The analysis as JSON; numbers that JSON does not know are spelled ("NaN").

    What was seen beside the runs stands under the keys of the kinds of evidence ("profiles",
    "system_calls", "offered_load", ...).
    """

    analysis = source if isinstance(source, Analysis) else analyse(source)
    content = analysis.as_dict()
    content |= content_of(analysis)
    return to_json(content, indent=1).decode() + "\n"


def analyse(path: Path, *, baseline: Mapping[str, Any] | None = None) -> Analysis:
    """Everything that a report says about the experiment at `path`.

    `baseline`: {axis: level} to compare with, instead of the first level of the first axis
    that is no number. Raises `ResultsError` (no experiment there) or `UsageError`.
    """
    folder = ExperimentFolder.open(locate(Path(path)))
    catalogue, records = read_every_run(folder.path)
    outcomes = Outcomes(folder, catalogue)
    record = outcomes.record
    axis, level, reason = choose_baseline(outcomes.record.axes, baseline)
    comparisons = compare_points(outcomes, axis, level) if axis is not None else {}
    counted = [records[line.run_id] for line in outcomes.counted]
    machines = conditions.setups(outcomes)
    levels = durability.point_levels(outcomes)
    points = _points(outcomes, levels, records)
    metrics = _metrics(outcomes)
    return Analysis(
        **{name: getattr(record, name) for name in OF_RECORD},
        path=str(folder.path),
        folder=folder.path.name,
        workload=workload_kind(outcomes),
        emulated=emulation.sentence(outcomes),
        durability_line=_durability_line(outcomes, comparisons, levels),
        hosts_line=alike.first_line(
            text for one in counted for text in alike.differences(one.checks)
        ),
        verdict=verdict_of(outcomes, points, comparisons, axis, level),
        precision=precision_sentence(precision_of(outcomes)),
        next_step=next_step(outcomes, comparisons.get(outcomes.primary or "", [])),
        warnings=validity.warnings_of(outcomes, records, points, machines, levels),
        axes=[_axis(one) for one in record.axes],
        metrics=metrics,
        primary=outcomes.primary,
        points=points,
        baseline={axis.name: level} if axis is not None else {},
        baseline_reason=reason,
        comparisons=comparisons,
        interval=f"{CONFIDENCE:.0%} interval of the median",
        comparison_method=_method(record),
        runs=_runs(outcomes, records),
        failures=_failures(outcomes, records),
        damaged=catalogue.damaged,
        partial=catalogue.partial,
        missing_runs=len(outcomes.missing()),
        excluded_points=record.excluded,
        places=conditions.places(counted),
        setups=machines,
        server=conditions.server(outcomes),
        varied=_varied(outcomes),
        fixed=fixed_parameters(record),
        versions=conditions.versions(machines, outcomes, counted),
        collectors=conditions.collectors(counted),
        evidence=conditions.evidence_sums(counted),
        notes=_notes(record, counted),
        reference=reference_of(outcomes),
    )


def compare_points(
    outcomes: Outcomes, axis: AxisRecord, level: Any
) -> dict[str, list[ComparisonResult]]:
    """Metric -> the levels of `axis` against `level`, at equal levels of all other axes.

    Metrics without a direction are compared only when nothing else is (the primary one).
    """
    pairs = baseline_pairs(outcomes.points, axis.name, level)
    names = [
        name
        for name, metric in outcomes.metrics.items()
        if metric.better is not None or name == outcomes.primary
    ]
    return {
        name: [
            ComparisonResult(
                metric=name,
                axis=axis.name,
                base_point=base,
                point=new,
                base_label=point_label(outcomes.points[base]),
                label=point_label(outcomes.points[new]),
                sense=sense_of(result),
                result=result,
            )
            for (base, new), result in zip(pairs, compared, strict=True)
        ]
        for name, compared in compare_pairs(outcomes, pairs, names).items()
    }


def _durability_line(
    outcomes: Outcomes, comparisons: Mapping[str, list[ComparisonResult]], levels: list[set[str]]
) -> str:
    """One line when any two compared points are not known to be equally durable.

    Points that no comparison pairs are compared by eye all the same: the line is also
    about points of different durability when there are no comparisons.
    """
    rows = next(iter(comparisons.values()), [])
    pairs = [(row.base_point, row.point) for row in rows]
    apart = [
        (base, new)
        for base, new in pairs
        if levels[base] and levels[new] and durability.unequal(levels[base], levels[new])
    ]
    if apart:
        involved = [index for pair in apart for index in pair]
        bases = sorted({row.base_label for row in rows if (row.base_point, row.point) in apart})
        base_name = bases[0] if len(bases) == 1 else "the baseline"
        news = sorted({row.label for row in rows if (row.base_point, row.point) in apart})
        new_name = news[0] if len(news) == 1 else _levels_of(outcomes, apart, rows)
        return durability.sentence(
            base_name,
            set().union(*(levels[base] for base, _ in apart)),
            new_name,
            set().union(*(levels[new] for _, new in apart)),
            durability.reasons(outcomes, involved),
        )
    seen = [level for level in levels if level]
    if any(level != seen[0] for level in seen) or any(len(level) > 1 for level in seen):
        kinds = durability.sides(set().union(*seen))
        why = "; ".join(durability.reasons(outcomes, range(len(outcomes.points))))
        because = f" ({why})" if why else ""
        return (
            f"UNEQUAL DURABILITY: the configurations of this experiment are {kinds}{because}; "
            "differences in speed between them may come from that alone."
        )
    return ""


def _levels_of(
    outcomes: Outcomes, apart: list[tuple[int, int]], rows: list[ComparisonResult]
) -> str:
    """Such as placement=log apart, of the points that are not as durable as their baseline."""
    axis = rows[0].axis
    names = dict.fromkeys(str(outcomes.points[new].factors.get(axis)) for _, new in apart)
    return f"{axis}={'|'.join(names)}"


def _points(
    outcomes: Outcomes, levels: list[set[str]], records: Mapping[str, RunRecord]
) -> list[PointResult]:
    ok = Counter(line.point_id for line in outcomes.counted)
    failed = Counter(line.point_id for line in outcomes.newest if line.status == "failed")
    missing = Counter(point.point_id for point, _ in outcomes.missing())
    runs: dict[str, list[SealedRun]] = {}
    for line in outcomes.counted:
        one = SealedRun(outcomes.folder.runs_path / line.run_id, records[line.run_id])
        runs.setdefault(line.point_id, []).append(one)
    summaries = {name: outcomes.summaries(name) for name in outcomes.metrics}
    return [
        PointResult(
            index=index,
            point_id=point.point_id,
            label=point_label(point),
            factors=point.factors,
            settings=point.settings,
            planned=outcomes.record.repetitions,
            ok=ok[point.point_id],
            failed=failed[point.point_id],
            missing=missing[point.point_id],
            durability=sorted(levels[index]),
            figures=figures_at_point(runs.get(point.point_id, [])),
            estimates={name: found[index] for name, found in summaries.items() if found[index].n},
        )
        for index, point in enumerate(outcomes.points)
    ]


def _metrics(outcomes: Outcomes) -> list[MetricInfo]:
    having = Counter(name for line in outcomes.counted for name in line.metrics)
    return [
        MetricInfo(name, metric.unit, metric.better, name == outcomes.primary, having[name])
        for name, metric in outcomes.metrics.items()
    ]


def _axis(axis: AxisRecord) -> AxisInfo:
    numbers = [float(value[0]) for value in axis.values] if axis.numeric else None
    stated = (axis.model_extra or {}).get("scale")
    log = False
    if numbers is not None and min(numbers) > 0:
        log = stated == "log" or (stated is None and max(numbers) >= LOG_SPAN * min(numbers))
    return AxisInfo(
        name=axis.name,
        parameters=axis.parameters,
        levels=axis.levels,
        numeric=axis.numeric,
        unit=axis.unit,
        numbers=numbers,
        log=log,
    )


def _runs(outcomes: Outcomes, records: Mapping[str, RunRecord]) -> list[RunResult]:
    counted = {line.run_id for line in outcomes.counted}
    return [
        RunResult(
            **{name: getattr(line, name) for name in OF_LINE},
            point=outcomes.index_of.get(line.point_id),
            counted=line.run_id in counted,
            failure_phase=records[line.run_id].failure_phase,
        )
        for line in outcomes.catalogue.lines
    ]


def _failures(outcomes: Outcomes, records: Mapping[str, RunRecord]) -> list[Failure]:
    newest = {line.run_id for line in outcomes.newest}

    def label(line: CatalogueLine) -> str:
        index = outcomes.index_of.get(line.point_id)
        return line.point_id if index is None else point_label(outcomes.points[index])

    return [
        Failure(
            run_id=line.run_id,
            label=label(line),
            block=line.block,
            attempt=line.attempt,
            phase=records[line.run_id].failure_phase,
            reason=line.reason,
            superseded=line.run_id not in newest,
        )
        for line in outcomes.catalogue.lines
        if line.status == "failed"
    ]


def _varied(outcomes: Outcomes) -> dict[str, list[Any]]:
    return {
        path: [values[column] for values in axis.values]
        for axis in outcomes.record.axes
        for column, path in enumerate(axis.parameters)
    }


def _notes(experiment: ExperimentRecord, counted: list[RunRecord]) -> list[str]:
    """What experiment and runs noted, each once, with the number of runs unless all had it."""
    own = (experiment.model_extra or {}).get("notes")
    seen = Counter(note for record in counted for note in dict.fromkeys(record.notes))
    kept = [str(note) for note in own] if isinstance(own, list) else []
    return kept + [
        note if number == len(counted) else f"{note} ({number} of {len(counted)} runs)"
        for note, number in seen.items()
    ]


def workload_kind(outcomes: Outcomes) -> str:
    """The workload's name in the registry; empty when the record does not tell."""
    workload = outcomes.record.resolved.get("workload")
    return str(workload.get("kind", "")) if isinstance(workload, dict) else ""


def _method(record: ExperimentRecord) -> str:
    if record.repetitions < 2:
        return "One repetition: the ratio is given, its significance is unknown."
    alpha = alpha_of(record)
    method = (
        "Ratios of geometric means, paired within blocks (t on logarithms); intervals and results "
        f"at {100 * (1 - alpha):g}% after Holm's correction over all comparisons of the metric."
    )
    if record.stopping is not None:
        method += " Repetitions were added until it was narrow: it holds 95 %, not more."
    return method
