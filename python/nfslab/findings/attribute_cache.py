"""Attributes are asked for anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nfslab.findings.calls import NumberCause, mostly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.findings.calls import Calls
    from nfslab.findings.interventions import At


class AttributeCache(NumberCause):
    """Attributes are asked for anew."""

    cause: ClassVar[str] = "attribute_cache"
    what: ClassVar[str] = "the larger number of GETATTRs, ACCESSes and LOOKUPs"
    confirm: ClassVar[str] = "let the client keep attributes (ac, a longer actimeo)"
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.ac",
        "targets.*.mount_options",
    )

    def fits(self, calls: Calls) -> bool:
        """What is asked of attributes and names."""
        return mostly(calls.more_of(), ("GETATTR", "ACCESS", "LOOKUP"))

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """Attributes are kept."""
        return {path: (now, True) for path, now in at.of_nfs("ac").items() if not now}
