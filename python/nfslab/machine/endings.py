"""How a program ended, in words: its exit code and what it said, or a signal and who may send it.

What a killed program said last is no reason: it knew nothing of its end.
"""

from __future__ import annotations

import signal
from typing import Final

from nfslab.errors import RunFailed

SENDERS: Final = {
    "SIGKILL": "the kernel sends it where memory is short (limits.memory or the machine's: "
    "`dmesg` tells), so do time limits of jobs and containers, or a person",
    "SIGTERM": "a time limit, a shutdown or a person sends it, nfslab not at this time",
    "SIGXCPU": "the kernel sends it at the limit of CPU time (ulimit -t)",
    "SIGXFSZ": "the kernel sends it at the limit of a file's size (ulimit -f)",
}
"""Signal -> who sends it."""
OF_A_TERMINAL: Final = ("SIGINT", "SIGHUP", "SIGQUIT")


def end_of(name: str, code: int) -> str:
    """Returns "name failed with exit code 1" or "name was ended by SIGKILL"."""
    if code >= 0:
        return f"{name} failed with exit code {code}"
    return f"{name} was ended by {_signal(code)}"


def sender_of(code: int) -> str:
    """Returns who may have sent the signal that ended a program; empty for an exit code."""
    name = _signal(code)
    if code >= 0 or name in SENDERS:
        return SENDERS.get(name, "")
    if name in OF_A_TERMINAL:
        return "a terminal or a person sends it"
    return "a defect of the program, of the machine, or a person sends it"


def failed(name: str, code: int, said: str, fix: str) -> RunFailed:
    """Returns the error for a program that failed: what it said, or who may have killed it."""
    if code >= 0:
        return RunFailed(end_of(name, code), why=said, fix=fix)
    fix = f"find out who; for memory, raise the limit or make the run smaller ({fix})"
    return RunFailed(end_of(name, code), why=sender_of(code), fix=fix)


def _signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
