"""Stopping a process, with all its threads."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.waiting import until


def stop(pid: int) -> None:
    """SIGSTOP. One thread takes it, and until that has a processor the others go on: so wait."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _stands_still(pid))


def _stands_still(pid: int) -> bool:
    return all(map(_is_stopped, Path(f"/proc/{pid}/task").iterdir()))


def _is_stopped(task: Path) -> bool:
    try:
        stat = (task / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False  # it ended since it was listed: look again
    return stat.rpartition(")")[2].split()[0] == "T"
