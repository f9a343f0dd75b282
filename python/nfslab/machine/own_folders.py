"""Programs of an NFS server with system folders of their own, and a portmapper of their own.

NFSv3 servers insist on a portmapper. Theirs is rpcbind without a network that anybody sees: it and
the server have a mount namespace each with the same folder as /run, and meet at rpcbind's socket
there (the kernel's server, too: it looks for it in the namespace of who starts it). Needs root.
"""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.machine.started import Process

PROGRAMS: Final = ("rpcbind", "unshare", "ip")
READY_LIMIT_S: Final = 60.0
POLL_S: Final = 0.01
LAST_LINES: Final = 5


class OwnFolders:
    """The folder of a server, with `run` in it as /run of the programs that are started here."""

    def __init__(self, folder: Path, log: Path, start: Callable[[list[str]], Process]) -> None:
        """`start` starts a program whose words go to `log`."""
        self.folder, self._log, self._start = folder, log, start
        self._processes: list[Process] = []
        (folder / "run").mkdir(mode=0o755, exist_ok=True)

    def start_portmapper(self) -> None:
        """Rpcbind; RunFailed."""
        portmapper = self.spawn("ip link set lo up && exec rpcbind -f", "-n")
        ready = (self.folder / "run" / "rpcbind.sock").exists
        self.wait(portmapper, ready, "rpcbind", [])

    def spawn(self, program: str, *namespaces: str) -> Process:
        """A line of sh(1), "$1" being the folder, with `run` as /run."""
        script = f'mount --bind "$1/run" /run && {program}'
        argv = ["unshare", "-m", *namespaces, "sh", "-c", script, "sh", str(self.folder)]
        process = self._start(argv)
        self._processes.append(process)
        return process

    def wait(
        self, process: Process, ready: Callable[[], bool], name: str, logs: list[Path]
    ) -> None:
        """Until it is ready; RunFailed with its last words (in `logs`, too) when it never is."""
        deadline = clock.monotonic() + READY_LIMIT_S
        while not ready():
            if process.poll() is not None or clock.monotonic() > deadline:
                process.stop()
                raise RunFailed(
                    f"{name} did not start",
                    why="; ".join(self.said(logs)[-LAST_LINES:]) or "it said nothing",
                    fix="try it by hand, or use the embedded server",
                )
            clock.sleep(POLL_S)

    def said(self, logs: list[Path] | None = None) -> list[str]:
        """Lines of what they said."""
        files = [file for file in [*(logs or []), self._log] if file.exists()]
        return [line for file in files for line in file.read_text(errors="replace").splitlines()]

    def stop(self) -> None:
        """End them, the last one first."""
        while self._processes:
            self._processes.pop().stop()


def missing(programs: tuple[str, ...]) -> list[str]:
    """Of these programs and those that are needed here, the ones that are not installed."""
    return [name for name in (*programs, *PROGRAMS) if shutil.which(name) is None]


def answers(address: str, port: int) -> bool:
    """Does something listen there?"""
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def free_ports(address: str, count: int) -> list[int]:
    """Free now; another program may take one before the server does, which then does not start."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((address, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
