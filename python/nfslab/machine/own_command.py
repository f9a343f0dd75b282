"""Our own commands as programs of their own: how they find us, what they said when they failed."""

from __future__ import annotations

import os
from pathlib import Path

from nfslab.errors import RunFailed
from nfslab.machine.endings import failed

LAST_LINES = 12


def importing_us() -> dict[str, str]:
    """Environment with which `python -m nfslab` is this very nfslab, however it was imported."""
    import nfslab

    package = str(Path(nfslab.__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": f"{package}{os.pathsep}{known}" if known else package}


def failure_said(command: str, code: int, said: str) -> RunFailed:
    """The command's own three lines on standard error, as an error of this run."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    begin = next((i for i, line in enumerate(lines) if line.startswith("nfslab: ")), None)
    if begin is None:
        words = "\n       ".join(lines[-LAST_LINES:]) or "it said nothing"
        return failed(command, code, words, "run the command by hand: these are all it said")
    parts = {"why": "", "fix": ""}
    for line in lines[begin + 1 :]:
        key, _, text = line.partition(": ")
        if key in parts:
            parts[key] = text
    return RunFailed(lines[begin].removeprefix("nfslab: "), why=parts["why"], fix=parts["fix"])
