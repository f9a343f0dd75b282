"""A web server's documents come from slower storage."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.base import PartsCause


class Documents(PartsCause):
    """Opening and reading documents takes longer."""

    cause: ClassVar[str] = "documents"
    parts: ClassVar[tuple[str, ...]] = ("document_open", "document_read")
    what: ClassVar[str] = "opening and reading documents"
    confirm: ClassVar[str] = "put the documents on the baseline's storage: the parts go"
    depends: ClassVar[tuple[str, ...]] = (
        "workload.data",
        "limits.memory",
        "workload.open_file_cache",
        "workload.sendfile",
    )
