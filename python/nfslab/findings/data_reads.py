"""Pages that are read from the storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nfslab.findings.base import PartsCause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.findings.interventions import At


class DataReads(PartsCause):
    """Reading pages takes longer."""

    cause: ClassVar[str] = "data_reads"
    parts: ClassVar[tuple[str, ...]] = ("buffer_read",)
    what: ClassVar[str] = "reading pages that are not in shared buffers"
    confirm: ClassVar[str] = "raise shared_buffers beyond the size of the database: the part goes"
    depends: ClassVar[tuple[str, ...]] = (
        "workload.settings.shared_buffers",
        "limits.memory",
    )

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """Shared buffers that hold the database and what is new: by scale, or by warehouses."""
        each = 160 * (at.value("workload.warehouses") or 0) or 24 * (
            at.value("workload.scale") or 1
        )
        megabytes = 128 + each
        return at.setting("shared_buffers", "128MB", f"{megabytes}MB")
