"""How much room a folder has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nfslab.machine.mounts import answers

if TYPE_CHECKING:
    from pathlib import Path


def free_bytes_of(folder: Path) -> int | None:
    """Space for an unprivileged user in a folder; None when it cannot be asked."""
    if not answers(folder):
        return None
    try:
        space = os.statvfs(folder)
    except OSError:
        return None
    return space.f_bavail * space.f_frsize
