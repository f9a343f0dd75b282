"""What the kernel's NFS server counts: /proc/net/rpc/nfsd, and files of /proc/fs/nfsd.

    texts ──parse──> counts ──since──> what was counted between two readings

Source: fs/nfsd/stats.c and net/sunrpc/stats.c (svc_seq_show) of /proc/net/rpc/nfsd,
net/sunrpc/svc_xprt.c (svc_pool_stats_show), fs/nfsd/nfscache.c (reply_cache_stats) and nfsctl.c of
Linux 6.1 and 6.12; nfs-utils' nfsstat prints the first.

What pool_stats counts is not what Documentation/filesystems/nfs/knfsd-stats.rst (2009) says:

    sockets-enqueued    connections put in the queue of a pool, also while a thread is idle
    packets-arrived     in 6.1 the same; in 6.12 calls that a thread has received
    threads-woken       idle threads woken for it; in 6.12 also by a thread that leaves more work
    threads-timedout    always 0 in 6.12

so no number of calls that waited for a thread can be told of them.

Decisions. Lines that are not known are passed over (6.12 has wdeleg_getattr); one that is missing,
or of another form, is an error. The server may stop and start: its pools then count from zero, the
rest goes on. Counters of RPC have 32 bits: those that went down have no difference. Threads
and the procedures (not NFSv4's operations) are of the whole machine; the rest, and /proc/fs/nfsd,
are of a network namespace: here that of this process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.machine.mounts import mounts
from nfslab.storage.counters import FormError, WentDown, counted, moved, number_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STATISTICS: Final = "/proc/net/rpc/nfsd"
FILES: Final = "/proc/fs/nfsd"
"""Where the file system nfsd is mounted, usually; some of its files are root's alone."""
READING_CHARACTERS_MAX: Final = 1 << 16
"""Of one file: 6.12 writes 800, and 60 a pool."""
POOLS_MAX: Final = 4096
"""One a processor at most."""
OPERATIONS_MAX: Final = 256
"""Of one version; NFSv4.2 has 76 in Linux 6.12."""
PROCEDURES: Final = {
    2: (
        "NULL", "GETATTR", "SETATTR", "ROOT", "LOOKUP", "READLINK", "READ", "WRITECACHE", "WRITE",
        "CREATE", "REMOVE", "RENAME", "LINK", "SYMLINK", "MKDIR", "RMDIR", "READDIR", "STATFS",
    ),
    3: (
        "NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE",
        "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS",
        "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
    ),
    4: ("NULL", "COMPOUND"),
}  # fmt: skip
"""By their numbers: RFC 1094, 1813, 7530."""
OPERATIONS: Final = (
    "OP0", "OP1", "OP2", "ACCESS", "CLOSE", "COMMIT", "CREATE", "DELEGPURGE", "DELEGRETURN",
    "GETATTR", "GETFH", "LINK", "LOCK", "LOCKT", "LOCKU", "LOOKUP", "LOOKUPP", "NVERIFY", "OPEN",
    "OPENATTR", "OPEN_CONFIRM", "OPEN_DOWNGRADE", "PUTFH", "PUTPUBFH", "PUTROOTFH", "READ",
    "READDIR", "READLINK", "REMOVE", "RENAME", "RENEW", "RESTOREFH", "SAVEFH", "SECINFO", "SETATTR",
    "SETCLIENTID", "SETCLIENTID_CONFIRM", "VERIFY", "WRITE", "RELEASE_LOCKOWNER",
    "BACKCHANNEL_CTL", "BIND_CONN_TO_SESSION", "EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION",
    "FREE_STATEID", "GET_DIR_DELEGATION", "GETDEVICEINFO", "GETDEVICELIST", "LAYOUTCOMMIT",
    "LAYOUTGET", "LAYOUTRETURN", "SECINFO_NO_NAME", "SEQUENCE", "SET_SSV", "TEST_STATEID",
    "WANT_DELEGATION", "DESTROY_CLIENTID", "RECLAIM_COMPLETE", "ALLOCATE", "COPY", "COPY_NOTIFY",
    "DEALLOCATE", "IO_ADVISE", "LAYOUTERROR", "LAYOUTSTATS", "OFFLOAD_CANCEL", "OFFLOAD_STATUS",
    "READ_PLUS", "SEEK", "WRITE_SAME", "CLONE", "GETXATTR", "SETXATTR", "LISTXATTRS",
    "REMOVEXATTR",
)  # fmt: skip
"""Of NFSv4 by their numbers: RFC 7530, 8881, 7862, 8276."""


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """The server's own counters."""

    threads: int = 0
    """Now."""
    cache_hits: int = 0
    """Calls that had come before: answered of the cache, or dropped while under way."""
    cache_misses: int = 0
    """Calls whose replies are kept in it."""
    uncached: int = 0
    """Calls whose replies need not be kept."""
    stale_handles: int = 0
    read_bytes: int = 0
    """Of data, to clients."""
    written_bytes: int = 0
    packets: int = 0
    """Calls received, as RPC records or datagrams."""
    udp: int = 0
    tcp: int = 0
    connections: int = 0
    """Of TCP, accepted."""
    calls: int = 0
    """Of the right program, version and form."""
    bad_calls: int = 0
    """Refused: the three below."""
    bad_format: int = 0
    bad_credentials: int = 0
    bad_clients: int = 0


_LINES: Final = {
    "rc": ("cache_hits", "cache_misses", "uncached"),
    "fh": ("stale_handles",),
    "io": ("read_bytes", "written_bytes"),
    "th": ("threads",),
    "net": ("packets", "udp", "tcp", "connections"),
    "rpc": ("calls", "bad_calls", "bad_format", "bad_credentials", "bad_clients"),
}
"""What stands first in a line; what follows in `fh` and `th` is no longer counted."""
_MORE: Final = ("fh", "th")


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """One pool of threads; what the counters mean: see the module."""

    threads: int | None
    """Now; None: not to be read."""
    packets: int
    enqueued: int
    woken: int


@dataclass(frozen=True, slots=True)
class ReplyCache:
    """The reply cache, now."""

    entries: int
    entries_max: int
    bytes: int
    payload_misses: int
    """Calls with the number of an earlier one, and another content. A counter."""


_CACHE: Final = {
    "num entries": "entries",
    "max entries": "entries_max",
    "mem usage": "bytes",
    "payload misses": "payload_misses",
}


@dataclass(frozen=True, slots=True)
class NfsdCounts:
    """One reading, or what came between two."""

    server: ServerCounts
    procedures: dict[tuple[int, str], int] = field(default_factory=dict)
    """By version and name."""
    operations: dict[str, int] = field(default_factory=dict)
    """Of NFSv4, inside COMPOUNDs."""
    pools: dict[int, PoolCounts] | None = None
    """None: /proc/fs/nfsd cannot be read, or the server was started meanwhile."""
    cache: ReplyCache | None = None

    def by_operation(self) -> dict[tuple[int, str], int]:
        """Work by version and name: procedures of NFSv2 and 3, operations of NFSv4."""
        found = {key: count for key, count in self.procedures.items() if key != (4, "COMPOUND")}
        return found | {(4, name): count for name, count in self.operations.items()}


def read_counts() -> NfsdCounts:
    """Of this process's network namespace, now. OSError, FormError."""
    with open(STATISTICS, encoding="ascii", errors="replace") as file:
        text = file.read(READING_CHARACTERS_MAX + 1)
    folder = _files()
    found = {name: _text(f"{folder}/{name}") for name in _OTHERS}
    return parse_counts(text, found)


def _files() -> str:
    """Where the file system nfsd is: a server of ours has it at a place of its own."""
    if os.path.exists(f"{FILES}/pool_stats"):
        return FILES
    return next((str(one.mount_point) for one in mounts() if one.filesystem == "nfsd"), FILES)


_OTHERS: Final = ("pool_stats", "pool_threads", "reply_cache_stats")


def _text(path: str) -> str | None:
    """None where it is not mounted, or for root alone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(READING_CHARACTERS_MAX + 1)
    except OSError:
        return None


def parse_counts(text: str, others: Mapping[str, str | None] | None = None) -> NfsdCounts:
    """A reading; `others` are files of /proc/fs/nfsd. FormError names the file and line."""
    others = others or {}
    server, procedures, operations = _of_file(STATISTICS, text, _statistics)
    pools = cache = None
    if (shown := others.get("pool_stats")) is not None:
        pools = _of_file(f"{FILES}/pool_stats", shown, _pools)
        if (threads := others.get("pool_threads")) is not None:
            pools = _of_file(f"{FILES}/pool_threads", threads, lambda t: _threads(t, pools))
    if (shown := others.get("reply_cache_stats")) is not None:
        cache = _of_file(f"{FILES}/reply_cache_stats", shown, _cache)
    return NfsdCounts(server, procedures, operations, pools, cache)


def since(later: NfsdCounts, earlier: NfsdCounts) -> NfsdCounts | None:
    """What was counted between two readings; None: a counter went down.

    `threads` and the reply cache's size are the later ones.
    """
    try:
        cache = later.cache
        if cache is not None and earlier.cache is not None:
            cache = counted(cache, earlier.cache, ("entries", "entries_max", "bytes"))
        return NfsdCounts(
            server=counted(later.server, earlier.server, ("threads",)),
            procedures=moved(later.procedures, earlier.procedures),
            operations=moved(later.operations, earlier.operations),
            pools=_pools_since(later.pools, earlier.pools),
            cache=cache,
        )
    except WentDown:
        return None


def _pools_since(
    later: dict[int, PoolCounts] | None, earlier: dict[int, PoolCounts] | None
) -> dict[int, PoolCounts] | None:
    if later is None or earlier is None or later.keys() != earlier.keys():
        return None
    try:
        return {pool: counted(one, earlier[pool], ("threads",)) for pool, one in later.items()}
    except WentDown:
        return None


def rates(counts: NfsdCounts, interval_s: float) -> dict[str, float | None]:
    """Of the server and all its pools, between two readings; None: not to be read."""
    made: dict[str, float | None] = {"threads": float(counts.server.threads)}
    for name in RATES:
        made[f"{name}_per_s"] = getattr(counts.server, name) / interval_s
    for name in POOL_RATES:
        pools = counts.pools
        total = None if not pools else sum(getattr(one, name) for one in pools.values())
        made[f"pools_{name}_per_s"] = None if total is None else total / interval_s
    return made


RATES: Final = (
    "calls", "bad_calls", "packets", "connections", "read_bytes", "written_bytes", "cache_hits",
    "cache_misses", "uncached", "stale_handles",
)  # fmt: skip
POOL_RATES: Final = ("packets", "enqueued", "woken")


def _of_file(path: str, text: str, parse: Any) -> Any:
    if len(text) > READING_CHARACTERS_MAX:
        raise FormError(f"{path}: longer than {READING_CHARACTERS_MAX} characters")
    try:
        return parse(text)
    except FormError as error:
        raise FormError(f"{path}: {error}") from None


def _statistics(text: str) -> tuple[ServerCounts, dict[tuple[int, str], int], dict[str, int]]:
    values: dict[str, int] = {}
    seen: set[str] = set()
    procedures: dict[tuple[int, str], int] = {}
    operations: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, *words = line.split() or [""]
        try:
            if name in seen:
                raise FormError("stands twice")
            seen.add(name)
            if name in _LINES:
                values |= _named(words, _LINES[name], more=name in _MORE)
            elif name == "proc4ops":
                operations = _numbered(words, OPERATIONS, "OP")
            elif name.startswith("proc"):
                version = number_of(name.removeprefix("proc"))
                names = PROCEDURES.get(version, ())
                counts = _numbered(words, names, "PROC")
                procedures |= {(version, one): count for one, count in counts.items()}
        except FormError as error:
            raise FormError(f"line {number} ({line.strip()[:80]!r}): {error}") from None
    if missing := [name for name in _LINES if name not in seen]:
        raise FormError(f"not whole: no line {', '.join(missing)}")
    if not procedures:
        raise FormError("not whole: no version of NFS has procedures")
    return ServerCounts(**values), procedures, operations


def _named(words: list[str], names: Sequence[str], more: bool) -> dict[str, int]:
    if len(words) < len(names) or (len(words) > len(names) and not more):
        raise FormError(f"{len(words)} numbers instead of {len(names)}")
    return dict(zip(names, numbers_of(words[: len(names)]), strict=True))


def _numbered(words: list[str], names: Sequence[str], other: str) -> dict[str, int]:
    """How many there are, then a count of each."""
    numbers = numbers_of(words) if words else []
    if not numbers or numbers[0] != len(numbers) - 1:
        raise FormError("the first is not the number of those that follow")
    if numbers[0] > OPERATIONS_MAX:
        raise FormError(f"more than {OPERATIONS_MAX}")
    return {
        names[place] if place < len(names) else f"{other}{place}": count
        for place, count in enumerate(numbers[1:])
    }


def _pools(text: str) -> dict[int, PoolCounts]:
    head, *lines = text.splitlines() or [""]
    if not head.startswith("# pool packets-arrived sockets-enqueued threads-woken"):
        raise FormError(f"line 1 ({head[:80]!r}): not the names that are known")
    if len(lines) > POOLS_MAX:
        raise FormError(f"more than {POOLS_MAX} pools")
    found: dict[int, PoolCounts] = {}
    for number, line in enumerate(lines, 2):
        try:
            words = line.split()
            if len(words) != len(head.split()) - 1:
                raise FormError(f"{len(words)} numbers below {len(head.split()) - 1} names")
            pool, packets, enqueued, woken, *_ = numbers_of(words)
            if pool in found:
                raise FormError("stands twice")
        except FormError as error:
            raise FormError(f"line {number} ({line[:80]!r}): {error}") from None
        found[pool] = PoolCounts(None, packets, enqueued, woken)
    return found


def _threads(text: str, pools: dict[int, PoolCounts]) -> dict[int, PoolCounts]:
    """The same pools with their threads; in their order."""
    words = text.split()
    numbers = numbers_of(words) if words else []
    if len(numbers) != len(pools):
        return pools  # the server was started or stopped between the two files
    return {
        pool: PoolCounts(threads, one.packets, one.enqueued, one.woken)
        for threads, (pool, one) in zip(numbers, pools.items(), strict=True)
    }


def _cache(text: str) -> ReplyCache:
    values: dict[str, int] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name in _CACHE:
            values[_CACHE[name]] = number_of(value.split()[0] if value.split() else "")
    if missing := [name for name, key in _CACHE.items() if key not in values]:
        raise FormError(f"not whole: no line {', '.join(missing)}")
    return ReplyCache(**values)
