"""The same bytes move in more, smaller calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.findings.calls import DATA, NumberCause, mostly, smaller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.findings.calls import Calls
    from nfslab.findings.interventions import At

LARGEST_BYTES: Final = 1 << 20
"""Linux's NFS_MAX_FILE_IO_SIZE."""


class SmallTransfers(NumberCause):
    """The same bytes move in more, smaller calls."""

    cause: ClassVar[str] = "small_transfers"
    what: ClassVar[str] = "the larger number of READs and WRITEs, each of fewer bytes"
    confirm: ClassVar[str] = "raise rsize and wsize"
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.rsize",
        "targets.*.wsize",
    )

    def fits(self, calls: Calls) -> bool:
        """READs and WRITEs, each of at most two thirds of the bytes."""
        return mostly(calls.more_of(), DATA) and smaller(calls)

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """The largest that there are."""
        sizes = at.of_nfs("rsize") | at.of_nfs("wsize")
        return {path: (now, LARGEST_BYTES) for path, now in sizes.items() if now < LARGEST_BYTES}
