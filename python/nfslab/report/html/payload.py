"""What a report's page is given: the schema of its embedded data, in one place.

Flow: `content` turns the analysis into the `Main` part (JSON: points, estimates, comparisons,
runs), `series` turns samples and evidence into one *chunk* a point (time series, latency
grids). `document` embeds both, compressed; `assets/src/data.js` and `model.js` read them.

Decisions. The page computes no statistic: every median, interval, ratio and p stands here as
Python found it. Domains (the ranges of axes) are computed here too, once for all panels, so
that no panel can flatter itself. Numbers of the main part are plain JSON (null: not known);
time series are whole numbers in columns, see `ColumnSpec`.

Limits: a chunk's JSON header is read whole; positions in a chunk are 32-bit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

PAYLOAD_SCHEMA = 1
"""Raised when a field changes its meaning; page and payload always travel together."""

Domain = list[float]
"""[low, high] of an axis, in positions (logarithms where the scale is a log scale)."""

ScaleName = Literal["linear", "log", "ordinal"]


class Axis(TypedDict):
    """One axis of the experiment."""

    name: str
    unit: str
    numeric: bool
    scale: ScaleName
    levels: list[str]
    shown: list[str]
    """Levels as people read them (sizes with their unit)."""
    values: list[float] | None
    """Numeric axes: the levels as numbers, for sorting."""
    positions: list[float]
    """Where each level stands on a drawn axis."""
    domain: Domain


class MetricInfo(TypedDict):
    """One metric, with the ranges that hold every run and every interval."""

    name: str
    label: str
    unit: str
    better: Literal["higher", "lower"] | None
    primary: bool
    positive: bool
    """All values above zero: a log scale is possible."""
    scale: ScaleName
    domain: Domain
    log_domain: Domain


class Point(TypedDict):
    """One point; `levels` are indexes into the axes' levels."""

    id: str
    label: str
    levels: list[int]
    chunk: str | None
    """Name of the chunk with its series; None when there are none."""


class Estimates(TypedDict):
    """One metric's summaries, one entry a point (None: no run)."""

    n: list[int]
    median: list[float | None]
    low: list[float | None]
    high: list[float | None]
    mean: list[float | None]
    stdev: list[float | None]
    min: list[float | None]
    max: list[float | None]


class ComparisonRow(TypedDict):
    """One comparison, with the words of the analysis."""

    axis: str
    """The axis whose levels are compared; all else is equal."""
    label: str
    base_label: str
    n: int
    base_n: int
    ratio: float | None
    """None on the scale of differences (values that are zero or negative)."""
    low: float | None
    high: float | None
    interval_text: str
    p: float | None
    p_adjusted: float | None
    word: str
    sense: str
    """good, bad, changed (shown, but the metric has no direction), none, unknown."""


class Comparisons(TypedDict):
    """All comparisons by metric; domain by metric and axis (log10 of the ratio)."""

    rows: dict[str, list[ComparisonRow]]
    domain: dict[str, dict[str, Domain]]
    axes: list[list[str]]
    """[name, shown name], categories before numbers: the order of choice."""
    baseline: str
    method: str


class Relative(TypedDict):
    """A metric of every run over the median of its point (None: not counted, or no ratio)."""

    values: list[float | None]
    domain: Domain


class Runs(TypedDict):
    """All sealed runs as columns, in the order in which they were carried out."""

    id: list[str]
    point: list[int]
    """Index of the point; -1 when the experiment does not plan it."""
    block: list[int]
    position: list[int]
    status: list[str]
    counted: list[bool]
    """Part of the estimates and of the figures."""
    reason: list[str]
    flags: list[list[str]]
    duration_s: list[float]
    warm_up_s: list[float | None]
    has_series: list[bool]
    values: dict[str, list[float | None]]
    relative: dict[str, Relative]


class Rate(TypedDict):
    """A quantity per second over the time of a run."""

    key: str
    label: str
    unit: str
    what: str
    """What is counted, in the plural ("transactions", "bytes")."""
    most: float
    """Largest rate of any whole bin of any run: the top of the shared scale."""
    span: Domain
    """When it was done, over all runs (a phase begins where the one before ended)."""


class Kind(TypedDict):
    """A kind of operation that has its own latencies."""

    key: str
    label: str


class Time(TypedDict):
    """Time axis shared by all figures over the time of a run, in seconds."""

    domain: Domain
    rates: list[Rate]


class Latency(TypedDict):
    """What the latency figures share. Positions of latencies are log10 of seconds."""

    kinds: list[Kind]
    heat_kinds: list[Kind]
    quantiles: list[float]
    nines_domain: Domain
    domain: Domain
    heat_most: dict[str, int]
    quantile_method: str


class EvidenceSeries(TypedDict):
    """One line or band of an evidence panel."""

    column: str
    label: str
    look: NotRequired[int]
    colour: NotRequired[str]
    """Name of a CSS variable, where a colour has a fixed meaning."""


class EvidencePanel(TypedDict):
    """One panel below a run's throughput."""

    key: str
    title: str
    unit: str
    kind: Literal["stack", "lines"]
    counts: bool
    """Whole things counted at an instant: drawn as steps."""
    series: list[EvidenceSeries]
    domain: Domain


class Evidence(TypedDict):
    """The panels that exist anywhere in the experiment, in order."""

    panels: list[EvidencePanel]
    note: str


class ReferenceRow(TypedDict):
    """One published value and what was measured for it."""

    metric: str
    label: str
    published: float | None
    published_label: str
    measured: float | None
    measured_label: str
    low: float | None
    high: float | None
    n: int
    ratio: float | None


class ReferenceDomain(TypedDict):
    """Range of one metric over published and measured values."""

    scale: ScaleName
    positions: Domain


class Curve(TypedDict):
    """One line over the levels of an axis; `levels` index the axis."""

    label: str
    levels: list[int]
    values: list[float]
    low: list[float | None]
    high: list[float | None]


class Curves(TypedDict):
    """Published and measured lines over one numeric axis, by metric."""

    axis: int
    published: dict[str, list[Curve]]
    measured: dict[str, list[Curve]]


class Reference(TypedDict):
    """A published table laid beside the results."""

    title: str
    source: str
    notes: list[str]
    curves: Curves | None
    metrics: list[str]
    rows: list[ReferenceRow]
    domains: dict[str, ReferenceDomain]


class Facets(TypedDict):
    """How the main figure starts: which axis is x, which one the lines (-1: none)."""

    x: int
    series: int


class BlockStart(TypedDict):
    """Position (0-based) of the last run before a block begins."""

    at: float


class Interval(TypedDict):
    """What the bars are."""

    label: str


class Main(TypedDict):
    """The main part of the payload."""

    schema: int
    name: str
    axes: list[Axis]
    metrics: list[MetricInfo]
    points: list[Point]
    estimates: dict[str, Estimates]
    interval: Interval
    comparisons: Comparisons
    facets: Facets
    runs: Runs
    block_starts: list[BlockStart]
    time: Time
    latency: Latency
    evidence: Evidence
    reference: Reference | None


class ColumnSpec(TypedDict):
    """A column of a chunk: whole numbers `w`, stored byte plane by byte plane.

    value = base + step * w; with `gaps` the largest number of the kind means "missing".
    `f64` columns are the values themselves.
    """

    kind: Literal["u8", "u16", "u32", "f32", "f64"]
    offset: int
    n: int
    step: float
    base: float
    gaps: bool


class RateFrame(TypedDict):
    """Counts per bin of `dt` seconds from `t0`; exact, they sum up to `total`."""

    t0: float
    dt: float
    n: int
    whole: int
    """Bins that the end of the run does not cut short: those that are drawn."""
    amount: ColumnSpec
    total: float
    least: float | None
    """Smallest rate of the whole bins."""


class QuantileFrame(TypedDict):
    """Latencies (seconds) at `Latency.quantiles`; missing where no sample lies beyond."""

    values: ColumnSpec
    total: int


class HeatFrame(TypedDict):
    """Counts in cells time x log10 latency, row by row from the lowest latency."""

    t0: float
    dt: float
    nt: int
    l0: float
    dl: float
    nl: int
    cells: ColumnSpec
    total: int
    outside: int


class EvidenceFrame(TypedDict):
    """Columns of one panel: at times `t`, or means over bins of `dt` from `t0`."""

    t: NotRequired[ColumnSpec]
    t0: NotRequired[float]
    dt: NotRequired[float]
    n: int
    samples: int
    columns: dict[str, ColumnSpec]
    facts: dict[str, dict[str, float | None]]
    """Column -> {"mean", "most"} over the collector's own samples."""


class RunFrames(TypedDict):
    """Everything over time of one run; `run` indexes `Main.runs`."""

    run: int
    end_s: float
    """Its last operation or sample."""
    rates: dict[str, RateFrame]
    quantiles: dict[str, QuantileFrame]
    heat: dict[str, HeatFrame]
    frames: dict[str, EvidenceFrame]


class ChunkHeader(TypedDict):
    """Header of a point's chunk."""

    runs: list[RunFrames]
    rate_most: dict[str, float]
    """Largest rate of a whole bin of these runs: the top of this point's scale."""
    rate_span: dict[str, Domain]
    """When it was done in these runs."""


def json_number(value: Any) -> float | None:
    """A finite float, or None: JSON has no NaN and no infinity."""
    if value is None:
        return None
    number = float(value)
    return number if number - number == 0.0 else None
