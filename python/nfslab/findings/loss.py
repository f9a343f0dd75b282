"""Calls, or replies, got lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.evidence.anatomy.calls import SENT_AGAIN
from nfslab.findings.base import Cause, effect
from nfslab.findings.calls import paths_of

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.alone import Alone
    from nfslab.findings.base import Finding


class Loss(Cause):
    """Calls, or replies, got lost."""

    cause: ClassVar[str] = "loss"
    what: ClassVar[str] = "waiting until a call was sent once more"
    confirm: ClassVar[str] = "use TCP, or mend the network; a shorter timeo makes the part smaller"
    depends: ClassVar[tuple[str, ...]] = ("targets.*.loss",)

    def judge(self, pair: Compared) -> Finding | None:
        """Where that part is longer."""
        return effect(self, pair, paths_of(pair, (SENT_AGAIN,)))

    def alone(self, point: Alone) -> Finding | None:
        """Where that part is a tenth of the operation at least."""
        return point.share(self, point.paths((SENT_AGAIN,)))
