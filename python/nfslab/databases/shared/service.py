"""What a workload tells the collectors about the database server it runs: `services.database`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseService:
    """A running server of any engine, for the collectors of the same run."""

    has_views: ClassVar[bool] = False
    """Does it count its own calls on files, where it can be asked?"""

    kind: str
    """The engine, as `Database.kind` names it."""
    pid: int
    """Its first process: all others are its children."""
    data_directory: Path
