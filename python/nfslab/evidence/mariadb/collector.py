"""MariaDB under load: where the time of its clients' threads goes, and what InnoDB counts.

* exact times (eBPF, root, x86-64, Linux 6.9): every pause of every thread of the server, by the
  call that it is in (`exact_times`). Where that is not granted, or if asked for: looks at the
  threads of the load's connections (`looks`).
* which threads these are: information_schema.PROCESSLIST, five times a second, by a connection of
  its own to no database, so that it is not taken for the load's.
* counters: SHOW GLOBAL STATUS right before the timed part and after it.

Decisions: performance_schema stays as it is, off unless it is asked for: nothing in the server is
switched on. Its cost: the collector's threads by their CPU clocks, and the server's for its
connection by the scheduler's account; what the programs in the kernel add to each switch of
threads is not in it (docs/engines.md has what was measured).

Limits: MariaDB with one thread a connection (the default); of `thread_handling = pool-of-threads`
nothing is told. A connection that is there for less than a fifth of a second may be missed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from nfslab import clock
from nfslab.databases.mariadb.service import MariadbService
from nfslab.errors import Unavailable, one_line
from nfslab.evidence.collector import CollectorParameters, Evidence
from nfslab.evidence.engine_collector import EngineCollector, EngineWatch
from nfslab.evidence.mariadb.descriptors import Descriptors
from nfslab.evidence.mariadb.exact_times import TIMES_TABLE, ExactTimes
from nfslab.evidence.mariadb.looks import WAITS_TABLE, ThreadLooks
from nfslab.machine.schedstat import Processors, read_schedstat
from nfslab.quantities import Duration

if TYPE_CHECKING:
    import pyarrow as pa
    import pymysql

    from nfslab.context import TimedPart
    from nfslab.workloads.base import RunContext

STATEMENT_LIMIT_S: Final = 10
THREAD_END_LIMIT_S: Final = 15.0
CLIENTS: Final = "SELECT TID FROM information_schema.PROCESSLIST WHERE DB = %s"
OWN: Final = "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
SETTINGS: Final = ("thread_handling", "performance_schema", "innodb_flush_method")
ONE_THREAD: Final = "one-thread-per-connection"
COUNTERS: Final = (
    "Innodb_data_fsyncs", "Innodb_os_log_written", "Innodb_log_writes", "Innodb_log_waits",
    "Innodb_data_reads", "Innodb_data_writes", "Innodb_pages_read", "Innodb_pages_written",
    "Innodb_buffer_pool_read_requests", "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_wait_free", "Innodb_row_lock_waits", "Innodb_row_lock_time",
    "Innodb_deadlocks", "Com_commit", "Com_rollback",
)  # fmt: skip


class MariadbCollectorParameters(CollectorParameters):
    """What `[collectors.mariadb]` may hold."""

    way: Literal["exact", "looks"] = "exact"
    """How the threads' time is told; looks, too, where exact times are not granted."""
    interval: Duration = Field(default=0.2, ge=0.05, le=60)
    """Between two questions which threads are the load's."""


class MariadbCollector(EngineCollector):
    """Time of the threads and counters of the MariaDB under load."""

    kind: ClassVar[str] = "mariadb"
    summary: ClassVar[str] = "where the time of MariaDB's threads goes, and InnoDB's counters"
    Parameters: ClassVar[type[CollectorParameters]] = MariadbCollectorParameters
    title: ClassVar[str] = "MariaDB"
    driver: ClassVar[str] = "pymysql"
    package: ClassVar[str] = "pymysql"

    parameters: MariadbCollectorParameters

    @classmethod
    def service(cls, context: RunContext) -> MariadbService | None:
        """See `EngineCollector`."""
        found = context.services.database
        return found if isinstance(found, MariadbService) else None

    def connected(self, context: RunContext) -> EngineWatch:
        """See `EngineCollector`."""
        service = self.service(context)
        assert service is not None
        return _Watch(context.timed, service, self.parameters, context.seed)


class _Watch(EngineWatch):
    """One run's watching: a connection, a thread, what was seen."""

    def __init__(
        self, timed: TimedPart, service: MariadbService, p: MariadbCollectorParameters, seed: int
    ) -> None:
        from nfslab.databases.mariadb.server import connected

        self._timed, self._service, self._p = timed, service, p
        self._over, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="nfslab-mariadb", daemon=True)
        self._clients: set[int] = set()
        self._descriptors = Descriptors(service.pid)
        self._processors = Processors("mariadbd")
        self._exact: ExactTimes | None = None
        self._looks: ThreadLooks | None = None
        self._refused: dict[str, str] = {}
        self._problem = ""
        self._began_ns = clock.monotonic_ns()
        self._connection: pymysql.Connection[Any] = connected(service.socket)
        try:
            self._rows(f"SET max_statement_time = {STATEMENT_LIMIT_S}")
            ((self._own,),) = self._rows(OWN)
            self._own_began = read_schedstat(self._service.pid, self._own)
            wanted = ", ".join(f"'{name}'" for name in SETTINGS)
            self._settings = dict(
                self._rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})")
            )
            self._first = self._counted(self._read_counters)
            self._watch_threads(seed)
        except BaseException:
            self._connection.close()
            raise

    def _watch_threads(self, seed: int) -> None:
        """By the way that was asked for, or that is granted; why not, otherwise."""
        from nfslab._core import CoreError

        handling = self._settings.get("thread_handling", ONE_THREAD)
        if handling != ONE_THREAD:
            self._refused["not_told"] = f"thread_handling = {handling}"
            return
        if self._p.way == "exact":
            try:
                self._exact = ExactTimes(self._service.pid)
                return
            except CoreError as error:
                self._refused["not_exact"] = one_line(error)
        try:
            self._looks = ThreadLooks(self._service.pid, seed)
        except Unavailable as error:
            self._refused["not_told"] = f"{error.what}: {error.why}"

    def begin(self) -> None:
        """See `EngineWatch`."""
        self._thread.start()

    def mark_start(self) -> None:
        """See `EngineWatch`."""
        import pymysql

        try:
            self._first = self._counted(self._read_counters)
        except (pymysql.Error, OSError) as error:
            self._problem = self._problem or one_line(error)
        self._clients.clear()
        with self._lock:
            self._descriptors.begin()
        self._processors.begin()
        if self._exact is not None:
            self._counted(self._exact.begin)
        if self._looks is not None:
            self._looks.begin()

    def end(self) -> Evidence:
        """Stop the threads, read a last time."""
        import pymysql

        tables: dict[str, pa.Table] = {}
        zero_ns, class_of = self._timed.start_or(self._began_ns), self._descriptors.class_of
        summary = self._summary()
        if self._exact is not None:
            begun = clock.thread_cpu()
            # First: whatever else is done here is no part of the load.
            tables[TIMES_TABLE], summary["exact"] = self._exact.end(
                zero_ns, self._clients, class_of
            )
            self._cpu_s += clock.thread_cpu() - begun
        if self._looks is not None:
            tables[WAITS_TABLE] = self._looks.end(zero_ns, class_of)
            summary["looks"] = self._looks.looks
            self._cpu_s += self._looks.cpu_ns / 1e9
        self._over.set()
        self._thread.join(THREAD_END_LIMIT_S)
        summary["threads"] = sorted(self._clients)
        summary["processors"] = self._processors.summary()
        server_s: float | None = None
        try:
            last = self._counted(self._read_counters)
            summary["status"] = {name: last[name] - self._first.get(name, 0) for name in last}
            ended = read_schedstat(self._service.pid, self._own)
            if ended is not None and self._own_began is not None:
                server_s = (ended[1] - self._own_began[1]) / 1e9
        except (pymysql.Error, OSError) as error:
            self._problem = self._problem or one_line(error)
        finally:
            self._connection.close()
        if self._problem:
            summary["incomplete"] = self._problem
        cpu_s = None if server_s is None else self._cpu_s + server_s
        wall_s = (clock.monotonic_ns() - self._began_ns) / 1e9
        return Evidence(tables, summary, cpu_s=cpu_s, wall_s=wall_s)

    def _summary(self) -> dict[str, Any]:
        return {
            "version": self._service.version,
            "settings": self._settings,
            "status": {},
            "mixed_descriptors": len(self._descriptors.mixed),
            **self._refused,
        }

    def _run(self) -> None:
        """The thread: who serves the load, and which files are open."""
        import pymysql

        try:
            while not clock.wait(self._over, self._p.interval):
                self._counted(self._tell)
        except (pymysql.Error, OSError) as error:
            self._problem = one_line(error)

    def _tell(self) -> None:
        found = {tid for (tid,) in self._rows(CLIENTS, self._service.database)}
        self._clients |= found
        with self._lock:
            self._descriptors.look()
        if self._looks is not None:
            self._looks.watch(found)
            self._processors.read((self._service.pid, tid) for tid in found)

    def _read_counters(self) -> dict[str, int]:
        wanted = ", ".join(f"'{name}'" for name in COUNTERS)
        rows = self._rows(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({wanted})")
        return {name: int(value) for name, value in rows}

    def _rows(self, statement: str, *given: object) -> list[tuple[Any, ...]]:
        """pymysql.Error, OSError. One statement at a time: the threads take turns."""
        with self._lock, self._connection.cursor() as cursor:
            cursor.execute(statement, given or None)
            return list(cursor.fetchall())
