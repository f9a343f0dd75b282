"""More checkpoints within the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.findings.beside import FILE_PARTS, ReasonCause, beside, counters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun
    from nfslab.findings.interventions import At

VIEWS: Final = {
    "pg_stat_bgwriter": ("checkpoints_timed", "checkpoints_req"),
    "pg_stat_checkpointer": ("num_timed", "num_requested"),
}
"""Until PostgreSQL 16, and from 17."""
LEAST_MORE: Final = 0.5
"""Of a run."""


class Checkpoint(ReasonCause):
    """Checkpoints write, and what they write competes with the load."""

    cause: ClassVar[str] = "checkpoint"
    parts: ClassVar[tuple[str, ...]] = FILE_PARTS
    what: ClassVar[str] = "files that checkpoints keep busy, and the log that follows them"
    confirm: ClassVar[str] = "raise max_wal_size and checkpoint_timeout until none falls into a run"
    depends: ClassVar[tuple[str, ...]] = (
        "workload.settings.max_wal_size",
        "workload.settings.checkpoint_timeout",
    )

    def because(self, pair: Compared) -> str | None:
        """By PostgreSQL's own count."""
        number = beside(pair, _checkpoints)
        if number is None or not number.grew or number.new - number.base < LEAST_MORE:
            return None
        return f"{number.new:.2g} checkpoints a run instead of {number.base:.2g}"

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """None falls into a run."""
        return at.setting("max_wal_size", "1GB", "64GB") | at.setting(
            "checkpoint_timeout", "5min", "1h"
        )


def _checkpoints(run: SealedRun) -> float | None:
    known = [
        row[name]
        for view, names in VIEWS.items()
        for name in names
        if name in (row := counters(run).get(view, {}))
    ]
    return sum(known) if known else None
