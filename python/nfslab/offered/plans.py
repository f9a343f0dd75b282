"""From what was asked for to the plan of the core's generator (docs/load.md)."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.errors import RunFailed, UsageError, system_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.offered.mixes import Mix

OWN_OPTIONS: Final = re.compile(
    r"(?P<export>.+?:/.*?),(?P<own>[a-z_]+(?:=[^,]*)?(?:,[a-z_]+(?:=[^,]*)?)*)"
)
"""A target with options of its own. A comma before anything else belongs to the path."""
_SOURCE: Final = re.compile(r"(\[[^\]]+\]|[^:/]+):(/.*)")
OUTSTANDING: Final = 1024
"""Open load: operations under way at once, unless said otherwise."""
PARTS_MAX: Final = 256
"""Generator processes of one load (MAX_THREADS of crates/load)."""


@dataclass(frozen=True, slots=True)
class Mounted:
    """An export to be loaded."""

    source: str
    """HOST:/EXPORT."""
    options: str = ""
    """As nfs(5), with commas between."""

    @classmethod
    def of(cls, target: str, options: str = "") -> Mounted:
        """HOST:/EXPORT, or with options of its own behind those of all: HOST:/EXPORT,port=20049."""
        found = OWN_OPTIONS.fullmatch(target)
        if found is None:
            return cls(target, options)
        return cls(found["export"], ",".join(filter(None, (options, found["own"]))))


@dataclass(frozen=True, slots=True)
class Load:
    """How much, and how it comes."""

    rate_ops_per_s: float
    mode: Literal["open", "closed"] = "open"
    arrivals: Literal["poisson", "uniform"] = "poisson"
    outstanding: int = OUTSTANDING
    clients: int = 1
    processes: int = 4
    think: Literal["exponential", "constant", "saturated"] = "exponential"

    def plan(self) -> dict[str, Any]:
        """The plan's `load`."""
        shared = {"mode": self.mode, "rate_ops_per_s": self.rate_ops_per_s}
        if self.mode == "open":
            return shared | {"arrivals": self.arrivals, "outstanding_max": self.outstanding}
        closed = {"clients": self.clients, "processes": self.processes, "think": self.think}
        return shared | closed


@dataclass(frozen=True, slots=True)
class Point:
    """All that a point is."""

    mounts: Sequence[Mounted]
    mix: Mix
    load: Load
    warm_up_s: float
    measure_s: float
    cool_down_s: float = 0.0
    threads: int = 1
    """Of each generator process."""
    generators: int = 1
    """Generator processes (`nfslab.offered.processes`); no part of the plan."""
    seed: int = 1
    repetition: int = 0
    """Other arrivals and operations on the same file set."""
    verify_share: float = 0.05
    record_calls: int = 0
    files: int | None = None
    """Files of the set, instead of a size by the offered load."""
    bytes_per_op_per_s: float | None = None
    """Instead of the mix's."""
    silence_limit_s: float | None = None
    """How long nothing may be answered before a server counts as gone; None: the core's 30 s."""
    calibration: bool = False
    """The servers are null stores: nothing is made, every name is a file."""

    def plan(self) -> dict[str, Any]:
        """The plan, as the core reads it; `UsageError` or `RunFailed` for a host."""
        content = dict(self.mix.content)
        file_set = dict(content.pop("file_set"))
        if self.files is not None:
            file_set |= {"files": self.files, "bytes_per_op_per_s": None}
        elif self.bytes_per_op_per_s is not None:
            file_set |= {"files": None, "bytes_per_op_per_s": self.bytes_per_op_per_s}
        if self.calibration:
            # Where every name is a file, nothing is kept, no name is missing, and none is a link.
            file_set["calibration"] = True
            kept = {name: part for name, part in content["mix"].items() if name != "READLINK"}
            content |= {"mix": kept, "append_share": 0.0, "lookup_missing_share": 0.0}
        if self.silence_limit_s is not None:
            content["silence_limit_s"] = self.silence_limit_s
        same = (
            "warm_up_s", "measure_s", "cool_down_s", "threads", "seed", "repetition",
            "record_calls",
        )  # fmt: skip
        return content | {
            "servers": [_server(mounted) for mounted in self.mounts],
            "file_set": file_set,
            "load": self.load.plan(),
            "verify_share": 0.0 if self.calibration else self.verify_share,
            **{name: getattr(self, name) for name in same},
        }


def _server(mounted: Mounted) -> dict[str, Any]:
    match = _SOURCE.fullmatch(mounted.source)
    if match is None:
        raise UsageError(
            f"{mounted.source!r} is no export", fix="write HOST:/EXPORT, as mount(8) does"
        )
    host, export = match.groups()
    return {"address": _address(host), "export": export, "options": mounted.options}


def _address(host: str) -> str:
    """The first address of a name; addresses themselves are not looked up."""
    plain = host.strip("[]")
    try:
        return str(ipaddress.ip_address(plain))
    except ValueError:
        pass
    with system_errors(
        f"there is no host {plain!r}", "correct its name, or give its address", RunFailed
    ):
        found = socket.getaddrinfo(plain, None, type=socket.SOCK_STREAM)
    return str(found[0][4][0])
