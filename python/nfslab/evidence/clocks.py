"""Instants of one host on the clock of another: what joins tables of two hosts.

A table names its host and how that host's monotonic clock stood to the clock of the machine that
nfslab ran on (`results.upgrade.stamp_table`). The timed part, and so t = 0, is on the client's.
Hosts of one kernel have one clock: nothing moves, and nothing is off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nfslab.results.records import HostRecord
from nfslab.results.upgrade import table_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.results.records import RunRecord


def client_of(record: RunRecord) -> HostRecord:
    """On whose clock the timed part of a run is; of older runs: this machine."""
    return record.hosts.get("client", HostRecord())


def on_clock_of(
    host: HostRecord, table: pa.Table, columns: Sequence[str] = ("t_ns",)
) -> tuple[pa.Table, int]:
    """(the table with these instants on that host's clock, by how much they may be off in ns).

    Instants since a boot that are 0 ("never") stay 0.
    """
    seen = table_host(table.schema.metadata)
    if seen.name == host.name:
        return table, 0
    moved_ns = host.clock.offset_ns - seen.clock.offset_ns
    for name in columns if moved_ns else ():
        seen_ns = table[name].cast(pa.int64())
        moved = pc.add(seen_ns, moved_ns)
        if name != "t_ns":
            moved = pc.if_else(pc.equal(seen_ns, pa.scalar(0)), seen_ns, moved)
        table = table.set_column(table.column_names.index(name), name, moved)
    return table, host.clock.error_ns + seen.clock.error_ns
