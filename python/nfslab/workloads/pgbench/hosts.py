"""pgbench on several client hosts against one server: a part of the load each, then joined.

    database loaded, server up, on the prime or the server's host ──> told: address, password ──> a
    pgbench on each host, begun at one instant, with its part of clients and rate ──> its
    transactions and its report, as files ──> one axis ──> one table in order of completion

Every transaction of every host is in that table, so quantiles are exact. The span that tps refers
to goes from the first transaction's start on any host to the last pgbench's end: the time in which
one host was at work and others not yet, or no more, makes tps too low, never too high. How large it
is stands in the check `hosts_overlap`. pgbench connects after it was started: hosts that are begun
together do their first transaction some milliseconds apart.

Instants of other hosts are moved by what their clocks differed by; latencies are durations.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

from nfslab.databases.postgres.deployment import PostgresDeployment
from nfslab.databases.postgres.server import ServerElsewhere
from nfslab.errors import RunFailed
from nfslab.machine import handed
from nfslab.machine.availability import Availability
from nfslab.machine.handed import HandedOver
from nfslab.results.records import CheckRecord
from nfslab.workloads.base import HostFigures
from nfslab.workloads.pgbench.execution import PgbenchRun
from nfslab.workloads.pgbench.printed import PrintedReport, ScriptReport
from nfslab.workloads.pgbench.statements import CommandReport
from nfslab.workloads.pgbench.transaction_log import FAILED, OK, SKIPPED, TransactionLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from nfslab.context import HostPart, Share
    from nfslab.databases.postgres.database import PostgresDatabase
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.pgbench.parameters import PgbenchParameters

SEED_STEP: Final = 0x9E37_79B9_7F4A_7C15
"""Between the seeds of two hosts: without it all would draw the same rows."""
OVERLAP_LEAST: Final = 0.95


class Endpoint(BaseModel):
    """What is told of the server. Not for the records: it has the password."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    port: int
    password: str
    major: int
    """Version of the server, and of pgbench on each host."""
    scripts: list[str]
    """Texts of own scripts."""
    folders: list[str]
    """Where the database is, on the server's machine."""


class Handed(HandedOver):
    """What one host hands over beside its transactions."""

    start_ns: int
    """Where t = 0 of its transactions is, on its monotonic clock."""
    end_ns: int
    printed: PrintedReport
    client_cpu_s: float
    committed: dict[str, int]
    """By script, warm-up included."""
    uncounted: int


class PartOfLoad:
    """On one of several client hosts: its part of the clients, against the server of all."""

    def __init__(
        self, whole: PgbenchParameters, database: PostgresDatabase, told: Endpoint
    ) -> None:
        self.parameters = whole
        self._database, self._told = database, told
        self._server: ServerElsewhere | None = None

    def prepare(self, context: RunContext) -> None:
        """The server answers; own scripts are files here. RunFailed."""
        told, installation = self._told, self._database.installation
        if installation.major != told.major:
            raise RunFailed(
                f"pgbench here is of PostgreSQL {installation.version}, the server is {told.major}",
                why="another pgbench would be another load",
                fix="install that version on this host, or set workload.postgres",
            )
        scripts = []
        for number, text in enumerate(told.scripts):
            scripts.append(context.logs / f"script-{number}.sql")
            scripts[-1].write_text(text, encoding="utf-8")
        self.parameters = part_of(self.parameters, context.share, scripts)
        self._server = ServerElsewhere(
            PostgresDeployment.of(
                context, None, installation=installation, database=self._database.load.database
            ),
            told.host, told.port, told.password,
        )  # fmt: skip
        self._server.connect().close()

    def server(self) -> ServerElsewhere:
        """The one of all hosts."""
        if self._server is None:
            raise RunFailed("the part of the load was not prepared", fix="Please report this.")
        return self._server

    def folders_here(self) -> list[Path]:
        """Those of the database that are on this machine, if it is the server's."""
        return [path for path in map(Path, self._told.folders) if path.is_dir()]


def possible(whole: PgbenchParameters, hosts: int, processes: int) -> Availability:
    """Each needs a client, and the way to the server is a network."""
    if processes != 1:
        return Availability(
            False, "pgbench runs once on each client host",
            "leave client.processes out: workload.threads are the threads of each pgbench",
        )  # fmt: skip
    if whole.socket != "tcp":
        return Availability(
            False, "client hosts reach the server over a network, and pgbench would not use it",
            'set workload.socket = "tcp"',
        )  # fmt: skip
    if whole.clients < hosts:
        return Availability(
            False, f"{whole.clients} clients are too few for {hosts} client hosts",
            "ask for fewer hosts, or for more of workload.clients: they are those of all hosts",
        )  # fmt: skip
    return Availability(True)


def part_of(
    whole: PgbenchParameters, share: Share, scripts: Sequence[Path] = ()
) -> PgbenchParameters:
    """One host's part: clients and rate are dealt out, all else is each host's."""
    each, more = divmod(whole.clients, share.hosts)
    clients = each + (share.host < more)
    rate = None if whole.rate is None else whole.rate * clients / whole.clients
    changes = {"clients": clients, "rate": rate, "scripts": list(scripts)}
    return whole.model_copy(update=changes)


@dataclass(frozen=True, slots=True)
class Whole:
    """What all hosts did."""

    log: TransactionLog
    """In the order of `table`; its time stamps count from the common start."""
    table: pa.Table
    run: PgbenchRun
    """As if one pgbench had done it; `started_ns`: the common start."""
    span_ns: int
    committed: dict[str, int]
    uncounted: int
    by_host: dict[str, HostFigures]
    checks: list[CheckRecord]


def merged(whole: PgbenchParameters, parts: Sequence[HostPart]) -> Whole:
    """All of it on one axis; RunFailed for what cannot be read."""
    read = [_read(part) for part in parts]
    begins = [one.start_ns - part.offset_ns for (one, _), part in zip(read, parts, strict=True)]
    ends = [one.end_ns - part.offset_ns for (one, _), part in zip(read, parts, strict=True)]
    start_ns, span_ns = min(begins), max(ends) - min(begins)
    table = _table(whole, parts, [of for _, of in read], [one - start_ns for one in begins])
    committed: Counter[str] = Counter()
    for one, _ in read:
        committed.update(one.committed)
    reports = [one.printed for one, _ in read]
    log = _log(table, has_lag=whole.rate is not None)
    run = PgbenchRun(
        printed=_printed(reports, span_ns),
        started_ns=start_ns,
        realtime_offset_ns=(0, 0),
        client_cpu_s=math.fsum(one.client_cpu_s for one, _ in read),
        server_cpu_s=None,
    )
    return Whole(
        log, table, run, span_ns, committed, sum(one.uncounted for one, _ in read),
        by_host={part.name: _figures(whole, part, of, one.printed)
                 for part, (one, of) in zip(parts, read, strict=True)},
        checks=[_all_there(whole, log, reports), _overlap(parts, begins, ends, span_ns)],
    )  # fmt: skip


def _read(part: HostPart) -> tuple[Handed, pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (found,) = handed.read(part, Handed)
    try:
        return found, pq.read_table(part.folder / "samples" / "transactions.parquet")
    except (OSError, pa.ArrowException) as error:
        raise handed.unreadable(f"what pgbench measured on {part.name}", error) from error


def _table(
    whole: PgbenchParameters,
    parts: Sequence[HostPart],
    tables: Sequence[pa.Table],
    shifts_ns: Sequence[int],
) -> pa.Table:
    """The transactions of all in order of completion; clients are numbered through all hosts."""
    import numpy as np
    import pyarrow as pa

    names: Any = pa.array([part.name for part in parts])
    moved, first = [], 0
    for number, (part, table) in enumerate(zip(parts, tables, strict=True)):
        columns = {
            "t_ns": pa.array(table["t_ns"].to_numpy() + shifts_ns[number]),
            "client": pa.array(table["client"].to_numpy() + np.int32(first)),
        }
        columns |= {name: table[name] for name in table.column_names if name not in columns}
        which: Any = pa.array(np.full(table.num_rows, number, np.int16))
        columns["host"] = pa.DictionaryArray.from_arrays(which, names)
        moved.append(pa.table(columns))
        first += part_of(whole, part.share).clients
    every = pa.concat_tables(moved)
    order: Any = pa.array(np.argsort(every["t_ns"].to_numpy(), kind="stable"))
    return every.take(order)


def _log(table: pa.Table, *, has_lag: bool) -> TransactionLog:
    import pyarrow.compute as pc

    def microseconds(name: str) -> Any:
        column: Any = table[name]
        return pc.fill_null(column, 0).to_numpy() // 1000

    return TransactionLog(
        completed_us=table["t_ns"].to_numpy() // 1000,
        client=table["client"].to_numpy(),
        # Each host's own numbers are looked at there.
        transaction=table["client"].to_numpy() * 0,
        latency_us=microseconds("latency_ns"),
        script=table["script"].to_numpy(),
        status=table["status"].to_numpy(),
        lag_us=microseconds("lag_ns") if has_lag else None,
        retries=table["retries"].to_numpy(),
    )


def _printed(reports: Sequence[PrintedReport], span_ns: int) -> PrintedReport:
    """The reports of all as one: sums, means weighted by transactions, the longest connecting."""
    processed = sum(one.processed for one in reports)

    def summed(get: Callable[[PrintedReport], int | None]) -> int | None:
        values = [get(one) for one in reports]
        return None if None in values else sum(value for value in values if value is not None)

    def mean(get: Callable[[PrintedReport], float | None]) -> float | None:
        values = [(get(one), one.processed) for one in reports]
        if not processed or any(value is None for value, _ in values):
            return None
        return math.fsum((value or 0.0) * count for value, count in values) / processed

    connecting = [one.initial_connect_ms for one in reports]
    known = [value for value in connecting if value is not None]
    return PrintedReport(
        processed=processed,
        tps=processed * 1e9 / span_ns if span_ns > 0 else math.nan,
        connections_included=any(one.connections_included for one in reports),
        failed=sum(one.failed for one in reports),
        skipped=sum(one.skipped for one in reports),
        late=summed(lambda one: one.late),
        retries=summed(lambda one: one.retries),
        latency_mean_ms=mean(lambda one: one.latency_mean_ms),
        latency_measured=all(one.latency_measured for one in reports),
        lag_mean_ms=mean(lambda one: one.lag_mean_ms),
        initial_connect_ms=max(known) if len(known) == len(reports) else None,
        connect_mean_ms=mean(lambda one: one.connect_mean_ms),
        scripts=_scripts(reports),
        statements=_statements(reports),
    )


def _scripts(reports: Sequence[PrintedReport]) -> list[ScriptReport]:
    count = min(len(one.scripts) for one in reports)
    return [
        ScriptReport(
            reports[0].scripts[number].name, sum(one.scripts[number].processed for one in reports)
        )
        for number in range(count)
    ]


def _statements(reports: Sequence[PrintedReport]) -> list[list[CommandReport]]:
    """Of each command the mean over the transactions of all hosts; none where one tells of none."""
    first = reports[0].statements
    shape = [len(script) for script in first]
    if any([len(script) for script in one.statements] != shape for one in reports):
        return []
    counts = [[s.processed for s in one.scripts] or [one.processed] for one in reports]

    def together(script: int, position: int) -> CommandReport:
        of = [one.statements[script][position] for one in reports]
        weighted = [
            (one.mean_ns, count[script]) for one, count in zip(of, counts, strict=True)
            if one.mean_ns is not None and count[script]
        ]  # fmt: skip
        done = sum(count for _, count in weighted)

        def summed(values: list[int | None]) -> int | None:
            return None if None in values else sum(value or 0 for value in values)

        return CommandReport(
            text=of[0].text,
            mean_ns=round(sum(mean * count for mean, count in weighted) / done) if done else None,
            failures=summed([one.failures for one in of]),
            retries=summed([one.retries for one in of]),
        )

    return [[together(s, p) for p in range(length)] for s, length in enumerate(shape)]


def _figures(
    whole: PgbenchParameters, part: HostPart, table: pa.Table, printed: PrintedReport
) -> HostFigures:
    import pyarrow.compute as pc

    mean_ns = pc.mean(table["latency_ns"]).as_py()
    planned = part_of(whole, part.share).clients / whole.clients
    return HostFigures(float(printed.processed), mean_ns, planned)


def _all_there(
    whole: PgbenchParameters, log: TransactionLog, reports: Sequence[PrintedReport]
) -> CheckRecord:
    """The rows of all hosts against what their pgbenches counted."""
    stated = {
        OK: sum(one.processed for one in reports),
        FAILED: sum(one.failed for one in reports),
        SKIPPED: sum(one.skipped for one in reports),
    }
    values = {"transactions": len(log), "processed": stated[OK], "hosts": len(reports)}
    if whole.sampling_rate < 1:
        return CheckRecord(
            name="pgbench_log", verdict="unknown", values=values,
            message=f"only a share of {whole.sampling_rate:g} of the transactions was logged",
        )  # fmt: skip
    wrong = [
        f"{log.count(status)} of {count} with status {status}"
        for status, count in stated.items()
        if log.count(status) != count
    ]
    said = "contradict what they counted: " + "; ".join(wrong) if wrong else "are as they counted"
    return CheckRecord(
        name="pgbench_log",
        verdict="violation" if wrong else "ok",
        message=f"the {len(log)} transactions of {len(reports)} hosts' pgbench {said}",
        values=values,
    )


def _overlap(
    parts: Sequence[HostPart], begins: Sequence[int], ends: Sequence[int], span_ns: int
) -> CheckRecord:
    """Were all at work while any was? Else tps is too low by that share at most."""
    share = max(min(ends) - max(begins), 0) / span_ns if span_ns > 0 else 0.0
    names = [part.name for part in parts]
    last, first = names[begins.index(max(begins))], names[ends.index(min(ends))]
    message = f"all hosts were at work together for {share:.2%} of the time"
    if share < OVERLAP_LEAST:
        message += f" ({last} began last, {first} ended first): tps of all may be that much too low"
    return CheckRecord(
        name="hosts_overlap",
        verdict="ok" if share >= OVERLAP_LEAST else "warning",
        message=message,
        values={"share": share, "limit": OVERLAP_LEAST},
    )
