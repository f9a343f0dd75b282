"""Why a run failed: what can happen to a correct program, and what is a defect."""

from __future__ import annotations

import contextlib
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfslab.errors import NfslabError, RunFailed

if TYPE_CHECKING:
    from pathlib import Path

DRIVERS = ("psycopg", "pymysql")
DEFECT_FIX = "this is a defect of nfslab: please report it with the traceback in the run's logs"


class CannotGoOn(RunFailed):
    """A run cannot begin, nor can those behind it: nothing is kept of it, the experiment ends."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first thing that went wrong in a run, and in which phase."""

    reason: str
    phase: str


def expected(error: Exception) -> bool:
    """Is it something that can happen to a correct program (else: a defect)?"""
    from nfslab._core import CoreError

    if isinstance(error, NfslabError | OSError | CoreError | MemoryError):
        return True
    # The databases' drivers, imported only where there is a database.
    return type(error).__module__.partition(".")[0] in DRIVERS


def reason_of(error: Exception) -> str:
    """What / why / fix, as printed; for a defect its type and place."""
    if isinstance(error, NfslabError):
        return str(error)
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{where}"
    if expected(error):
        return f"{type(error).__name__}: {error}".strip()
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" in {last[0].name}, line {last[0].lineno}" if last else ""
    return f"{type(error).__name__}: {error}{place}\n  fix: {DEFECT_FIX}"


def keep_traceback(error: Exception, logs: Path, name: str = "traceback") -> None:
    """Write the traceback of a defect into the run's logs; a full disk does not matter."""
    with contextlib.suppress(OSError):
        text = "".join(traceback.format_exception(error))
        (logs / f"{name}.log").write_text(text, encoding="utf-8")
