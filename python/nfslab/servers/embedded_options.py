"""The embedded server's options that a run may set, each stated once: `OPTIONS` and `DISK`.

From the table come the flags of `nfslab serve`, the parameters of the target `nfs`, the arguments
that the one makes of the other, the service model in the core's JSON, and the tables of
docs/server.md. A value is a text, parsed whole or refused with what would be understood; the core
checks what the numbers mean together. What is in effect is read back from it (`Server.model`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import UsageError
from nfslab.plugins import nearest
from nfslab.quantities import Size, parse_size_bytes, read_duration_s, read_share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROCEDURES: Final = (
    "NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE",
    "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS",
    "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
)  # fmt: skip
"""Of NFSv3, by number (RFC 1813)."""
BIT_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)bit(?:/s)?", re.IGNORECASE)
BIT_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def duration_ns(text: str) -> int:
    """Nanoseconds of a text such as 200us, 1.5ms, 10 (seconds); ValueError otherwise."""
    return round(read_duration_s(text) * 1e9)


def rate_bytes_per_s(text: str) -> int:
    """Bytes a second of a text such as 100M, 100M/s (binary) or 1Gbit (decimal, as networks)."""
    if match := BIT_RATE.fullmatch(text.strip()):
        return round(float(match[1]) * BIT_FACTORS[match[2].lower()] / 8)
    return parse_size_bytes(text.strip().removesuffix("/s"))


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def _order(text: str) -> str:
    if text not in ("fifo", "elevator"):
        raise ValueError(f"{text!r} is no order; write fifo or elevator")
    return text


@dataclass(frozen=True, slots=True)
class DiskKey:
    """A key of `--disk`."""

    key: str
    core: str
    """Its name in the core's JSON."""
    read: Callable[[str], Any]
    metavar: str
    help: str


DISK_KEYS: Final = (
    DiskKey("disks", "disks", _whole, "N",
            "N disks, each with a queue (1); files are striped over them by 64 KiB"),
    DiskKey("seek", "positioning_ns", duration_ns, "T",
            "before a job that does not go on where the last one ended"),
    DiskKey("rate", "rate_bytes_per_s", rate_bytes_per_s, "R",
            "transfer, bytes a second (100,000,000)"),
    DiskKey("order", "order", _order, "elevator",
            "the next job upwards from the arm, then from the lowest; else `fifo`"),
    DiskKey("hit", "read_hit_ratio", read_share, "P",
            "this share of READs is answered from memory"),
    DiskKey("cache", "cache_bytes", parse_size_bytes, "S",
            "memory of S instead of `hit`, for pages and attributes; LRU"),
    DiskKey("dirty", "dirty_limit_bytes", parse_size_bytes, "S",
            "unstable bytes kept in memory; beyond it a WRITE waits for its own"),
    DiskKey("commit", "commit_ns", duration_ns, "T",
            "added to each job that makes data stable (journal, flush)"),
    DiskKey("metadata", "metadata_bytes", parse_size_bytes, "S",
            "bytes that a change of names or attributes writes (4096)"),
)  # fmt: skip
DISK: Final = {one.key: one for one in DISK_KEYS}


def disk(text: str) -> dict[str, Any]:
    """The model's disk of a text such as seek=8ms,rate=20M,order=elevator."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in DISK or not (equals and value):
            guess = nearest(key, DISK)
            hint = f" (did you mean {guess}=?)" if guess and guess != key else ""
            raise ValueError(f"{part!r} is none of {', '.join(f'{k}=' for k in DISK)}{hint}")
        known = DISK[key]
        if known.core in found:
            raise ValueError(f"{key}= is given twice")
        found[known.core] = known.read(value)
    return found


def service_time(text: str) -> tuple[str | None, int]:
    """(procedure or None for all, nanoseconds) of a text such as 200us or WRITE=1ms."""
    name, equals, value = text.rpartition("=")
    if not equals:
        return None, duration_ns(value)
    if name.upper() not in PROCEDURES:
        guess = nearest(name.upper(), PROCEDURES)
        hint = f"; did you mean {guess}?" if guess else ""
        raise ValueError(f"NFSv3 has no procedure {name!r}{hint}")
    return name.upper(), duration_ns(value)


def stall(text: str) -> tuple[int, int]:
    """(at, for) in nanoseconds of a text such as 10s:500ms."""
    at, colon, length = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not AT:FOR, such as 10s:500ms")
    return duration_ns(at), duration_ns(length)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `--name-with-dashes` of the command, `name_with_underscores` of the target."""

    parameter: str
    help: str
    read: Callable[[str], Any]
    metavar: str = "TIME"
    core: str = ""
    """Its name in the core's service model; "": elsewhere. (`service_time` makes two of it.)"""
    annotation: Any = str
    """Its type in an experiment file."""
    bounds: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    most_times: int = 1
    is_flag: bool = False
    in_experiment: bool = True
    """A parameter of the target, too. (A new one changes the identity of experiments.)"""
    means_none: Any = None
    """The value that asks for nothing, so that "none" can be a level of an axis."""
    detail: str = ""
    """More for the documentation."""

    @property
    def flag(self) -> str:
        """As the command has it."""
        return "--" + self.parameter.replace("_", "-")

    def arguments(self, value: Any) -> list[str]:
        """A parameter's value as arguments of the command."""
        if self.is_flag:
            return [self.flag] if value else []
        if self.most_times > 1:
            return [word for one in value for word in (self.flag, str(one))]
        if value is None or (self.means_none is not None and value == self.means_none):
            return []
        return [self.flag, str(value)]


OPTIONS: Final = (
    Option("unsafe_async_names",
           "DIR: answer before names and attributes are on the disk (exports(5): async).",
           str, is_flag=True),
    Option("size", "--memory: what it may take. --null: of a file. [1G]", parse_size_bytes, "SIZE",
           annotation=Size),
    Option("client_memory", "For requests and replies of all clients together. [256M]",
           parse_size_bytes, "SIZE", in_experiment=False),
    Option("bandwidth", "Of the wire, each way.", rate_bytes_per_s, "RATE",
           "bandwidth_bytes_per_s",
           detail="size / RATE for each request in and reply out; serialised in each direction"),
    Option("threads", "Workers, as nfsd's threads.", _whole, "N", "threads", int, (1, 1024),
           detail="N workers, as nfsd's: a call keeps one to its end; on a folder also real "
           "threads"),
    Option("service_time", "Of a call, or of one procedure (again for more).", service_time,
           "[OP=]TIME", most_times=32,
           detail="a worker is busy with a call: of all procedures, or one (`WRITE=1ms`)"),
    Option("spread", "Of service times. [constant]", str, "exponential", "spread",
           choices=("constant", "exponential"),
           detail="service times are exponential with mean TIME; else always TIME"),
    Option("disk", "A disk with a queue; see below.", disk, "KEY=VALUE,...", "disk"),
    Option("nvram", "Stable at once until full; drains to the disk.", parse_size_bytes, "SIZE",
           "nvram_bytes", Size, means_none=0,
           detail="stable WRITEs, COMMITs, changes of names are done at once until SIZE is full; "
           "it drains at the disk's rate"),
    Option("delay", "Added to every reply.", duration_ns, core="delay_ns",
           detail="added to every reply"),
    Option("jitter", "Up to this much more, uniformly.", duration_ns, core="jitter_ns",
           detail="added too, uniformly from 0 to TIME"),
    Option("loss", "Of datagrams, both ways (UDP).", read_share, "P", "loss", float, (0, 1),
           detail="of datagrams, each way. UDP only"),
    Option("duplicate_replies", "Sent twice (UDP).", read_share, "P", "duplicate",
           in_experiment=False, detail="of replies sent twice. UDP only"),
    Option("stall", "Stand still (again for more).", stall, "AT:FOR", "stalls", most_times=64,
           detail="service and disk stand still from AT after the start, for FOR; the wire does "
           "not"),
    Option("seed", "Of all randomness. [1]", _whole, "N", "seed", int, (0, 2**64 - 1),
           detail="of all randomness (1)"),
)  # fmt: skip
IN_EXPERIMENT: Final = tuple(option for option in OPTIONS if option.in_experiment)


def model(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The core's service model of parsed options; None when none of them is given. UsageError."""
    found: dict[str, Any] = {}
    times = options["service_time"]
    everything = [time for name, time in times if name is None]
    if len(everything) > 1:
        raise UsageError("a time for all procedures is given twice", fix="name procedures")
    if everything:
        found["service_ns"] = everything[0]
    if by_name := {name: time for name, time in times if name is not None}:
        found["service_by_operation_ns"] = by_name
    for option in OPTIONS:
        if option.core and options[option.parameter] not in (None, [], ()):
            found[option.core] = options[option.parameter]
    return found if set(found) - {"seed"} else None  # a seed plants nothing by itself


def words(planted: Mapping[str, Any]) -> list[str]:
    """A service model in effect (the core's JSON) as the options that ask for it."""
    said = [
        f"--service-time {name}={_time(time_ns)}"
        for name, time_ns in (planted.get("service_by_operation_ns") or {}).items()
    ]
    if planted.get("service_ns"):
        said.insert(0, f"--service-time {_time(planted['service_ns'])}")
    for option in OPTIONS:
        value = planted.get(option.core) if option.core else None
        if value in (None, 0, [], {}) or value == "constant":
            continue
        if option.core == "disk":
            keys = [(key, value.get(key.core)) for key in DISK_KEYS]
            shown = ",".join(f"{k.key}={_word(k.read, v)}" for k, v in keys if v is not None)
            said.append(f"--disk {shown}")
        elif option.most_times > 1:
            said += [f"{option.flag} {_word(option.read, tuple(one))}" for one in value]
        else:
            said.append(f"{option.flag} {_word(option.read, value)}")
    return said


def _word(read: Callable[[str], Any], value: Any) -> str:
    """The shortest text that `read` makes this value of."""
    if read is duration_ns:
        return _time(value)
    if read is stall:
        return ":".join(_time(part) for part in value)
    if read in (parse_size_bytes, rate_bytes_per_s):
        for suffix, factor in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
            if value and value % factor == 0:
                return f"{value // factor}{suffix}"
    return str(value)


def _time(value_ns: int) -> str:
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if value_ns and value_ns % factor == 0:
            return f"{value_ns // factor}{unit}"
    return f"{value_ns}ns" if value_ns else "0s"
