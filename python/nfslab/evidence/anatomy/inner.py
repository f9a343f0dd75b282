"""What lies within a part: the log's sync on NFS or on disks, and within its calls.

A part is divided by shares of other records of the same run: the steps of the log's syncs (joined
to NFS calls, or to block requests), and the instants of WRITE and COMMIT on client and server. The
shares are of all syncs of the log, also of those that background processes made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.anatomy.parts import PartFacts, divided
from nfslab.evidence.nfs_server.breakdown import PARTS as INSTANTS
from nfslab.evidence.syscalls.sync_blocks import PARTS as REQUESTS
from nfslab.evidence.syscalls.sync_share import LOGS
from nfslab.evidence.syscalls.sync_steps import STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.nfs_server.breakdown import BreakdownFacts
    from nfslab.evidence.syscalls.facts import SyscallFacts

CALLS: Final = {"waiting": "WRITE", "sending": "WRITE", "committing": "COMMIT"}
"""Step of a sync -> the NFS calls that it is of."""
NAMES: Final = {"waiting": "server queue", "sending": "way back"}
"""Instants -> parts: what the server still does with a reply is its way back."""


def within_log_sync(
    part: PartFacts, syscalls: SyscallFacts | None, calls: BreakdownFacts | None
) -> PartFacts:
    """The part with what is known of its inside."""
    if syscalls is None:
        return part
    for row in syscalls.waits.steps or ():
        if row.file_class in LOGS:
            steps = divided(part, list(zip(STEPS, row.summary.share, strict=True)))
            inner = [_within_call(one, calls, row.target) for one in steps.parts]
            return steps.model_copy(update={"parts": tuple(inner)})
    for blocks in syscalls.waits.blocks or ():
        if blocks.file_class in LOGS:
            return divided(part, list(zip(REQUESTS, blocks.summary.share, strict=True)))
    return part


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
