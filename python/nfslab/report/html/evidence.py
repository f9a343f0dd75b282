"""The collectors' tables of one run -> the panels under its throughput.

A panel is a few columns on one time base. Where a table holds more samples than the report's
grid has bins, a bin shows the mean of its samples (never a single one picked out), and the
panel's facts (mean, largest sample) come from all samples.

What is drawn is chosen by rules that are printed in the report (`NOTES`): idle waits of
PostgreSQL are left out, devices and interfaces without traffic as well, and of many devices
those with most traffic are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.report.html.samples import read_columns
from nfslab.results.coded_texts import coded_texts

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nfslab.report.html.grid import Grid

    Floats = NDArray[np.float64]

NS = 1_000_000_000
DEVICES_MOST = 4
"""Devices (and interfaces) drawn; two lines each are as many as can be told apart."""
EVENTS_MOST = 400
"""Distinct wait events of a run; PostgreSQL 17 knows fewer than 300."""
RUNNING = "running (no wait)"
WAITS = "waits"

NOTES = {
    WAITS: "Waits of PostgreSQL: active backends at each sample, by what they waited for; idle "
    "ones are left out.",
    "device_bytes": "Devices: those of the run's places, then the busiest, at most "
    f"{DEVICES_MOST}.",
    "rpc_round_trip": "NFS: round trips are means over each interval, from the first send to the "
    "reply, as the client's own records have them.",
    "network": f"Network interfaces: the busiest, at most {DEVICES_MOST}.",
}
"""Panel -> what its choice was."""


@dataclass(slots=True)
class FrameData:
    """Columns over time of one panel of one run: row k of `values` is column `names[k]`."""

    t_ns: NDArray[np.int64] | None
    """Times of the samples; None: bins of `width_ns` from `start_ns`."""
    start_ns: int
    width_ns: int
    names: list[str]
    values: Floats
    samples: int
    mean: list[float]
    """By column, over the samples of the timed part (NaN: none)."""
    most: list[float]
    favoured: frozenset[str] = frozenset()
    """Names (devices) that belong to the run's places: drawn before busier ones."""

    def pick(self, wanted: list[str]) -> FrameData:
        """The same with those of the wanted columns that it has, in their order."""
        if wanted == self.names:
            return self
        places = [self.names.index(name) for name in wanted if name in self.names]
        return replace(
            self,
            names=[self.names[k] for k in places],
            values=self.values[places],
            mean=[self.mean[k] for k in places],
            most=[self.most[k] for k in places],
        )


def read_evidence(run: Path, grid: Grid) -> dict[str, FrameData]:
    """Panel key -> frame, for the tables that a run has."""
    folder = run / "evidence"
    found: dict[str, FrameData] = {}
    for table, reader in _READERS.items():
        path = folder / f"{table}.parquet"
        if path.is_file():
            for key, frame in reader(path).items():
                if frame.samples:
                    found[key] = (
                        frame
                        if frame.samples <= grid.evidence_bins * 1.5
                        else binned(frame, grid.evidence_bins)
                    )
    return found


def binned(frame: FrameData, bins: int) -> FrameData:
    """Means over `bins` bins of equal width between the first and the last sample."""
    if frame.t_ns is None or frame.t_ns.size <= bins:
        return frame
    start, end = int(frame.t_ns.min()), int(frame.t_ns.max()) + 1
    width = max(1, -(-(end - start) // bins))
    index = (frame.t_ns - start) // width
    means = np.full((len(frame.names), bins), np.nan)
    for k, row in enumerate(frame.values):
        known = np.isfinite(row)
        n = np.bincount(index[known], minlength=bins)
        sums = np.bincount(index[known], weights=row[known], minlength=bins)
        np.divide(sums, n, out=means[k], where=n > 0)
    return replace(frame, t_ns=None, start_ns=start, width_ns=width, values=means)


def _mean(values: Floats, axis: int) -> Floats:
    """Mean along an axis of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    n = known.sum(axis=axis)
    sums = np.where(known, values, 0.0).sum(axis=axis)
    out = np.full(sums.shape, np.nan)
    np.divide(sums, n, out=out, where=n > 0)
    return out


def make_frame(t_ns: Any, names: list[str], values: Floats) -> FrameData:
    """A frame of samples in time order, with mean and maximum of every column."""
    times = np.asarray(t_ns, dtype=np.int64)
    if times.size > 1 and np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[:, order]
    timed = values[:, times >= 0] if times.size and times[0] < 0 else values
    mean = _mean(timed, axis=1)
    known = np.isfinite(timed)
    most = np.where(known, timed, -np.inf).max(axis=1, initial=-np.inf)
    most[~known.any(axis=1)] = np.nan
    return FrameData(times, 0, 0, names, values, int(times.size), mean.tolist(), most.tolist())


def _matrix(columns: dict[str, Any], names: list[str]) -> Floats:
    """Columns as rows of floats."""
    return np.stack([np.asarray(columns[name].to_numpy(), dtype=np.float64) for name in names])


CPU_BANDS: dict[str, tuple[str, ...]] = {
    "user": ("user", "nice"),
    "system": ("system",),
    "interrupts": ("irq", "softirq"),
    "iowait": ("iowait",),
    "steal": ("steal",),
}


def _cpu(path: Path) -> dict[str, FrameData]:
    wanted = [name for band in CPU_BANDS.values() for name in band]
    columns = read_columns(path, ["t_ns", *wanted, "running", "blocked"])
    t_ns = columns.pop("t_ns").to_numpy()
    found = {}
    bands = {band: [n for n in names if n in columns] for band, names in CPU_BANDS.items()}
    bands = {band: names for band, names in bands.items() if names}
    if bands:
        sums = np.stack([_matrix(columns, names).sum(axis=0) for names in bands.values()])
        found["cpu"] = make_frame(t_ns, list(bands), sums)
    tasks: list[str] = [name for name in ("running", "blocked") if name in columns]
    if tasks:
        found["tasks"] = make_frame(t_ns, tasks, _matrix(columns, tasks))
    return found


MEMORY_PANELS = {"dirty": ("dirty_bytes", "writeback_bytes"), "cache": ("cached_bytes",)}


def _memory(path: Path) -> dict[str, FrameData]:
    wanted = [name for names in MEMORY_PANELS.values() for name in names]
    columns = read_columns(path, ["t_ns", *wanted])
    t_ns = columns.pop("t_ns").to_numpy()
    present = {key: [n for n in names if n in columns] for key, names in MEMORY_PANELS.items()}
    return {
        key: make_frame(t_ns, names, _matrix(columns, names))
        for key, names in present.items()
        if names
    }


DEVICE_PANELS: dict[str, tuple[str, ...]] = {
    "device_bytes": ("read_bytes_per_s", "write_bytes_per_s"),
    "device_operations": ("reads_per_s", "writes_per_s", "flushes_per_s"),
    "device_queue": ("queue_depth",),
    "device_await": ("read_await_ms", "write_await_ms"),
    "device_busy": ("utilisation",),
}


def _devices(path: Path) -> dict[str, FrameData]:
    found = _by_name(path, "device", DEVICE_PANELS)
    marks = read_columns(path, ["device", "roles"])
    if "roles" not in marks:
        return found
    pairs = zip(marks["device"].to_pylist(), marks["roles"].to_pylist(), strict=True)
    favoured = frozenset(device for device, roles in set(pairs) if roles)
    return {key: replace(frame, favoured=favoured) for key, frame in found.items()}


def _network(path: Path) -> dict[str, FrameData]:
    return _by_name(path, "interface", {"network": ("rx_bytes_per_s", "tx_bytes_per_s")})


RPC_PANELS: dict[str, tuple[str, ...]] = {
    "rpc_rates": ("enqueued_per_s", "answered_per_s"),
    "rpc_queue": ("outstanding", "queue"),
    "rpc_round_trip": ("round_trip_ms",),
    "rpc_again": ("retransmissions_per_s", "major_timeouts_per_s"),
}


def _rpc(path: Path) -> dict[str, FrameData]:
    return _by_name(path, "target", RPC_PANELS)


def _rpc_tcp(path: Path) -> dict[str, FrameData]:
    return _by_name(path, "connection", {"rpc_window": ("congestion_window",)})


def _pressure(path: Path) -> dict[str, FrameData]:
    return _by_name(path, "resource", {"pressure": ("some_share", "full_share")})


def _by_name(path: Path, key: str, panels: dict[str, tuple[str, ...]]) -> dict[str, FrameData]:
    """Long table (a row per time and name) -> columns "value:name" on the common times."""
    wanted = [value for values in panels.values() for value in values]
    columns = read_columns(path, ["t_ns", key, *wanted])
    present = [value for value in wanted if value in columns]
    if not present or len(columns["t_ns"]) == 0:
        return {}
    names, which = coded_texts(columns[key])
    times, place = np.unique(columns["t_ns"].to_numpy(), return_inverse=True)
    rows = _matrix(columns, present)
    wide = np.full((len(present), len(names), times.size), np.nan)
    wide[:, which, place] = rows
    found = {}
    for panel, values in panels.items():
        at = [present.index(value) for value in values if value in present]
        if at:
            labels = [f"{present[i]}:{name}" for i in at for name in names]
            found[panel] = make_frame(times, labels, wide[at].reshape(len(labels), -1))
    return found


def _waits(path: Path) -> dict[str, FrameData]:
    columns = read_columns(path, ["t_ns", "wait_event_type", "wait_event", "state", "backends"])
    if len(columns["t_ns"]) == 0:
        return {}
    times, place = np.unique(columns["t_ns"].to_numpy(), return_inverse=True)
    backends = np.asarray(columns["backends"].to_numpy(), dtype=np.float64)
    texts = (columns[name].to_pylist() for name in ("wait_event_type", "wait_event", "state"))
    keys = list(zip(*texts, strict=True))
    events = {key: wait_name(*key) for key in dict.fromkeys(keys)}
    names = [name for name in dict.fromkeys(events.values()) if name is not None][:EVENTS_MOST]
    if not names:
        return {}
    row_of = {name: k for k, name in enumerate(names)}
    rows = np.asarray([row_of.get(events[key] or "", -1) for key in keys], dtype=np.int64)
    drawn = rows >= 0
    wide = np.zeros((len(names), times.size))
    np.add.at(wide, (rows[drawn], place[drawn]), backends[drawn])
    return {WAITS: make_frame(times, names, wide)}


def wait_name(event_type: str | None, event: str | None, state: str | None) -> str | None:
    """How a sampled backend is counted: by its wait, as running, or (None) as idle."""
    if event_type == "Activity" or state == "idle":
        return None
    if not event_type:
        return RUNNING if state == "active" else None
    return f"{event_type}: {event}" if event else event_type


_READERS = {
    "system_cpu": _cpu,
    "system_devices": _devices,
    "system_memory": _memory,
    "system_pressure": _pressure,
    "system_network": _network,
    "postgres_waits": _waits,
    "rpc_series": _rpc,
    "rpc_tcp": _rpc_tcp,
}
