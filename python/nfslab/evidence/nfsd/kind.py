"""The kernel's NFS server in reports: facts, section and panels of `nfsd`.

Facts are the totals of the timed part, of all clients of the server together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display import cells
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, TableSpec
from nfslab.evidence.by_mount import by_operation
from nfslab.evidence.over_time import PanelSpec, panel, read_samples
from nfslab.evidence.same import OPERATION, POINT, RUNS, Same, at_points, median, noted, total
from nfslab.results.groups import grouped
from nfslab.storage.nfsd import PoolCounts, ReplyCache, ServerCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.display.figures import Panel
    from nfslab.evidence.base import Found, SealedRun

    AtPoints = Sequence[Same["NfsdFacts"]]
    """Of the runs that have totals."""

OPERATIONS_MOST: Final = 16
"""Rows of one point, the most frequent operations first."""
_SERIES: Final = (
    PanelSpec("nfsd_calls", "Kernel NFS server: calls", "1/s", {"calls_per_s": ""}),
    PanelSpec(
        "nfsd_bytes", "Kernel NFS server: data", "B/s",
        {"read_bytes_per_s": "read", "written_bytes_per_s": "written"},
    ),
    PanelSpec(
        "nfsd_cache", "Kernel NFS server: reply cache", "1/s",
        {"cache_hits_per_s": "hits", "cache_misses_per_s": "misses", "uncached_per_s": "not kept"},
    ),
    PanelSpec(
        "nfsd_pools", "Kernel NFS server: pools of threads", "1/s",
        {
            "pools_packets_per_s": "arrived", "pools_enqueued_per_s": "enqueued",
            "pools_woken_per_s": "threads woken",
        },
    ),
)  # fmt: skip
NOTE: Final = (
    "All clients of this machine's server are counted together. A connection is enqueued whenever "
    "it has work, also when a thread is idle: that is no number of calls that waited."
)


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """One procedure of NFSv2 or 3, one operation of NFSv4."""

    version: int
    operation: str
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts(PoolCounts):
    """One pool of threads; `threads` are those at the end."""

    pool: int


class NfsdFacts(Facts):
    """One run; without totals only its notes."""

    server: ServerCounts | None
    wall_s: float = 0.0
    operations: tuple[OperationFacts, ...] = ()
    compounds: int = 0
    pools: tuple[PoolFacts, ...] = ()
    cache: ReplyCache | None = None
    """At the end; `payload_misses` are of the timed part."""
    notes: tuple[str, ...] = ()

    def count(self, name: str) -> int:
        """A counter of the server's."""
        return int(getattr(self.server, name))

    def per_s(self, name: str) -> float:
        """A rate of the server's."""
        return self.count(name) / self.wall_s


class NfsdEvidence(EvidenceKind[NfsdFacts]):
    """Calls, reply cache, bytes, threads and pools of the kernel's NFS server."""

    kind: ClassVar[str] = "nfsd"
    title: ClassVar[str] = "What the kernel's NFS server did"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec(
            "nfsd_series",
            (
                ColumnSpec("t_ns", "int64", "ns"),
                *(ColumnSpec(c, "double", spec.unit) for spec in _SERIES for c in spec.labels),
            ),
        ),
    )
    Facts: ClassVar[type[Facts]] = NfsdFacts

    def facts(self, run: SealedRun) -> NfsdFacts | None:
        """Of the collector's totals."""
        summary = run.summary("nfsd")
        if not summary.get("server") and not summary.get("notes"):
            return None
        kept = {name: one for name, one in summary.items() if name in NfsdFacts.model_fields}
        return NfsdFacts.model_validate(kept | {"server": summary.get("server") or None})

    def section(self, found: Found[NfsdFacts]) -> Section | None:
        """The server, its operations and pools by point."""
        points = [
            Same(one.point, same)
            for one in at_points(found)
            if (same := [facts for facts in one.runs if facts.server is not None])
        ]
        tables = [_server_table(points), _operation_table(points), _pool_table(points)]
        return Section(
            self.title,
            anchor=self.kind,
            intro="As /proc/net/rpc/nfsd and /proc/fs/nfsd count it over the timed part; medians "
            "over the runs of a configuration.",
            sentences=_sentences(points),
            tables=[table for table in tables if table.rows],
            notes=[*noted(found), NOTE],
        )

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """Calls, data, reply cache, pools."""
        samples = read_samples(run, "nfsd_series", [c for spec in _SERIES for c in spec.labels])
        return [made for spec in _SERIES for made in panel(spec, samples)]


WRONG: Final = {
    "cache_hits": "calls had come before: their clients sent them again",
    "bad_calls": "calls were refused before NFS saw them",
    "stale_handles": "file handles were stale",
}


def _sentences(points: AtPoints) -> list[str]:
    """What went wrong: it stands first."""
    return [
        f"{one.point}: {number:,} {words}."
        for one in points
        for name, words in WRONG.items()
        if (number := sum(facts.count(name) for facts in one.runs))
    ]


def _server_table(points: AtPoints) -> Table:
    return Table.of("Server", points, [
        POINT, RUNS,
        (Column("threads"), median(lambda f: f.server.threads, "1")),
        (Column("calls"), median(lambda f: f.per_s("calls"), "1/s")),
        (Column("read"), median(lambda f: f.per_s("read_bytes"), "B/s")),
        (Column("written"), median(lambda f: f.per_s("written_bytes"), "B/s")),
        (Column("connections", hint="accepted"), total(lambda f: f.server.connections)),
        (Column("cache hits", hint="calls that had come before"),
         total(lambda f: f.server.cache_hits, "warning")),
        (Column("cache misses", hint="replies that are kept"),
         median(lambda f: f.per_s("cache_misses"), "1/s")),
        (Column("not kept", hint="replies that need not be"),
         median(lambda f: f.per_s("uncached"), "1/s")),
        (Column("refused"), total(lambda f: f.server.bad_calls, "warning")),
        (Column("stale handles"), total(lambda f: f.server.stale_handles, "warning")),
        (Column("cache entries", hint="at the end"),
         median(lambda f: f.cache and f.cache.entries, "1")),
    ])  # fmt: skip


def _operation_table(points: AtPoints) -> Table:
    walls = {id(one): f.wall_s for point in points for f in point.runs for one in f.operations}
    rows = [
        replace(row, name=f"v{version} {row.name}")
        for point in points
        for version in (2, 3, 4)
        for row in by_operation(
            point,
            (one for f in point.runs for one in f.operations if one.version == version),
            OPERATIONS_MOST,
        )
    ]
    note = "NFSv4: operations inside COMPOUNDs; one call has several."
    return Table.of("Operations", rows, [
        POINT, OPERATION,
        (Column("calls"), median(lambda one: one.calls, "1")),
        (Column("rate"), median(lambda one: one.calls / walls[id(one)], "1/s")),
    ], note=note)  # fmt: skip


def _pool_table(points: AtPoints) -> Table:
    rows = [
        Same(point.point, ones)
        for point in points
        for _, ones in sorted(
            grouped((pool.pool, (pool, f.wall_s)) for f in point.runs for pool in f.pools).items()
        )
    ]
    return Table.of("Pools of threads", rows, [
        POINT,
        (Column("pool"), lambda row: cells.count(row.runs[0][0].pool)),
        (Column("threads"), median(lambda one: one[0].threads, "1")),
        (Column("arrived", hint="what it counts depends on the kernel: docs/kernel-nfs.md"),
         median(lambda one: one[0].packets / one[1], "1/s")),
        (Column("enqueued", hint="connections that had work"),
         median(lambda one: one[0].enqueued / one[1], "1/s")),
        (Column("threads woken", hint="of those that were idle"),
         median(lambda one: one[0].woken / one[1], "1/s")),
    ], open=False)  # fmt: skip
