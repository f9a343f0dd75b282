"""Waiting for a processor."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.base import PartsCause


class RunQueue(PartsCause):
    """More time is spent runnable, but not running."""

    cause: ClassVar[str] = "run_queue"
    parts: ClassVar[tuple[str, ...]] = ("running/run_queue",)
    what: ClassVar[str] = "waiting for a processor"
    confirm: ClassVar[str] = "give the machine more processors, or the load fewer clients"
    depends: ClassVar[tuple[str, ...]] = ("workload.clients", "workload.terminals")
