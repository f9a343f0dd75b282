"""What the kernel's NFS server counts, once a second and over the timed part.

How it is read: `nfslab.evidence.polled`; what the counters mean: `nfslab.storage.nfsd`. It watches
the server of this machine, whoever started it. Where a counter went down (the module was loaded
anew, 32 bits were full) there is no row and there are no totals; a server that was started anew has
none of its pools: the run says so.

Cost: Evidence.cpu_s is what reading and differencing took; docs/kernel-nfs.md has figures.

Limits: all clients of the server are counted together, this run's and others'. Without root, or
without /proc/fs/nfsd, there are no pools, or pools without threads.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from nfslab import clock
from nfslab.evidence.collector import Collector, CollectorParameters, Side
from nfslab.evidence.polled import NS_PER_S, ROWS_MAX, PolledWatch, table_of
from nfslab.machine.availability import Availability
from nfslab.quantities import Duration
from nfslab.storage import nfsd
from nfslab.storage.block_layers import kernel_has
from nfslab.storage.counters import FormError
from nfslab.storage.nfsd import NfsdCounts, rates, read_counts, since

if TYPE_CHECKING:
    import pyarrow as pa

    from nfslab.workloads.base import RunContext

START: Final = "start the kernel's NFS server (rpc.nfsd), or leave the collector nfsd out"
_TYPES: Final = {"operation": "string"}


class NfsdParameters(CollectorParameters):
    """What `[collectors.nfsd]` may hold."""

    interval: Duration = Field(default=1.0, ge=0.05, le=60)
    """Between two readings."""


class NfsdCollector(Collector):
    """Counters of the kernel's NFS server."""

    kind: ClassVar[str] = "nfsd"
    summary: ClassVar[str] = "calls, reply cache, bytes, pools of the kernel's NFS server, at 1 Hz"
    Parameters: ClassVar[type[CollectorParameters]] = NfsdParameters
    side: ClassVar[Side] = "server"
    parameters: NfsdParameters

    @classmethod
    def available(cls) -> Availability:
        """Where the kernel has an NFS server, loaded or not: a run may start it."""
        if os.path.exists(nfsd.STATISTICS) or kernel_has("nfsd"):
            return Availability(True)
        return Availability(
            False, "this kernel has no NFS server (module nfsd)",
            "nfslab vm run boots a kernel that has it",
        )  # fmt: skip

    def applies(self, context: RunContext) -> Availability:
        """Does a server run?"""
        try:
            threads = read_counts().server.threads
        except FileNotFoundError:
            threads = 0
        except (OSError, FormError) as error:
            return Availability(False, f"{nfsd.STATISTICS} cannot be read: {error}", START)
        if not threads:
            return Availability(
                False, "no NFS server of the kernel runs on this machine", START, moot=True
            )
        return Availability(True)

    def start(self, context: RunContext) -> None:
        """The first reading, then a thread; RunFailed when it cannot be read."""
        watch = _Watch(context, self.parameters.interval)
        watch.begin()
        self._watch = watch


class _Watch(PolledWatch):
    """The server of this machine."""

    kind = "nfsd"

    def __init__(self, context: RunContext, interval_s: float) -> None:
        super().__init__(context, interval_s)
        self.source = nfsd.STATISTICS
        self._last: NfsdCounts | None = None
        self._last_ns = 0
        self._zero: NfsdCounts | None = None
        self._zero_ns = 0
        self._rows: dict[str, list[dict[str, Any]]] = {"series": [], "operations": [], "pools": []}
        self._went_down = self._left_out = 0
        self._pools_anew = False

    def read(self) -> None:
        """Rows of what was counted since the reading before."""
        before_ns = clock.monotonic_ns()
        now = read_counts()
        at_ns = (before_ns + clock.monotonic_ns()) // 2
        before, before_ns = self._last, self._last_ns
        self._last, self._last_ns = now, at_ns
        if before is None or at_ns <= before_ns:
            return
        moved = since(now, before)
        if moved is None:
            self._went_down += 1
            return
        self._pools_anew |= moved.pools is None and now.pools is not None
        if max(len(rows) for rows in self._rows.values()) > ROWS_MAX:
            self._left_out += 1
            return
        self._rows["series"].append({"at_ns": at_ns} | rates(moved, (at_ns - before_ns) / NS_PER_S))
        self._rows["operations"] += [
            {"at_ns": at_ns, "version": version, "operation": name, "calls": count}
            for (version, name), count in moved.by_operation().items()
            if count
        ]
        self._rows["pools"] += [
            {"at_ns": at_ns, "pool": pool} | asdict(one)
            for pool, one in (moved.pools or {}).items()
        ]

    def mark(self) -> None:
        self._zero, self._zero_ns, self._went_down = self._last, self._last_ns, 0
        self._pools_anew = False

    def missing(self) -> str:
        return ""

    def notes(self) -> list[str]:
        notes = []
        if self._went_down:
            notes.append("counters of the kernel's NFS server went down meanwhile: no totals")
        if self._pools_anew:
            notes.append("the kernel's NFS server was started anew meanwhile: no totals of pools")
        if self._left_out:
            notes.append(f"{self._left_out} readings are in the totals only")
        return notes

    def tables(self, zero_ns: int) -> dict[str, pa.Table]:
        return {
            f"nfsd_{kind}": table_of(
                rows, zero_ns, _TYPES, "double" if kind == "series" else "int64"
            )
            for kind, rows in self._rows.items()
            if rows
        }

    def summary(self) -> dict[str, Any]:
        """Of the timed part; without it, or after a counter went down, nothing."""
        zero, last = self._zero, self._last
        if zero is None or last is None or self._went_down or (moved := since(last, zero)) is None:
            return {"server": {}}
        pools = {} if self._pools_anew else moved.pools or {}
        return {
            "server": asdict(moved.server),
            "wall_s": (self._last_ns - self._zero_ns) / NS_PER_S,
            "operations": [
                {"version": version, "operation": name, "calls": count}
                for (version, name), count in moved.by_operation().items()
                if count
            ],
            "compounds": moved.procedures.get((4, "COMPOUND"), 0),
            "pools": [{"pool": pool} | asdict(one) for pool, one in pools.items()],
            "cache": None if moved.cache is None else asdict(moved.cache),
        }
