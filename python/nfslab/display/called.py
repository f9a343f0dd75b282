"""The name by which a person calls us, for the commands that are printed.

Texts say `nfslab run ...`. In a checkout that may be `./nfslab` or a path: the launcher tells it in
NFSLAB_CALLED. What is printed for the person who called goes through `as_called`: errors, help, the
ends of commands, sections on a terminal. What is written to files (reports, Markdown, experiment
files) or as JSON keeps `nfslab`: it may be read in another folder or on another machine.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

VARIABLE: Final = "NFSLAB_CALLED"
COMMANDS: Final = (
    "check", "cluster", "compare", "confirm", "doctor", "explain", "files", "list", "mount", "new",
    "query", "quickstart", "report", "run", "serve", "sfs", "show", "syscalls", "top", "trace",
    "try", "umount", "vm", "--help", "--set-up-only", "--version",
)  # fmt: skip
"""Words that make a command of `nfslab` in a sentence; the command line's registry has the same."""
_OURS: Final = re.compile(rf"(?<![\w./@~'-])nfslab(?= (?:{'|'.join(COMMANDS)})(?![\w-]))")


def name() -> str:
    """Returns the name to paste: as the launcher was called, else `nfslab`."""
    return shlex.quote(os.environ.get(VARIABLE) or "nfslab")


def as_called(text: str) -> str:
    """Returns the text with every command of ours as the person calls it."""
    called = name()
    return text if called == "nfslab" else _OURS.sub(lambda _: called, text)
