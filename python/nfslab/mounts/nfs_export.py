"""An NFS export that is not mounted, as a workload that is its own client is told of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NfsExport:
    """Where it is and how to speak to it."""

    source: str
    """HOST:/EXPORT."""
    options: list[str]
    """Options of nfs(5), one an entry; of a server of ours its ports first."""
    is_calibration: bool = False
    """The embedded server's null store: every name is a file, and nothing is kept."""
