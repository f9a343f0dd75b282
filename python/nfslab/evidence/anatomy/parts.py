"""An operation's mean time as a tree of parts that sum to it: the model behind every anatomy.

A part is *sampled* (a share of what was seen at instants, with an error), *exact* (summed up of
every call), or *joined* (a part's time divided by the shares of what lies below it, which are of
other records of the same run). Children sum to their parent; `rest_of` keeps it so: what no child
explains is a child of its own, and is never below zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from nfslab.evidence.base import Facts
from nfslab.evidence.slowest import SlowestFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Source = Literal["sampled", "exact", "joined"]
UNATTRIBUTED: Final = "unattributed"
TRANSACTION: Final = "transaction"
"""The operation of a database."""
OF_DATABASE: Final = {"transactions": TRANSACTION, "queries": "query"}
"""What a workload calls its table of a database's operations (`Outcome.operations`), and one."""
REQUEST: Final = "request"
"""The operation of a web server."""
ELSEWHERE: Final = "elsewhere"


class PartFacts(Facts):
    """One part of an operation's mean time."""

    name: str
    ns: float
    """Mean of an operation."""
    error_ns: float | None = None
    """Half of a 95 % interval, of what was sampled; None: not sampled."""
    doubt_ns: float = 0.0
    """How far all samples together may be off one way, whatever their number."""
    source: Source
    parts: tuple[PartFacts, ...] = ()
    """What it is made of; empty: not known."""

    def walk(self, path: str = "") -> Iterator[tuple[str, PartFacts]]:
        """This part and all within, by path: "wal_fsync/committing"."""
        mine = f"{path}/{self.name}" if path else self.name
        yield mine, self
        for part in self.parts:
            yield from part.walk(mine)


class CallFacts(Facts):
    """One kind of NFS call, for one operation of the workload."""

    operation: str
    per_operation: float
    """Calls."""
    bytes_mean: float | None
    """Of call and reply together."""
    parts_ns: dict[str, float]
    """Of a call, mean: where its time went."""


class AnatomyFacts(Facts):
    """A run's operation, taken apart."""

    operation: str
    """What one is: "transaction"."""
    operations: float
    """How many the mean is of."""
    mean_ns: float
    parts: tuple[PartFacts, ...]
    """They sum to `mean_ns`."""
    notes: tuple[str, ...] = ()
    """What limits them, and where two ways of seeing disagree."""
    wants: tuple[str, ...] = ()
    """Collectors that would explain more."""
    calls: tuple[CallFacts, ...] = ()
    """NFS calls that both ends recorded."""
    calls_recorded: bool = False
    """Also where there was no call at all."""
    writes_at_once: float | None = None
    """WRITEs under way, mean over the time in which one is."""
    stable_levels_ns: tuple[int, ...] = ()
    """Median service of successive WRITEs and COMMITs between changes of its level."""
    slowest: tuple[SlowestFacts, ...] = ()
    """The slowest 1 % of single operations, and of the NFS calls, where each can be followed."""
    wire_ns_per_byte: float | None = None
    """By how much a call's transits are longer for each byte."""

    def by_path(self) -> dict[str, PartFacts]:
        """All parts, by path."""
        return dict(found for part in self.parts for found in part.walk())


@dataclass(frozen=True, slots=True)
class Meaning:
    """A part as people read it."""

    label: str
    meaning: str
    colour: str = ""


MEANINGS: Final[dict[str, Meaning]] = {
    "client": Meaning(
        "client (idle in transaction)", "the client program, and the way to it and back", "c8"),
    "running": Meaning(
        "server CPU (running or runnable)", "also blocked without a reported wait where "
        "the scheduler was not asked", "c1"),
    "unreported": Meaning(
        "unattributed (blocked)", "where no wait is reported: page faults; of PostgreSQL looking "
        "up, sizing and opening files, too"),
    "on_cpu": Meaning("on a processor", "the scheduler's own account"),
    "run_queue": Meaning("waiting for a processor", "runnable, but not running"),
    "wal_fsync": Meaning("WAL fsync", "syncing the log", "c3"),
    "wal_write": Meaning("WAL write", "writing the log", "c5"),
    "log_fsync": Meaning("log fsync", "syncing the log of POSTs", "c3"),
    "log_write": Meaning("log write", "writing it", "c5"),
    "group_commit_wait": Meaning(
        "group-commit wait", "one syncs the log for a group; these wait", "c6"),
    "buffer_read": Meaning(
        "buffer read I/O", "reading pages that the database has not in memory", "c4"),
    "relation_extend": Meaning("relation extend", "making a table or an index longer"),
    "buffer_write": Meaning("buffer write I/O", "writing pages to make room, and syncing them"),
    "other_files": Meaning("other files", "temporary files, control file, ..."),
    "document_open": Meaning("opening documents", "looking up and opening them", "c2"),
    "document_read": Meaning(
        "reading documents", "also sending them, where one call does both (sendfile)", "c4"),
    ELSEWHERE: Meaning(
        "server and network", "the server's own work, waiting for it while it is at other "
        "requests, the connection, the load generator", "c8"),
    "row_lock_waits": Meaning("row-lock waits", "waiting for another transaction's lock", "c2"),
    "lwlock_waits": Meaning(
        "LWLock waits", "waiting for the database's own light locks, or latches", "c7"),
    "other": Meaning("other", "whatever is not in the other parts"),
    "waiting": Meaning("WRITEs of before", "WRITEs that were under way when the sync began"),
    "sending": Meaning("WRITEs of the sync", "WRITEs that the sync sent"),
    "committing": Meaning("COMMIT", "the COMMIT of the sync"),
    "flush": Meaning("device flush", "the disk empties its cache, or writes durably"),
    "write": Meaning("device writes", "other writes of the disk"),
    "read": Meaning("device reads", "reads of the disk"),
    "rest": Meaning("kernel and mount", "neither NFS call nor block request under way"),
    "RPC backlog": Meaning("RPC backlog", "taken by the client, not yet given to the kernel"),
    "request transit": Meaning(
        "request transit", "both kernels, the wire, a server busy elsewhere"),
    "server queue": Meaning("server queue", "read by the server, not yet begun"),
    "server processing": Meaning("server processing", "the server carries it out"),
    "reply transit": Meaning("reply transit", "the reply's way, until the client notices"),
    "retransmitted": Meaning("retransmitted", "until the client retransmitted the call"),
    "server pause": Meaning("server pause", "the server ended nothing, far longer than usual"),
    "outside": Meaning("client and wire", "not at the server: the client, and transit"),
    "late": Meaning("late start", "later than planned"),
    "final_sync": Meaning("final sync", "syncing and closing at a phase's end, by operation"),
    "program": Meaning("program", "the program's own CPU time", "c8"),
    "kernel": Meaning("kernel", "CPU time in the kernel: file system, copying", "c1"),
    "storage": Meaning("waiting for storage", "in calls on files, and not on a processor", "c3"),
    UNATTRIBUTED: Meaning("unattributed", "no evidence tells", "wait-other"),
}  # fmt: skip


def meaning_of(name: str) -> Meaning:
    """Of a part's name; one that is not known is called by it."""
    return MEANINGS.get(name, Meaning(name, ""))


def label_of(path: str) -> str:
    """Of a path: "WAL fsync: COMMIT"."""
    return ": ".join(meaning_of(name).label for name in path.split("/"))


def divided(whole: PartFacts, shares: Sequence[tuple[str, float | None]]) -> PartFacts:
    """The part with children by shares of it (0 to 1, None: 0); what they leave is unattributed.

    Shares that sum to more than 1 are taken of their sum, so that no child is below zero.
    """
    known = [(name, max(share or 0.0, 0.0)) for name, share in shares]
    total = sum(share for _, share in known)
    scale = 1.0 / max(total, 1.0)
    parts = [
        PartFacts(name=name, ns=whole.ns * share * scale, source="joined")
        for name, share in known
        if share > 0
    ]
    return whole.model_copy(update={"parts": tuple(with_rest(parts, whole.ns))})


def with_rest(parts: Sequence[PartFacts], whole_ns: float) -> list[PartFacts]:
    """The parts, and what they leave of the whole; parts beyond it shrink to it."""
    total = sum(part.ns for part in parts)
    if total > whole_ns:
        scale = whole_ns / total
        return [part.model_copy(update=_scaled(part, scale)) for part in parts]
    left = whole_ns - total
    if left <= whole_ns * ROUNDING:
        return list(parts)
    return [*parts, PartFacts(name=UNATTRIBUTED, ns=left, source="exact")]


ROUNDING: Final = 1e-9
"""Of the whole: less is no part."""


def _scaled(part: PartFacts, scale: float) -> dict[str, object]:
    error = None if part.error_ns is None else part.error_ns * scale
    parts = tuple(one.model_copy(update=_scaled(one, scale)) for one in part.parts)
    doubt = part.doubt_ns * scale
    return {"ns": part.ns * scale, "error_ns": error, "doubt_ns": doubt, "parts": parts}
