"""Validity checks on one run: which of them apply, and from which data they are made.

The checks themselves are pure functions of `nfslab.statistics`; this module finds their
inputs in what a run yielded:

* Little's law: every operation of a load with a known number of clients, from the raw samples.
* Steady state and dead time: operations completed over time, from the raw samples.
* Physical bounds: the median latency against a round trip through the kernel, the fastest
  byte rate against a copy in memory.
* Clock steps: wall and monotonic clock, read together at the borders of the phases.
* Competing load: what others used before the start and during the run, and steal time.
* Memory limit: did the group hold anything, was it hit, did the kernel kill for it.

What a check needs and is not there makes it "unknown", never "ok". None of these fails a
run: they are printed with it. (What a workload's own `verify` finds does.)
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from nfslab.machine.clock_pair import clock_pair
from nfslab.quantities import format_size
from nfslab.results import emulation
from nfslab.results.records import CheckRecord, LoadShape
from nfslab.statistics.verdicts import EMULATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from nfslab.evidence.collector import Evidence
    from nfslab.machine.cgroup import Cgroup
    from nfslab.statistics.checks.check import Check
    from nfslab.statistics.checks.dead_time import Stretch
    from nfslab.workloads.base import Completions, Outcome

STATUS_SKIPPED = 2
SERIES_BINS = 100
"""Parts of the timed part for the look at throughput over time."""
MIN_BIN_NS = 50_000_000
"""Shorter bins hold too few operations to say anything."""
BYTE_RATES = frozenset({"B/s", "bytes/s"})
"""Units of the metrics that are held against the bandwidth of a copy."""
EMPTY_GROUP_BYTES = 64 << 10
"""A group whose peak is below this never held a program."""


class Clocks:
    """Pairs of wall and monotonic clock, read at the borders of the phases."""

    MAX_PAIRS = 1000

    def __init__(self) -> None:
        self.wall_ns: list[int] = []
        self.monotonic_ns: list[int] = []

    def read(self) -> tuple[int, int]:
        """Read both now, as close together as possible; remember and return them."""
        wall_ns, monotonic_ns, _ = clock_pair()
        if len(self.wall_ns) < self.MAX_PAIRS:
            self.wall_ns.append(wall_ns)
            self.monotonic_ns.append(monotonic_ns)
        return wall_ns, monotonic_ns


def validity_checks(
    outcome: Outcome | None,
    load: LoadShape | None,
    evidence: Mapping[str, Evidence],
    provenance: Mapping[str, Any],
    clocks: Clocks,
    *,
    threads: int = 1,
    others_during: float | None = None,
) -> list[CheckRecord]:
    """Every check that applies to this run; so many threads of its program copy data, and others
    had that share of all processors meanwhile."""
    from nfslab.statistics.checks.clock_steps import check_clock_steps

    checks = [_record(check_clock_steps(clocks.wall_ns, clocks.monotonic_ns))]
    checks.append(_competing_load(evidence, provenance, others_during))
    table = outcome.samples.get(outcome.operations) if outcome is not None else None
    if outcome is not None and table is not None:
        checks += _operations(table, outcome, load, evidence)
    elif outcome is not None and outcome.completions:
        checks.append(_dead_time(outcome.completions, evidence))
    elif outcome is not None:
        checks.append(_no_record())
    if outcome is not None:
        checks += _bounds(table, outcome, threads)
    return checks


def another_experiment() -> CheckRecord:
    """Two experiments ran side by side (`--anyway`)."""
    return CheckRecord(
        name="another_experiment",
        verdict="warning",
        message="another experiment ran on this machine at the same time",
    )


def emulated() -> CheckRecord:
    """The stamp of a run that an emulated processor made (`nfslab.machine.emulation`)."""
    return CheckRecord(name=emulation.CHECK, verdict="warning", message=EMULATED)


def _bounds(table: pa.Table | None, outcome: Outcome, threads: int) -> list[CheckRecord]:
    """Figures against what this machine can do at all (see `bounds`)."""
    import numpy as np

    from nfslab.experiment.bounds import physical_bounds
    from nfslab.statistics.checks.physical_bounds import check_latency_floor, check_rate_ceiling

    checks: list[CheckRecord] = []
    bounds = physical_bounds()
    if table is not None and {"latency_ns", "status"} <= set(table.column_names):
        status = table.column("status").to_numpy()
        latency = table.column("latency_ns").to_numpy()[status == 0]
        if latency.size:
            # The median: single latencies of a log in microseconds may be rounded to 0.
            floor = check_latency_floor(
                latency_ns=float(np.median(latency)),
                floor_ns=bounds.kernel_round_trip_ns,
                what="a request and an answer through the kernel",
            )
            checks.append(_record(floor))
    rates = {
        name: metric.value
        for name, metric in outcome.metrics.items()
        if metric.unit in BYTE_RATES and np.isfinite(metric.value)
    }
    if rates:
        fastest = max(rates, key=lambda name: rates[name])
        ceiling = check_rate_ceiling(
            rate=rates[fastest],
            ceiling=threads * bounds.copy_bytes_per_s,
            unit="bytes/s",
            what=f"{fastest}: one copy of the data by {threads} threads",
        )
        checks.append(_record(ceiling))
    return checks


def _record(check: Check) -> CheckRecord:
    return CheckRecord(**asdict(check))


def _dead_time(completions: Sequence[Completions], evidence: Mapping[str, Evidence]) -> CheckRecord:
    """Stretches without a completed operation, of counts over time."""
    from nfslab.statistics.checks.check import Check
    from nfslab.statistics.checks.dead_time import (
        MIN_BINS,
        MIN_MEAN,
        MIN_PAUSES,
        NAME,
        check_of,
        dead_bins,
    )

    told = [(one, dead_bins(one.counts, one.width_ns, one.begin_ns)) for one in completions]
    known = [(one, stretches) for one, stretches in told if stretches is not None]
    if not known:
        message = (
            f"too few operations to tell: {MIN_PAUSES} are needed, and {MIN_BINS} intervals with "
            f"{MIN_MEAN} each"
        )
        return _record(Check(NAME, "unknown", message))
    dead = [stretch for _, stretches in known for stretch in stretches]
    span_ns = sum(one.width_ns * len(one.counts) for one, _ in known)
    return _record(check_of(dead, span_ns, lambda one: _meanwhile(one, evidence)))


def _no_record() -> CheckRecord:
    """Dead time of a workload that tells nothing over time, such as any program."""
    from nfslab.statistics.checks.check import Check
    from nfslab.statistics.checks.dead_time import NAME

    message = "this workload keeps no record over time: a stop within the run cannot be seen"
    return _record(Check(NAME, "unknown", message))


def _operations(
    table: pa.Table,
    outcome: Outcome,
    load: LoadShape | None,
    evidence: Mapping[str, Evidence],
) -> list[CheckRecord]:
    """Little's law, dead time and steady state, from one row an operation."""
    import numpy as np

    from nfslab.statistics.checks.dead_time import check_dead_time
    from nfslab.statistics.checks.littles_law import check_littles_law
    from nfslab.statistics.checks.steady_state import check_steady_state

    def column(name: str) -> Any:
        return table.column(name).to_numpy() if name in table.column_names else None

    completed, latency, lag = column("t_ns"), column("latency_ns"), column("lag_ns")
    status = column("status")
    checks: list[CheckRecord] = []
    if completed is None or latency is None:
        return checks
    succeeded = completed if status is None else completed[status == 0]
    if status is not None:
        done = status != STATUS_SKIPPED  # a skipped one was in no client's hands
        completed, latency = completed[done], latency[done]
        lag = lag[done] if lag is not None else None
    measured = outcome.metrics.get("measured_s")
    span_ns = measured.value * 1e9 if measured else float(completed.max(initial=0))
    share = outcome.sampled_share
    count = completed.size
    if load is not None and load.clients is not None:
        rate_limited = load.kind == "open"
        checks.append(
            _record(
                check_littles_law(
                    clients=load.clients,
                    rate_per_s=count / share / (span_ns / 1e9) if span_ns > 0 else None,
                    mean_latency_ns=float(latency.mean()) if count else None,
                    rate_limited=rate_limited,
                    mean_schedule_lag_ns=_mean(lag) if rate_limited else None,
                )
            )
        )
    if count and span_ns > 0:
        bins = int(min(SERIES_BINS, max(1, span_ns // MIN_BIN_NS)))
        edges = np.linspace(0.0, span_ns, bins + 1)
        counts, _ = np.histogram(completed, edges)
        width_ns = span_ns / bins
        steady = check_steady_state(counts / (width_ns / 1e9) / share, round(width_ns))
        dead = check_dead_time(succeeded, span_ns, lambda one: _meanwhile(one, evidence))
        if steady.verdict == "ok" and dead.verdict != "ok":
            steady = replace(steady, verdict=dead.verdict, message=dead.message)
        checks += [_record(dead), _record(steady)]
    return checks


def _meanwhile(stretch: Stretch, evidence: Mapping[str, Evidence]) -> str:
    """What the machine did in a dead stretch, by its samples: processors, the busiest device."""
    import numpy as np

    tables = {name: table for seen in evidence.values() for name, table in seen.tables.items()}

    def within(name: str, columns: set[str]) -> Mapping[str, Any] | None:
        table = tables.get(name)
        if table is None or not columns <= set(table.column_names):
            return None
        at = table.column("t_ns").to_numpy()
        # A sample is of the time since the one before: all of that has to lie in the stretch.
        instants = np.unique(at)
        since = np.concatenate([[-np.inf], instants[:-1]])[np.searchsorted(instants, at)]
        inside = np.flatnonzero((since >= stretch.begin_ns) & (at <= stretch.end_ns))
        return table.take(inside).to_pydict() if inside.size else None

    said = []
    if cpu := within("system_cpu", {"t_ns", "idle", "iowait"}):
        idle, waiting = (_mean(np.array(cpu[name], dtype=float)) for name in ("idle", "iowait"))
        if idle is not None and waiting is not None:
            said.append(f"processors {1 - idle - waiting:.0%} busy, {waiting:.0%} waiting for I/O")
    if devices := within("system_devices", {"t_ns", "device", "utilisation"}):
        busy: dict[str, list[float]] = {}
        for name, share in zip(devices["device"], devices["utilisation"], strict=True):
            if share is not None:
                busy.setdefault(name, []).append(share)
        if busy:
            mean, name = max((sum(all_) / len(all_), name) for name, all_ in busy.items())
            said.append(f"busiest device {name} {mean:.0%}")
    return ", ".join(said)


def _mean(values: Any) -> float | None:
    """Mean of a column, or None when it is not there or has gaps."""
    if values is None or values.size == 0:
        return None
    mean = float(values.mean())
    return mean if mean == mean else None


def _competing_load(
    evidence: Mapping[str, Evidence], provenance: Mapping[str, Any], others_during: float | None
) -> CheckRecord:
    """CPU that others used before the start and meanwhile, and what the hypervisor kept back."""
    from nfslab.statistics.checks.competing_load import check_competing_load

    load, cpu = provenance.get("load_before"), provenance.get("cpu")
    others = load.get("others_cpus") if isinstance(load, dict) else None
    cpus = cpu.get("logical") if isinstance(cpu, dict) else None
    before = others / cpus if isinstance(others, int | float) and cpus else None
    steal = None
    for seen in evidence.values():
        table = seen.tables.get("system_cpu")
        if table is not None and {"t_ns", "steal"} <= set(table.column_names):
            during = table.column("steal").to_numpy()[table.column("t_ns").to_numpy() >= 0]
            steal = _mean(during)
    return _record(
        check_competing_load(
            others_before=before,
            others_during=others_during,
            steal_during=steal,
        )
    )


def memory_check(cgroup: Cgroup) -> tuple[dict[str, Any], CheckRecord]:
    """(what the run's record keeps of the memory limit, the check on it)."""
    peak, events = cgroup.peak_bytes(), cgroup.events()
    record = {
        "limit_bytes": cgroup.limit_bytes,
        "version": cgroup.version,
        "peak_bytes": peak,
        "events": events,
        "swap": cgroup.swap,
    }
    kills = events.get("oom_kill", 0)
    verdict: Any = "ok"
    message = f"limit {format_size(cgroup.limit_bytes)}"
    if peak is None:
        verdict, message = "unknown", f"{message}; this kernel does not keep the peak"
    elif peak < EMPTY_GROUP_BYTES:
        verdict = "violation"
        message = f"{message}, but nothing of the workload ran inside of the group"
    else:
        message = f"{message}, peak {format_size(peak)}, hit {events.get('max', 0)} times"
    if kills:
        verdict = "violation"
        message = (
            f"{message}; the kernel killed {kills} processes for it: "
            "give a larger limits.memory, or the server smaller buffers"
        )
    return record, CheckRecord(
        name="memory_limit", verdict=verdict, message=message, values=dict(record)
    )


def worst_violations(checks: Sequence[CheckRecord]) -> list[CheckRecord]:
    """The checks of a workload that fail its run."""
    return [check for check in checks if check.verdict == "violation"]
