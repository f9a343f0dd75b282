"""Is this a machine whose processor is emulated in software? Its timings say nothing.

Two signs, neither of which a program in the guest can miss or wipe out: the kernel's command line
holds the mark of `nfslab vm run`, and QEMU's emulated processor names itself in /proc/cpuinfo. The
second also tells of emulated machines that somebody else made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nfslab.statistics.verdicts import EMULATED

MARK = "nfslab.emulated"
"""A word of the kernel's command line. With a dot in it the kernel takes it for a module's."""
PROCESSOR = "QEMU TCG CPU"
"""TCG: QEMU's Tiny Code Generator. The name that its `-cpu max`, `qemu64` and so on bear."""
SENTENCE: Final = EMULATED


def is_emulated(root: Path = Path("/proc")) -> bool:
    """Does this machine run on a processor of software?"""
    if MARK in _text(root / "cmdline").split():
        return True
    lines = _text(root / "cpuinfo").splitlines()
    return any(line.startswith("model name") and PROCESSOR in line for line in lines)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
