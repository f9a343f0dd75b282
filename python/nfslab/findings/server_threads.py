"""Calls wait for one of the server's workers, which are no slower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nfslab.findings.calls import SERVER_QUEUE, StageCause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.findings.alone import Alone
    from nfslab.findings.interventions import At


class ServerThreads(StageCause):
    """Calls wait for one of the server's workers, which are no slower."""

    cause: ClassVar[str] = "server_threads"
    stages: ClassVar[tuple[str, ...]] = SERVER_QUEUE
    what: ClassVar[str] = (
        "waiting for one of the server's threads, which serve no slower than before"
    )
    confirm: ClassVar[str] = "raise the server's number of threads"
    depends: ClassVar[tuple[str, ...]] = ("targets.*.threads",)

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """Eight times as many."""
        return {path: (now, min(8 * now, 1024)) for path, now in at.of_nfs("threads").items()}

    def fits_alone(self, point: Alone) -> str | None:
        """A queue before the workers, whatever their number."""
        busy = point.workers_busy()
        return "" if busy is None else f"the workers are busy for {busy:.0%} of the time"
