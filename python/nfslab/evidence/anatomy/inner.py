"""What lies within a part: the log's sync on NFS or on disks, and within its calls.

A part is divided by shares of other records of the same run: the steps of the log's syncs (joined
to NFS calls, or to block requests), and the instants of WRITE and COMMIT on client and server. The
shares are of all syncs of the log, also of those that background processes made.

Where the pauses of backends were timed, `wal_fsync` is what a sync was blocked for: less than its
call, which was on a processor or waited for one, too. NFS calls and block requests have the same
time as in the call, and the rest is so much shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.anatomy.parts import PartFacts, divided
from nfslab.evidence.nfs_server.breakdown import PARTS as INSTANTS
from nfslab.evidence.syscalls.sync_blocks import PARTS as REQUESTS
from nfslab.evidence.syscalls.sync_share import LOGS
from nfslab.evidence.syscalls.sync_steps import STEPS
from nfslab.evidence.web.storage import POSTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.nfs_server.breakdown import BreakdownFacts
    from nfslab.evidence.syscalls.facts import SyscallFacts

CALLS: Final = {"waiting": "WRITE", "sending": "WRITE", "committing": "COMMIT"}
"""Step of a sync -> the NFS calls that it is of."""
NAMES: Final = {"waiting": "server queue", "sending": "reply transit"}
"""Instants -> parts: what the server still does with a reply is its reply transit."""
SYNCED: Final = (*LOGS, POSTS)
"""Classes of files whose syncs operations wait for."""


def within_log_sync(
    part: PartFacts, syscalls: SyscallFacts | None, calls: BreakdownFacts | None
) -> PartFacts:
    """The part with what is known of its inside."""
    if syscalls is None:
        return part
    longer, known = _call_to_blocked(part, syscalls), _of_known_syncs(part, syscalls)
    for row in syscalls.waits.steps or ():
        if row.file_class in SYNCED:
            steps = divided(part, _fitting(_of_blocked(STEPS, row.summary.share, longer), known))
            inner = [_within_call(one, calls, row.target) for one in steps.parts]
            return steps.model_copy(update={"parts": tuple(inner)})
    for blocks in syscalls.waits.blocks or ():
        if blocks.file_class in SYNCED:
            shares = _of_blocked(REQUESTS, blocks.summary.share, longer)
            return divided(part, _fitting(shares, known))
    return part


def _call_to_blocked(part: PartFacts, syscalls: SyscallFacts) -> float:
    """How many times as long as the part the call was; 1: the part is the call."""
    known = [
        share.backend_sync_ns / share.transactions
        for share in syscalls.shares
        if share.transactions
    ]
    if part.name != "wal_fsync" or part.source != "exact" or not known or not part.ns:
        return 1.0
    return max(known[0] / part.ns, 1.0)


def _of_known_syncs(part: PartFacts, syscalls: SyscallFacts) -> float:
    """How much of a group-commit wait may be of the syncs that were seen, 0 to 1."""
    share = next(iter(syscalls.shares), None)
    if part.name != "group_commit_wait" or share is None or not share.transactions or not part.ns:
        return 1.0
    if not share.by_backends:
        return 1.0
    all_ns = share.backend_sync_ns * share.syncs / share.by_backends
    return min((share.clients - 1) * all_ns / share.transactions / part.ns, 1.0)


def _fitting(shares: Sequence[tuple[str, float]], known: float) -> list[tuple[str, float]]:
    return [(name, share * known) for name, share in shares]


def _of_blocked(
    names: Sequence[str], shares: Sequence[float | None], longer: float
) -> list[tuple[str, float]]:
    """Shares of the call as shares of its blocked time; the last name is the rest of both."""
    known = [(share or 0.0) * longer for share in shares[:-1]]
    fits = min(1.0, 1.0 / sum(known)) if sum(known) else 1.0
    rest = max(1.0 - sum(known), 0.0) if longer > 1 else shares[-1] or 0.0
    return list(zip(names, [*(share * fits for share in known), rest], strict=True))


def _within_call(step: PartFacts, calls: BreakdownFacts | None, target: str) -> PartFacts:
    operation = CALLS.get(step.name)
    rows = calls.rows if calls is not None and operation is not None else ()
    for row in rows:
        if row.target == target and row.operation == operation:
            return divided(step, call_shares(row.summary.share))
    return step


def call_shares(values: Sequence[float | None]) -> list[tuple[str, float]]:
    """Parts of a call, with what is given of each (a share, a time); one name's are added up."""
    found: dict[str, float] = {}
    for name, value in zip(INSTANTS, values, strict=True):
        known = NAMES.get(name, name)
        found[known] = found.get(known, 0.0) + (value or 0.0)
    return list(found.items())
