"""The same bytes move in more, smaller calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import DATA, NumberCause, mostly, smaller

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls


class SmallTransfers(NumberCause):
    """The same bytes move in more, smaller calls."""

    cause: ClassVar[str] = "small_transfers"
    what: ClassVar[str] = "the larger number of READs and WRITEs, each of fewer bytes"
    confirm: ClassVar[str] = "raise rsize and wsize"

    def fits(self, calls: Calls) -> bool:
        """READs and WRITEs, each of at most two thirds of the bytes."""
        return mostly(calls.more_of(), DATA) and smaller(calls)
