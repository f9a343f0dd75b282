"""Mounts that `nfslab mount` made: which there are, and which are left of dead processes.

A mount goes away with its process, but its place in the tree stays: whoever touches it gets
ENOTCONN. The journal says whose a mount was; if its process is dead, so is the mount, and it
is taken away lazily. Mounts that no journal names (another user's state folder was lost) are
recognised by their type and by ENOTCONN, which a living one does not give.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.machine import journal as journals
from nfslab.machine.resources import recover

if TYPE_CHECKING:
    from collections.abc import Iterator

FILESYSTEM = "fuse.nfslab"
ANSWER_LIMIT_S = 5.0
"""A mount that does not answer for so long lives, with a server that does not."""
TOKEN_BYTES = 8
KIND = "fuse"


def is_mounted(directory: Path) -> bool:
    """Does a mount of ours lie on this folder? The folder itself is not asked."""
    return str(directory) in _places()


def _places() -> list[str]:
    """Mount points of our type, from what the kernel lists."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] == FILESYSTEM:
            place = before.split(" ")[4].encode().decode("unicode_escape")
            found.append(place.encode("latin-1").decode("utf-8", "surrogateescape"))
    return found


@contextlib.contextmanager
def journalled(directory: Path, purpose: str) -> Iterator[None]:
    """In the journal while the block runs: what is to be removed if this process is killed."""
    token = os.urandom(TOKEN_BYTES).hex()
    folder = journals.state_folder() / "journals"
    journal = journals.Journal.create(folder, token, purpose)
    what: dict[str, Any] = {"mount_point": str(directory.resolve())}
    journal.append({"op": "intent", "id": 1, "kind": KIND, "what": what}, durable=True)
    try:
        yield
    finally:
        journal.remove()


def remove_stale() -> list[str]:
    """Remove mounts whose process is gone; what was done, in words."""
    told = recover()
    for place in _places():
        if is_dead(place):
            told.append(take_away(place))
    return told


def is_dead(place: str) -> bool:
    """Does the mount say ENOTCONN? Asked by a process of its own: it may not answer at all."""
    argv = ["stat", "--file-system", "--", place]
    try:
        asked = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=ANSWER_LIMIT_S,
            check=False,
            env=os.environ | {"LC_ALL": "C"},
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    return asked.returncode != 0 and os.strerror(errno.ENOTCONN) in asked.stderr


def take_away(place: str) -> str:
    """Unmount lazily, as root or by fusermount3; what was done, in words. CoreError."""
    from nfslab._core import unmount

    unmount(place, "lazy")
    return f"unmounted {place}: its process was gone"
