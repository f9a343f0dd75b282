"""The server ends nothing for a while, now and then."""

from __future__ import annotations

from typing import ClassVar

from nfslab.evidence.anatomy.calls import PAUSED
from nfslab.findings.calls import CallPartsCause


class ServerStall(CallPartsCause):
    """The server ends nothing for a while, now and then."""

    cause: ClassVar[str] = "server_stall"
    names: ClassVar[tuple[str, ...]] = (PAUSED,)
    what: ClassVar[str] = "pauses of the server, in which it ends nothing with calls before it"
    confirm: ClassVar[str] = (
        "look for what the server does at those instants: write-back, snapshots, another program"
    )
    depends: ClassVar[tuple[str, ...]] = ("targets.*.stall",)
