"""Pages that are read from the storage."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.base import PartsCause


class DataReads(PartsCause):
    """Reading pages takes longer."""

    cause: ClassVar[str] = "data_reads"
    parts: ClassVar[tuple[str, ...]] = ("data_read",)
    what: ClassVar[str] = "reading pages that are not in shared buffers"
    confirm: ClassVar[str] = "raise shared_buffers beyond the size of the database: the part goes"
