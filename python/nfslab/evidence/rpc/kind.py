"""NFS clients of a run: facts, section and panels of the collector `rpc`.

Facts are the differences of the client's counters over its watching, and its figures of each
operation. A round trip is from the first send of a call to its reply.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from nfslab.display import cells
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import EvidenceKind, Facts, TableSpec
from nfslab.evidence.by_mount import by_mount, operations_of, series_table
from nfslab.evidence.call_counts.counts import NOT_DERIVED, why_incomplete
from nfslab.evidence.over_time import PanelSpec, middle, named_panel, read_named, timed_mean
from nfslab.evidence.same import MOUNT, OPERATION, POINT, RUNS, median, noted, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from nfslab.display.figures import Panel
    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.over_time import Named
    from nfslab.evidence.same import Same

_SERIES: Final = (
    PanelSpec(
        "rpc_rates", "NFS calls", "1/s",
        {"enqueued_per_s": "entering", "answered_per_s": "answered"},
    ),
    PanelSpec(
        "rpc_queue", "NFS calls in flight, RPC backlog", "1",
        {"outstanding": "in flight", "queue": "RPC backlog"},
    ),
    PanelSpec("rpc_round_trip", "NFS round trip", "ms", {"round_trip_ms": ""}),
    PanelSpec(
        "rpc_again", "NFS retransmissions, timeouts", "1/s",
        {"retransmissions_per_s": "retransmitted", "major_timeouts_per_s": "timeouts"},
    ),
)  # fmt: skip
_WINDOW: Final = PanelSpec(
    "rpc_window", "TCP congestion window, by connection", "1", {"congestion_window": ""}
)
NOTE: Final = (
    "Over time: round trips are means over each interval, from the first send to the reply, as the "
    "client's own records have them."
)
ASKED: Final = ("READ", "GETATTR", "WRITE", "COMMIT")
"""Always in the table of a transaction's calls: that there is none is an answer."""
CALLS_LEAST: Final = 0.001
"""Of a transaction: operations that are rarer everywhere have no column."""
OPERATIONS_MOST: Final = 8
"""Rows of one mount at one point, the most frequent operations first."""


class OperationFacts(Facts):
    """One operation of one client, since its mount."""

    operation: str
    calls: int
    errors: int | None
    timed_calls: float | None = None
    """In the timed part, by the samples at its ends; older runs have none."""
    p50_ns: float | None
    """From the first send to the reply."""
    p99_ns: float | None
    max_ns: float | None


class ClientFacts(Facts):
    """One mount: means and peaks of its samples in the timed part."""

    target: str
    answered_per_s: float | None
    round_trip_ms: float | None
    """Mean of all answered calls, from the first send to the reply."""
    outstanding: float | None
    outstanding_max: float
    queue: float | None
    queue_max: float
    retransmissions: int
    """While it was watched."""
    major_timeouts: int
    operations: tuple[OperationFacts, ...]
    transactions: float | None = None
    """Of a database, in the timed part; None: the load is another."""


class RpcFacts(Facts):
    """One run."""

    clients: tuple[ClientFacts, ...]
    notes: tuple[str, ...]


class RpcEvidence(EvidenceKind[RpcFacts]):
    """Queue, window, rates and round trips of NFS clients."""

    kind: ClassVar[str] = "rpc"
    title: ClassVar[str] = "What the NFS client did"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        series_table("rpc_series", _SERIES, ("outstanding", "queue"), optional=True),
    )
    Facts: ClassVar[type[Facts]] = RpcFacts
    version: ClassVar[int] = 3

    def facts(self, run: SealedRun) -> RpcFacts | None:
        """Of the collector's summary."""
        summary = run.summary("rpc")
        if not summary.get("clients"):
            return None
        series = _read_series(run)
        counted = run.record.metrics.get("transactions")
        transactions = None
        notes = list(summary.get("notes", []))
        if counted is not None and run.record.operations == "transactions":
            if lacks := why_incomplete(run.record, "rpc"):
                notes.append(NOT_DERIVED.format(lacks=lacks, what="calls of a transaction"))
            else:
                transactions = counted.value
        return RpcFacts(
            clients=tuple(
                _client(name, one, series).model_copy(update={"transactions": transactions})
                for name, one in summary["clients"].items()
            ),
            notes=tuple(notes),
        )

    def section(self, found: Found[RpcFacts]) -> Section | None:
        """Mounts and their operations by point."""
        mounts = by_mount(found, lambda facts: facts.clients)
        tables = [_mount_table(mounts), _transaction_table(mounts), _operation_table(mounts)]
        return Section(
            self.title,
            anchor=self.kind,
            intro="As the NFS clients recorded it; medians over the runs of a configuration.",
            tables=[table for table in tables if table.rows],
            notes=[*noted(found), NOTE],
        )

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """Rates, queue, round trip, what was retransmitted, the congestion window."""
        series = _read_series(run)
        made = [panel for spec in _SERIES for panel in named_panel(spec, series)]
        window = read_named(run, "rpc_tcp", "connection", list(_WINDOW.labels))
        return [*made, *named_panel(_WINDOW, window)]


def _read_series(run: SealedRun) -> Named | None:
    wanted = [name for spec in _SERIES for name in spec.labels]
    return read_named(run, "rpc_series", "target", wanted)


def _client(name: str, summary: Mapping[str, Any], series: Named | None) -> ClientFacts:
    counters = summary.get("counters", {})
    columns = {} if series is None else series.samples.columns

    def mean(quantity: str, by_call: bool = False) -> float | None:
        values = columns.get(f"{quantity}:{name}")
        answered = columns.get(f"answered_per_s:{name}")
        if series is None or values is None or answered is None:
            return None
        there = np.isfinite(answered)  # other mounts have samples at other times
        weights = answered[there] if by_call else None
        return timed_mean(series.samples.t_s[there], values[there], weights)

    def most(quantity: str) -> float:
        column = f"{quantity}:{name}"
        return 0.0 if series is None or column not in columns else series.samples.most(column)

    return ClientFacts(
        target=name,
        answered_per_s=mean("answered_per_s"),
        round_trip_ms=mean("round_trip_ms", by_call=True),
        outstanding=mean("outstanding"),
        outstanding_max=most("outstanding"),
        queue=mean("queue"),
        queue_max=most("queue"),
        retransmissions=counters.get("retransmissions", 0),
        major_timeouts=counters.get("major_timeouts", 0),
        operations=tuple(
            OperationFacts(**{name: row.get(name) for name in OperationFacts.model_fields})
            for row in summary.get("operations", [])
        ),
    )


def _mount_table(mounts: Sequence[Same[ClientFacts]]) -> Table:
    return Table.of("Mounts", mounts, [
        POINT, MOUNT, RUNS,
        (Column("calls answered"), median(lambda c: c.answered_per_s, "1/s")),
        (Column("round trip", hint="mean of all answered calls, first send to reply"),
         median(lambda c: c.round_trip_ms, "ms")),
        (Column("in flight"), median(lambda c: c.outstanding, "1")),
        (Column("max"), lambda m: cells.quantity(max(c.outstanding_max for c in m.runs), "1")),
        (Column("RPC backlog"), median(lambda c: c.queue, "1")),
        (Column("max"), lambda m: cells.quantity(max(c.queue_max for c in m.runs), "1")),
        (Column("retransmitted"), total(lambda c: c.retransmissions, "warning")),
        (Column("major timeouts"), total(lambda c: c.major_timeouts, "severe")),
    ])  # fmt: skip


def _calls(name: str, client: ClientFacts) -> float | None:
    """Of an operation, for each transaction."""
    mine = next((one for one in client.operations if one.operation == name), None)
    counted = 0.0 if mine is None else mine.timed_calls
    if counted is None or not client.transactions:
        return None
    return counted / client.transactions


def _transaction_table(mounts: Sequence[Same[ClientFacts]]) -> Table:
    """Which calls a transaction of a database makes, point beside point."""

    known = [
        mount
        for mount in mounts
        if any(c.transactions and any(o.timed_calls for o in c.operations) for c in mount.runs)
    ]
    names = {one.operation for mount in known for c in mount.runs for one in c.operations}
    most = {
        name: max(middle(_calls(name, c) for c in mount.runs) or 0.0 for mount in known)
        for name in names - {*ASKED}
    }
    others = sorted((name for name in most if most[name] >= CALLS_LEAST), key=lambda n: -most[n])
    columns = [
        (Column(name), median(partial(_calls, name), "1"))
        for name in (*ASKED, *others[:OPERATIONS_MOST])
    ]
    note = (
        "Calls in the timed part over the transactions committed in it; medians over the runs. "
        "Other operations with less than one call in a thousand transactions are left out."
    )
    return Table.of("Calls of a transaction", known, [POINT, MOUNT, RUNS, *columns], note=note)


def _operation_table(mounts: Sequence[Same[ClientFacts]]) -> Table:
    note = (
        "Since the mount, what prepared the run included (the kernel's client: since the collector "
        "began, from the last send); from the first send to the reply."
    )
    return Table.of("Operations", operations_of(mounts, OPERATIONS_MOST), [
        POINT, MOUNT, OPERATION,
        (Column("calls"), median(lambda one: one.calls, "1")),
        (Column("errors"), median(lambda one: one.errors, "1")),
        (Column("p50"), median(lambda one: one.p50_ns, "ns")),
        (Column("p99"), median(lambda one: one.p99_ns, "ns")),
        (Column("max"), lambda row: cells.latency(max(one.max_ns or 0.0 for one in row.runs))),
    ], note=note, open=False)  # fmt: skip
