"""Panels of evidence that is no kind of its own yet, out of the frames of `evidence`.

A panel's lines are the same in every run. Colours with a fixed meaning (CPU shares) are named
variables of the style sheet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from nfslab.display.figures import Axis, Panel, Series
from nfslab.report.html.evidence import CPU_BANDS, DEVICES_MOST, RUNNING, WAITS
from nfslab.report.html.grid import NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.html.evidence import FrameData

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


def arrange(evidence: Sequence[dict[str, FrameData]]) -> list[list[Panel]]:
    """The panels of each run. Merges rare waits into one band in place."""
    merge_rare_waits(evidence)
    chosen = [(spec, series) for spec in _SPECS if (series := _chosen(spec, evidence))]
    return [
        [_panel(spec, run[spec.key], series) for spec, series in chosen if spec.key in run]
        for run in evidence
    ]


@dataclass(frozen=True, slots=True)
class _Spec:
    key: str
    title: str
    unit: str
    kind: Literal["stack", "line"]
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
        "line",
        {"running": "running", "blocked": "blocked on I/O"},
        counts=True,
    ),
    _Spec(WAITS, "PostgreSQL backends by wait", "1", "stack", {}, counts=True),
    _Spec(
        "rpc_rates",
        "NFS calls",
        "1/s",
        "line",
        {"enqueued_per_s": "entering", "answered_per_s": "answered"},
        named=True,
    ),
    _Spec(
        "rpc_queue",
        "NFS calls outstanding and queued",
        "1",
        "line",
        {"outstanding": "outstanding", "queue": "queued"},
        named=True,
    ),
    _Spec("rpc_round_trip", "NFS round trip", "ms", "line", {"round_trip_ms": ""}, named=True),
    _Spec(
        "rpc_again",
        "NFS calls sent again, timeouts",
        "1/s",
        "line",
        {"retransmissions_per_s": "sent again", "major_timeouts_per_s": "timeouts"},
        named=True,
    ),
    _Spec(
        "rpc_window",
        "TCP congestion window, by connection",
        "1",
        "line",
        {"congestion_window": ""},
        named=True,
        counts=True,
    ),
    _Spec(
        "device_bytes",
        "Device throughput",
        "B/s",
        "line",
        {"write_bytes_per_s": "write", "read_bytes_per_s": "read"},
        named=True,
    ),
    _Spec(
        "device_operations",
        "Device operations",
        "1/s",
        "line",
        {"writes_per_s": "writes", "flushes_per_s": "flushes", "reads_per_s": "reads"},
        named=True,
    ),
    _Spec("device_queue", "Device queue depth", "1", "line", {"queue_depth": ""}, named=True),
    _Spec(
        "device_await",
        "Device waiting time",
        "ms",
        "line",
        {"write_await_ms": "write", "read_await_ms": "read"},
        named=True,
    ),
    _Spec("device_busy", "Device busy", "share", "line", {"utilisation": ""}, named=True, top=1.0),
    _Spec(
        "dirty",
        "Memory waiting to be written",
        "B",
        "line",
        {"dirty_bytes": "dirty", "writeback_bytes": "under write-back"},
    ),
    _Spec("cache", "Page cache", "B", "line", {"cached_bytes": "cached"}),
    _Spec(
        "pressure",
        "Pressure stall (PSI)",
        "share",
        "line",
        {"some_share": "some", "full_share": "full"},
        named=True,
        top=1.0,
    ),
    _Spec(
        "network",
        "Network",
        "B/s",
        "line",
        {"tx_bytes_per_s": "sent", "rx_bytes_per_s": "received"},
        named=True,
    ),
)


def _chosen(spec: _Spec, evidence: Sequence[dict[str, FrameData]]) -> list[tuple[str, str, str]]:
    """(column, label, colour) of the series, the same in all runs."""
    frames = [run[spec.key] for run in evidence if spec.key in run]
    if not frames:
        return []
    return _waits(frames) if spec.key == WAITS else _series(spec, frames)


def _panel(spec: _Spec, frame: FrameData, chosen: Sequence[tuple[str, str, str]]) -> Panel:
    if frame.t_ns is None:
        t_ns = frame.start_ns + (np.arange(frame.values.shape[1]) + 0.5) * frame.width_ns
    else:
        t_ns = frame.t_ns
    t_s = t_ns / NS
    draw: Literal["line", "step", "stack"] = spec.kind
    if spec.counts and draw == "line":
        draw = "step"
    series = [
        Series(label, t_s, frame.values[frame.names.index(column)], draw=draw, colour=colour)
        for column, label, colour in chosen
        if column in frame.names
    ]
    axis = Axis("", spec.unit, low=0.0, high=spec.top or None)
    return Panel(spec.title, axis, series, key=spec.key)


def _series(spec: _Spec, frames: Sequence[FrameData]) -> list[tuple[str, str, str]]:
    present = {name for frame in frames for name in frame.names}
    if not spec.named:
        colours = CPU_COLOURS if spec.key == "cpu" else {}
        return [
            (name, label, colours.get(name, ""))
            for name, label in spec.labels.items()
            if name in present
        ]
    return [
        (f"{value}:{name}", f"{name} {label}".strip(), "")
        for name in busiest(spec.key, frames)
        for value, label in spec.labels.items()
        if f"{value}:{name}" in present
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


def _waits(frames: Sequence[FrameData]) -> list[tuple[str, str, str]]:
    weight = wait_weights(frames)
    fixed = {RUNNING: "wait-running", OTHER_WAITS: "wait-other"}
    ordered = sorted(weight, key=lambda n: (n == OTHER_WAITS, n != RUNNING, -weight[n], n))
    return [(name, name, fixed.get(name, "")) for name in ordered]
