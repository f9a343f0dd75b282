"""The client has less memory to keep pages in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.display.numbers import quantity
from nfslab.findings.beside import ReasonCause, beside
from nfslab.findings.calls import WITH_REST, Calls, mostly, paths_of

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun


class ClientMemory(ReasonCause):
    """A tighter limit of memory, and more that is read again."""

    cause: ClassVar[str] = "client_memory"
    what: ClassVar[str] = "reading what less memory could not keep"
    confirm: ClassVar[str] = "raise the limit of memory: the part goes"
    depends: ClassVar[tuple[str, ...]] = ("limits.memory",)

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """A database's reads of data; NFS calls, where READs make most of what is more; where there
        are none, a web server's reads of documents."""
        known = {**pair.base.parts_ns, **pair.new.parts_ns}
        if "buffer_read" in known:
            return ("buffer_read",)
        calls = Calls.of(pair)
        if calls is not None:
            return paths_of(pair, WITH_REST) if mostly(calls.more_of(), ("READ",)) else ()
        return ("document_read",) if "document_read" in known else ()

    def because(self, pair: Compared) -> str | None:
        """By the limits in effect."""
        less = beside(pair, _below_limit)
        if less is None or not less.grew:
            return None
        return f"a limit of {quantity(-less.new, 'B')} instead of {quantity(-less.base, 'B')}"


def _below_limit(run: SealedRun) -> float | None:
    limit = run.record.memory_limit.get("limit_bytes")
    return None if limit is None else -float(limit)
