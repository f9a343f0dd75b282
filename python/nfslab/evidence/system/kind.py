"""The machine beside the load: facts, section and panels of the collector `system`.

Facts are what the collector summed up over the timed part (means of counters by time, peaks of
gauges), and the means of the interfaces' rates. Tables by point show medians over the runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from nfslab.display import cells, numbers
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, TableSpec
from nfslab.evidence.over_time import (
    NAMES_MOST,
    PanelSpec,
    Samples,
    middle,
    named_panel,
    panel,
    read_named,
    read_samples,
    timed_mean,
)
from nfslab.evidence.same import POINT, RUNS, Same, at_points, median
from nfslab.results.groups import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from nfslab.display.figures import Panel
    from nfslab.display.sections import Shown
    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.same import ToCell

    AtPoints = Sequence[Same["SystemFacts"]]

BUSY: Final = ("user", "nice", "system", "irq", "softirq", "steal")
"""Kinds of CPU time in which a CPU does something."""
PRESSURE: Final = ("cpu", "io", "memory")
QUIET_BYTES_PER_S: Final = 1000.0
"""An interface that never moved more is not drawn."""
CPU_BANDS: Final[dict[str, tuple[str, ...]]] = {
    "user": ("user", "nice"),
    "system": ("system",),
    "interrupts": ("irq", "softirq"),
    "iowait": ("iowait",),
    "steal": ("steal",),
}
NOTE: Final = (
    "Over time: devices of the run's places, then the busiest, and the busiest interfaces, "
    f"{NAMES_MOST} at most."
)

_CPU: Final = PanelSpec(
    "cpu", "CPU, share of all CPUs", "share", {band: band for band in CPU_BANDS}, "stack", 1.0,
    colours={
        "user": "cpu-user", "system": "cpu-system", "interrupts": "cpu-irq",
        "iowait": "cpu-iowait", "steal": "cpu-steal",
    },
)  # fmt: skip
_TASKS: Final = PanelSpec(
    "tasks", "Tasks", "1", {"running": "running", "blocked": "blocked on I/O"}
)
_MEMORY: Final = (
    PanelSpec(
        "dirty", "Memory waiting to be written", "B",
        {"dirty_bytes": "dirty", "writeback_bytes": "under write-back"},
    ),
    PanelSpec("cache", "Page cache", "B", {"cached_bytes": "cached"}),
)  # fmt: skip
_DEVICES: Final = (
    PanelSpec(
        "device_bytes", "Device throughput", "B/s",
        {"write_bytes_per_s": "write", "read_bytes_per_s": "read"},
    ),
    PanelSpec(
        "device_operations", "Device operations", "1/s",
        {"writes_per_s": "writes", "flushes_per_s": "flushes", "reads_per_s": "reads"},
    ),
    PanelSpec("device_queue", "Device queue depth", "1", {"queue_depth": ""}),
    PanelSpec(
        "device_await", "Device waiting time", "ms",
        {"write_await_ms": "write", "read_await_ms": "read"},
    ),
    PanelSpec("device_busy", "Device busy", "share", {"utilisation": ""}, top=1.0),
)  # fmt: skip
_PRESSURE: Final = PanelSpec(
    "pressure", "Pressure stall (PSI)", "share", {"some_share": "some", "full_share": "full"},
    top=1.0,
)  # fmt: skip
_NETWORK: Final = PanelSpec(
    "network", "Network", "B/s", {"tx_bytes_per_s": "sent", "rx_bytes_per_s": "received"},
    least=QUIET_BYTES_PER_S,
)  # fmt: skip


class DeviceFacts(Facts):
    """Means of one device over the timed part."""

    device: str
    roles: str
    """Of the run's places on it, with commas; empty: none."""
    reads_per_s: float | None
    writes_per_s: float | None
    flushes_per_s: float | None
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    queue_depth: float | None
    utilisation: float | None
    """Share of time with a request."""


class InterfaceFacts(Facts):
    """Means of one network interface over the timed part."""

    interface: str
    rx_bytes_per_s: float | None
    tx_bytes_per_s: float | None


class SystemFacts(Facts):
    """One run."""

    samples: int
    interval_s: float
    cpu: dict[str, float | None]
    """Kind of CPU time -> share of all CPUs."""
    devices: tuple[DeviceFacts, ...]
    interfaces: tuple[InterfaceFacts, ...]
    pressure: dict[str, dict[str, float | None]]
    """Resource -> "some_share", "full_share"."""
    peak_dirty_bytes: int | None
    peak_writeback_bytes: int | None
    missed_ticks: int

    @property
    def busy(self) -> float | None:
        """Share of all CPUs' time in which they did something."""
        known = [share for kind in BUSY if (share := self.cpu.get(kind)) is not None]
        return sum(known) if known else None


def _table(name: str, key: str, unit_of: dict[str, str], type_: str = "double") -> TableSpec:
    keys = (ColumnSpec(key, "string"),) if key else ()
    columns = (ColumnSpec(n, type_, unit, optional=True) for n, unit in unit_of.items())
    return TableSpec(name, (ColumnSpec("t_ns", "int64", "ns"), *keys, *columns))


class SystemEvidence(EvidenceKind[SystemFacts]):
    """CPU, memory, devices, network and pressure of the machine."""

    kind: ClassVar[str] = "system"
    title: ClassVar[str] = "What the machine did"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        _table("system_cpu", "", dict.fromkeys((*BUSY, "idle", "iowait"), "share")),
        _table("system_memory", "", dict.fromkeys(("dirty_bytes", "cached_bytes"), "B"), "int64"),
        _table(
            "system_devices", "device",
            {"read_bytes_per_s": "B/s", "write_bytes_per_s": "B/s", "utilisation": "share"},
        ),
        _table("system_network", "interface", dict.fromkeys(_NETWORK.labels, "B/s")),
        _table("system_pressure", "resource", dict.fromkeys(_PRESSURE.labels, "share")),
    )  # fmt: skip
    Facts: ClassVar[type[Facts]] = SystemFacts

    def present(self, run: SealedRun) -> bool:
        """A kernel may lack any of the sources, and so a run any of the tables."""
        return bool(run.summary("system"))

    def facts(self, run: SealedRun) -> SystemFacts | None:
        """Of the collector's summary."""
        summary = run.summary("system")
        if "cpu" not in summary:
            return None
        names = DeviceFacts.model_fields
        return SystemFacts(
            samples=summary["samples"],
            interval_s=summary.get("effective_interval_s", summary["interval_s"]),
            cpu=summary["cpu"],
            devices=tuple(
                DeviceFacts(**{name: device.get(name) for name in names})
                for device in summary.get("devices", [])
            ),
            interfaces=tuple(_interfaces(run)),
            pressure=summary.get("pressure", {}),
            peak_dirty_bytes=summary.get("peak_dirty_bytes"),
            peak_writeback_bytes=summary.get("peak_writeback_bytes"),
            missed_ticks=summary.get("missed_ticks", 0),
        )

    def section(self, found: Found[SystemFacts]) -> Section | None:
        """CPU and pressure, devices, interfaces by point."""
        points = at_points(found)
        tables = [_cpu_table(points), _device_table(points), _network_table(points)]
        return Section(
            self.title,
            anchor=self.kind,
            intro=(
                "From /proc; means over the timed part, medians over the runs of a configuration."
            ),
            sentences=_sentences(points),
            tables=[table for table in tables if table.rows],
            notes=[NOTE],
        )

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """CPU, tasks, devices, memory, pressure, network."""
        cpu = read_samples(run, "system_cpu", [*_CPU_COLUMNS, *_TASKS.labels])
        wanted = [name for spec in _MEMORY for name in spec.labels]
        memory = read_samples(run, "system_memory", wanted)
        quantities = [name for spec in _DEVICES for name in spec.labels]
        devices = read_named(run, "system_devices", "device", quantities, mark="roles")
        pressure = read_named(run, "system_pressure", "resource", list(_PRESSURE.labels))
        network = read_named(run, "system_network", "interface", list(_NETWORK.labels))
        made = [*panel(_CPU, _bands(cpu)), *panel(_TASKS, cpu)]
        for spec in _DEVICES:
            made += named_panel(spec, devices)
        for spec in _MEMORY:
            made += panel(spec, memory)
        return [*made, *named_panel(_PRESSURE, pressure), *named_panel(_NETWORK, network)]


_CPU_COLUMNS: Final = [name for band in CPU_BANDS.values() for name in band]


def _bands(cpu: Samples | None) -> Samples | None:
    if cpu is None:
        return None
    bands = {
        band: np.sum([cpu.columns[name] for name in present], axis=0)
        for band, names in CPU_BANDS.items()
        if (present := cpu.pick(names))
    }
    return Samples(cpu.t_s, bands)


def _interfaces(run: SealedRun) -> Iterable[InterfaceFacts]:
    named = read_named(run, "system_network", "interface", list(_NETWORK.labels))
    if named is None:
        return
    t_s, columns = named.samples.t_s, named.samples.columns

    def mean(name: str) -> float | None:
        values = columns.get(name)
        return None if values is None else timed_mean(t_s, values)

    for name in named.names:
        yield InterfaceFacts(
            interface=name,
            rx_bytes_per_s=mean(f"rx_bytes_per_s:{name}"),
            tx_bytes_per_s=mean(f"tx_bytes_per_s:{name}"),
        )


def _sentences(points: AtPoints) -> list[str]:
    known = [(middle(run.busy for run in one.runs), one.point) for one in points]
    busy = [(share, label) for share, label in known if share is not None]
    if not busy:
        return []
    least, most = min(busy), max(busy)
    if numbers.percent(least[0]) == numbers.percent(most[0]):
        return [f"The CPUs were {numbers.percent(most[0])} busy."]
    return [
        f"The CPUs were {numbers.percent(least[0])} ({least[1]}) to {numbers.percent(most[0])} "
        f"({most[1]}) busy."
    ]


def _cpu_table(points: AtPoints) -> Table:
    present = [r for r in PRESSURE if any(r in run.pressure for one in points for run in one.runs)]
    return Table.of("CPU, memory and pressure", points, [
        POINT, RUNS,
        (Column("busy"), median(lambda run: run.busy, "share")),
        ([Column(band) for band in CPU_BANDS],
         lambda one: [_band(kinds)(one) for kinds in CPU_BANDS.values()]),
        (Column("dirty memory", hint="the most of the timed part"),
         median(lambda run: run.peak_dirty_bytes, "B")),
        ([Column(f"{resource} pressure", hint="share of time in which some task waited for it")
          for resource in present],
         lambda one: [_pressure(resource)(one) for resource in present]),
    ])  # fmt: skip


def _band(kinds: Iterable[str]) -> ToCell:
    def of(run: SystemFacts) -> float | None:
        known = [share for kind in kinds if (share := run.cpu.get(kind)) is not None]
        return sum(known) if known else None

    return median(of, "share")


def _pressure(resource: str) -> ToCell:
    return median(lambda run: run.pressure.get(resource, {}).get("some_share"), "share")


def _table_by_name(
    title: str,
    points: AtPoints,
    of: Callable[[SystemFacts], Sequence[Any]],
    key: str,
    loud: Callable[[Any], float],
    columns: Sequence[Shown[Same[Any]]],
) -> Table:
    """A row a point and device (interface): the loudest few of each point, medians."""
    rows = []
    for point in points:
        by_name = grouped((getattr(one, key), one) for run in point.runs for one in of(run))
        weight = {name: max(map(loud, same)) for name, same in by_name.items()}
        names = sorted((n for n in by_name if weight[n] > 0), key=lambda n: -weight[n])
        rows += [Same(point.point, by_name[name], name=name) for name in names[:NAMES_MOST]]
    name_column = (Column(key, False), lambda row: cells.text(row.name))
    return Table.of(title, rows, [POINT, name_column, *columns])


def _device_table(points: AtPoints) -> Table:
    def loud(one: DeviceFacts) -> float:
        moved = (one.read_bytes_per_s or 0.0) + (one.write_bytes_per_s or 0.0)
        moved += (one.flushes_per_s or 0.0) + (one.utilisation or 0.0)
        return moved * (2.0**60 if one.roles else 1.0)

    return _table_by_name("Devices", points, lambda run: run.devices, "device", loud, [
        (Column("read"), median(lambda one: one.read_bytes_per_s, "B/s")),
        (Column("written"), median(lambda one: one.write_bytes_per_s, "B/s")),
        (Column("reads"), median(lambda one: one.reads_per_s, "1/s")),
        (Column("writes"), median(lambda one: one.writes_per_s, "1/s")),
        (Column("flushes"), median(lambda one: one.flushes_per_s, "1/s")),
        (Column("queue depth"), median(lambda one: one.queue_depth, "1")),
        (Column("busy"), median(lambda one: one.utilisation, "share")),
    ])  # fmt: skip


def _network_table(points: AtPoints) -> Table:
    def loud(one: InterfaceFacts) -> float:
        moved = max(one.rx_bytes_per_s or 0.0, one.tx_bytes_per_s or 0.0)
        return moved if moved > QUIET_BYTES_PER_S else 0.0

    return _table_by_name("Network", points, lambda run: run.interfaces, "interface", loud, [
        (Column("received"), median(lambda one: one.rx_bytes_per_s, "B/s")),
        (Column("sent"), median(lambda one: one.tx_bytes_per_s, "B/s")),
    ])  # fmt: skip
