"""The load's own program needs more of a processor."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.base import PartsCause


class ClientCpu(PartsCause):
    """The program, and the kernel for it, compute longer."""

    cause: ClassVar[str] = "client_cpu"
    parts: ClassVar[tuple[str, ...]] = ("program", "kernel")
    what: ClassVar[str] = "the processor's time of the program itself, and of the kernel for it"
    confirm: ClassVar[str] = "use larger blocks, or check fewer of them: storage changes nothing"
    depends: ClassVar[tuple[str, ...]] = (
        "workload.block",
        "workload.check_every",
    )
