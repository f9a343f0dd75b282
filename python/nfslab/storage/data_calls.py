"""READs, WRITEs and COMMITs by class of file, from whoever counts them by file.

(path, calls since the last time) ──> add ──> totals by class, that only grow
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.storage.file_classes import read_file_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNTED: Final = ("reads", "writes", "commits", "read_bytes", "written_bytes")
"""Of a row of the core, in its order."""
OTHER: Final = "other"
UNKNOWN: Final = "path not known"
"""Classes that have no pattern, as `nfslab trace` calls them."""

ByClass = dict[str, dict[str, int]]
"""Class of file -> counter -> total."""


class DataCalls:
    """Totals since it was made."""

    def __init__(self) -> None:
        self.totals: ByClass = {}
        self._classes = read_file_classes()

    def add(self, rows: Sequence[tuple[str | None, Sequence[int]]]) -> ByClass:
        """Paths (None: not known) with what was counted; the totals."""
        from nfslab._core import classify_paths

        found = classify_paths([path or "" for path, _ in rows], self._classes)
        for (path, counted), kind in zip(rows, found, strict=True):
            name = UNKNOWN if path is None else kind or OTHER
            into = self.totals.setdefault(name, dict.fromkeys(COUNTED, 0))
            for counter, count in zip(COUNTED, counted, strict=True):
                into[counter] += count
        return self.totals
