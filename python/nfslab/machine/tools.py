"""Programs of the system that are asked for something, and end soon: mdadm, ip, apt-get, git."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def said_by(
    argv: Sequence[str], limit_s: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What it says in English, whatever its exit code. OSError, subprocess.TimeoutExpired."""
    return subprocess.run(
        argv,
        cwd=folder,
        env=os.environ | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        check=False,
    )
