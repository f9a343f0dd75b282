"""Calls wait for one of the server's workers, which are no slower."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.calls import SERVER_QUEUE, StageCause


class ServerThreads(StageCause):
    """Calls wait for one of the server's workers, which are no slower."""

    cause: ClassVar[str] = "server_threads"
    stages: ClassVar[tuple[str, ...]] = SERVER_QUEUE
    what: ClassVar[str] = (
        "waiting for one of the server's threads, which serve no slower than before"
    )
    confirm: ClassVar[str] = "raise the server's number of threads"
