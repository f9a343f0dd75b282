"""/proc/self/mountstats: what the kernel's NFS client counts of each mount since it was mounted.

    text ──parse──> counts ──since──> what was counted between two of them

Source: fs/nfs/super.c (nfs_show_stats), net/sunrpc/stats.c (operations), net/sunrpc/xprtsock.c and
xprtrdma (transports) of Linux 2.6.17 to 6.12: statvers 1.0, and 1.1 with three more numbers a
socket; errors by operation came with 5.3. Times are whole milliseconds summed over calls.

Decisions. A mount with a line of the wrong form is an error: half a reading gives wrong figures.
Lines that later kernels may add before the RPC part are passed over. A counter that is smaller than
before, or a smaller age, means another mount at the same place: `since` then says None, and not a
difference. Transports are paired in their order: a port changes with every new connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from nfslab.machine.mounts import unescape
from nfslab.storage.counters import FormError, WentDown, counted, moved, number_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOUNTSTATS: Final = "/proc/self/mountstats"
READING_CHARACTERS_MAX: Final = 16 << 20
"""Of one reading: 2,500 mounts of NFSv4 have so much."""
MOUNTS_MAX: Final = 4096
OPERATIONS_MAX: Final = 256
"""Of one mount; NFSv4.2 has 70 in Linux 6.12."""
TRANSPORTS_MAX: Final = 256
"""Of one mount; nconnect is at most 16."""

_DEVICE: Final = re.compile(
    r"(?:device (\S+)|no device) mounted on (\S+) with fstype (\S+?)(?: statvers=(\d+\.\d+))?"
)
_RPC: Final = re.compile(r"RPC iostats version: (\d+\.\d+)\s+p/v: (\d+)/(\d+) \(.*\)")
_OPERATION: Final = re.compile(r"[A-Z0-9_]+")
EVENTS: Final = (
    "inode_revalidations", "dentry_revalidations", "data_invalidations", "attribute_invalidations",
    "opens", "lookups", "permissions", "page_updates", "page_reads", "pages_reads", "page_writes",
    "pages_writes", "readdirs", "setattrs", "flushes", "fsyncs", "locks", "releases",
    "congestion_waits", "truncations", "extending_writes", "silly_renames", "short_reads",
    "short_writes", "delays", "pnfs_reads", "pnfs_writes",
)  # fmt: skip
"""In the order of enum nfs_stat_eventcounters; kernels before 3.1 lack the last two."""
BYTES: Final = (
    "read_bytes", "written_bytes", "direct_read_bytes", "direct_written_bytes",
    "server_read_bytes", "server_written_bytes", "pages_read", "pages_written",
)  # fmt: skip
"""In the order of enum nfs_stat_bytecounters: of programs, past the page cache, on the wire."""


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """One operation: of calls that have ended."""

    calls: int = 0
    sends: int = 0
    """With those retransmitted."""
    timeouts: int = 0
    """Major ones: after the last minor one."""
    bytes_sent: int = 0
    """With RPC's header."""
    bytes_received: int = 0
    queue_ms: int | float = 0
    """Summed: from the call until it is first sent. Whole ones, as all of the kernel's."""
    round_trip_ms: int | float = 0
    """Summed: from the last send to the reply."""
    execute_ms: int | float = 0
    """Summed: from the call until it is done."""
    errors: int | None = None
    """With an error as status; None: the kernel does not count them."""


@dataclass(frozen=True, slots=True)
class TransportCounts:
    """One connection, or the socket of UDP."""

    protocol: str
    port: int | None
    """Ours; None of a local socket."""
    binds: int = 0
    connects: int = 0
    connect_s: int = 0
    """Summed: until it was connected."""
    idle_s: int = 0
    """Since it was last used."""
    sends: int = 0
    receives: int = 0
    bad_xids: int = 0
    """Replies to no call."""
    in_flight: int = 0
    """Summed over sends: calls without a reply."""
    backlog: int = 0
    """Summed over sends: calls without a slot."""
    slots_max: int | None = None
    """Most that were used at once since the mount; None: not counted (statvers 1.0, RDMA)."""
    sending: int | None = None
    """Summed over sends: calls that wait for the socket."""
    pending: int | None = None
    """Summed over sends: calls that wait for a reply."""
    rdma: tuple[int, ...] = ()
    """Further counters of RDMA, in the kernel's order."""


@dataclass(frozen=True, slots=True)
class MountCounts:
    """One NFS mount in one reading, or between two."""

    source: str
    """HOST:/EXPORT, as it was given to mount."""
    mount_point: str
    filesystem: str
    """"nfs" or "nfs4"."""
    statvers: str
    age_s: int
    options: str = ""
    """In effect, with those that are defaults."""
    facts: dict[str, str] = field(default_factory=dict)
    """Other lines by name: caps, sec, nfsv4, impl_id."""
    events: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    version: int = 0
    """Of the protocol, without a minor one."""
    transports: tuple[TransportCounts, ...] = ()
    operations: dict[str, OperationCounts] = field(default_factory=dict)

    def total(self, name: str) -> int:
        """A counter of transports, summed over them; those that lack it count nothing."""
        return sum(getattr(one, name) or 0 for one in self.transports)

    @property
    def sum(self) -> OperationCounts:
        """All operations together; errors None when the kernel does not count them."""
        return _summed(list(self.operations.values()))


_COMMON: Final = (
    "port", "binds", "connects", "connect_s", "idle_s", "sends", "receives", "bad_xids",
    "in_flight", "backlog",
)  # fmt: skip
_LATER: Final = ("slots_max", "sending", "pending")
_SHAPES: Final = {
    "tcp": _COMMON,
    "rdma": _COMMON,
    "local": _COMMON[1:],
    "udp": ("port", "binds", "sends", "receives", "bad_xids", "in_flight", "backlog"),
}
"""What stands in a transport's line of statvers 1.0, in order."""
RDMA_MAX: Final = 32
_STATES: Final = ("protocol", "port", "idle_s", "slots_max")
"""Of a transport: what is no count."""


def parse_counts(text: str, only: Collection[str] | None = None) -> list[MountCounts]:
    """The NFS mounts of one reading, in its order; FormError names the line that is wrong.

    `only`: mount points; what others count is passed over, which costs little. A mount point may
    come twice: the later mount covers the earlier one.
    """
    if len(text) > READING_CHARACTERS_MAX:
        raise FormError(f"longer than {READING_CHARACTERS_MAX} characters")
    found: list[MountCounts] = []
    part: _Part | None = None
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if line.startswith(("device ", "no device ")):
                if part is not None:
                    found.append(part.made())
                part = _begun(line, only)
                if len(found) >= MOUNTS_MAX:
                    raise FormError(f"more than {MOUNTS_MAX} NFS mounts")
            elif part is not None and (bare := line.strip()):
                part.take(bare)
        except FormError as error:
            raise FormError(f"line {number} ({line.strip()[:80]!r}): {error}") from None
    if part is not None:
        found.append(part.made())
    return found


def read_counts(only: Collection[str] | None = None) -> list[MountCounts]:
    """Of this process's mount namespace, now. OSError, FormError."""
    with open(MOUNTSTATS, encoding="utf-8", errors="surrogateescape") as file:
        return parse_counts(file.read(READING_CHARACTERS_MAX + 1), only)


def counts_at(readings: Sequence[MountCounts], mount_point: str) -> MountCounts | None:
    """Of the mount that is seen at this place."""
    return next((one for one in reversed(readings) if one.mount_point == mount_point), None)


def since(later: MountCounts, earlier: MountCounts) -> MountCounts | None:
    """What was counted between two readings; None: it is another mount at the same place.

    The age is the time between the two; `port`, `idle_s`, `slots_max` are the later ones.
    """
    if (later.source, later.filesystem, later.version) != (
        earlier.source, earlier.filesystem, earlier.version
    ):  # fmt: skip
        return None
    if later.age_s < earlier.age_s or len(later.transports) < len(earlier.transports):
        return None
    try:
        new = tuple(TransportCounts(t.protocol, None) for t in later.transports)
        before = (*earlier.transports, *new[len(earlier.transports) :])
        return MountCounts(
            **_same(later),
            age_s=later.age_s - earlier.age_s,
            events=moved(later.events, earlier.events),
            bytes=moved(later.bytes, earlier.bytes),
            transports=tuple(
                counted(one, old, _STATES)
                for one, old in zip(later.transports, before, strict=True)
            ),
            operations={
                name: counted(counts, earlier.operations.get(name, OperationCounts()))
                for name, counts in later.operations.items()
            },
        )
    except WentDown:
        return None


def rates(moved: MountCounts, interval_s: float) -> dict[str, float | None]:
    """Of all operations of a mount, between two readings; a mean without a call is None.

    `again_per_s`: calls that were retransmitted. `backlog`, `in_flight`: means at a send.
    """
    whole = moved.sum
    sends = moved.total("sends")

    def by_call(value: float) -> float | None:
        return value / whole.calls if whole.calls else None

    return {
        "calls_per_s": whole.calls / interval_s,
        "sent_bytes_per_s": whole.bytes_sent / interval_s,
        "received_bytes_per_s": whole.bytes_received / interval_s,
        "queue_ms": by_call(whole.queue_ms),
        "round_trip_ms": by_call(whole.round_trip_ms),
        "execute_ms": by_call(whole.execute_ms),
        "again_per_s": (whole.sends - whole.calls) / interval_s,
        "timeouts_per_s": whole.timeouts / interval_s,
        "backlog": moved.total("backlog") / sends if sends else None,
        "in_flight": moved.total("in_flight") / sends if sends else None,
    }


def _same(mount: MountCounts) -> dict[str, Any]:
    kept = ("source", "mount_point", "filesystem", "statvers", "options", "facts", "version")
    return {name: getattr(mount, name) for name in kept}


def _summed(counts: Sequence[OperationCounts]) -> OperationCounts:
    made: dict[str, Any] = {}
    for one in fields(OperationCounts):
        values = [getattr(each, one.name) for each in counts]
        known = [value for value in values if value is not None]
        made[one.name] = sum(known) if known or one.name != "errors" else None
    return OperationCounts(**made)


class _Part:
    """One NFS mount while its lines are taken."""

    def __init__(self, source: str, mount_point: str, filesystem: str, statvers: str) -> None:
        self._head = (source, mount_point, filesystem, statvers)
        self._age: int | None = None
        self._options = ""
        self._facts: dict[str, str] = {}
        self._events: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._version: int | None = None
        self._transports: list[TransportCounts] = []
        self._operations: dict[str, OperationCounts] = {}
        self._counting = False

    def take(self, line: str) -> None:
        """One line without the blanks around it; FormError."""
        name, colon, rest = line.partition(":")
        if self._version is None:
            self._before_rpc(line, name if colon else "", rest.strip())
        elif self._counting:
            self._operation(name if colon else "", rest.split())
        elif line == "per-op statistics":
            self._counting = True
        elif colon and name == "xprt":
            if len(self._transports) >= TRANSPORTS_MAX:
                raise FormError(f"more than {TRANSPORTS_MAX} transports")
            self._transports.append(_transport(rest.split()))
        else:
            raise FormError("neither a transport nor the start of the operations")

    def made(self) -> MountCounts:
        """What its lines say; FormError when it is not whole."""
        if self._age is None or self._version is None or not self._counting:
            raise FormError(f"the part of {self._head[1]} is not whole")
        return MountCounts(
            *self._head, self._age, self._options, self._facts, self._events, self._bytes,
            self._version, tuple(self._transports), self._operations,
        )  # fmt: skip

    def _before_rpc(self, line: str, name: str, value: str) -> None:
        if name == "age":
            self._age = number_of(value)
        elif name == "opts":
            self._options = unescape(value)
        elif name == "events":
            self._events = _named(value.split(), EVENTS, least=len(EVENTS) - 2)
        elif name == "bytes":
            self._bytes = _named(value.split(), BYTES, least=len(BYTES) - 2)
        elif name == "RPC iostats version":
            match = _RPC.fullmatch(line)
            if match is None:
                raise FormError("not what begins the counters of RPC")
            self._version = number_of(match[3])
        elif name:
            self._facts[name] = value

    def _operation(self, name: str, words: list[str]) -> None:
        if not _OPERATION.fullmatch(name):
            raise FormError("not an operation")
        if name in self._operations:
            raise FormError("this operation stands twice")
        if len(self._operations) >= OPERATIONS_MAX:
            raise FormError(f"more than {OPERATIONS_MAX} operations")
        if len(words) not in (8, 9):
            raise FormError(f"{len(words)} numbers instead of 8 or 9")
        self._operations[name] = OperationCounts(*numbers_of(words))


def _begun(line: str, only: Collection[str] | None) -> _Part | None:
    """The mount that begins here; None: it is none of NFS, or not asked for."""
    match = _DEVICE.fullmatch(line.strip())
    if match is None:
        if re.search(r" with fstype nfs4?( |$)", line):
            raise FormError("not what begins a mount")
        return None
    source, point, filesystem, statvers = match.groups()
    if filesystem not in ("nfs", "nfs4") or (only is not None and unescape(point) not in only):
        return None
    return _Part(unescape(source or ""), unescape(point), filesystem, statvers or "")


def _transport(words: list[str]) -> TransportCounts:
    if not words or words[0] not in _SHAPES:
        raise FormError(f"{words[0] if words else 'nothing'!r} is no transport that is known")
    protocol, numbers = words[0], [number_of(word) for word in words[1:]]
    shape = _SHAPES[protocol]
    values: dict[str, Any] = dict(zip(shape, numbers, strict=False))
    more = numbers[len(shape) :]
    if protocol == "rdma" and len(numbers) >= len(shape) and len(more) <= RDMA_MAX:
        return TransportCounts(protocol=protocol, rdma=tuple(more), **values)
    if len(numbers) < len(shape) or len(more) not in (0, len(_LATER)):
        raise FormError(f"{len(numbers)} numbers do not make a transport over {protocol}")
    values |= dict(zip(_LATER, more, strict=False))
    return TransportCounts(protocol=protocol, port=values.pop("port", None), **values)


def _named(words: list[str], names: Sequence[str], least: int) -> dict[str, int]:
    """Counters by name; what later kernels count beyond them is not known."""
    if len(words) < least:
        raise FormError(f"{len(words)} numbers instead of at least {least}")
    return dict(zip(names, (number_of(word) for word in words), strict=False))
