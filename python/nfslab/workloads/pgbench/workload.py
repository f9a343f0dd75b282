"""pgbench on a PostgreSQL of its own: the way of one run, from empty places to metrics.

    prepare   cluster on the places (restored or fresh), server up, settings read back
    measure   warm-up if asked for, then pgbench: its log and its report
    verify    the TPC-B invariant, read from the database
    finish    server down

The server is up but has touched little when `prepare` ends, so the runner can drop the
page cache in between. The warm-up belongs to `measure`, since a cache that was dropped
after it would undo it; collectors are told when the timed part begins (`nfslab.context`).

On several client hosts the database is the prime's, or on a host of its own: prepared, verified and
finished there, and each client host measures with its part of the clients (`hosts`).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from nfslab.databases.base import LATE_SESSIONS
from nfslab.databases.postgres.database import Load, PostgresDatabase
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.results.records import LoadShape
from nfslab.workloads.base import Outcome, Workload
from nfslab.workloads.pgbench import execution, hosts, invariant, invocation, outcome
from nfslab.workloads.pgbench.hosts import Endpoint, PartOfLoad, possible
from nfslab.workloads.pgbench.loading import PgbenchTables
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.transaction_log import OK, read_transaction_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.context import HostPart
    from nfslab.databases.base import Tables
    from nfslab.databases.postgres.server import Reached
    from nfslab.results.records import CheckRecord, Metric
    from nfslab.workloads.base import RunContext, WorkloadParameters
    from nfslab.workloads.pgbench.printed import PrintedReport
    from nfslab.workloads.pgbench.transaction_log import TransactionLog

BYTES_PER_SCALE: Final = 16 << 20
"""Tables and keys of one scale unit (100,000 accounts), measured: 15 MB."""
WAL_BYTES_MAX: Final = 1_200 << 20
"""PostgreSQL's default max_wal_size, and what it may overshoot by between checkpoints."""
WAL_BYTES_PER_TRANSACTION: Final = 6_000
"""With full-page images soon after a checkpoint; a bound for the estimate."""
DATA_BYTES_PER_TRANSACTION: Final = 300
ASSUMED_TPS: Final = 300
"""For the plan's estimate of time, where only the number of transactions is known."""


class PgbenchWorkload(Workload):
    """PostgreSQL's own benchmark, on a cluster made for the run."""

    kind: ClassVar[str] = "pgbench"
    summary: ClassVar[str] = "PostgreSQL under pgbench: TPC-B like, read-only or own scripts"
    Parameters: ClassVar[type[WorkloadParameters]] = PgbenchParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "wal")
    files_on: ClassVar[Literal["client", "server"]] = "server"
    engine = "postgres"
    has_server: ClassVar[bool] = True

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self._committed: dict[str, int] = {}
        self._uncounted = 0
        self._verified = False
        self._room: execution.LogRoom | None = None
        self._part: PartOfLoad | None = None
        """On one of several client hosts."""

    @property
    def driver(self) -> PgbenchParameters:
        """What pgbench has to do, here."""
        if self._part is not None:
            return self._part.parameters
        assert isinstance(self.parameters, PgbenchParameters)
        return self.parameters

    @classmethod
    def available(cls) -> Availability:
        """Is there any PostgreSQL with server and pgbench?"""
        return PostgresDatabase.available()

    def check(self) -> Availability:
        """The installation asked for, its pgbench's options, its opinion of the settings."""
        found = self.database.check()
        if not found.ok or self._part is not None:
            return found
        return invocation.invocation_possible(self.driver, self.database.installation)

    def owner(self) -> int | None:
        """PostgreSQL refuses to run as root: an unprivileged user then, else the caller."""
        return self.database.owner()

    @cached_property
    def database(self) -> PostgresDatabase:
        """Its PostgreSQL."""
        p = self.driver
        return PostgresDatabase(p, Load(p.clients, "pgbench", "pgbench", p.socket))

    def check_host(self, kind: str) -> Availability:
        """Another host than this machine is reached over its network alone."""
        if kind != "local" and self.driver.socket != "tcp":
            return Availability(
                False, f'client.host = "{kind}" has a network, and pgbench would not use it',
                'set workload.socket = "tcp"',
            )  # fmt: skip
        return Availability(True)

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        """Each needs a client, and the way to the server is a network."""
        return possible(self.driver, hosts, processes)

    def check_server(self, *, has_our_files: bool) -> Availability:
        """Own scripts are read where the server is."""
        if self.driver.scripts and not has_our_files:
            return Availability(
                False, "own scripts are read on the server's host, which has none of our files",
                "leave out [server], or take pgbench's own scripts (workload.builtin)",
            )  # fmt: skip
        return Availability(True)

    def connections(self, processes: int) -> int:
        """Of each host: at most its clients'."""
        return self.driver.clients

    def endpoint(self) -> dict[str, Any]:
        """Where the server is, its password, its version, and own scripts."""
        server, paths = self.database.server(), map(invocation.script_path, self.driver.scripts)
        found = Endpoint(
            host=server.host, port=server.port, password=server.password,
            major=self.database.installation.major,
            scripts=[path.read_text(encoding="utf-8") for path in paths],
            folders=[str(place.path) for place in server.places.values()],
        )  # fmt: skip
        return found.model_dump(mode="json")

    def connect_to(self, endpoint: dict[str, Any]) -> None:
        """The server that is there is the one to load."""
        self._part = PartOfLoad(self.driver, self.database, Endpoint.model_validate(endpoint))

    def server_cpu_s(self) -> float | None:
        """Of all its processes."""
        return execution.server_cpu_s(self.database.server().process.pid)

    def require_up(self, within_s: float = 0.0) -> None:
        """RunFailed with the server's last words."""
        if self.database.is_up and self.database.server().ends_within(within_s):
            raise self.database.death("PostgreSQL died in the middle of the run")

    def account(self) -> dict[str, Any]:
        """What was committed."""
        return {"committed": self._committed, "uncounted": self._uncounted}

    def add_account(self, account: dict[str, Any]) -> None:
        """The same, of all hosts."""
        self._committed, self._uncounted = account["committed"], account["uncounted"]

    def load_shape(self) -> LoadShape:
        """Closed, or open with `rate`: pgbench's throttle plans each transaction's instant."""
        p = self.driver
        kind = "closed" if p.rate is None else "open"
        return LoadShape(kind=kind, clients=p.clients, rate_per_s=p.rate)

    def estimate_s(self) -> float:
        """Restore, start, run and check; loading once is shared by many runs."""
        p = self.driver
        timed = p.duration or (p.transactions or 0) * p.clients / (p.rate or ASSUMED_TPS)
        per_scale = 0.45 if p.load == "fresh" else 0.06
        return timed + p.warm_up + 1.5 + p.scale * per_scale

    def estimate_bytes(self) -> dict[str, int]:
        """Data by scale; the log up to what a checkpoint cycle may hold."""
        p = self.driver
        count = execution.expected_transactions(p) / p.sampling_rate
        if p.transactions is None:
            count = (p.duration or 0.0) * (p.rate or ASSUMED_TPS * 10)
        scaled = p.scale * BYTES_PER_SCALE
        data = self.database.empty_bytes + scaled + int(count * DATA_BYTES_PER_TRANSACTION)
        written = count * WAL_BYTES_PER_TRANSACTION + (scaled if p.load == "fresh" else 0)
        wal = self.database.log_bytes + min(WAL_BYTES_MAX, int(written))
        if p.wal is None or p.wal == p.data:
            return {"data": data + wal}
        return {"data": data, "wal": wal}

    def prepare(self, context: RunContext) -> None:
        """Cluster on the places, server up, settings in effect written down."""
        _import_readers()
        self._room = None
        self._committed, self._uncounted, self._verified = {}, 0, False
        if self._part is not None:
            self._part.prepare(context)
            return
        self.keep_scripts(context)
        self.database.bring_up(context, self.tables())

    def measure(self, context: RunContext) -> Outcome:
        """Warm-up, then the timed pgbench; its log becomes the samples."""
        p, server = self.driver, self.server()
        names = p.script_names()
        if p.warm_up:
            with context.phase("warm-up"):
                self._warm_up(context, names)
        self._room = room = self._log_room(context, p)
        if room.note:
            context.notes.append(room.note)
        argv = invocation.pgbench_arguments(
            p, server, seed=self._seed(context), log_prefix=room.prefix
        )
        self.before_load()
        with context.timed() as part, context.phase("pgbench"):
            run = execution.run_pgbench(
                server,
                argv,
                name="pgbench",
                client=context.client_host,
                room=room,
                places=context.places,
            )
        self.after_load()
        log = read_transaction_log(room.files(), invocation.log_layout(p))
        whole, checked = log, outcome.check_log(log, run, p)
        log, run = self.operations(log, run, p.duration or 0.0)
        metrics = self.metrics(log, run)
        timed = outcome.timed_part(whole, run, open_loop=p.rate is not None)
        part.was(timed.start_ns, timed.end_ns)
        self._count(run.printed, names, log if p.sampling_rate == 1 else None)
        handed = [] if not context.is_part else [
            hosts.Handed(
                index=context.share.host, start_ns=timed.start_ns, end_ns=timed.end_ns,
                printed=run.printed, client_cpu_s=run.client_cpu_s,
                committed=self._committed, uncounted=self._uncounted,
            )
        ]  # fmt: skip
        self._remark(context, run)
        self._forget_room()
        statements = outcome.statements(run.printed, names)
        if statements is None:
            context.notes.append("pgbench did not tell the time of each statement")
        return Outcome(
            metrics=metrics,
            samples={
                "transactions": log.table(timed.start_log_ns),
                "latency_histogram": outcome.histogram_table(log),
                **({} if statements is None else {"statements": statements}),
            },
            operations="transactions",
            sampled_share=p.sampling_rate,
            checks=[checked, *self.checks(log, run)],
            handed=handed,
        )

    def before_load(self) -> None:
        """Called just before the timed part, with the server warm."""
        return

    def after_load(self) -> None:
        """Called just behind it."""
        return

    def operations(
        self, log: TransactionLog, run: execution.PgbenchRun, seconds: float
    ) -> tuple[TransactionLog, execution.PgbenchRun]:
        """What of pgbench's transactions, begun within so many seconds, the load is."""
        return log, run

    def metrics(self, log: TransactionLog, run: execution.PgbenchRun) -> dict[str, Metric]:
        """The run's numbers."""
        return outcome.metrics(log, run, self.driver)

    def checks(self, log: TransactionLog, run: execution.PgbenchRun) -> list[CheckRecord]:
        """Of what pgbench did, beyond what it says of itself."""
        return []

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Does the database hold what pgbench says it committed?"""
        import psycopg

        if self._part is not None:
            return []
        server = self.database.server()
        with context.phase("invariant"), server.connect() as connection:
            limit_ms = max(1, int(context.remaining_s() * 1000))
            connection.execute(
                "SELECT set_config('statement_timeout', %s, false)", (str(limit_ms),)
            )
            try:
                check = self.invariant(connection, self._committed, self._uncounted)
            except psycopg.Error as error:
                raise server.death("the database could not be checked", str(error)) from error
        self._verified = True
        return [check]

    def invariant(
        self, connection: Any, committed: Mapping[str, int], uncounted: int
    ) -> CheckRecord:
        """By the transactions of each script that were committed, warm-up included.

        `uncounted`: so many more were, of any script.
        """
        own = bool(self.driver.scripts)
        balances = None if own else invariant.read_balances(connection)
        return invariant.check_balances(balances, committed, uncounted)

    def finish(self, context: RunContext) -> None:
        """Stop the server: in peace after a verified run, at once otherwise."""
        self.database.stop(hurry=not self._verified)
        self._forget_room()

    def _forget_room(self) -> None:
        """The raw log has become the samples (or the run has failed)."""
        if self._room is not None:
            self._room.entry.undo()
            self._room = None

    def server(self) -> Reached:
        """The one that is loaded; RunFailed where there is none."""
        return self.database.server() if self._part is None else self._part.server()

    def merge(self, context: RunContext, parts: Sequence[HostPart]) -> Outcome:
        """Transactions of all hosts, in order of completion."""
        p, names = self.driver, self.driver.script_names()
        whole = hosts.merged(p, parts)
        run = replace(whole.run, server_cpu_s=self.server_spent_s)
        for name, count in whole.committed.items():
            self._committed[name] = self._committed.get(name, 0) + count
        self._uncounted += whole.uncounted
        context.timed.was(run.started_ns, run.started_ns + whole.span_ns)
        context.commands.extend(argv for part in parts for argv in part.record.commands)
        self._remark(context, run)
        if p.warm_up:
            context.notes.append(_warm_up_note(p))
        statements = outcome.statements(run.printed, names)
        return Outcome(
            metrics=outcome.metrics(whole.log, run, p),
            samples={
                "transactions": whole.table,
                "latency_histogram": outcome.histogram_table(whole.log),
                **({} if statements is None else {"statements": statements}),
            },
            operations="transactions",
            sampled_share=p.sampling_rate,
            by_host=whole.by_host,
            checks=whole.checks,
        )

    def _seed(self, context: RunContext) -> int:
        """Of what pgbench draws: another one on each host."""
        return context.seed + hosts.SEED_STEP * context.share.host

    def tables(self) -> Tables:
        """What is loaded."""
        p = self.driver
        return PgbenchTables(
            scale=p.scale,
            fillfactor=p.fillfactor,
            foreign_keys=p.foreign_keys,
            partitions=p.partitions,
            partition_method=p.partition_method,
        )

    def keep_scripts(self, context: RunContext) -> None:
        """Own scripts go with the run: a path alone says nothing years later."""
        for index, name in enumerate(self.driver.scripts):
            path = invocation.script_path(name)
            try:
                text = path.read_bytes()
            except OSError as error:
                raise RunFailed(
                    f"the script {path} cannot be read",
                    why=str(error),
                    fix="correct scripts in [workload], and let this user read the file",
                ) from error
            (context.logs / f"script-{index}.sql").write_bytes(text)
            digest = hashlib.sha256(text).hexdigest()
            context.notes.append(f"script {path}: SHA-256 {digest} (logs/script-{index}.sql)")

    def _warm_up(self, context: RunContext, names: list[str]) -> None:
        p, server = self.driver, self.server()
        if len(names) > 1 and p.sampling_rate == 1:
            # What pgbench prints of each of several scripts lacks some: `_count`.
            alike = p.model_copy(update={"duration": p.warm_up, "transactions": None})
            self._room = self._log_room(context, alike)
        argv = invocation.pgbench_arguments(
            p, server, seed=self._seed(context) + 1, warm_up=True,
            log_prefix=self._room.prefix if self._room is not None else None,
        )  # fmt: skip
        run = execution.run_pgbench(
            server,
            argv,
            name="warm-up",
            client=context.client_host,
            room=self._room,
            places=context.places,
        )
        log = None
        if self._room is not None:
            log = read_transaction_log(self._room.files(), invocation.log_layout(p))
            log, run = self.operations(log, run, p.warm_up)
            self._forget_room()
        self._count(run.printed, names, log)
        context.notes.append(_warm_up_note(p))
        if not server.clients_are_gone(self.database.load.client_name):
            context.notes.append(LATE_SESSIONS)

    def _log_room(self, context: RunContext, p: PgbenchParameters) -> execution.LogRoom:
        limited = context.services.memory_cgroup is not None
        folders = [place.path for place in context.places.values()]
        if self._part is not None:
            folders = self._part.folders_here()
        return execution.log_room(self.server(), p, folders, memory_limited=limited)

    def _count(
        self, printed: PrintedReport, names: list[str], log: TransactionLog | None = None
    ) -> None:
        """Add to the committed transactions of each script, for the invariant.

        By the log if it is whole: what pgbench prints of each of several scripts lacks some, as its
        threads add to one counter without a lock (processXactStats).
        """
        if len(names) == 1:
            counts = {names[0]: printed.processed}
        elif log is not None:
            counts = {
                name: int(((log.script == script) & (log.status == OK)).sum())
                for script, name in enumerate(names)
            }
        else:
            if len(printed.scripts) != len(names):
                raise RunFailed(
                    "pgbench's report does not have all scripts",
                    why=f"{len(names)} were run, {len(printed.scripts)} are reported",
                    fix="see logs/pgbench.out: another version may print another report",
                )
            counts = {
                name: script.processed for name, script in zip(names, printed.scripts, strict=True)
            }
        for name, count in counts.items():
            self._committed[name] = self._committed.get(name, 0) + count
        self._uncounted += printed.processed - sum(counts.values())

    def _remark(self, context: RunContext, run: execution.PgbenchRun) -> None:
        """What a reader has to know about this run's figures."""
        p, printed = self.driver, run.printed
        if step_ns := outcome.clock_step_ns(run):
            context.notes.append(
                f"the wall clock was moved by {step_ns / 1e6:.3f} ms: the samples' place in "
                "time may be off by that"
            )
        if p.scale < p.clients and p.builtin_scripts().get("tpcb-like"):
            context.notes.append(
                f"scale {p.scale} is below the {p.clients} clients: they wait for each "
                "other's branch rows"
            )
        if p.threads > p.clients:
            context.notes.append(f"pgbench used {p.clients} threads: one a client at most")
        if p.rate is not None:
            context.notes.append("latency counts from the planned instant (open loop)")
        if printed.connections_included:
            context.notes.append(
                "tps and latency include connecting: every transaction has a connection of its own"
            )
        if p.sampling_rate < 1:
            context.notes.append(
                f"only a share of {p.sampling_rate:g} of the transactions was logged"
            )


def _warm_up_note(p: PgbenchParameters) -> str:
    return f"a warm-up of {p.warm_up:g} s came before the timed part, and is not counted"


def _import_readers() -> None:
    """Import what reads the log: it takes seconds, and must not do so beside the load."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    import nfslab._core  # noqa: F401

    pa.array(np.zeros(0))  # the first array from numpy makes pyarrow import pandas
