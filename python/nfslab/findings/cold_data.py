"""Data are read from the server that were in the client's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import NumberCause, mostly, smaller

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls


class ColdData(NumberCause):
    """Data are read from the server that were in the client's memory."""

    cause: ClassVar[str] = "cold_data"
    what: ClassVar[str] = (
        "more READs of the same size: what was in the client's memory at the baseline"
    )
    confirm: ClassVar[str] = "give the client more memory, or read once before measuring"
    depends: ClassVar[tuple[str, ...]] = ("limits.memory",)

    def fits(self, calls: Calls) -> bool:
        """READs, which are no smaller."""
        return mostly(calls.more_of(), ("READ",)) and not smaller(calls)
