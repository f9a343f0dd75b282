"""Our own programs: how they find us, what they are asked, what they said when they failed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import NfslabError, RunFailed, of_core
from nfslab.machine.endings import failed

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_LINES = 12
PROGRESS: Final = "progress"
"""Beside what a program is asked: how far it is."""


def of_changes(say: Callable[[str], object]) -> Callable[[str], None]:
    """Say words that are others than those before."""
    told = ""

    def tell(words: str) -> None:
        nonlocal told
        if words not in ("", told):
            told = words
            say(words)

    return tell


def program(work: Callable[[Any, Callable[[str], None]], Any]) -> int:
    """Do what the JSON file of the first argument asks and print its result; the exit code.

    `work` is given what is asked, and a function that it tells how far it is.
    """
    from nfslab._core import CoreError

    path = Path(sys.argv[1])
    tell = of_changes(path.with_name(PROGRESS).write_text)
    error: NfslabError
    try:
        print(json.dumps(work(json.loads(path.read_bytes()), tell)))
        return 0
    except CoreError as refused:
        if (partial := getattr(refused, "partial", None)) is not None:
            print(partial)
        error = of_core(refused)
    except NfslabError as said:
        error = said
    print("nfslab:", "\n".join(error.lines()), file=sys.stderr)
    return error.exit_code


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
