"""The mean time of an operation on files, and of an offered NFS operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.evidence.anatomy.inner import call_shares
from nfslab.evidence.anatomy.parts import AnatomyFacts, PartFacts, with_rest
from nfslab.evidence.nfs_server.breakdown import ALL
from nfslab.results.evidence_tables import evidence_path, read_evidence

if TYPE_CHECKING:
    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.nfs_server.breakdown import BreakdownFacts


def _samples(run: SealedRun, name: str) -> list[dict[str, Any]]:
    """Rows of a table of the workload; none without it. ResultsError."""
    there = evidence_path(run.folder, name, "samples").is_file()
    return read_evidence(run.folder, name, folder="samples").to_pylist() if there else []


def of_files(run: SealedRun) -> AnatomyFacts | None:
    """One phase: a thread's time of an operation. Several: the time of all, by phase."""
    rows = _samples(run, "phases")
    if not rows:
        return None
    if len(rows) == 1:
        (row,) = rows
        if not row["operations"]:
            return None
        mean_ns = row["wall_ns"] * row["threads"] / row["operations"]
        parts = _of_phase(row, mean_ns, row["operations"])
        return AnatomyFacts(
            operation="operation", operations=row["operations"], mean_ns=mean_ns, parts=tuple(parts)
        )
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


def of_offered_calls(run: SealedRun, calls: BreakdownFacts | None) -> AnatomyFacts | None:
    """An operation's mean response time; its RPC calls where both ends recorded them."""
    rows = [row for row in _samples(run, "operations") if row["mean_ns"] is not None]
    answered = sum(row["answered"] for row in rows)
    if not answered:
        return None
    mean_ns = sum(row["mean_ns"] * row["answered"] for row in rows) / answered
    known = [row for row in (calls.rows if calls else ()) if row.operation == ALL]
    parts: list[PartFacts] = []
    for row in known:
        calls_of_one = row.summary.calls / answered
        parts += [
            PartFacts(name=name, ns=ns * calls_of_one, source="exact")
            for name, ns in call_shares(row.summary.mean_ns)
            if ns > 0
        ]
    return AnatomyFacts(
        operation="operation",
        operations=answered,
        mean_ns=mean_ns,
        parts=tuple(with_rest(parts, mean_ns)),
        wants=() if known else ("rpc", "nfs_server"),
    )
