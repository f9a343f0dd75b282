"""NFS clients that say what a test knows, with the interface of `nfslab._core.RpcRecorder`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from nfslab import clock
from nfslab.evidence.rpc import collector as rpc

SECOND = 10**9


class Planted:
    """A client whose samples are known: 50 calls in 0.5 s, then 10 in 1 s, then none in 1 s."""

    def __init__(self, lost: int = 0) -> None:
        self.began: tuple[bool, int] | None = None
        self.ended = False
        self._lost = lost
        self._taken = False

    def start(self, every_call: bool = True, interval_ns: int = 100_000_000) -> None:
        self.began = (every_call, interval_ns)

    def stop(self) -> None:
        self.ended = True

    def counters(self) -> dict[str, int]:
        return {"answered": 60 if self.ended else 0, "queue": 3, "queue_max": 9}

    def operations(self) -> list[dict[str, Any]]:
        return [{"operation": "READ", "calls": 60 if self.ended else 40}]

    def lost(self) -> dict[str, int]:
        return {"calls": self._lost, "samples": 0}

    def samples(self) -> dict[str, pa.Table]:
        # Given out once, in two parts.
        rows = [] if self._taken else [0, 1, 2, 3]
        at = [
            10 * SECOND,
            10 * SECOND + SECOND // 2,
            11 * SECOND + SECOND // 2,
            12 * SECOND + SECOND // 2,
        ]
        answered = [100, 150, 160, 160]
        columns: dict[str, Any] = {"at_ns": pa.array([at[n] for n in rows], pa.uint64())}
        for name in (*rpc.GAUGES, *rpc.RATES):
            values = (
                answered if name == "answered" else [7, 8, 9, 0] if name == "queue" else [5] * 4
            )
            columns[name] = pa.array([values[n] for n in rows], pa.uint64())
        trips = [1000 * 10**6, 1100 * 10**6, 1200 * 10**6, 1200 * 10**6]
        operations = {
            "at_ns": columns["at_ns"],
            "operation": pa.array(["READ"] * len(rows), pa.string()).dictionary_encode(),
            "calls": columns["answered"],
            "round_trip_sum_ns": pa.array([trips[n] for n in rows], pa.uint64()),
        }
        tcp = {"at_ns": columns["at_ns"], "connection": pa.array(rows, pa.uint32())}
        return {"rpc": pa.table(columns), "operations": pa.table(operations), "tcp": pa.table(tcp)}

    def calls(self) -> pa.Table:
        rows = 0 if self._taken else 2
        self._taken = True
        sent = pa.array([11 * SECOND, 12 * SECOND][:rows], pa.uint64())
        return pa.table({"sent_first_ns": sent, "xid": pa.array([1, 2][:rows], pa.uint32())})


class Live(Planted):
    """A client that answers one call a millisecond, now."""

    def samples(self) -> dict[str, pa.Table]:
        now_ns = clock.monotonic_ns()
        at = pa.array([now_ns - 10**6, now_ns], pa.uint64())
        totals = pa.array([at_ns.as_py() // 10**6 for at_ns in at], pa.uint64())
        columns = {"at_ns": at} | dict.fromkeys((*rpc.GAUGES, *rpc.RATES), totals)
        operations = {
            "at_ns": at, "operation": pa.array(["READ"] * 2), "calls": totals,
            "round_trip_sum_ns": at,
        }  # fmt: skip
        tcp = {"at_ns": at, "connection": pa.array([0, 0], pa.uint32())}
        return {"rpc": pa.table(columns), "operations": pa.table(operations), "tcp": pa.table(tcp)}

    def calls(self) -> pa.Table:
        self._taken = True
        return super().calls()
