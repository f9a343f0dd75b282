"""One query at a time on a database of its own: the way of one run.

    prepare   database up, one session, its plan pinned and compared with the intended one
    measure   warm: it runs once; then `executions` of it, each timed by this client
    verify    what it left, the plan again, and what it did
    finish    session closed, server down

Decisions. The client is nfslab's own process, the only loop in Python within a timed part: a turn
of it is one statement of milliseconds or more, and what client and connection cost is measured in
every run (`empty_ms`). One session from the first comparison of the plan to the last, so that no
setting can differ. What is cold and what is warm is a parameter and not left to
`limits.drop_page_cache`: a cold run drops it itself.
"""

from __future__ import annotations

import contextlib
import statistics
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.quantities import format_size
from nfslab.results.core_tables import typed_table
from nfslab.results.records import CheckRecord, LoadShape, Metric
from nfslab.storage.page_cache import drop_page_cache
from nfslab.workloads.base import Outcome, Workload
from nfslab.workloads.sql.dialect import DIALECTS, dialect_class
from nfslab.workloads.sql.parameters import SqlParameters
from nfslab.workloads.sql.queries import WRITING, answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.workloads.base import RunContext, WorkloadParameters
    from nfslab.workloads.sql.dialect import Connected, Counts, Dialect
    from nfslab.workloads.sql.queries import Answer

OPERATIONS: Final = "queries"
LOADED: Final = 1.65
"""Bytes of tables and indexes for one of `items`."""
ADDED: Final = 1.4
"""The same of what a query may add: a copy, an index, a sort's files."""
WAL_BYTES_MAX: Final = 1_200 << 20
BYTES_PER_S: Final = 20 << 20
"""A bound for the estimate of time: loaded or read."""
EMPTY_STATEMENTS: Final = 21


class SqlWorkload(Workload):
    """One query, its plan pinned, its answer known."""

    kind: ClassVar[str] = "sql"
    summary: ClassVar[str] = "single queries on a database: scans, joins, sorts, bulk work"
    Parameters: ClassVar[type[WorkloadParameters]] = SqlParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "wal")
    files_on: ClassVar[Literal["client", "server"]] = "server"

    def __init__(self, parameters: WorkloadParameters) -> None:
        assert isinstance(parameters, SqlParameters)
        super().__init__(parameters)
        self.engine = parameters.engine
        self.p = parameters
        self._open = contextlib.ExitStack()
        self._connected: Connected | None = None
        self._yielded: Answer = []
        self._verified = False

    @classmethod
    def available(cls) -> Availability:
        """Is there an engine?"""
        answers = [dialect_class(engine).available() for engine in DIALECTS]
        return next((one for one in answers if one.ok), answers[0])

    @cached_property
    def dialect(self) -> Dialect:
        """The engine's SQL."""
        return dialect_class(self.p.engine)(self.p)

    def check(self) -> Availability:
        """The engine; are the rows those of the experiment?"""
        same = self.p.check_defined()
        return self.dialect.check() if same.ok else same

    def check_host(self, kind: str) -> Availability:
        """Its client is this process."""
        if kind != "local":
            return Availability(
                False, f'client.host = "{kind}" cannot be: the client of sql is nfslab itself',
                "leave [client] out; a target's own [client] may be elsewhere",
            )  # fmt: skip
        return Availability(True)

    def owner(self) -> int | None:
        """As the engine says."""
        return self.dialect.database.owner()

    def load_shape(self) -> LoadShape:
        """One client, one query at a time."""
        return LoadShape(kind="closed", clients=1)

    def estimate_s(self) -> float:
        """Copy, start, run, check; a first load is shared by many runs."""
        loads = 2.0 if self.p.load == "fresh" else 0.0
        return 4.0 + (3.0 + loads + min(self.p.executions, 10)) * self.p.size / BYTES_PER_S

    def estimate_bytes(self) -> dict[str, int]:
        """Tables and indexes, and what the query adds."""
        p = self.p
        data = self.dialect.database.empty_bytes + int((LOADED + ADDED) * p.size)
        written = (p.size if p.query in WRITING else 0) + (2 * p.size if p.load == "fresh" else 0)
        wal = self.dialect.database.log_bytes + min(WAL_BYTES_MAX, written)
        if p.wal is None or p.wal == p.data:
            return {"data": data + wal}
        return {"data": data, "wal": wal}

    def prepare(self, context: RunContext) -> None:
        """Database up, session open, plan as intended."""
        p = self.p
        self._verified = False
        context.services.engine = p.engine
        self.dialect.database.bring_up(context, self.dialect.tables())
        connected = self._open.enter_context(self.dialect.connected(context))
        self._connected = connected
        (context.logs / "query.sql").write_text(connected.text(), encoding="utf-8")
        with context.phase("plan"):
            connected.check_plan()
        self._remark(context, connected)
        connected.counts()  # what its own first look reads is not the query's

    def measure(self, context: RunContext) -> Outcome:
        """Its executions, one after the other."""
        p, connected = self.p, self._session()
        expected = sorted(answer(p.query, p.asked, again=p.cache == "warm"))
        with context.phase("empty statements"):
            empty_ns = statistics.median(_timed(connected.empty) for _ in range(EMPTY_STATEMENTS))
        if p.cache == "warm":
            with context.phase("warm-up"):
                connected.before()
                connected.execute()
                connected.undo()
        else:
            with context.phase("drop page cache"):
                found = drop_page_cache([place.path for place in context.places.values()])
            if found["dropped"] != "all":
                context.notes.append(f"cold as far as this user can: {found['reason']}")
        connected.before()
        counted = connected.counts()
        wrong, rows = 0, []
        with context.timed() as part, context.phase(p.query):
            begin_ns = clock.monotonic_ns()
            for _ in range(p.executions):
                context.remaining_s()
                started_ns = clock.monotonic_ns()
                self._yielded = connected.execute()
                ended_ns = clock.monotonic_ns()
                rows.append((ended_ns - begin_ns, ended_ns - started_ns, 0))
                # What writes is looked at behind the timed part: it runs once.
                wrong += p.query not in WRITING and connected.answer(self._yielded) != expected
        part.was(begin_ns, ended_ns)
        metrics = _metrics(rows, connected.counts().since(counted))
        metrics["empty_ms"] = Metric(value=empty_ns / 1e6, unit="ms", better="lower")
        types = {"t_ns": "int64", "latency_ns": "int64", "status": "int8"}
        return Outcome(
            metrics=metrics,
            samples={OPERATIONS: typed_table(rows, types)},
            operations=OPERATIONS,
            checks=[] if p.query in WRITING else [check_answer(wrong, p.executions, expected,
                                                               self._yielded)],
        )  # fmt: skip

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """What a writing query left; the plan again, and what it did."""
        p, connected = self.p, self._session()
        checks = []
        with context.phase("answer"):
            if p.query in WRITING:
                expected = sorted(answer(p.query, p.asked, again=p.cache == "warm"))
                left = connected.answer(self._yielded)
                checks.append(check_answer(left != expected, 1, expected, left))
        with context.phase("plan"):
            proof = connected.prove()
        outcome.metrics.update(proof.metrics)
        self._verified = True
        return [*checks, CheckRecord(name="sql_plan", verdict="ok", message=proof.message)]

    def finish(self, context: RunContext) -> None:
        """The session first; the server in peace after a verified run, at once otherwise."""
        self._connected = None
        self._open.close()
        self.dialect.database.stop(hurry=not self._verified)

    def _session(self) -> Connected:
        if self._connected is None:
            raise RunFailed(f"there is no {self.dialect.title}: the run was not prepared")
        return self._connected

    def _remark(self, context: RunContext, connected: Connected) -> None:
        """How large it is, beside the memory."""
        sizes = connected.sizes()
        said = (
            f"items has {self.p.rows:,} rows"
            + (f", {format_size(sizes['items'])}" if "items" in sizes else "")
            + f"; the database {format_size(sizes['database'])}"
        )
        group = context.services.memory_cgroup
        if group is not None:
            times = [f"{size / group.limit_bytes:.2g} times" for size in sizes.values()]
            said += f": {' and '.join(times)} the memory limit"
        context.notes.append(said)


def check_answer(wrong: int, executions: int, expected: Answer, found: Answer) -> CheckRecord:
    """Was each answer the known one?"""
    if wrong:
        message = (
            f"{wrong} of {executions} answers are wrong: the last one is {_short(found)}, right is "
            f"{_short(expected)}"
        )
        return CheckRecord(name="sql_answer", verdict="violation", message=message)
    message = f"all {executions} answers are right: {_short(expected)}"
    return CheckRecord(name="sql_answer", verdict="ok", message=message)


def _short(rows: Answer) -> str:
    first = ", ".join(map(str, rows[0])) if rows else "nothing"
    return f"({first})" + (f" and {len(rows) - 1} more rows" if len(rows) > 1 else "")


def _timed(call: Callable[[], None]) -> int:
    begin_ns = clock.monotonic_ns()
    call()
    return clock.monotonic_ns() - begin_ns


def _metrics(rows: list[tuple[int, int, int]], did: Counts) -> dict[str, Metric]:
    """The mean time first: it is what waits for a query; bytes are of one execution."""
    number = len(rows)
    latencies_ms = [row[1] / 1e6 for row in rows]
    measured_s = rows[-1][0] / 1e9
    made = {
        "latency_mean_ms": Metric(
            value=sum(latencies_ms) / number, unit="ms", better="lower", primary=True
        ),
        "queries": Metric(value=number, unit="1"),
        "queries_per_s": Metric(value=number / measured_s, unit="1/s", better="higher"),
        "measured_s": Metric(value=measured_s, unit="s"),
    }
    if number > 1:
        made["latency_p50_ms"] = Metric(
            value=statistics.median_low(latencies_ms), unit="ms", better="lower"
        )
        made["latency_max_ms"] = Metric(value=max(latencies_ms), unit="ms", better="lower")
    for name, value in (
        ("read_bytes", did.read), ("hit_bytes", did.hit), ("temporary_bytes", did.temporary),
        ("log_bytes", did.log), ("fetched_bytes", did.fetched),
    ):  # fmt: skip
        if value is not None:
            made[name] = Metric(value=value / number, unit="B")
    return made
