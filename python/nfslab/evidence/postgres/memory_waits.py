"""What a PostgreSQL server's processes wait for, looked at in their memory (`_core.WaitSampler`).

Each process keeps a number for that in shared memory; a thread of the core reads those of all of
them by one call, up to 250 times a second, at random instants. The server does nothing for it.
Which process serves a client, and which of them the load's, SQL tells: once a second, and when
there is a process that it has not told of.

Limits: whether a backend that waits for its client is idle, or within a transaction, is not known
(`state` is empty then). A process that ends before SQL told of it counts as a client's backend if
it ever waited for a client, else as nothing known.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nfslab import clock
from nfslab.evidence.postgres.exact_waits import CLIENT_BACKEND
from nfslab.evidence.postgres.sql_waits import WaitRow
from nfslab.evidence.postgres.wait_numbers import CLIENT, SYMBOL, event_of, io_events
from nfslab.results.core_tables import core_table

if TYPE_CHECKING:
    import psycopg

    from nfslab._core import WaitSampler
    from nfslab.databases.postgres.service import PostgresService

PROCESSES: Final = """
SELECT pid, backend_type, state IS NOT NULL, application_name = %s
FROM pg_stat_get_activity(NULL) WHERE backend_type IS NOT NULL
"""
TELL_NS: Final = 1_000_000_000


class _Process(NamedTuple):
    kind: str
    has_state: bool
    of_load: bool


class MemoryWaits:
    """Looks until it is stopped."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        service: PostgresService,
        stretch_s: float,
        seed: int,
    ) -> None:
        """`stretch_s`: what was seen is counted by stretches of time so long. Unavailable or
        CoreError: it cannot be looked at."""
        from nfslab._core import WaitSampler

        self._connection, self._client_name = connection, service.client_name
        self._events = io_events(connection, service.major)
        self._told: dict[int, _Process] = {}
        self._due_ns = 0
        self._sampler: WaitSampler = WaitSampler(
            service.pid, SYMBOL, stretch_ns=round(stretch_s * 1e9), seed=seed
        )

    def begin(self) -> None:
        """The timed part begins."""
        self._sampler.begin()

    def tell(self) -> None:
        """Ask the server who is who, when it is time. psycopg.Error."""
        live = self._sampler.live()
        if clock.monotonic_ns() < self._due_ns and live.keys() <= self._told.keys():
            return
        rows = self._connection.execute(PROCESSES, (self._client_name,), prepare=True).fetchall()
        told = {pid: _Process(*rest) for pid, *rest in rows}
        # Of those that live before and after the question a number is of one process.
        for place, pid in live.items() & self._sampler.live().items():
            if pid in told:
                self._told[place] = told[pid]
        self._due_ns = clock.monotonic_ns() + TELL_NS

    def load_pids(self) -> list[int]:
        """Of the load's backends that are there."""
        live = self._sampler.live().items()
        return [pid for place, pid in live if place in self._told and self._told[place].of_load]

    def end(self) -> tuple[list[WaitRow], dict[str, Any]]:
        """Stop: (means by stretch, figures of the sampler)."""
        seen = self._sampler.stop()
        stretches = core_table(seen["stretches"]).to_pylist()
        rows = core_table(seen["rows"]).to_pylist()
        own = self._connection.info.backend_pid
        waited = {row["process"] for row in rows if row["state"] >> 24 == CLIENT}
        unknown = {k: _Process(CLIENT_BACKEND * (k in waited), k in waited, False)
                   for k in range(len(seen["pids"]))}  # fmt: skip
        processes = unknown | self._told
        sums: Counter[tuple[int, tuple[str, str, str, str]]] = Counter()
        for row in rows:
            if seen["pids"][row["process"]] != own:
                kind, has_state, _ = processes[row["process"]]
                event_type, event = event_of(row["state"], self._events)
                state = "active" if has_state and event_type != "Client" else ""
                sums[row["stretch"], (kind, event_type, event, state)] += row["seen"]
        found = []
        for (stretch, key), times in sorted(sums.items()):
            one = stretches[stretch]
            found.append(WaitRow(one["from_ns"], one["until_ns"], key, times / one["looks"]))
        figures = seen["figures"] | {"scheduled": seen["scheduled"]}
        return found, figures
