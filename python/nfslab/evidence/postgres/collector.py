"""What PostgreSQL itself says while it is under load: waits, and its cumulative counters.

Three kinds of evidence, from a connection of its own (application_name nfslab, another
database than the load's, so that watching is not counted as load):

* waits: up to 250 times a second, what every server process waits for, read in its memory
  (`memory_waits`); where that is not granted, or if asked for, ten times a second over SQL
  (`sql_waits`).
* counters: pg_stat_wal, pg_stat_database (of the load's database), pg_stat_bgwriter,
  pg_stat_checkpointer (17), pg_stat_io (16): once a second, and right before and after
  the timed part; the summary holds the differences over the timed part. Columns are
  taken as the server has them, so a new version's new columns are there as well.

* processors: ten times a second at most, how long each of the load's backends was on a processor
  and how long it waited for one (/proc/PID/schedstat, exact), where the server is of this kernel.
* exact times, if asked for and eBPF is granted: every pause of every process by its wait event
  (`exact_waits`); the samples stay, and both are compared.

Decisions: a thread beside the runner does it. Its cost is measured: Python's part and that of the
thread that reads memory by the threads' CPU clocks, the server's part by the CPU time of its
backend. A counter is stored when it changed (readers carry the last value forward).

Limits: backends hand their counts over when they end, or at most once a second while they
work (13 and 14: by way of a process that lags half a second); at the end the collector
waits until the load's connections are gone. Counts that were reset are flagged, not
repaired. Times of reads and writes are 0 unless the server's track_io_timing is on.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from nfslab import clock
from nfslab.databases.postgres.clients import clients_are_gone
from nfslab.errors import Unavailable, one_line
from nfslab.evidence.collector import CollectorParameters, Evidence
from nfslab.evidence.engine_collector import EngineCollector, EngineWatch
from nfslab.evidence.postgres.exact_waits import TIMES_TABLE, ExactWaits
from nfslab.evidence.postgres.memory_waits import MemoryWaits
from nfslab.evidence.postgres.sql_waits import (
    WAITS_TABLE,
    SqlWaits,
    TooMuchError,
    mean_waits,
    waits_table,
)
from nfslab.machine.cpu_times import process_cpu_ns
from nfslab.machine.schedstat import Processors
from nfslab.quantities import Duration

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    from nfslab.context import TimedPart
    from nfslab.databases.postgres.service import PostgresService
    from nfslab.workloads.base import RunContext

COUNTER_ROWS_MAX: Final = 4_000_000
"""Rows kept in memory; beyond, sampling stops and the summary says so."""
THREAD_END_LIMIT_S: Final = 10.0
PROCESSORS_NS: Final = 100_000_000
PROCESSORS_REST: Final = 500
"""Processors are read so seldom that it takes this part of the time."""
STATEMENT_LIMIT_MS: Final = 10_000

BACKENDS: Final = "SELECT pid FROM pg_stat_get_activity(NULL) WHERE application_name = %s"
VIEWS: Final[dict[str, str]] = {
    "pg_stat_wal": "SELECT * FROM pg_stat_wal",
    "pg_stat_database": "SELECT * FROM pg_stat_database WHERE datname = %(database)s",
    "pg_stat_bgwriter": "SELECT * FROM pg_stat_bgwriter",
    "pg_stat_checkpointer": "SELECT * FROM pg_stat_checkpointer",
    "pg_stat_io": "SELECT * FROM pg_stat_io",
}
KEYS: Final = ("backend_type", "object", "context")
"""Columns that tell the rows of pg_stat_io apart; they become part of the name."""
NOT_COUNTERS: Final = frozenset({"datid", "datname", "numbackends", "op_bytes", *KEYS})
SETTINGS: Final = ("track_io_timing", "track_wal_io_timing", "track_activities")

Counters = dict[str, float]


class PostgresCollectorParameters(CollectorParameters):
    """What `[collectors.postgres]` may hold."""

    interval: Duration = Field(default=0.1, ge=0.01, le=60)
    """Between two looks over SQL at what the processes wait for; what is seen in memory is averaged
    over it."""
    waits: Literal["memory", "sql"] = "memory"
    """Where it is looked at; over SQL, too, where memory is not granted."""
    counters_interval: Duration = Field(default=1.0, ge=0.1, le=3600)
    """Between two readings of the counters."""
    exact: bool = False
    """Time every pause of the server's processes, too, where eBPF is granted."""


class PostgresCollector(EngineCollector):
    """Wait events and counters of the PostgreSQL under load."""

    kind: ClassVar[str] = "postgres"
    summary: ClassVar[str] = "PostgreSQL's wait events and counters, sampled"
    Parameters: ClassVar[type[CollectorParameters]] = PostgresCollectorParameters
    title: ClassVar[str] = "PostgreSQL"
    driver: ClassVar[str] = "psycopg"
    package: ClassVar[str] = "psycopg[binary]"

    parameters: PostgresCollectorParameters

    @classmethod
    def service(cls, context: RunContext) -> PostgresService | None:
        """See `EngineCollector`."""
        return context.services.postgres

    def connected(self, context: RunContext) -> EngineWatch:
        """See `EngineCollector`."""
        service = context.services.postgres
        assert service is not None
        return _Watch(context.timed, service, self.parameters, context.seed)


class _Watch(EngineWatch):
    """One run's watching: a connection, a thread, what was seen."""

    def __init__(
        self,
        timed: TimedPart,
        service: PostgresService,
        parameters: PostgresCollectorParameters,
        seed: int,
    ) -> None:
        import psycopg

        self._timed, self._service, self._p = timed, service, parameters
        self._connection: psycopg.Connection[Any] = psycopg.connect(
            service.conninfo,
            autocommit=True,
            application_name="nfslab",
            options=f"-c statement_timeout={STATEMENT_LIMIT_MS} -c jit=off",
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nfslab-postgres", daemon=True)
        self._problem = ""
        self._sql = SqlWaits(self._connection)
        self._memory: MemoryWaits | None = None
        self._not_memory = ""
        self._names: dict[str, int] = {}
        self._counter_time, self._counter_name = array("q"), array("q")
        self._counter_value = array("d")
        self._last: Counters = {}
        self._missed_ticks = 0
        self._resets: set[str] = set()
        self._reset_stamps: dict[str, str] = {}
        self._processors = Processors("postgres")
        self._exact: ExactWaits | None = None
        self._not_exact = ""
        self._lock = threading.Lock()
        try:
            self._views = self._present_views()
            self._settings = self._read_settings()
            self._backend = self._connection.info.backend_pid
            self._backend_began_ns = process_cpu_ns(self._backend)
            self._began_ns = clock.monotonic_ns()
            self._first = self._counted(self._read_counters)
            if parameters.exact:
                self._watch_exactly()
            if parameters.waits == "memory":
                self._look_at_memory(seed)
        except BaseException:
            self._connection.close()
            raise

    def _watch_exactly(self) -> None:
        """Where it is granted; why not, otherwise."""
        from nfslab._core import CoreError

        try:
            self._exact = ExactWaits(self._connection, self._service.pid, self._service.major)
        except (CoreError, Unavailable) as error:
            self._not_exact = one_line(error)

    def _look_at_memory(self, seed: int) -> None:
        """Where it is granted; why not, otherwise."""
        from nfslab._core import CoreError

        try:
            self._memory = MemoryWaits(self._connection, self._service, self._p.interval, seed)
        except (CoreError, Unavailable) as error:
            self._not_memory = one_line(error)

    def begin(self) -> None:
        """See `EngineWatch`."""
        self._thread.start()

    def mark_start(self) -> None:
        """See `EngineWatch`."""
        import psycopg

        with contextlib.suppress(psycopg.Error):
            self._first = self._counted(self._read_counters)
        self._processors.begin()
        if self._memory is not None:
            self._memory.begin()
        if self._exact is not None:
            self._counted(self._exact.begin)

    def end(self) -> Evidence:
        """Stop the thread, wait for the load's connections to go, read a last time."""
        import psycopg

        exact = None
        if self._exact is not None:
            exact = self._counted(partial(self._exact.end, self._zero_ns()))
        self._over.set()
        self._thread.join(THREAD_END_LIMIT_S)
        if self._thread.is_alive():
            self._connection.cancel()
            self._thread.join(THREAD_END_LIMIT_S)
        waits, looked = self._sql.end(), None
        if self._memory is not None:
            waits, looked = self._counted(self._memory.end)
        last: Counters | None = None
        backend_s: float | None = None
        settled = False
        try:
            of_load = (self._connection, self._service.client_name, self._service.major)
            settled = self._counted(lambda: clients_are_gone(*of_load))
            last = self._counted(self._read_counters)
            ended_ns = process_cpu_ns(self._backend)
            if ended_ns is not None and self._backend_began_ns is not None:
                backend_s = (ended_ns - self._backend_began_ns) / 1e9
        except psycopg.Error as error:
            self._problem = self._problem or one_line(error)
        finally:
            self._connection.close()
        wall_s = (clock.monotonic_ns() - self._began_ns) / 1e9
        # Its figures are of the timed part; before it looks cost the same.
        looks_s = wall_s * looked["cpu_ns"] / looked["wall_ns"] if looked is not None else 0.0
        self._cpu_s += looks_s
        cpu_s = self._cpu_s + (backend_s or 0.0)
        end_ns = clock.monotonic_ns() if self._timed.end_ns is None else self._timed.end_ns
        summary = self._summary(last, settled, wall_s, backend_s)
        summary["waits"] = mean_waits(waits, self._zero_ns(), end_ns)
        if looked is not None:
            summary |= {"samples": looked["looks"], "missed_ticks": looked["missed"]}
            summary["memory"] = looked
        elif self._not_memory:
            summary["not_memory"] = self._not_memory
        tables = {WAITS_TABLE: waits_table(waits, self._zero_ns())} | self._tables()
        if exact is not None:
            tables[TIMES_TABLE], summary["exact"] = exact
        elif self._not_exact:
            summary["not_exact"] = self._not_exact
        return Evidence(
            tables=tables,
            summary=summary,
            cpu_s=cpu_s if backend_s is not None else None,
            wall_s=wall_s,
        )

    def _run(self) -> None:
        """The thread: a look at every tick, the counters now and then."""
        import psycopg

        interval_ns = round(self._p.interval * 1e9)
        processors_due_ns = 0
        counters_ns = round(self._p.counters_interval * 1e9)
        due_ns = clock.monotonic_ns()
        counters_due_ns = due_ns
        try:
            while not self._over.is_set():
                self._counted(self._sql.look if self._memory is None else self._memory.tell)
                if clock.monotonic_ns() >= processors_due_ns:
                    before_s = self._cpu_s
                    self._counted(self._read_processors)
                    took_ns = round((self._cpu_s - before_s) * 1e9)
                    rest_ns = max(PROCESSORS_NS, PROCESSORS_REST * took_ns)
                    processors_due_ns = clock.monotonic_ns() + rest_ns
                if clock.monotonic_ns() >= counters_due_ns:
                    self._counted(self._read_counters)
                    counters_due_ns += counters_ns
                due_ns += interval_ns
                now_ns = clock.monotonic_ns()
                if now_ns > due_ns:
                    missed = (now_ns - due_ns) // interval_ns
                    self._missed_ticks += missed
                    due_ns += missed * interval_ns
                clock.wait(self._over, max(0.0, (due_ns - now_ns) / 1e9))
        except psycopg.Error as error:
            self._problem = one_line(error)
        except TooMuchError as error:
            self._problem = str(error)

    def _read_processors(self) -> None:
        """How long the load's backends were on processors so far."""
        if self._memory is not None:
            self._processors.read((pid, pid) for pid in self._memory.load_pids())
            return
        rows = self._connection.execute(BACKENDS, (self._service.client_name,), prepare=True)
        self._processors.read((pid, pid) for (pid,) in rows)

    def _read_counters(self) -> Counters:
        """All counters now; those that changed are kept with the time."""
        with self._lock:
            t_ns = clock.monotonic_ns()
            values: Counters = {}
            for view in self._views:
                values |= self._read_view(view)
            changed = [(n, v) for n, v in values.items() if self._last.get(n) != v]
            if len(self._counter_time) + len(changed) > COUNTER_ROWS_MAX:
                raise TooMuchError(f"sampling stopped: more than {COUNTER_ROWS_MAX} rows")
            for name, value in changed:
                if value < self._last.get(name, value):
                    self._resets.add(name)
                self._counter_time.append(t_ns)
                self._counter_name.append(self._names.setdefault(name, len(self._names)))
                self._counter_value.append(value)
            self._last = values
            return values

    def _read_view(self, view: str) -> Counters:
        """One view's numbers: view.column, or view.key/key/key.column."""
        cursor = self._connection.execute(
            VIEWS[view], {"database": self._service.database}, prepare=True
        )
        columns = [column.name for column in cursor.description or []]
        values: Counters = {}
        for row in cursor:
            record = dict(zip(columns, row, strict=True))
            key = "/".join(str(record[name]) for name in KEYS if name in record)
            start = f"{view}.{key}." if key else f"{view}."
            stamp = str(record.pop("stats_reset", None))
            if self._reset_stamps.setdefault(start, stamp) != stamp:
                self._resets.add(f"{start}*")
            for name, value in record.items():
                if name not in NOT_COUNTERS and value is not None and not hasattr(value, "year"):
                    values[start + name] = float(value)
        return values

    def _present_views(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT name FROM unnest(%s::text[]) AS name "
            "WHERE to_regclass('pg_catalog.' || name) IS NOT NULL",
            (list(VIEWS),),
        ).fetchall()
        present = {row[0] for row in rows}
        return [view for view in VIEWS if view in present]

    def _read_settings(self) -> dict[str, str]:
        rows = self._connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (list(SETTINGS),)
        ).fetchall()
        return {row[0]: row[1] for row in rows}

    def _zero_ns(self) -> int:
        return self._timed.start_or(self._began_ns)

    def _tables(self) -> dict[str, pa.Table]:
        import numpy as np
        import pyarrow as pa

        def numbers(values: array[int]) -> Any:
            return np.frombuffer(values, np.int64) if len(values) else np.zeros(0, np.int64)

        names = pa.array(list(self._names), pa.string())
        counters = {
            "t_ns": numbers(self._counter_time) - self._zero_ns(),
            "name": names.take(pa.array(numbers(self._counter_name).astype(np.int32))),
            "value": pa.array(list(self._counter_value), pa.float64()),
        }
        return {"postgres_counters": pa.table(counters)}

    def _summary(
        self, last: Counters | None, settled: bool, wall_s: float, backend_s: float | None
    ) -> dict[str, Any]:
        summary: dict[str, Any] = {
            "version": self._service.version,
            "interval_s": self._p.interval,
            "samples": self._sql.looks,
            "missed_ticks": self._missed_ticks,
            "settings": self._settings,
            "deltas": {} if last is None else _nested(_differences(self._first, last)),
            "complete": settled and last is not None and not self._problem,
            "processors": self._processors.summary(),
            "resets": sorted(self._resets),
            "cost": {
                "collector_cpu_s": self._cpu_s,
                "backend_cpu_s": backend_s,
                "share_of_one_cpu": (self._cpu_s + (backend_s or 0.0)) / wall_s,
            },
        }
        if self._problem:
            summary["incomplete"] = self._problem
        elif not settled:
            summary["incomplete"] = "the load's connections were still there at the end"
        return summary


def _differences(first: Counters, last: Counters) -> Counters:
    """Last minus first; what is new since began at 0."""
    return {name: value - first.get(name, 0.0) for name, value in last.items()}


def _nested(differences: Counters) -> dict[str, Any]:
    """{view: {column: difference}}; pg_stat_io: {view: {row: {column: difference}}}.

    Rows of pg_stat_io in which nothing happened are left out.
    """
    result: dict[str, Any] = {}
    for name, value in differences.items():
        view, *row, column = name.split(".")
        if row and value == 0:
            continue
        here = result.setdefault(view, {})
        for step in row:
            here = here.setdefault(step, {})
        here[column] = value
    return result
