"""Where the time of a MariaDB server's threads goes, every pause of it (eBPF, root, Linux 6.9).

The core looks which call a thread is in each time it leaves a processor (`_core.WaitWatch`), and
adds up how long it was blocked, waited for a processor, and was on one. Nothing is asked of the
server, and nothing in it is switched on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.evidence.mariadb.calls import Wait, wait_of
from nfslab.results.core_tables import core_table, typed_table

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from nfslab._core import WaitWatch

TIMES_TABLE: Final = "mariadb_times"
BLOCKED: Final = "blocked"
NOTHING: Final = Wait("", "")


class ExactTimes:
    """Watches a server until it is stopped."""

    def __init__(self, pid: int) -> None:
        """CoreError: it cannot be watched."""
        from nfslab._core import WaitWatch

        self._watch: WaitWatch = WaitWatch(pid)
        self._before: dict[tuple[int, str, int], tuple[int, int]] = {}

    def begin(self) -> None:
        """The timed part begins."""
        self._before = self._totals()

    def _totals(self) -> dict[tuple[int, str, int], tuple[int, int]]:
        columns = core_table(self._watch.totals()).to_pydict()
        keys = zip(columns["tid"], columns["kind"], columns["state"], strict=True)
        return dict(zip(keys, zip(columns["ns"], columns["times"], strict=True), strict=True))

    def end(
        self, zero_ns: int, clients: Collection[int], class_of: dict[int, str]
    ) -> tuple[pa.Table, dict[str, int]]:
        """Since `begin`, by thread, and what watching cost.

        t_ns: when it was read, since `zero_ns`; client: of a connection of the load; kind, wait,
        file_class, ns, times (pauses).
        """
        import pyarrow as pa

        figures = self._watch.figures()
        self._watch.stop()
        t_ns = clock.monotonic_ns() - zero_ns
        sums: dict[tuple[int, str, Wait], tuple[int, int]] = {}
        for (tid, kind, state), (ns, times) in self._totals().items():
            ns_before, times_before = self._before.get((tid, kind, state), (0, 0))
            key = tid, kind, wait_of(state, class_of) if kind == BLOCKED else NOTHING
            known = sums.get(key, (0, 0))
            sums[key] = known[0] + ns - ns_before, known[1] + times - times_before
        rows = [
            (t_ns, tid, tid in clients, kind, *wait, ns, times)
            for (tid, kind, wait), (ns, times) in sums.items()
            if ns > 0
        ]
        types: dict[str, Any] = {"t_ns": pa.int64(), "tid": pa.int32(), "client": pa.bool_()}
        types |= dict.fromkeys(("kind", "wait", "file_class"), pa.string())
        return typed_table(rows, types | dict.fromkeys(("ns", "times"), pa.int64())), figures
