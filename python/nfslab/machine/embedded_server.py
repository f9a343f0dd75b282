"""The embedded NFS server as a process of its own: `nfslab serve`, started and ended.

It says in one line of JSON when it is ready (address, port, export, the service model in
effect) and in another one, at its end, what it counted. Both are read from a file, so that
a server that dies leaves what it said.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab.errors import RunFailed
from nfslab.machine.host import local_host

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process

READY_LIMIT_S = 30.0
READY_POLL_S = 0.005
SAID_LIMIT_BYTES = 1 << 20
LAST_LINES = 5


@dataclass(slots=True)
class EmbeddedServer:
    """A server that is up. Made by `start`; `stop` ends it."""

    process: Process
    said: Path
    address: str
    """HOST:PORT, as a client connects."""
    port: int
    export: str
    model: dict[str, Any] = field(default_factory=dict)
    """Store and service model in effect, without where it listens."""

    @property
    def mount_port(self) -> int:
        """MOUNT is served on the same port."""
        return self.port

    @property
    def host(self) -> str:
        """The address without the port; IPv6 in brackets."""
        return self.address.rpartition(":")[0]

    @property
    def source(self) -> str:
        """HOST:/EXPORT, as it is mounted."""
        return f"{self.host}:{self.export}"

    def stop(self) -> dict[str, int]:
        """End it; what it counted (empty when it died or was killed before saying so)."""
        self.process.stop()
        for line in reversed(_lines(self.said)):
            if line.get("event") == "ended":
                counters: dict[str, int] = line.get("counters", {})
                return counters
        return {}


def start(arguments: Sequence[str], folder: Path, resources: Resources) -> EmbeddedServer:
    """Start `nfslab serve` with these arguments; what it says goes to files in `folder`.

    Journalled: a later start ends it. RunFailed with its own words when it does not come up.
    """
    said, log = folder / "serve.json", folder / "serve.log"
    argv = [sys.executable, "-m", "nfslab", "serve", *arguments, "--port", "0", "--json"]
    process = local_host().spawn(argv, resources=resources, stdout=said, log=log)
    deadline = time.monotonic() + READY_LIMIT_S
    while True:
        ended = process.poll() is not None
        for line in _lines(said):
            if line.get("event") == "ready":
                return _of(process, said, line)
        if ended or time.monotonic() > deadline:
            break
        time.sleep(READY_POLL_S)
    process.stop()
    words = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    raise RunFailed(
        "the embedded NFS server did not start",
        why="; ".join(words) or f"nothing was heard of it within {READY_LIMIT_S:g} s",
        fix=f"try it by hand: nfslab serve {' '.join(arguments)}",
    )


def _of(process: Process, said: Path, ready: dict[str, Any]) -> EmbeddedServer:
    model = {name: value for name, value in ready["model"].items() if name != "listen"}
    return EmbeddedServer(process, said, ready["address"], ready["port"], ready["export"], model)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines that are JSON objects; none when the file went with its folder."""
    try:
        with path.open("rb") as file:
            text = file.read(SAID_LIMIT_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.split("\n")[:-1]:
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict):
            found.append(content)
    return found
