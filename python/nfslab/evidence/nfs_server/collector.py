"""Server-side times of every call of an NFS server of the run.

The embedded server records itself (crates/server, module record), the kernel's is seen by
tracepoints (nfslab.servers.knfsd_records). The target that started it leaves it in
`context.services.nfs_servers` (by target), and this collector has it write its calls to a file
while the load runs, read at the end.

    start: the server records, to a file of the run ──> stop: it ends the file ──> the table

Decisions. The server's own process takes and writes the rows, beside its threads that serve:
nothing comes over a pipe. Instants are the server's, CLOCK_MONOTONIC; with a service model they
are the model's, so that a planted time lies where it was planted (docs/server.md). The table is
bounded (CALL_ROWS_MAX a server); beyond it calls are counted only. With the collector `rpc` and
`calls = true` the report joins both records and says where a call's time goes.

Cost: Evidence.cpu_s is what taking and writing the rows cost the server's process, and reading
them here. What a record costs the thread that serves is in docs/benchmarks.md.

Limits: the embedded server and the kernel's only; of all clients of the kernel's. What a killed
server had recorded is lost with it; the run says so, and keeps what other servers and collectors
saw. The file lies in the run's folder, so its few bytes a call go to that disk while the load runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence, Side
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from nfslab.context import RecordsCalls
    from nfslab.workloads.base import RunContext

TABLE: Final = "nfs_server_calls"
CALL_ROWS_MAX: Final = 2_000_000
"""Calls of one server kept in the table; beyond, they are counted only."""
NS_PER_S: Final = 1e9
INSTANTS: Final = ("received_ns", "started_ns", "finished_ns", "sent_ns")
SPANS: Final = ("waiting", "service", "sending")
"""Between one instant and the next."""
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


class NfsServerCollector(Collector):
    """When each call was received, begun, done and answered."""

    kind: ClassVar[str] = "nfs_server"
    summary: ClassVar[str] = (
        "server-side times of every call of the embedded or the kernel's NFS server"
    )
    Parameters: ClassVar[type[CollectorParameters]] = CollectorParameters
    side: ClassVar[Side] = "server"

    @classmethod
    def available(cls) -> Availability:
        """Everywhere: it is the server that records."""
        return Availability(True)

    def applies(self, context: RunContext) -> Availability:
        """Has a target of this run a server that records?"""
        if not context.services.nfs_servers:
            return Availability(
                False,
                "no place of this run is on an NFS server that records its calls",
                'use a target of kind "nfs" with server = "embedded" or "knfsd"',
                moot=True,
            )
        return self.available()

    def start(self, context: RunContext) -> None:
        """All servers record; RunFailed, in its words, when one does not."""
        watch = self._watch = _Watch(context)
        watch.begin()


@dataclass(slots=True)
class _Served:
    """One server and where it writes."""

    server: RecordsCalls
    file: Path
    recording: bool = False
    calls: pa.Table | None = None
    ended: Mapping[str, Any] = field(default_factory=dict)


class _Watch:
    """A run's servers, from `begin` to `end`."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._folder = context.folder / "nfs-server-records"
        self._served = {
            name: _Served(server, self._folder / f"{number}.parquet")
            for number, (name, server) in enumerate(context.services.nfs_servers.items())
        }
        self._notes: list[str] = []
        self._began_ns = clock.monotonic_ns()

    def begin(self) -> None:
        try:
            self._folder.mkdir()
        except OSError as error:
            raise RunFailed(
                "NFS servers cannot be watched",
                why=str(error),
                fix="make room in the results folder and let this user write there",
            ) from error
        for served in self._served.values():
            served.server.record(served.file, CALL_ROWS_MAX)
            served.recording = True

    def end(self) -> Evidence:
        """What each server wrote; of one that has ended, that it did."""
        began = clock.thread_cpu()
        for name, served in self._served.items():
            if served.recording:
                self._end(name, served)
        self._clear()
        zero_ns = self._context.timed.start_or(self._began_ns)
        tables = _tables(self._served, zero_ns)
        servers = {name: self._summary(name, one) for name, one in self._served.items()}
        summary: dict[str, Any] = {"servers": servers, "notes": self._notes}
        if missing := [name for name, one in self._served.items() if one.calls is None]:
            summary["incomplete"] = f"no server-side times of {', '.join(missing)}"
        self._context.notes.extend(f"collector nfs_server: {note}" for note in self._notes)
        here_s = clock.thread_cpu() - began
        return Evidence(
            tables=tables,
            summary=summary,
            cpu_s=here_s + sum(one.ended.get("cpu_s", 0.0) for one in self._served.values()),
            wall_s=(clock.monotonic_ns() - self._began_ns) / NS_PER_S,
        )

    def _end(self, name: str, served: _Served) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            served.ended = served.server.end_recording()
            served.calls = pq.read_table(served.file)
        except RunFailed as error:
            told = "; ".join(part for part in (error.what, error.why) if part)
            self._notes.append(f"{name}: its calls are lost: {told}")
        except (OSError, pa.ArrowException) as error:
            self._notes.append(f"{name}: its calls cannot be read: {error}")

    def _clear(self) -> None:
        """The rows are evidence now, in another file; what a killed server began goes, too."""
        try:
            for file in self._folder.iterdir():
                file.unlink()
            self._folder.rmdir()
        except OSError as error:
            self._notes.append(f"{self._folder} is left: {error.strerror}")

    def _summary(self, name: str, served: _Served) -> dict[str, Any]:
        for key, words in (
            ("lost", "were lost: they came faster than they could be written"),
            ("left_out", "are counted, not kept"),
        ):
            if count := served.ended.get(key, 0):
                self._notes.append(f"{name}: {count} calls {words}")
        timed = self._context.timed
        within = (timed.start_ns or 0, timed.end_ns or 0)
        operations = [] if served.calls is None else _operations(served.calls, within)
        figures = {key: served.ended.get(key) for key in ("rows", "lost", "left_out", "cpu_s")}
        return figures | {"operations": operations}


def _tables(all_served: Mapping[str, _Served], zero_ns: int) -> dict[str, pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    for name, served in all_served.items():
        if served.calls is None or not served.calls.num_rows:
            continue
        calls = served.calls.replace_schema_metadata(None)
        t_ns = pc.subtract(calls["received_ns"].cast(pa.int64()), zero_ns)
        target = pa.array([name]).dictionary_encode().take(pa.array([0] * calls.num_rows))
        found.append(calls.add_column(0, "t_ns", t_ns).append_column("target", target))
    if not found:
        return {}
    whole = pa.concat_tables(found, promote_options="default")
    return {TABLE: whole.unify_dictionaries().sort_by("t_ns")}


def _operations(calls: pa.Table, timed_ns: tuple[int, int]) -> list[dict[str, Any]]:
    """By operation: how many, also of the timed part, and how long each span took, in ns."""
    import numpy as np

    from nfslab.results.coded_texts import coded_texts
    from nfslab.statistics.latency_parts import parts_of
    from nfslab.statistics.quantile_estimator import quantiles

    spans = parts_of([calls[name].to_numpy() for name in INSTANTS])
    names, which = coded_texts(calls["operation"])
    received = calls["received_ns"].to_numpy()
    within = (received >= timed_ns[0]) & (received <= timed_ns[1])
    found: list[dict[str, Any]] = []
    for number, operation in enumerate(names):
        mine = spans[:, which == number]
        row: dict[str, Any] = {"operation": operation, "calls": int(mine.shape[1])}
        row["timed_calls"] = int(within[which == number].sum())
        for span, values in zip(SPANS, mine, strict=True):
            row[f"{span}_mean_ns"] = float(np.mean(values))
            made = quantiles(values, list(QUANTILES.values()))
            row |= {f"{span}_{q}_ns": one.value for q, one in zip(QUANTILES, made, strict=True)}
        found.append(row)
    return sorted(found, key=lambda row: -row["calls"])
