"""What a machine of a cluster says of itself: its kernel, its size, which nfslab and which core."""

from __future__ import annotations

import os
import platform
import socket
from typing import Any, Final

from nfslab import __version__

SAME: Final = ("nfslab", "core")
"""What has to be the same on all machines of a cluster."""
UNKNOWN: Final = "none"
WORDS_MAX: Final = 2000


def core_identity() -> str:
    """The core's sources and how they were built: two builds of one state say the same."""
    try:
        from nfslab._core import build_info
    except ImportError:
        return UNKNOWN
    built = build_info()
    return " ".join(built.get(part, "") for part in ("version", "commit", "profile")).strip()


def facts_here() -> dict[str, Any]:
    """Of this machine (JSON)."""
    kernel = os.uname()
    return {
        "kernel": kernel.release,
        "machine": kernel.machine,
        "host_name": socket.gethostname(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "nfslab": __version__,
        "core": core_identity(),
    }


def difference(here: dict[str, Any], there: dict[str, Any]) -> str:
    """In what another machine's nfslab differs from this one's; empty when it does not."""
    found = [
        f"{what} {there.get(what, UNKNOWN)!r} there, {here.get(what, UNKNOWN)!r} here"
        for what in SAME
        if there.get(what) != here.get(what)
    ]
    return "; ".join(found)


def shown(words: Any) -> str:
    """What a machine said, as it may be printed: no control of a terminal, and not for ever."""
    text = str(words)[:WORDS_MAX]
    return "".join(one if one.isprintable() else " " for one in text)
