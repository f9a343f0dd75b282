"""System calls as JSON: integers in nanoseconds, shares 0 to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.syscalls.sentences import notes, sentences
from nfslab.evidence.syscalls.tables import PLACES

if TYPE_CHECKING:
    from nfslab.evidence.syscalls.facts import SeriesFacts, SyscallFacts
    from nfslab.evidence.syscalls.sync_blocks import BlocksRow
    from nfslab.evidence.syscalls.sync_share import LogShare
    from nfslab.evidence.syscalls.sync_steps import StepsRow
    from nfslab.evidence.syscalls.tables import CallGroup, ClassRow

ACCESSES_MOST: Final = 2000
"""Single reads and writes of a class in JSON; Parquet has all of them."""


def content(facts: SyscallFacts) -> dict[str, Any]:
    """Everything for programs."""
    watch, waits = facts.watch, facts.waits
    made: dict[str, Any] = {
        "way": watch.get("way"),
        "level": watch.get("level"),
        "why_not": watch.get("why_not", []),
        "known_cost": watch.get("known_cost", ""),
        "figures": dict(watch.get("figures", {})),
        "notes": notes(facts),
        "sentences": sentences(facts),
        "classes": [_row(row) for row in facts.classes],
        "files": [_row(row) for row in facts.files],
        "total": _row(facts.total),
        "series": [_series(one) for one in facts.series],
    }
    if waits.steps is not None:
        made["steps"] = [_steps(row) for row in waits.steps]
    if waits.blocks is not None:
        made["blocks"] = [_blocks(row) for row in waits.blocks]
    made["accesses"] = list(facts.accesses)
    made["log"] = [_share(one) for one in facts.shares]
    return made


def _series(one: SeriesFacts) -> dict[str, Any]:
    p50, p90, p99, most = one.quantiles_ns
    return {
        "class": one.file_class, "call": one.what, "calls": one.calls,
        "errors": one.errors, "sum_ns": one.sum_ns,
        "p50_ns": p50, "p90_ns": p90, "p99_ns": p99, "max_ns": most,
        "levels": [
            {"first": level.start, "calls": level.calls, "median_ns": level.median_ns,
             "mean_ns": level.mean_ns}
            for level in one.levels
        ],
        "change_p_values": list(one.p_values),
    }  # fmt: skip


def _steps(row: StepsRow) -> dict[str, Any]:
    return {
        "target": row.target, "class": row.file_class, "call": row.what,
        "calls": row.summary.calls, "mean_ns": row.summary.mean_ns,
        "share": row.summary.share, "slow_share": row.summary.slow_share,
        "writes": row.writes, "write_bytes": row.write_bytes, "commits": row.commits,
        "without_calls": row.without_calls,
    }  # fmt: skip


def _blocks(row: BlocksRow) -> dict[str, Any]:
    return {
        "class": row.file_class, "call": row.what, "calls": row.summary.calls,
        "mean_ns": row.summary.mean_ns, "share": row.summary.share,
        "flushes": row.flushes, "writes": row.writes, "write_bytes": row.write_bytes,
        "reads": row.reads,
    }  # fmt: skip


def _share(one: LogShare) -> dict[str, Any]:
    return {
        "log": one.log, "syncs": one.syncs, "by_backends": one.by_backends,
        "backend_sync_ns": one.backend_sync_ns, "share_of_clients": one.share_of_clients,
        "share_of_latency": one.share_of_latency, "waits": one.waits,
    }  # fmt: skip


def _row(row: ClassRow) -> dict[str, Any]:
    groups = {name: _group(one) for name, one in {**row.groups, **row.others}.items()}
    return {
        "name": row.name, "class": row.file_class, "files": row.files, "calls": groups,
        "synchronous_writes": _group(row.synchronous), "sync_ns": row.sync_ns,
    }  # fmt: skip


def _group(one: CallGroup) -> dict[str, Any]:
    return {
        "calls": one.calls, "errors": one.errors, "bytes": one.bytes, "mean_ns": one.mean_ns,
        "latency_sum_ns": one.latency_sum_ns, "latency_max_ns": one.latency_max_ns,
        "places": dict(zip(PLACES, one.places, strict=True)),
    }  # fmt: skip
