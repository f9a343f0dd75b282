"""tcpdump and dumpcap: how each is told what to capture, and what it says of its losses.

Both write to their standard output and talk on standard error: a line when they really
capture (only then may the load begin), and at the end how many packets the filter let through
and how many of them the kernel had to drop because nobody took them in time.

Facts used here (tcpdump 4.99, dumpcap 4.0, libpcap 1.10 on Linux):

* The kernel fills blocks of a ring and hands each over when it is full or its time is over
  (tcpdump 1 s, dumpcap 0.25 s). A tool that is asked to end leaves what it has not taken: it is
  asked only when all is taken (`nfslab.captures.taken`).
* tcpdump answers SIGUSR1 with its counts; dumpcap has no such thing.
* tcpdump's --immediate-mode wakes it for every packet, and -U writes every packet by itself:
  both cost a system call a packet on the cores that the load needs, so neither is used.
* On the loopback interface the kernel offers each packet twice (`nfslab.captures.copies`).
* A filter by port passes first IP fragments only: the default filter lets all fragments pass.
* Without `-p` the interface would be switched to promiscuous mode.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ToolName = Literal["tcpdump", "dumpcap"]
TOOLS: tuple[ToolName, ...] = ("tcpdump", "dumpcap")
LOOPBACK = "lo"
EVERY_INTERFACE = "any"
FRAGMENTS = "(ip[6:2] & 0x1fff != 0) or (ip6[6] == 44)"
"""Fragments behind the first one (RFC 791), and IPv6 packets with a fragment header."""
NFS_PORTS = f"port 2049 or port 111 or port 20048 or {FRAGMENTS}"
"""NFS, the port mapper and (by convention) MOUNT; nothing else has a fixed port."""
CAP_NET_RAW = 13
UNPRIVILEGED = ("tcpdump", "nobody")
"""Users that tcpdump may become once it captures; the first one that exists."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the tool said at its end; None where it said nothing."""

    captured: int | None = None
    """Packets that it wrote."""
    received: int | None = None
    """Packets that the filter let through, dropped ones included (tcpdump)."""
    dropped: int | None = None
    """Of these: dropped by the kernel, since the buffer was full."""
    interface_dropped: int | None = None
    """Dropped by the network interface or its driver."""

    @property
    def waiting(self) -> int:
        """Packets let through that it has neither written nor passed over (tcpdump)."""
        if self.received is None or self.dropped is None or self.captured is None:
            return 0
        return max(0, self.received - self.dropped - self.captured)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to capture."""

    interface: str
    filter: str
    snaplen: int
    buffer_bytes: int


def available(tool: ToolName | Literal["auto"]) -> Availability:
    """Is there a tool, and may this user capture with it?"""
    names: Iterable[ToolName] = TOOLS if tool == "auto" else (tool,)
    found = [name for name in names if shutil.which(name)]
    if not found:
        missing = " and ".join(names)
        package = "wireshark-common" if tool == "dumpcap" else "tcpdump"
        return Availability(False, f"{missing} not found", f"apt install {package}")
    if permitted(found) is None:
        return Availability(
            False,
            f"this user may not capture packets with {' or '.join(found)}",
            "run nfslab as root, or: setcap cap_net_raw,cap_net_admin=eip "
            f"{shutil.which(found[0])}",
        )
    return Availability(True)


def permitted(names: Iterable[ToolName]) -> ToolName | None:
    """The first of these tools with which this user may capture."""
    for name in names:
        path = shutil.which(name)
        if path is not None and (_may_open_sockets() or _has_capabilities(path)):
            return name
    return None


def choose(tool: ToolName | Literal["auto"]) -> ToolName | None:
    """The tool to use; None when there is none (see `available`)."""
    return permitted(TOOLS if tool == "auto" else (tool,))


def _may_open_sockets() -> bool:
    """CAP_NET_RAW in effect (capabilities(7)): root has it, unless in a container."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return os.geteuid() == 0
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", text, flags=re.MULTILINE)
    return bool(match and int(match[1], 16) >> CAP_NET_RAW & 1)


def _has_capabilities(path: str) -> bool:
    """Does the program bring its own powers (setcap, as Wireshark's packages do)?"""
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return False
    return os.access(path, os.X_OK)


class Tool:
    """One of the tools."""

    def __init__(self, name: ToolName) -> None:
        self.name = name
        self.hand_over_s = 1.2 if name == "tcpdump" else 0.5
        self._ready = re.compile(
            r"listening on " if name == "tcpdump" else r"^File: ", flags=re.MULTILINE
        )

    def command(self, wanted: Wanted) -> list[str]:
        """The command line; packets go to standard output."""
        if self.name == "tcpdump":
            buffer = max(1, wanted.buffer_bytes // 1024)
            argv = ["tcpdump", "-i", wanted.interface, "-p", "-n", "-s", str(wanted.snaplen)]
            argv += ["-B", str(buffer), "--time-stamp-precision=nano", "-w", "-"]
            if (user := _user_to_become()) is not None:
                argv += ["-Z", user]
            return [*argv, wanted.filter]
        buffer = max(1, wanted.buffer_bytes >> 20)
        argv = ["dumpcap", "-i", wanted.interface, "-p", "-q", "-s", str(wanted.snaplen)]
        argv += ["-B", str(buffer), "-w", "-"]
        return [*argv, "-f", wanted.filter] if wanted.filter else argv

    @property
    def answers(self) -> bool:
        """Does it tell its counts when it is asked (SIGUSR1)?"""
        return self.name == "tcpdump"

    def answered(self, said: str) -> list[Counts]:
        """The counts that it told when it was asked, the first first."""
        return [
            Counts(*map(int, found))
            for found in re.findall(
                r"^tcpdump: (\d+) packets? captured, (\d+) packets? received by filter, "
                r"(\d+) packets? dropped by kernel",
                said,
                flags=re.MULTILINE,
            )
        ]

    def captures(self, said: str) -> bool:
        """Has it said that it captures now?"""
        return self._ready.search(said) is not None

    def counts(self, said: str) -> Counts:
        """What it said at its end."""
        if self.name == "tcpdump":
            return Counts(
                captured=_number(r"^(\d+) packets? captured", said),
                received=_number(r"^(\d+) packets? received by filter", said),
                dropped=_number(r"^(\d+) packets? dropped by kernel", said),
                interface_dropped=_number(r"^(\d+) packets? dropped by interface", said),
            )
        # "Packets received/dropped on interface 'lo': 8/2 (pcap:1/dumpcap:1/flushed:0/...)",
        # after a carriage return and "Packets captured: 8".
        return Counts(
            captured=_number(r"^\r?Packets captured: (\d+)", said),
            dropped=_number(r"^Packets received/dropped on interface .*: \d+/(\d+)", said),
            interface_dropped=_number(r"ps_ifdrop:(\d+)", said),
        )


def _number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text, flags=re.MULTILINE)
    return int(match[1]) if match else None


def _user_to_become() -> str | None:
    """As root only: others have nothing to give up."""
    import pwd

    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


def said_since(log: Path, start: int, limit_bytes: int = 1 << 20) -> str:
    """What the tool wrote to its log, which was `start` bytes long before."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            return file.read(limit_bytes).decode(errors="replace")
    except OSError:
        return ""
