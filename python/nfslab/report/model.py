"""What an experiment came to: the one model behind every report.

`analysis.analyse` makes it from a results folder; the HTML page, the Markdown block, the
JSON and the command line only show it. It holds plain values, so `as_dict()` is JSON.

Reading order, as a person reads a report: `durability_line` and `hosts_line` (must come first
when they are not empty), `verdict`, `warnings`, `failures`, then `points` with their estimates and
`comparisons`, then `runs`, then the environment.

Absent numbers are None. A run that failed, was superseded by a newer attempt, or could
not be read is listed and is in no estimate. Values are never dropped because they look
odd: what looks odd is in `warnings`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel

    from nfslab.statistics.comparison import Comparison
    from nfslab.statistics.summary import Summary

Severity = Literal["violation", "warning", "note"]
Sense = Literal["better", "worse", "changed", "none", "unknown"]
"""better, worse: shown, and the metric has a direction; changed: shown, it has none;
none: inconclusive; unknown: too few runs to say."""


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """One metric of the experiment."""

    name: str
    unit: str
    better: Literal["higher", "lower"] | None
    primary: bool
    runs: int
    """How many of the counted runs have it."""


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """One axis: what is shown on it, in order."""

    name: str
    parameters: list[str]
    levels: list[Any]
    """As written in the file (labels where there are some)."""
    numeric: bool
    unit: str
    """Of `numbers`: bytes, s, or empty."""
    numbers: list[float] | None
    """Numeric axes: per level the value as understood ("128k" is 131072), for scales."""
    log: bool
    """To be drawn on a log scale: stated in the file, else positive and a decade or more."""


@dataclass(frozen=True, slots=True)
class PointResult:
    """One combination of the axes."""

    index: int
    point_id: str
    label: str
    """Such as: placement=log apart, clients=10."""
    factors: dict[str, Any]
    settings: dict[str, Any]
    planned: int
    """Repetitions planned."""
    ok: int
    failed: int
    missing: int
    """Planned repetitions of which there is no sealed run."""
    durability: list[str]
    """Levels seen among its runs; more than one is a warning."""
    figures: dict[str, BaseModel | None]
    """What kinds of evidence say of it, by their `point_key`."""
    estimates: dict[str, Summary]
    """Metric name -> `statistics.summary.Summary`: n, median with its `interval`, mean,
    standard deviation, outliers; a metric without a value at this point is absent."""


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """One metric at one point against the baseline point that differs in one axis only."""

    metric: str
    axis: str
    """The axis whose levels are compared."""
    base_point: int
    point: int
    """Indices into `Analysis.points`."""
    base_label: str
    label: str
    sense: Sense
    """Is the shown change an improvement? For colours and signs; the word is in `result`."""
    result: Comparison
    """`statistics.comparison.Comparison`: verdict (the word), ratio, interval, p_value,
    p_adjusted (Holm over all comparisons of this metric here), n_pairs, notes..."""


@dataclass(frozen=True, slots=True)
class Warning:
    """Something a reader has to know before believing a figure; shown at the top."""

    severity: Severity
    kind: str
    """Machine name: a check's name, or durability, machine, setup, missing, damaged, ..."""
    text: str
    runs: list[str] = field(default_factory=list)
    """The runs it concerns (all of them, so that a report can mark them)."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """One sealed run."""

    run_id: str
    point: int | None
    """Index into `Analysis.points`; None when the experiment does not plan its point."""
    block: int
    position: int
    attempt: int
    status: Literal["ok", "failed"]
    counted: bool
    """In the estimates: ok and the newest attempt of its (point, block)."""
    reason: str
    failure_phase: str
    started_unix_ns: int
    duration_ns: int
    metrics: dict[str, float]
    flags: list[str]
    durability: str
    setup: str
    """Same digest, same mounts, kernel and versions."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed run with its reason."""

    run_id: str
    label: str
    block: int
    attempt: int
    phase: str
    reason: str
    superseded: bool
    """A newer attempt of the same repetition exists."""


@dataclass(frozen=True, slots=True)
class PlaceInfo:
    """Where the data of a role really was, with the options in effect."""

    role: str
    target: str
    kind: str
    filesystem: str
    mount_options: str
    durability: str
    durability_reasons: list[str]
    facts: dict[str, Any]
    runs: int
    """How many counted runs were there with exactly this."""


@dataclass(frozen=True, slots=True)
class SetupInfo:
    """One state of the machine that was seen; more than one means that it changed."""

    machine: dict[str, Any]
    runs: int
    first_run: str


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """One row of the published table beside one point of ours that it matches.

    A row that matches several points is there once for each; one that matches none has
    `point` None.
    """

    number: int
    """0-based row of the table."""
    cells: dict[str, str]
    point: int | None
    values: dict[str, float]
    """Our metric -> the published value in our unit."""
    ratios: dict[str, float]
    """Our metric -> our median / the published value, where there is a point."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A published table laid beside the results."""

    table: str
    title: str
    source: str
    notes: list[str]
    columns: list[str]
    units: dict[str, str]
    """Column -> unit as published."""
    metrics: dict[str, str]
    """Column -> our metric."""
    match: dict[str, str]
    """Column -> our axis or parameter."""
    rows: list[ReferenceRow]
    problem: str = ""
    """Why it could not be laid beside; then there are no rows."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything a report says about one experiment."""

    path: str
    name: str
    title: str
    description: str
    identity: str
    folder: str
    seed: int
    order: str
    repetitions: int
    created_unix_ns: int
    command: list[str]
    """The command that runs it again."""
    nfslab_version: str
    nfslab_commit: str
    workload: str
    emulated: str
    """Before all else: "emulated: no performance data"; empty where no counted run is."""
    durability_line: str
    """First line of the report when compared points do not have equal durability."""
    hosts_line: str
    """The next one when client hosts differ in kernel, options in effect or versions."""
    verdict: str
    """One sentence (or a few) about the primary metric."""
    precision: str
    """How narrow the widest interval became, where blocks were added until it was; else empty."""
    next_step: str
    """What would show more, with its command, when nothing was shown; else empty."""
    warnings: list[Warning]
    axes: list[AxisInfo]
    metrics: list[MetricInfo]
    primary: str | None
    points: list[PointResult]
    baseline: dict[str, Any]
    """Axis -> the level that the others of that axis are compared with."""
    baseline_reason: str
    comparisons: dict[str, list[ComparisonResult]]
    """Metric -> its comparisons, in order of the points."""
    interval: str
    """What low and high of an estimate are, in words."""
    comparison_method: str
    """What the ratio's interval, the test and the adjustment are, in words."""
    runs: list[RunResult]
    """All sealed runs, in the order in which they were carried out."""
    failures: list[Failure]
    damaged: dict[str, str]
    partial: list[str]
    missing_runs: int
    excluded_points: int
    places: list[PlaceInfo]
    setups: list[SetupInfo]
    server: dict[str, list[str]]
    """What the workload's server said of itself: fact ("settings.shared_buffers") -> values
    over the counted runs; several where an axis sets it."""
    varied: dict[str, list[Any]]
    """Parameter path -> its values, for the parameters that axes set."""
    fixed: dict[str, Any]
    """The resolved experiment: targets, workload, limits, collectors."""
    versions: dict[str, str]
    collectors: dict[str, dict[str, Any]]
    """Collector -> {"runs": n, "cpu_share": mean share of one CPU, "reasons": [...]}."""
    evidence: dict[str, dict[str, dict[str, Any]]]
    """Collector -> number it summed up -> point -> n, median, minimum, maximum (counted runs)."""
    notes: list[str]
    reference: Reference | None

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        made = dataclasses.asdict(self)
        for point in made["points"]:
            figures = point.pop("figures").items()
            point |= {key: None if one is None else one.model_dump() for key, one in figures}
        return made

    def metric(self, name: str) -> MetricInfo | None:
        """The metric of that name."""
        return next((metric for metric in self.metrics if metric.name == name), None)
