"""What a client host says of itself before it gets a part, and whether it has room for it."""

from __future__ import annotations

from typing import Any, Final

from nfslab.cluster.identity import facts_here, limits_here
from nfslab.errors import RunFailed
from nfslab.machine.emulation import is_emulated
from nfslab.machine.journal import boot_id

MODULE: Final = "nfslab.experiment.in_part"
"""What an agent on a client host runs."""
SERVER_HERE: Final = "_server"
"""The server's half of a run on this machine: no name that a user can give a host."""
FILES_KEPT: Final = 64
"""Of an agent for itself: libraries, logs, sockets."""
PIPES: Final = 3
"""Of an agent, for each process of the workload."""


def facts() -> dict[str, Any]:
    """What a prime has to know of this host before it gives it a part."""
    own = {"boot_id": boot_id(), "emulated": is_emulated()}
    return facts_here() | limits_here() | own


def room(name: str, facts: dict[str, Any], processes: int, connections: int) -> None:
    """RunFailed where the host's limits allow no such number of processes; `facts` as it said."""
    files, ports = facts.get("files"), facts.get("ports")
    needed = PIPES * processes + FILES_KEPT
    if isinstance(files, int) and 0 < files < needed:
        raise RunFailed(
            f"{processes} processes are more than the open files of host {name} allow",
            why=f"they need {needed}, its limit is {files}",
            fix="raise it there (ulimit -n), or ask for fewer (client.processes)",
        )
    if isinstance(ports, int) and 0 < ports < connections:
        raise RunFailed(
            f"{processes} processes are more than the ports of host {name} allow",
            why=f"they need {connections} connections, it has {ports} ports for them",
            fix="widen net.ipv4.ip_local_port_range there, or ask for fewer (client.processes)",
        )
