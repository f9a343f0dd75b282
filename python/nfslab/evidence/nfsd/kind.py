"""The kernel's NFS server in reports: facts, section and panels of `nfsd`.

Facts are the totals of the timed part, of all clients of the server together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display import cells
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, TableSpec
from nfslab.evidence.by_mount import by_operation
from nfslab.evidence.found import by_point
from nfslab.evidence.over_time import PanelSpec, middle, panel, read_samples
from nfslab.storage.nfsd import PoolCounts, ReplyCache, ServerCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.display.figures import Panel
    from nfslab.display.sections import Cell
    from nfslab.evidence.base import Found, SealedRun

    AtPoints = Sequence[tuple[str, list["NfsdFacts"]]]
    """Point, facts of its runs that have totals."""

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

    def per_s(self, name: str) -> float | None:
        """A rate of the server's."""
        return None if self.server is None else getattr(self.server, name) / self.wall_s


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
        notes = dict.fromkeys(
            f"{run.label}: {note}" for run in found.runs for note in run.facts.notes
        )
        points = [
            (label, same)
            for _, label, runs in by_point(found)
            if (same := [run.facts for run in runs if run.facts.server is not None])
        ]
        tables = [_server_table(points), _operation_table(points), _pool_table(points)]
        return Section(
            self.title,
            anchor=self.kind,
            intro="As /proc/net/rpc/nfsd and /proc/fs/nfsd count it over the timed part; medians "
            "over the runs of a point.",
            sentences=_sentences(points),
            tables=[table for table in tables if table.rows],
            notes=[*notes, NOTE],
        )

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """Calls, data, reply cache, pools."""
        samples = read_samples(run, "nfsd_series", [c for spec in _SERIES for c in spec.labels])
        return [made for spec in _SERIES for made in panel(spec, samples)]


def _sum(same: Sequence[NfsdFacts], name: str) -> int:
    return sum(getattr(one.server, name) for one in same)


def _sentences(points: AtPoints) -> list[str]:
    """What went wrong: it stands first."""
    made = []
    for label, same in points:
        if hits := _sum(same, "cache_hits"):
            made.append(f"{label}: {hits:,} calls had come before: their clients sent them again.")
        if bad := _sum(same, "bad_calls"):
            made.append(f"{label}: {bad:,} calls were refused before NFS saw them.")
        if stale := _sum(same, "stale_handles"):
            made.append(f"{label}: {stale:,} file handles were stale.")
    return made


def _server_table(points: AtPoints) -> Table:
    columns = [
        Column("point", False), Column("runs"), Column("threads"), Column("calls"),
        Column("read"), Column("written"), Column("connections", hint="accepted"),
        Column("cache hits", hint="calls that had come before"),
        Column("cache misses", hint="replies that are kept"),
        Column("not kept", hint="replies that need not be"), Column("refused"),
        Column("stale handles"), Column("cache entries", hint="at the end"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for label, same in points:
        rows.append(
            [
                cells.text(label),
                cells.count(len(same)),
                cells.quantity(middle(f.server.threads if f.server else None for f in same), "1"),
                cells.quantity(middle(f.per_s("calls") for f in same), "1/s"),
                cells.quantity(middle(f.per_s("read_bytes") for f in same), "B/s"),
                cells.quantity(middle(f.per_s("written_bytes") for f in same), "B/s"),
                cells.count(_sum(same, "connections")),
                cells.count(_sum(same, "cache_hits"), "warning"),
                cells.quantity(middle(f.per_s("cache_misses") for f in same), "1/s"),
                cells.quantity(middle(f.per_s("uncached") for f in same), "1/s"),
                cells.count(_sum(same, "bad_calls"), "warning"),
                cells.count(_sum(same, "stale_handles"), "warning"),
                cells.quantity(middle(f.cache.entries if f.cache else None for f in same), "1"),
            ]
        )
    return Table("Server", columns, rows)


def _operation_table(points: AtPoints) -> Table:
    columns = [
        Column("point", False), Column("operation", False), Column("calls"), Column("rate"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for label, same in points:
        walls = {id(one): facts.wall_s for facts in same for one in facts.operations}
        for version in (2, 3, 4):
            all_ = (one for f in same for one in f.operations if one.version == version)
            for name, ones in by_operation(all_, OPERATIONS_MOST):
                rows.append(
                    [
                        cells.text(label),
                        cells.text(f"v{version} {name}"),
                        cells.quantity(middle(one.calls for one in ones), "1"),
                        cells.quantity(middle(one.calls / walls[id(one)] for one in ones), "1/s"),
                    ]
                )
    note = "NFSv4: operations inside COMPOUNDs; one call has several."
    return Table("Operations", columns, rows, note)


def _pool_table(points: AtPoints) -> Table:
    columns = [
        Column("point", False), Column("pool"), Column("threads"),
        Column("arrived", hint="what it counts depends on the kernel: docs/kernel-nfs.md"),
        Column("enqueued", hint="connections that had work"),
        Column("threads woken", hint="of those that were idle"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for label, same in points:
        pools: dict[int, list[tuple[PoolFacts, float]]] = {}
        for facts in same:
            for one in facts.pools:
                pools.setdefault(one.pool, []).append((one, facts.wall_s))
        for pool, ones in sorted(pools.items()):
            rows.append(
                [
                    cells.text(label),
                    cells.count(pool),
                    cells.quantity(middle(one.threads for one, _ in ones), "1"),
                    *(
                        cells.quantity(middle(getattr(one, c) / wall for one, wall in ones), "1/s")
                        for c in ("packets", "enqueued", "woken")
                    ),
                ]
            )
    return Table("Pools of threads", columns, rows, open=False)
