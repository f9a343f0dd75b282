"""Folders of this machine that a guest sees: one virtiofsd for each.

The program waits at a socket for QEMU. We make the socket and hand it over, so that QEMU finds
it at once, and so that a virtiofsd whose view of the mounts is read-only need not make it.
"""

from __future__ import annotations

import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.errors import Unavailable
from nfslab.machine.launch import Launch
from nfslab.machine.starting import start

if TYPE_CHECKING:
    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process

PLACES = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd")
"""Where distributions put it: in no folder of PATH."""


@dataclass(frozen=True, slots=True)
class Share:
    """A folder, and the name by which the guest mounts it."""

    tag: str
    folder: Path
    writable: bool


def find_virtiofsd() -> str:
    """Path of the program; Unavailable."""
    for name in (*PLACES, "virtiofsd"):
        if found := shutil.which(name):
            return found
    raise Unavailable(
        "no folder can be shared with a virtual machine",
        why="the program virtiofsd is missing",
        fix="apt install qemu-system-common (Debian 13: virtiofsd)",
    )


def serve(share: Share, place: Path, resources: Resources) -> Process:
    """Start a virtiofsd that waits at `place/TAG.sock` and says things in `place/TAG.log`."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / f"{share.tag}.sock"))
        listening.listen(1)
        options = [f"source={share.folder}", "sandbox=chroot", "log_level=warn"]
        # Nothing changes the root below the guest's feet: it may believe what it has seen.
        options += ["cache=auto"] if share.writable else ["cache=always"]
        argv = [find_virtiofsd(), f"--fd={listening.fileno()}", "-f"]
        argv += [word for option in options for word in ("-o", option)]
        if not share.writable:
            code = "from nfslab.vm.readonly import main; main()"
            argv = [sys.executable, "-c", code, *argv]
        launch = Launch(argv, None, Path("/"), None, None, None, 9, with_thread=True)
        with (place / f"{share.tag}.log").open("wb") as log:
            return start(launch, resources, log, log, (listening.fileno(),))
