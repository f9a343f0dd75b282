"""Calls, or replies, got lost."""

from __future__ import annotations

from typing import ClassVar

from nfslab.evidence.anatomy.calls import RETRANSMITTED
from nfslab.findings.calls import CallPartsCause


class Loss(CallPartsCause):
    """Calls, or replies, got lost."""

    cause: ClassVar[str] = "loss"
    names: ClassVar[tuple[str, ...]] = (RETRANSMITTED,)
    what: ClassVar[str] = "waiting until a call was sent once more"
    confirm: ClassVar[str] = "use TCP, or mend the network; a shorter timeo makes the part smaller"
    depends: ClassVar[tuple[str, ...]] = ("targets.*.loss",)
