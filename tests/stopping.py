"""Stopping a process, with all its threads."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

PATIENCE_S = 60


def stop(pid: int) -> None:
    """SIGSTOP. One thread takes it, and until that has a processor the others go on: so wait."""
    os.kill(pid, signal.SIGSTOP)
    limit = time.monotonic() + PATIENCE_S
    while not _stands_still(pid):
        assert time.monotonic() < limit, f"process {pid} does not stop"
        time.sleep(0.001)


def _stands_still(pid: int) -> bool:
    return all(map(_is_stopped, Path(f"/proc/{pid}/task").iterdir()))


def _is_stopped(task: Path) -> bool:
    try:
        stat = (task / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False  # it ended since it was listed: look again
    return stat.rpartition(")")[2].split()[0] == "T"
