"""Mounts that `nfslab mount` made: which there are, which are left of dead processes, their end.

A mount goes away with its process, but its place in the tree stays: whoever touches it gets
ENOTCONN. The journal says whose a mount was; if its process is dead, so is the mount, and it
is taken away lazily. Mounts that no journal names (another user's state folder was lost) are
recognised by their type and by ENOTCONN, which a living one does not give.

A mount whose process lives may have a server that is dead: whoever touches it waits. So nothing
here touches one but processes that nobody waits for (`asking`), and not even those where the
journal of a living process names the mount.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine import journal as journals
from nfslab.machine.asking import ask
from nfslab.machine.mounts import mounts, without_links
from nfslab.machine.processes import Identity, send_signal

if TYPE_CHECKING:
    from collections.abc import Iterator

FILESYSTEM = "fuse.nfslab"
ANSWER_LIMIT_S = 5.0
"""A mount that does not answer for so long lives, with a server that does not."""
START_LIMIT_S = 1.0
"""The same where nobody asked for it: what is left of the dead says ENOTCONN at once."""
TOKEN_BYTES = 8
KIND = "fuse"
END_SIGNAL = signal.SIGUSR1
"""To the process of a mount: end it by force."""
END_LIMIT_S = 3.0
"""So long its process may take for that; then it is ended itself."""
POLL_S = 0.01
CONNECTIONS = Path("/sys/fs/fuse/connections")


def is_mounted(directory: Path) -> bool:
    """Does a mount of ours lie on this folder? The folder itself is not asked."""
    return directory in _places()


def _places() -> list[Path]:
    """Mount points of our type, from what the kernel lists."""
    return [mount.mount_point for mount in mounts() if mount.filesystem == FILESYSTEM]


@contextlib.contextmanager
def journalled(directory: Path, purpose: str) -> Iterator[None]:
    """In the journal while the block runs: what is to be removed if this process is killed."""
    token = os.urandom(TOKEN_BYTES).hex()
    folder = journals.state_folder() / "journals"
    journal = journals.Journal.create(folder, token, purpose)
    what: dict[str, Any] = {"mount_point": str(without_links(directory))}
    journal.append({"op": "intent", "id": 1, "kind": KIND, "what": what}, durable=True)
    try:
        yield
    finally:
        journal.remove()


def living() -> dict[Path, list[Identity]]:
    """Mount points that journals of living processes name: the processes of `nfslab mount`."""
    found: dict[Path, list[Identity]] = {}
    for folder in journals.state_folders():
        for content in journals.of_the_living(folder / "journals"):
            header = content.header
            owner = Identity(int(header["pid"]), int(header["start_ticks"]))
            for entry in content.open:
                if "mount_point" in entry.what and entry.kind in (KIND, "mount"):
                    owners = found.setdefault(Path(str(entry.what["mount_point"])), [])
                    owners += [owner] * (entry.kind == KIND)
    return found


def remove_dead(limit_s: float = START_LIMIT_S) -> list[str]:
    """Remove mounts whose process is gone and that no journal names; what was done, in words."""
    if not (places := _places()):
        return []
    alive = living()
    return [take_away(place) for place in dead([p for p in places if p not in alive], limit_s)]


def dead(places: list[Path], limit_s: float = ANSWER_LIMIT_S) -> list[Path]:
    """Mounts that say ENOTCONN: they have no process any more."""
    said = ask(places, limit_s)
    return [place for place in places if os.strerror(errno.ENOTCONN) in (said[place] or "")]


def take_away(place: Path) -> str:
    """Unmount lazily, as root or by fusermount3; what was done, in words. CoreError."""
    from nfslab._core import unmount

    unmount(place, "lazy")
    return f"unmounted {place}: its process was gone"


def end(place: Path) -> None:
    """Unmount what nobody uses; its process has cleaned up after itself then. CoreError."""
    from nfslab._core import unmount

    owners = living().get(place, [])
    unmount(place, "normal")
    until = clock.monotonic() + END_LIMIT_S
    # Of two mounts on one folder it is not known whose was the upper one.
    while len(owners) == 1 and living().get(place) == owners and clock.monotonic() < until:
        clock.sleep(POLL_S)


def end_by_force(place: Path) -> None:
    """End a mount, whatever its server and its process do. CoreError, RunFailed.

    Its process answers EIO to all that wait, and goes. One that does not (stopped, say) is
    killed; the kernel then ends what waits. Where no process is known, or of two mounts on one
    folder the upper one is meant, umount2(2) does it.
    """
    from nfslab._core import unmount

    owners = living().get(place, [])
    owner = owners[0] if len(owners) == 1 else None
    if owner is not None and _send(owner, END_SIGNAL):
        until = clock.monotonic() + END_LIMIT_S
        while is_mounted(place):
            if clock.monotonic() > until:
                _send(owner, signal.SIGKILL)
                break
            clock.sleep(POLL_S)
    if not is_mounted(place):
        return
    ends = owner is not None or os.geteuid() == 0 or any(CONNECTIONS.glob("*/abort"))
    unmount(place, "force")
    if not ends:
        raise RunFailed(
            f"{place} is out of sight, but what waits in it goes on waiting",
            why="without root only the kernel's list of FUSE connections ends it: not mounted here",
            fix=f"end the process that mounted it, or as root: mount -t fusectl none {CONNECTIONS}",
        )


def _send(owner: Identity, number: signal.Signals) -> bool:
    """A signal to that process and no other; False if it is gone, or not ours."""
    try:
        return send_signal(owner, number)
    except OSError:
        return False
