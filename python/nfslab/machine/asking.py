"""Asking file systems whether they answer, without waiting for one that does not.

Whoever touches a path on a mount whose server is dead waits in the kernel, and may not even be
killed. So it is done by a process of its own for each path, all at once, and what has not ended
in time is killed and given up: nobody waits for it. (A killed process that the kernel does not
let go is a zombie of ours once the server is back; the next question takes it away.)
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

ASKED_MAX = 64
"""Processes at once; of more paths the later ones count as not answering."""
SAID_CHARACTERS = 500
_given_up: list[subprocess.Popen[bytes]] = []


def ask(places: Sequence[Path], limit_s: float) -> dict[Path, str | None]:
    """What statfs(2) says of each path: "" when it answers, an error, None: nothing in time."""
    _given_up[:] = [process for process in _given_up if process.poll() is None]
    asked = {place: process for place in places[:ASKED_MAX] if (process := _start(place))}
    said: dict[Path, str | None] = dict.fromkeys(places)
    until = clock.monotonic() + limit_s
    for place, process in asked.items():
        try:
            code = process.wait(max(0.0, until - clock.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            _given_up.append(process)
        else:
            said[place] = "" if code == 0 else _error(process)
        if process.stderr is not None:
            process.stderr.close()
    return said


def _start(place: Path) -> subprocess.Popen[bytes] | None:
    """stat(1), whose error is one line: it fits into the pipe, so nobody has to read meanwhile."""
    try:
        return subprocess.Popen(
            ["stat", "--file-system", "--", place],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | {"LC_ALL": "C"},
            cwd="/",
        )
    except OSError:
        return None


def _error(process: subprocess.Popen[bytes]) -> str:
    said = process.stderr.read(SAID_CHARACTERS) if process.stderr is not None else b""
    return said.decode(errors="replace").strip() or f"stat ended with {process.returncode}"
