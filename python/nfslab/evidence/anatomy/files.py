"""The mean time of an operation on files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nfslab.evidence.anatomy.calls import with_calls, within_storage
from nfslab.evidence.anatomy.parts import AnatomyFacts, PartFacts, with_rest
from nfslab.results.evidence_tables import sample_rows

if TYPE_CHECKING:
    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.nfs_server.breakdown import BreakdownFacts


Calls = Callable[[tuple[int, int]], "BreakdownFacts | None"]
"""NFS calls between two instants of the timed part, in ns."""


def of_files(run: SealedRun, calls_between: Calls) -> AnatomyFacts | None:
    """One phase: a thread's time of an operation. Several: the time of all, by phase."""
    rows = sample_rows(run.folder, "phases")
    if not rows:
        return None
    if len(rows) == 1:
        (row,) = rows
        if not row["operations"]:
            return None
        mean_ns = row["wall_ns"] * row["threads"] / row["operations"]
        operations, threads = row["operations"], row["threads"]
        parts = _of_phase(row, mean_ns, operations)
        # Files are filled before the phase begins, and removed after it.
        calls = calls_between((row["t_ns"], row["t_ns"] + row["wall_ns"]))
        if calls is not None:
            parts = within_storage(parts, calls, operations, threads)
        over_nfs = any("nfs" in place.facts for place in run.record.places.values())
        made = AnatomyFacts(
            operation="operation",
            operations=operations,
            mean_ns=mean_ns,
            parts=tuple(parts),
            wants=("rpc", "nfs_server") if calls is None and over_nfs else (),
        )
        return with_calls(made, calls)
    parts = [
        PartFacts(
            name=row["phase"], ns=row["wall_ns"], source="exact",
            parts=tuple(_of_phase(row, row["wall_ns"], row["threads"])),
        )
        for row in rows
    ]  # fmt: skip
    whole_ns = float(sum(row["wall_ns"] for row in rows))
    return AnatomyFacts(operation="run", operations=1, mean_ns=whole_ns, parts=tuple(parts))


def _of_phase(row: dict[str, Any], whole_ns: float, per: float) -> list[PartFacts]:
    """Threads' time, a `per`-th of it: the CPU that they took, the final sync, waiting."""
    sums = {
        "program": row["user_ns"],
        "kernel": row["system_ns"],
        "final_sync": (row["final_sync_ns"] or 0) * row["threads"],
    }
    parts = [PartFacts(name=name, ns=ns / per, source="exact") for name, ns in sums.items() if ns]
    rest_ns = whole_ns - sum(part.ns for part in parts)
    if rest_ns > 0:
        return [*parts, PartFacts(name="storage", ns=rest_ns, source="exact")]
    return with_rest(parts, whole_ns)
