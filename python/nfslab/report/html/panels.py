"""Which evidence panels a report has, with scales common to the whole experiment.

A panel's lines are the same in every run, in the same colours; its range holds the largest
value of any run, so that two runs side by side can be compared by eye. Colours with a fixed
meaning (CPU shares) are named variables of the style sheet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from nfslab.report.html.evidence import CPU_BANDS, DEVICES_MOST, RUNNING, WAITS
from nfslab.report.html.grid import NS
from nfslab.report.html.samples import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.html.evidence import FrameData
    from nfslab.report.html.payload import EvidencePanel, EvidenceSeries
    from nfslab.report.html.samples import RunSamples

WAITS_MOST = 8
"""Wait events with a colour of their own; the rest is one band."""
OTHER_WAITS = "other waits"
QUIET_BYTES_PER_S = 1000.0
"""An interface that never moved more is not drawn."""

CPU_COLOURS = {
    "user": "cpu-user",
    "system": "cpu-system",
    "interrupts": "cpu-irq",
    "iowait": "cpu-iowait",
    "steal": "cpu-steal",
}


@dataclass(slots=True)
class Panels:
    """Panels in order, the columns each takes, and the ranges of the figures over time."""

    panels: list[EvidencePanel]
    columns: dict[str, list[str]]
    rate_most: dict[str, float]
    rate_span_s: dict[str, tuple[float, float]]
    latency_kinds: list[str]
    latency_domain_s: tuple[float, float] | None
    heat_most: dict[str, int]
    operations_most: int
    """Operations of the largest run: how many nines its percentiles reach."""
    end_s: float


def arrange(evidence: Sequence[dict[str, FrameData]], samples: Sequence[RunSamples]) -> Panels:
    """Panels and ranges for these runs. Merges rare waits into one band in place."""
    merge_rare_waits(evidence)
    panels = [panel for spec in _SPECS if (panel := _panel(spec, evidence)) is not None]
    columns = {panel["key"]: [s["column"] for s in panel["series"]] for panel in panels}
    return Panels(
        panels,
        columns,
        _rate_most(samples),
        rate_spans(samples),
        list(dict.fromkeys(key for s in samples for key in s.quantiles_ns)),
        _latency_domain(samples),
        _heat_most(samples),
        max((n for s in samples for _, n in s.quantiles_ns.values()), default=0),
        end_s(evidence, samples),
    )


@dataclass(frozen=True, slots=True)
class _Spec:
    key: str
    title: str
    unit: str
    kind: Literal["stack", "lines"]
    labels: dict[str, str]
    """Column (or column before ":name") -> label."""
    named: bool = False
    top: float = 0.0
    """The least top of the scale (shares reach 100 %, and a little more by measuring)."""
    counts: bool = False


_SPECS = (
    _Spec("cpu", "CPU, share of all CPUs", "share", "stack", {b: b for b in CPU_BANDS}, top=1.0),
    _Spec(
        "tasks",
        "Tasks",
        "1",
        "lines",
        {"running": "running", "blocked": "blocked on I/O"},
        counts=True,
    ),
    _Spec(WAITS, "PostgreSQL backends by wait", "1", "stack", {}, counts=True),
    _Spec(
        "rpc_rates",
        "NFS calls",
        "1/s",
        "lines",
        {"enqueued_per_s": "entering", "answered_per_s": "answered"},
        named=True,
    ),
    _Spec(
        "rpc_queue",
        "NFS calls outstanding and queued",
        "1",
        "lines",
        {"outstanding": "outstanding", "queue": "queued"},
        named=True,
    ),
    _Spec("rpc_round_trip", "NFS round trip", "ms", "lines", {"round_trip_ms": ""}, named=True),
    _Spec(
        "rpc_again",
        "NFS calls sent again, timeouts",
        "1/s",
        "lines",
        {"retransmissions_per_s": "sent again", "major_timeouts_per_s": "timeouts"},
        named=True,
    ),
    _Spec(
        "rpc_window",
        "TCP congestion window, by connection",
        "1",
        "lines",
        {"congestion_window": ""},
        named=True,
        counts=True,
    ),
    _Spec(
        "device_bytes",
        "Device throughput",
        "B/s",
        "lines",
        {"write_bytes_per_s": "write", "read_bytes_per_s": "read"},
        named=True,
    ),
    _Spec(
        "device_operations",
        "Device operations",
        "1/s",
        "lines",
        {"writes_per_s": "writes", "flushes_per_s": "flushes", "reads_per_s": "reads"},
        named=True,
    ),
    _Spec("device_queue", "Device queue depth", "1", "lines", {"queue_depth": ""}, named=True),
    _Spec(
        "device_await",
        "Device waiting time",
        "ms",
        "lines",
        {"write_await_ms": "write", "read_await_ms": "read"},
        named=True,
    ),
    _Spec("device_busy", "Device busy", "share", "lines", {"utilisation": ""}, named=True, top=1.0),
    _Spec(
        "dirty",
        "Memory waiting to be written",
        "B",
        "lines",
        {"dirty_bytes": "dirty", "writeback_bytes": "under write-back"},
    ),
    _Spec("cache", "Page cache", "B", "lines", {"cached_bytes": "cached"}),
    _Spec(
        "pressure",
        "Pressure stall (PSI)",
        "share",
        "lines",
        {"some_share": "some", "full_share": "full"},
        named=True,
        top=1.0,
    ),
    _Spec(
        "network",
        "Network",
        "B/s",
        "lines",
        {"tx_bytes_per_s": "sent", "rx_bytes_per_s": "received"},
        named=True,
    ),
)


def _panel(spec: _Spec, evidence: Sequence[dict[str, FrameData]]) -> EvidencePanel | None:
    frames = [run[spec.key] for run in evidence if spec.key in run]
    if not frames:
        return None
    series = _wait_series(frames) if spec.key == WAITS else _series(spec, frames)
    if not series:
        return None
    wanted = [s["column"] for s in series]
    return {
        "key": spec.key,
        "title": spec.title,
        "unit": spec.unit,
        "kind": spec.kind,
        "counts": spec.counts,
        "series": series,
        "domain": [0.0, max(spec.top, _top(spec.kind, frames, wanted))],
    }


def _series(spec: _Spec, frames: Sequence[FrameData]) -> list[EvidenceSeries]:
    present = {name for frame in frames for name in frame.names}
    if not spec.named:
        found: list[EvidenceSeries] = []
        for i, (name, label) in enumerate(spec.labels.items()):
            if name in present:
                entry: EvidenceSeries = {"column": name, "label": label, "look": i}
                if name in CPU_COLOURS and spec.key == "cpu":
                    entry["colour"] = CPU_COLOURS[name]
                found.append(entry)
        return found
    names = busiest(spec.key, frames)
    columns = [
        (f"{value}:{name}", f"{name} {label}".strip())
        for name in names
        for value, label in spec.labels.items()
    ]
    return [
        {"column": column, "label": label, "look": i}
        for i, (column, label) in enumerate(columns)
        if column in present
    ]


def busiest(key: str, frames: Sequence[FrameData]) -> list[str]:
    """Names (devices, interfaces, resources), at most a few: those of the runs' places, then
    by their largest value."""
    favoured: set[str] = set()
    weight: dict[str, float] = {}
    for frame in frames:
        favoured |= frame.favoured
        for column, most in zip(frame.names, frame.most, strict=True):
            name = column.partition(":")[2]
            weight[name] = max(weight.get(name, 0.0), 0.0 if math.isnan(most) else most)
    least = QUIET_BYTES_PER_S if key == "network" else 0.0
    loud = [name for name in weight if weight[name] > least]
    return sorted(loud, key=lambda name: (name not in favoured, -weight[name], name))[:DEVICES_MOST]


def merge_rare_waits(evidence: Sequence[dict[str, FrameData]]) -> None:
    """Keep the waits with most backends over all runs; add the others up to one column."""
    weight = wait_weights([run[WAITS] for run in evidence if WAITS in run])
    named = [name for name in weight if name not in (RUNNING, OTHER_WAITS)]
    if len(named) <= WAITS_MOST:
        return
    kept = sorted(named, key=lambda name: (-weight[name], name))[: WAITS_MOST - 1]
    for run in evidence:
        if WAITS in run:
            run[WAITS] = _merged(run[WAITS], [*kept, RUNNING])


def _merged(frame: FrameData, kept: list[str]) -> FrameData:
    rare = [k for k, name in enumerate(frame.names) if name not in kept]
    if not rare:
        return frame
    rest = frame.pick(kept)
    total = np.nansum(frame.values[rare], axis=0)
    return replace(
        rest,
        names=[*rest.names, OTHER_WAITS],
        values=np.concatenate([rest.values, total[None, :]]),
        mean=[*rest.mean, float(np.nansum([frame.mean[k] for k in rare]))],
        most=[*rest.most, float(total.max(initial=0.0))],
    )


def wait_weights(frames: Sequence[FrameData]) -> dict[str, float]:
    """Sum over the runs of the mean number of backends in each wait."""
    weight: dict[str, float] = {}
    for frame in frames:
        for name, mean in zip(frame.names, frame.mean, strict=True):
            weight[name] = weight.get(name, 0.0) + (0.0 if math.isnan(mean) else mean)
    return weight


def _wait_series(frames: Sequence[FrameData]) -> list[EvidenceSeries]:
    weight = wait_weights(frames)
    fixed = {RUNNING: "wait-running", OTHER_WAITS: "wait-other"}
    ordered = sorted(weight, key=lambda n: (n == OTHER_WAITS, n != RUNNING, -weight[n], n))
    series: list[EvidenceSeries] = []
    look = 0
    for name in ordered:
        entry: EvidenceSeries = {"column": name, "label": name}
        if name in fixed:
            entry["colour"] = fixed[name]
        else:
            entry["look"] = look
            look += 1
        series.append(entry)
    return series


def _top(kind: str, frames: Sequence[FrameData], wanted: list[str]) -> float:
    """The top of a scale: the largest drawn value (of the sum, for stacks), a little more."""
    most = 0.0
    for frame in frames:
        drawn = frame.pick(wanted).values
        if not drawn.size:
            continue
        if kind == "stack":
            drawn = np.nansum(drawn, axis=0)
        known = drawn[np.isfinite(drawn)]
        if known.size:
            most = max(most, float(known.max()))
    return most * 1.05 or 1.0


def _rate_most(samples: Sequence[RunSamples]) -> dict[str, float]:
    most: dict[str, float] = {}
    for run in samples:
        for key, data in run.rates.items():
            if data.counts.size:
                rate = float(data.whole().max(initial=0)) * NS / data.width_ns
                most[key] = max(most.get(key, 0.0), rate)
    return {key: value or 1.0 for key, value in most.items()}


def rate_spans(samples: Sequence[RunSamples]) -> dict[str, tuple[float, float]]:
    """First beginning and last end of each quantity over all runs."""
    spans: dict[str, tuple[float, float]] = {}
    for run in samples:
        for key, data in run.rates.items():
            low, high = data.start_ns / NS, (data.end_ns + data.width_ns) / NS
            if key == TRANSACTIONS:
                low, high = 0.0, data.end_ns / NS
            known = spans.get(key, (low, high))
            spans[key] = (min(known[0], low), max(known[1], high))
    return spans


def _latency_domain(samples: Sequence[RunSamples]) -> tuple[float, float] | None:
    """log10 seconds: whole quarter decades around the least and the largest latency."""
    values = [
        v for run in samples for found, _ in run.quantiles_ns.values() for v in found if v >= 1
    ]
    if not values:
        return None
    low, high = math.log10(min(values)) - 9.0, math.log10(max(values)) - 9.0
    low, high = math.floor(low * 4 - 0.05) / 4, math.ceil(high * 4 + 0.05) / 4
    return low, max(high, low + 0.25)


def _heat_most(samples: Sequence[RunSamples]) -> dict[str, int]:
    most: dict[str, int] = {}
    for run in samples:
        for key, data in run.heat.items():
            most[key] = max(most.get(key, 1), int(data.cells.max()))
    return most


def end_s(evidence: Sequence[dict[str, FrameData]], samples: Sequence[RunSamples]) -> float:
    """Where the common time axis ends: the last operation or sample of any run."""
    ends = [data.end_ns / NS for run in samples for data in run.rates.values()]
    if not ends:
        for run in evidence:
            for frame in run.values():
                if frame.t_ns is not None and frame.t_ns.size:
                    ends.append(float(frame.t_ns.max()) / NS)
                elif frame.t_ns is None:
                    width = frame.values.shape[1] * frame.width_ns
                    ends.append((frame.start_ns + width) / NS)
    return max([*ends, 0.0]) or 1.0
