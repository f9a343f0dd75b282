"""The server ends nothing for a while, now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.evidence.anatomy.calls import PAUSED
from nfslab.findings.base import Cause, effect
from nfslab.findings.calls import paths_of

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.alone import Alone
    from nfslab.findings.base import Finding


class ServerStall(Cause):
    """The server ends nothing for a while, now and then."""

    cause: ClassVar[str] = "server_stall"
    what: ClassVar[str] = "pauses of the server, in which it ends nothing with calls before it"
    confirm: ClassVar[str] = (
        "look for what the server does at those instants: write-back, snapshots, another program"
    )
    depends: ClassVar[tuple[str, ...]] = ("targets.*.stall",)

    def judge(self, pair: Compared) -> Finding | None:
        """Where that part is longer."""
        return effect(self, pair, paths_of(pair, (PAUSED,)))

    def alone(self, point: Alone) -> Finding | None:
        """Where that part is a tenth of the operation at least."""
        return point.share(self, point.paths((PAUSED,)))
