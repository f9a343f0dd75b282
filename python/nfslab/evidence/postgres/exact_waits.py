"""Where the time of a PostgreSQL server's processes goes, every pause of it (eBPF, root).

A backend keeps a number for the event that it waits for (`my_wait_event_info`, exported by the
server's program since PostgreSQL 14: src/include/utils/wait_event.h). The core reads it each time a
process leaves a processor (`_core.WaitWatch`), and adds up how long it was blocked, waited for a
processor, and was on one.

A process that waited for its client is a client's backend. Limits: a wait that blocks nobody (of a
page in the page cache) is time on a processor; what began before and ends after is in no sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.evidence.postgres.wait_numbers import CLIENT, SYMBOL, event_of, io_events
from nfslab.results.core_tables import core_table, typed_table

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    from nfslab._core import WaitWatch

TIMES_TABLE: Final = "postgres_times"
CLIENT_BACKEND: Final = "client backend"


class ExactWaits:
    """Watches a server until it is stopped."""

    def __init__(self, connection: psycopg.Connection[Any], pid: int, major: int) -> None:
        """Unavailable or CoreError: it cannot be watched."""
        from nfslab._core import WaitWatch

        self._events = io_events(connection, major)
        self._own = connection.info.backend_pid
        self._watch: WaitWatch = WaitWatch(pid, SYMBOL)
        self._before: dict[tuple[int, str, int], int] = {}

    def begin(self) -> None:
        """The timed part begins."""
        self._before = self._totals()

    def _totals(self) -> dict[tuple[int, str, int], int]:
        columns = core_table(self._watch.totals()).to_pydict()
        keys = zip(columns["tid"], columns["kind"], columns["state"], strict=True)
        return dict(zip(keys, columns["ns"], strict=True))

    def end(self, zero_ns: int) -> tuple[pa.Table, dict[str, int]]:
        """Since `begin`, by process, and what watching cost.

        t_ns: when it was read, since `zero_ns`; backend_type: "client backend", or "" for another
        process; kind, wait_event_type, wait_event, ns.
        """
        import pyarrow as pa

        figures = self._watch.figures()
        self._watch.stop()
        t_ns = clock.monotonic_ns() - zero_ns
        totals = self._totals()
        clients = {pid for pid, kind, state in totals
                   if kind == "blocked" and state >> 24 == CLIENT} - {self._own}  # fmt: skip
        rows = []
        for (pid, kind, state), ns in totals.items():
            spent = ns - self._before.get((pid, kind, state), 0)
            if spent > 0 and pid != self._own:
                named = event_of(state, self._events) if kind == "blocked" else ("", "")
                rows.append(
                    (t_ns, pid, CLIENT_BACKEND if pid in clients else "", kind, *named, spent)
                )
        types: dict[str, Any] = {"t_ns": pa.int64(), "pid": pa.int32()}
        types |= dict.fromkeys(
            ("backend_type", "kind", "wait_event_type", "wait_event"), pa.string()
        )
        return typed_table(rows, types | {"ns": pa.int64()}), figures
