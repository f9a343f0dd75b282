"""What a machine of a cluster says of itself: kernel, size, limits, which nfslab, which core."""

from __future__ import annotations

import os
import platform
import resource
import socket
from pathlib import Path
from typing import Any, Final

from nfslab import __version__

SAME: Final = ("nfslab", "core")
"""What has to be the same on all machines of a cluster."""
PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
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


def limits_here() -> dict[str, int]:
    """How many files a process of this machine may open, and of how many ports."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    low, high = map(int, PORTS.read_text("ascii").split()) if PORTS.exists() else (0, -1)
    return {"files": files, "ports": high - low + 1}


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
