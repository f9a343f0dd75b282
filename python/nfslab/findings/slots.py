"""Calls wait in the client, with neither way nor server slower."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.calls import RPC_BACKLOG, StageCause


class Slots(StageCause):
    """Calls wait in the client, with neither way nor server slower."""

    cause: ClassVar[str] = "slots"
    stages: ClassVar[tuple[str, ...]] = RPC_BACKLOG
    what: ClassVar[str] = (
        "waiting in the client before a call is sent, with neither way nor server slower"
    )
    confirm: ClassVar[str] = "raise max_requests (the slot table), or use more connections"
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.mount_options",
        "targets.*.nconnect",
    )
