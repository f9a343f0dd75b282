"""Log and data on one storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.beside import LOG_PARTS, ReasonCause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts


class SharedDevice(ReasonCause):
    """The data moved to the log's own storage, which stayed where it was."""

    cause: ClassVar[str] = "shared_device"
    parts: ClassVar[tuple[str, ...]] = LOG_PARTS
    what: ClassVar[str] = "a log whose storage serves the data, too"
    confirm: ClassVar[str] = "give the log a device of its own"
    depends: ClassVar[tuple[str, ...]] = ("workload.data",)

    def because(self, pair: Compared) -> str | None:
        """By where both were: the log at one place in all runs."""
        sides = [_places(side) for side in pair.sides]
        if any(len(side) != 1 for side in sides):
            return None
        ((base_log, base_data),), ((log, data),) = sides
        if base_log != log or log != data or base_data == data:
            return None
        return f"the data were on {base_data}, and are on {data} with the log"


def _places(side: Sequence[RunFacts[AnatomyFacts]]) -> list[tuple[str, str]]:
    """Target of the log, and of the data: each combination once."""
    found = set()
    for one in side:
        places = one.run.record.places
        if "wal" in places and "data" in places:
            found.add((places["wal"].target, places["data"].target))
    return sorted(found)
