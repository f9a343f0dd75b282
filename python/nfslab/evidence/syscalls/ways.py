"""How system calls can be watched here: the ways in order, why one cannot be used, what it costs.

    ebpf    programs in the kernel: any process, at once, by far the least disturbing
    shim    a library that is loaded before the C library's: only what nfslab starts itself
    views   PostgreSQL's own statistics and /proc/PID/io: totals only, no single call

The first that can be used is chosen when watching starts, and the reasons against those before it
are kept as sentences for the summary. A way that was asked for by name is used or nothing is.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

Way = Literal["ebpf", "shim", "views"]
Level = Literal["sync", "counts", "events"]
WAYS: Final[tuple[Way, ...]] = ("ebpf", "shim", "views")
NAMES: Final[dict[Way, str]] = {
    "ebpf": "eBPF", "shim": "a preloaded library", "views": "PostgreSQL's views and /proc",
}  # fmt: skip
BLIND: Final[dict[Way, str]] = {
    "ebpf": "not seen: what goes through io_uring and aio, and bytes through mmap",
    "shim": "not seen: what the C library calls within itself (stdio), static programs, io_uring "
    "and aio, bytes through mmap",
    "views": "totals only: no single sync is seen, and there is no series",
}
"""What each way cannot see."""
ELF_HEADER_BYTES: Final = 64
PROGRAM_HEADERS_MOST: Final = 64
PT_INTERP: Final = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be watched, and how."""

    level: Level = "sync"
    lseek: bool = False
    blocks: bool = False
    way: Way | None = None
    """None: the first that can be used."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose calls."""

    pids: Sequence[int] = ()
    """Processes that run; with their descendants."""
    argv: Sequence[str] = ()
    """A program that nfslab is going to start itself."""
    has_views: bool = False
    """Is it a PostgreSQL server (or at least a process that can be asked for its totals)?"""


@dataclass(slots=True)
class Choice:
    """The way that is used."""

    way: Way
    why_not: list[tuple[str, str]] = field(default_factory=list)
    """(way, reason) of those before it."""
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """For people."""
        return NAMES[self.way]

    @property
    def how(self) -> str:
        """The way, why not one before it, and what it cannot see."""
        before = [f"not by {NAMES[way]}: {reason}" for way, reason in self.why_not]  # type: ignore[index]
        return "; ".join([f"by {self.name}", *before, BLIND[self.way]])


def choose(asked: Asked, subject: Subject) -> Choice:
    """The first way that can be used; Unavailable, with all reasons, when there is none."""
    why_not: list[tuple[str, str]] = []
    fixes: list[str] = []
    for way in WAYS if asked.way is None else (asked.way,):
        reason, fix = obstacle(way, asked, subject)
        if not reason:
            made = Choice(way, why_not)
            made.notes = _notes(way, asked)
            return made
        why_not.append((way, reason))
        fixes += [fix] if fix else []
    only = f"by {NAMES[asked.way]} " if asked.way is not None else ""
    hints = [*fixes[:1], *(["leave --way out: another may do"] if asked.way is not None else [])]
    raise Unavailable(
        f"system calls cannot be watched {only}here",
        why="; ".join(f"{NAMES[way]}: {reason}" for way, reason in why_not),  # type: ignore[index]
        fix="; or ".join(hints),
    )


def obstacle(way: Way, asked: Asked, subject: Subject) -> tuple[str, str]:
    """What is in the way of it and what would help; two empty texts: nothing."""
    if way == "ebpf":
        return _no_ebpf(subject)
    if way == "views":
        return _no_views(asked, subject)
    if not subject.argv:
        return "only programs that nfslab starts itself: this one runs already", ""
    return _no_shim(subject.argv)


def ebpf_grants() -> dict[str, Any]:
    """What the kernel grants (`syscalls_grants`); as refused where the core has none of it."""
    try:
        from nfslab._core import syscalls_grants
    except ImportError:
        return {
            "ok": False, "kind": "left_out", "what": "this build has no eBPF",
            "why": "the core was built without it", "fix": "build nfslab again", "blocks": False,
        }  # fmt: skip
    found: dict[str, Any] = syscalls_grants()
    return found


def _no_ebpf(subject: Subject) -> tuple[str, str]:
    grants = ebpf_grants()
    if grants["ok"]:
        programs = [shutil.which(subject.argv[0]) or subject.argv[0]] if subject.argv else []
        programs += [f"/proc/{pid}/exe" for pid in subject.pids]
        short = next((program for program in programs if has_32_bits(program)), "")
        return f"{short} has 32 bits: such calls are not seen" if short else "", ""
    return ": ".join(part for part in (grants["what"], grants["why"]) if part), grants["fix"]


def _no_views(asked: Asked, subject: Subject) -> tuple[str, str]:
    if not subject.has_views:
        return "only of servers that run already", ""
    if asked.level == "events":
        return "they are totals: no single call is seen", "--level sync or --level counts"
    return "", ""


def _no_shim(argv: Sequence[str]) -> tuple[str, str]:
    reason = shim_missing()
    if reason:
        return reason, "build nfslab again with a C compiler"
    program = shutil.which(argv[0]) or argv[0]
    if has_32_bits(program):
        return f"{program} has 32 bits, and the library 64", ""
    if is_static(program):
        return f"{program} is linked statically: nothing is loaded before it", ""
    try:
        mode = os.stat(program).st_mode
    except OSError:
        return "", ""  # starting it will tell
    if mode & 0o6000 and os.geteuid() != 0:
        return f"{program} is set-user-id: the loader ignores what is preloaded", ""
    return "", ""


def shim_missing() -> str:
    """Why there is no library to preload; empty when there is one."""
    import tempfile

    try:
        from nfslab._core import CoreError, shim_path
    except ImportError:
        return "the core was built without it"
    with tempfile.TemporaryDirectory(prefix="nfslab-shim-") as folder:
        try:
            shim_path(folder)
        except CoreError as error:
            return f"{error.what}: {error.why}" if error.why else error.what
    return ""


def has_32_bits(program: str) -> bool:
    """Is this an ELF program for 32 bits? A script is none; its interpreter counts."""
    try:
        with open(program, "rb") as file:
            return file.read(5) == b"\x7fELF\x01"
    except OSError:
        return False


def is_static(program: str) -> bool:
    """Is this an ELF program without an interpreter? A script is none; its interpreter counts."""
    try:
        with open(program, "rb") as file:
            header = file.read(ELF_HEADER_BYTES)
            if header[:4] != b"\x7fELF" or header[4] != 2:
                return False
            offset = int.from_bytes(header[32:40], "little")
            size, count = (int.from_bytes(header[at : at + 2], "little") for at in (54, 56))
            file.seek(offset)
            for _ in range(min(count, PROGRAM_HEADERS_MOST)):
                if int.from_bytes(file.read(size)[:4], "little") == PT_INTERP:
                    return False
    except OSError:
        return False
    return True


def _notes(way: Way, asked: Asked) -> list[str]:
    notes = [BLIND[way]]
    if asked.blocks and way != "ebpf":
        notes.append(f"block requests are seen by eBPF only, not by {NAMES[way]}")
    elif asked.blocks and not ebpf_grants()["blocks"]:
        notes.append("this kernel does not grant the tracepoints of block requests")
    return notes
