"""What an NFS client does: queue, window, rates, round trips, TCP, every call if asked.

The rpcstat of 2001 without a kernel patch: our client records itself (crates/client, module
record), the kernel's is seen by tracepoints (nfslab.mounts.kernel_recorder). A target that mounts
with one leaves its recorder in `context.services.rpc_recorders` (by target), and this collector
takes samples and calls while the load runs.

    start: recorders on ──> a thread moves records out ──> stop: the last ones, recorders off

Decisions. Counters are totals since the client began: rates are differences of two samples over
their exact distance, at the time of the later one, so that nothing is lost between them. A round
trip is from the first send to the reply. What was lost because it was not taken in time is
counted and noted; the table of calls is bounded (CALL_ROWS_MAX), beyond it calls are counted only.

Cost: Evidence.cpu_s is the thread's own CPU time. Recording one call costs the client's thread
about as much as benches/nfs_ends.py shows between "counters" and "every call".

Limits: only clients of this run's own mounts; of others there is the collector `capture`. Of the
kernel's client bytes and files are not told (`mountstats` has bytes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence, Side
from nfslab.machine.availability import Availability, core
from nfslab.machine.drain_thread import DrainThread
from nfslab.quantities import Duration
from nfslab.results.bounded_rows import BoundedRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from nfslab._core import RpcRecorder
    from nfslab.mounts.kernel_recorder import KernelRecorder
    from nfslab.workloads.base import RunContext

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

CALL_ROWS_MAX: Final = 2_000_000
"""Calls kept in the table, about 250 MB; beyond, they are counted only."""
NS_PER_S: Final = 1e9
GAUGES: Final = ("queue", "outstanding")
RATES: Final = (
    "enqueued", "answered", "failed", "sends", "retransmissions", "minor_timeouts",
    "major_timeouts", "bytes_out", "bytes_in",
)  # fmt: skip


class RpcCollectorParameters(CollectorParameters):
    """What `[collectors.rpc]` may hold."""

    interval: Duration = Field(default=0.1, ge=0.001, le=60)
    """Between two samples."""
    calls: bool = False
    """Record every call, and keep the table of them (rpc_calls)."""


class RpcCollector(Collector):
    """Queue, window, rates, round trips and TCP of the run's NFS clients."""

    kind: ClassVar[str] = "rpc"
    summary: ClassVar[str] = "queue, window, rates and round trips of a run's own NFS mounts"
    Parameters: ClassVar[type[CollectorParameters]] = RpcCollectorParameters
    side: ClassVar[Side] = "files"

    parameters: RpcCollectorParameters

    @classmethod
    def available(cls) -> Availability:
        """Is the core there?"""
        return core()

    def applies(self, context: RunContext) -> Availability:
        """Has a target of this run a client that can be watched?"""
        if not context.services.rpc_recorders:
            return Availability(
                False,
                "no place of this run is mounted by an NFS client that can be watched",
                "mount a target by nfslab, or use the collector capture",
                moot=True,
            )
        return self.available()

    def start(self, context: RunContext) -> None:
        """Recorders on, and a thread that empties them; RunFailed when a client has ended, or the
        kernel does not let its own be watched."""
        from nfslab._core import CoreError

        watch = _Watch(context, self.parameters)
        try:
            watch.begin()
        except CoreError as error:
            gone = "see that its server answers, and that nobody unmounts it meanwhile"
            raise RunFailed(
                "an NFS client cannot be watched",
                why=str(error),
                fix=gone if error.kind == "closed" else error.fix,
            ) from error
        self._watch = watch


@dataclass
class _Client:
    """One client and what was taken of it."""

    source: RpcRecorder | KernelRecorder
    before: Mapping[str, int]
    calls_before: Mapping[str, int]
    """By operation: what prepared the run."""
    samples: dict[str, list[pa.Table]] = field(default_factory=dict)
    calls: BoundedRows = field(default_factory=lambda: BoundedRows(CALL_ROWS_MAX))


class _Watch:
    """A run's clients, emptied by a thread until `end`."""

    def __init__(self, context: RunContext, p: RpcCollectorParameters) -> None:
        self._context, self._p = context, p
        sources = context.services.rpc_recorders.items()
        self._clients = {name: _Client(s, s.counters(), _calls_of(s)) for name, s in sources}
        # 262,144 records wait in the client: 1.3 million calls a second.
        self._thread = DrainThread(self._take, "rpc records")
        self._notes: list[str] = []
        self._began_ns = clock.monotonic_ns()

    def begin(self) -> None:
        for client in self._clients.values():
            client.source.start(self._p.calls, round(self._p.interval * NS_PER_S))
        self._thread.begin()

    def _take(self) -> None:
        from nfslab.results.core_tables import core_table

        for client in self._clients.values():
            for name, columns in client.source.samples().items():
                client.samples.setdefault(name, []).append(core_table(columns))
            client.calls.keep(core_table(client.source.calls()))

    def end(self) -> Evidence:
        """Everything that was taken, and what was lost."""
        from nfslab._core import CoreError

        self._thread.end()
        if self._thread.problem:
            # Its mount has gone under the load: what was taken before is kept.
            self._notes.append(f"recording ended early: {self._thread.problem}")
        try:
            for client in self._clients.values():
                client.source.stop()
            self._take()
        except CoreError as error:
            self._notes.append(f"the last records are missing: {error}")
        zero_ns = self._context.timed.start_or(self._began_ns)
        return Evidence(
            tables=_tables(self._clients, zero_ns),
            summary={
                "clients": {name: self._summary(name, c) for name, c in self._clients.items()},
                "interval_s": self._p.interval,
                "notes": self._notes,
            },
            cpu_s=self._thread.cpu_s,
            wall_s=(clock.monotonic_ns() - self._began_ns) / NS_PER_S,
        )

    def _summary(self, name: str, client: _Client) -> dict[str, Any]:
        from nfslab._core import CoreError
        from nfslab.mounts.kernel_recorder import KernelRecorder

        lost = dict(client.source.lost())
        if isinstance(client.source, KernelRecorder) and client.source.tcp_refused:
            self._notes.append(f"{name}: TCP is not told: {client.source.tcp_refused}")
        for what, count in lost.items():
            if count:
                self._notes.append(f"{name}: {count} {what} were lost: they came too fast")
        if client.calls.left_out:
            self._notes.append(f"{name}: {client.calls.left_out} calls are counted, not kept")
        try:
            after = dict(client.source.counters())
            operations = [dict(one) for one in client.source.operations()]
        except CoreError:
            return {"lost": lost}
        moved = {
            key: value - client.before.get(key, 0)
            for key, value in after.items()
            if key not in GAUGES and not key.endswith("_max")
        }
        timed = self._timed_calls(name, client.samples.get("operations", []))
        for one in operations:
            name = one["operation"]
            one["timed_calls"] = timed.get(name)
            one["watched_calls"] = one["calls"] - client.calls_before.get(name, 0)
        return {"counters": moved, "operations": operations, "lost": lost}

    def _timed_calls(self, name: str, samples: list[pa.Table]) -> dict[str, float]:
        """See `timed_calls`; a note where not all can be told."""
        import pyarrow as pa

        from nfslab.evidence.rpc.timed_calls import timed_calls

        start_ns, end_ns = self._context.timed.start_ns, self._context.timed.end_ns
        if start_ns is None or end_ns is None or not sum(table.num_rows for table in samples):
            return {}
        table = pa.concat_tables(samples).unify_dictionaries()
        found, every = timed_calls(table, start_ns, end_ns, self._p.interval * NS_PER_S)
        if not every:
            self._notes.append(
                f"{name}: calls of the timed part are not all told: the counters were not read "
                f"near its ends (a reading each {self._p.interval:g} s was asked for)"
            )
        return found


def _calls_of(source: RpcRecorder | KernelRecorder) -> dict[str, int]:
    return {one["operation"]: one["calls"] for one in source.operations()}


def _tables(clients: Mapping[str, _Client], zero_ns: int) -> dict[str, pa.Table]:
    import pyarrow as pa

    found: dict[str, list[pa.Table]] = {}
    for name, client in clients.items():
        whole = {kind: pa.concat_tables(parts) for kind, parts in client.samples.items()}
        calls = client.calls.table()
        made = {
            "rpc_series": _series(whole["rpc"], whole["operations"]) if "rpc" in whole else None,
            "rpc_tcp": _timed(whole["tcp"], "at_ns", zero_ns) if "tcp" in whole else None,
            "rpc_calls": None if calls is None else _timed(calls, "sent_first_ns", zero_ns),
        }
        if made["rpc_series"] is not None:
            made["rpc_series"] = _timed(made["rpc_series"], "at_ns", zero_ns)
        for kind, table in made.items():
            if table is not None and table.num_rows:
                column = pa.array([name] * table.num_rows).dictionary_encode()
                found.setdefault(kind, []).append(table.append_column("target", column))
    return {
        kind: pa.concat_tables(parts, promote_options="default")
        .unify_dictionaries()
        .sort_by("t_ns")
        for kind, parts in found.items()
    }


def _timed(table: pa.Table, column: str, zero_ns: int) -> pa.Table:
    """With t_ns in front, from the start of the timed part."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = pc.subtract(table[column].cast(pa.int64()), zero_ns)
    dropped = table.drop_columns([column]) if column == "at_ns" else table
    return dropped.add_column(0, "t_ns", times)


def _series(samples: pa.Table, operations: pa.Table) -> pa.Table:
    """Gauges, rates and the mean round trip since the sample before."""
    import numpy as np
    import pyarrow as pa

    at_ns = samples["at_ns"].to_numpy().astype(np.int64)
    distance_s = np.diff(at_ns) / NS_PER_S
    columns: dict[str, Any] = {"at_ns": at_ns[1:]}
    for gauge in GAUGES:
        columns[gauge] = samples[gauge].to_numpy()[1:]
    for name in (rate for rate in RATES if rate in samples.column_names):
        moved = np.diff(samples[name].to_numpy().astype(np.int64))
        columns[f"{name}_per_s"] = moved / distance_s
    trips, calls = (
        _totals(operations, at_ns, "round_trip_sum_ns"),
        _totals(operations, at_ns, "calls"),
    )
    moved_calls = np.diff(calls)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_ms: Floats = np.diff(trips) / moved_calls / 1e6
    columns["round_trip_ms"] = pa.array(mean_ms, mask=moved_calls == 0)
    return pa.table(columns)


def _totals(operations: pa.Table, at_ns: Any, column: str) -> Any:
    """The sum over all operations at each sample."""
    import numpy as np

    places = np.searchsorted(at_ns, operations["at_ns"].to_numpy().astype(np.int64))
    totals = np.zeros(len(at_ns), dtype=np.int64)
    np.add.at(totals, places, operations[column].to_numpy().astype(np.int64))
    return totals
