"""A sampler's counters as rates: the tables and the summary of the collector `system`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from nfslab.machine.cpu_times import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

NS_PER_S: Final = 1e9
NS_PER_MS: Final = 1e6
DISK_REQUESTS: Final = ("read", "write", "flush")
DISK_RATES: Final = {
    "reads_per_s": ("read_count", NS_PER_S), "writes_per_s": ("write_count", NS_PER_S),
    "flushes_per_s": ("flush_count", NS_PER_S), "read_bytes_per_s": ("read_bytes", NS_PER_S),
    "write_bytes_per_s": ("write_bytes", NS_PER_S), "queue_depth": ("queue_time_ns", 1.0),
}  # fmt: skip
"""Column -> the counter it is the rate of, and per how many nanoseconds."""
PRESSURE_RESOURCES: Final = ("cpu", "io", "memory")


@dataclass(slots=True)
class Recording:
    """A sampler's counters, and the rates they make."""

    result: Mapping[str, Any]
    """As `_core.SystemSampler.stop` returns it."""
    start_ns: int
    """CLOCK_MONOTONIC at t = 0."""
    end_ns: int | None
    roles: Mapping[str, str]
    """Device -> roles of the places above it."""
    backwards: dict[str, int] = field(default_factory=dict)
    """Counter -> how often it went down."""
    _known: dict[str, Floats] = field(default_factory=dict)

    def values(self, name: str) -> Floats | None:
        """A column as floats, NaN where it was not known; None when there is none."""
        if name in self._known:
            return self._known[name]
        if (raw := self._raw(name)) is None:
            return None
        # Differences are made of integers (see `steps`); this is for gauges.
        floats = np.where(raw == self.result["missing_value"], np.nan, raw.astype(np.float64))
        self._known[name] = floats
        return floats

    @property
    def times_ns(self) -> Numbers:
        """Times of the samples on CLOCK_MONOTONIC."""
        times = self._raw("t_ns")
        assert times is not None
        return times

    def _raw(self, name: str) -> Numbers | None:
        column = self.result["columns"].get(name)
        return None if column is None else np.frombuffer(column["data"], np.dtype(column["dtype"]))

    def steps(self, name: str) -> Floats | None:
        """Exact differences of a counter between samples; NaN where there is none."""
        if (raw := self._raw(name)) is None:
            return None
        missing = raw == self.result["missing_value"]
        known = ~(missing[1:] | missing[:-1])
        steps = np.where(known, raw[1:], 0) - np.where(known, raw[:-1], 0)
        down = known & (steps < 0)
        if down.any():
            self.backwards[name] = int(down.sum())
        result: Floats = np.where(known & ~down, steps.astype(np.float64), np.nan)
        return result

    def rate(self, name: str, per: float = NS_PER_S) -> Floats | None:
        """A counter's rate: units per second (counts, bytes), or share (ns, per = 1)."""
        steps = self.steps(name)
        return None if steps is None else steps * per / np.diff(self.times_ns)

    def tables(self) -> dict[str, pa.Table]:
        """The evidence tables; those whose source this machine does not have are absent."""
        made = {
            "system_cpu": self._cpu(),
            "system_memory": self._memory(),
            "system_devices": self._devices(),
            "system_network": self._network(),
            "system_pressure": self._pressure(),
            "system_vm": self._paging(),
            "system_cgroup": self._cgroup(),
        }
        return {name: table for name, table in made.items() if table is not None}

    def _cpu(self) -> pa.Table | None:
        steps = {kind: self.steps(f"cpu.{kind}_ns") for kind in KINDS}
        present = {kind: values for kind, values in steps.items() if values is not None}
        if "user" not in present:
            return None
        total = sum(present.values())
        columns: dict[str, Any] = {kind: _quotient(v, total) for kind, v in present.items()}
        columns["context_switches_per_s"] = self.rate("cpu.context_switches_count")
        columns["running"] = _later(self.values("cpu.running_count"))
        columns["blocked"] = _later(self.values("cpu.blocked_count"))
        return self._table(columns)

    def _memory(self) -> pa.Table | None:
        columns: dict[str, Any] = {}
        for name in self.result["columns"]:
            if name.startswith("memory."):
                columns[name.removeprefix("memory.")] = self.values(name)
        return self._table(columns, gauges=True) if columns else None

    def _paging(self) -> pa.Table | None:
        columns: dict[str, Any] = {}
        for name, column in self.result["columns"].items():
            if name.startswith("vm.") and column["kind"] == "counter":
                columns[f"{name.removeprefix('vm.')}_per_s"] = self.rate(name)
        return self._table(columns) if columns else None

    def _cgroup(self) -> pa.Table | None:
        columns: dict[str, Any] = {}
        for name, column in self.result["columns"].items():
            short = name.removeprefix("cgroup.")
            if name.startswith("cgroup.") and column["kind"] == "gauge":
                columns[short] = _later(self.values(name))
            elif name.startswith("cgroup.") and short.endswith("_ns"):
                columns[f"{short.removesuffix('_ns')}_share"] = self.rate(name, 1.0)
            elif name.startswith("cgroup."):
                columns[f"{short}_per_s"] = self.rate(name)
        return self._table(columns) if columns else None

    def names(self, prefix: str) -> list[str]:
        """Devices or interfaces with columns; those below the run's places first."""
        found = {
            name.removeprefix(prefix).rpartition(".")[0]
            for name in self.result["columns"]
            if name.startswith(prefix)
        }
        return sorted(found, key=lambda name: (name not in self.roles, name))

    def _devices(self) -> pa.Table | None:
        parts = []
        for name in self.names("disk."):
            disk = f"disk.{name}."
            columns = {name: self.rate(disk + of, per) for name, (of, per) in DISK_RATES.items()}
            awaits = {f"{do}_await_ms": self._await_ms(disk, do) for do in DISK_REQUESTS}
            columns = columns | awaits | {"utilisation": self.rate(disk + "busy_ns", 1.0)}
            named = {"device": name, "roles": self.roles.get(name, "")}
            parts.append(self._table(columns, constant=named, keep=True))
        return _in_time_order(parts)

    def _await_ms(self, disk: str, kind: str) -> Floats | None:
        """Mean time of the requests that ended between two samples; null without any."""
        time_ns, count = self.steps(f"{disk}{kind}_time_ns"), self.steps(f"{disk}{kind}_count")
        if time_ns is None or count is None:
            return None
        return _quotient(time_ns / NS_PER_MS, count)

    def _network(self) -> pa.Table | None:
        parts = []
        for name in self.names("net."):
            columns = {
                f"{short}_{what}_per_s": self.rate(f"net.{name}.{way}_{what}{suffix}")
                for what, suffix in (("bytes", ""), ("packets", "_count"), ("drops", "_count"))
                for short, way in (("rx", "receive"), ("tx", "transmit"))
            }
            parts.append(self._table(columns, constant={"interface": name}, keep=True))
        return _in_time_order(parts)

    def _pressure(self) -> pa.Table | None:
        parts = []
        for name in PRESSURE_RESOURCES:
            some = self.rate(f"pressure.{name}.some_ns", 1.0)
            if some is None:
                continue
            full = self.rate(f"pressure.{name}.full_ns", 1.0)
            columns: dict[str, Any] = {"some_share": some, "full_share": full}
            parts.append(self._table(columns, constant={"resource": name}, keep=True))
        return _in_time_order(parts)

    def _table(
        self,
        columns: Mapping[str, Floats | None],
        *,
        constant: Mapping[str, str] | None = None,
        gauges: bool = False,
        keep: bool = False,
    ) -> pa.Table:
        """Columns under their times; NaN is null. `keep`: absent ones as nulls."""
        times = self.times_ns if gauges else self.times_ns[1:]
        data: dict[str, Any] = {"t_ns": pa.array(times - self.start_ns)}
        for name, value in (constant or {}).items():
            data[name] = pa.array([value] * len(times), pa.string())
        for name, values in columns.items():
            if values is not None:
                whole = name.endswith("_bytes") or name in ("running", "blocked")
                array = pa.array(values, from_pandas=True)
                data[name] = array.cast(pa.int64()) if whole else array
            elif keep:
                data[name] = pa.nulls(len(times), pa.float64())
        return pa.table(data)

    def summary(self) -> dict[str, Any]:
        """What a report shows without opening the tables."""
        r, cost = self.result, self.result["cost"]
        return {
            "interval_s": r["interval_ns"] / NS_PER_S,
            "effective_interval_s": r["effective_interval_ns"] / NS_PER_S,
            "samples": r["samples"],
            "cpu": self._mean_cpu(),
            "devices": [self._mean_device(name) for name in self.names("disk.")],
            "peak_dirty_bytes": self._peak("memory.dirty_bytes"),
            "peak_writeback_bytes": self._peak("memory.writeback_bytes"),
            "pressure": self._mean_pressure(),
            "counters_that_went_down": dict(self.backwards),
            "absent": list(r["absent"]),
            "idle": list(r["idle"]),
            "read_errors": r["read_errors"],
            "late_ticks": r["late_ticks"],
            "missed_ticks": r["missed_ticks"],
            "cost": {
                "cpu_s": cost["cpu_ns"] / NS_PER_S,
                "share_of_one_cpu": cost["cpu_share"],
                "longest_sample_ms": cost["max_read_ns"] / NS_PER_MS,
            },
        }

    def _timed(self) -> npt.NDArray[np.bool_]:
        """Which intervals between samples belong to the timed part: those that begin in it.

        The one that the start cuts is left out, the one that the end cuts is kept, so that
        a burst at the very end is not lost.
        """
        begins = self.times_ns[:-1]
        end_ns = np.inf if self.end_ns is None else self.end_ns
        inside: npt.NDArray[np.bool_] = (begins >= self.start_ns) & (begins < end_ns)
        if not inside.any():
            # Shorter than a sample: the interval in which the start lies is all there is.
            inside = (begins <= self.start_ns) & (self.times_ns[1:] > self.start_ns)
        return inside

    def _mean(self, name: str, per: float) -> float | None:
        """Mean rate of a counter over the timed part, from its differences."""
        steps = self.steps(name)
        if steps is None:
            return None
        known = self._timed() & ~np.isnan(steps)
        time_ns = float(np.diff(self.times_ns)[known].sum())
        return float(steps[known].sum()) * per / time_ns if time_ns else None

    def _mean_cpu(self) -> dict[str, float | None]:
        means = {kind: self._mean(f"cpu.{kind}_ns", 1.0) for kind in KINDS}
        total = sum(value for value in means.values() if value is not None)
        return {
            kind: value / total if value is not None and total else None
            for kind, value in means.items()
        }

    def _mean_device(self, name: str) -> dict[str, Any]:
        disk = f"disk.{name}."
        return {
            "device": name,
            "roles": self.roles.get(name, ""),
            **{name: self._mean(disk + of, per) for name, (of, per) in DISK_RATES.items()},
            "utilisation": self._mean(disk + "busy_ns", 1.0),
        }

    def _mean_pressure(self) -> dict[str, dict[str, float | None]]:
        found = {}
        for name in PRESSURE_RESOURCES:
            some = self._mean(f"pressure.{name}.some_ns", 1.0)
            if some is not None:
                full = self._mean(f"pressure.{name}.full_ns", 1.0)
                found[name] = {"some_share": some, "full_share": full}
        return found

    def _peak(self, name: str) -> int | None:
        """Largest value of a gauge from the start to the end of the timed part."""
        values = self.values(name)
        if values is None:
            return None
        end_ns = np.inf if self.end_ns is None else self.end_ns
        inside = values[(self.times_ns >= self.start_ns) & (self.times_ns <= end_ns)]
        inside = inside[~np.isnan(inside)]
        return int(inside.max()) if inside.size else None


def _later(values: Floats | None) -> Floats | None:
    """A gauge beside rates: its value at the later of the two samples."""
    return None if values is None else values[1:]


def _quotient(above: Floats, below: Any) -> Floats:
    """Element by element; NaN where there is nothing to divide by."""
    result = np.full(np.shape(above), np.nan)
    np.divide(above, below, out=result, where=np.asarray(below) > 0)
    return result


def _in_time_order(parts: list[pa.Table]) -> pa.Table | None:
    """Tables of several devices as one: by time, then in the order given."""
    if not parts:
        return None
    table = pa.concat_tables(parts)
    order = np.argsort(table["t_ns"].to_numpy(), kind="stable")
    return table.take(order)
