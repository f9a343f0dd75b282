"""Attributes are asked for anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import NumberCause, mostly

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls


class AttributeCache(NumberCause):
    """Attributes are asked for anew."""

    cause: ClassVar[str] = "attribute_cache"
    what: ClassVar[str] = "the larger number of GETATTRs, ACCESSes and LOOKUPs"
    confirm: ClassVar[str] = "let the client keep attributes (ac, a longer actimeo)"

    def fits(self, calls: Calls) -> bool:
        """What is asked of attributes and names."""
        return mostly(calls.more_of(), ("GETATTR", "ACCESS", "LOOKUP"))
