"""Readings of all mounts and servers that this machine shows now.

    /proc/self/mountstats ──┐
    mounts, servers of ours ┼─> Reading ──(two of one)──> nfslab.live.views
    /proc/net/rpc/nfsd    ──┘

Which files calls on data are of is counted by class: what is ours does it itself, for the kernel's
mounts it is `kernel_files`; of the kernel's server it is not known.

A mount's counters are `MountCounts` whoever counts them, so that the kernel's mounts and ours go
one way. Our own client's times are nanoseconds; its transport is one of all its connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab import clock
from nfslab.machine.offered_counters import LIMIT_S, SILENT, taken
from nfslab.storage import mountstats, nfsd
from nfslab.storage.mountstats import MountCounts, OperationCounts, TransportCounts

if TYPE_CHECKING:
    from nfslab.live.kernel_files import KernelDataCalls
    from nfslab.storage.data_calls import ByClass

Kind = Literal["kernel", "nfslab"]
NS_PER_MS: Final = 1e6
MAJOR_TIMEOUTS: Final = "major_timeouts"
"""Our client counts them of all operations together."""
NFSD: Final = "nfsd"
"""The name of the kernel's server: there is one."""


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What a server counts; by what it does, where it counts that."""

    counters: dict[str, int]
    operations: dict[str, int] = field(default_factory=dict)
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One mount or server at one instant."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    kind: Kind
    """Who it is made by."""
    name: str
    """A mount point; a server's address."""
    counts: MountCounts | ServerCounts
    outstanding: int | None = None
    """Calls without a reply now; None: it does not say."""
    queued: int | None = None
    """Calls that were not sent yet, now; None: it does not say."""
    files: ByClass | None = None
    """Calls on data by class of file; None: it does not say."""
    instance: str = ""
    """Another one means another mount or server at the same place."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All readings of one moment."""

    readings: list[Reading]
    silent: frozenset[str]
    """Instances of mounts and servers of ours that live, and did not answer in time."""
    problems: list[str]
    """What cannot be read, a sentence each."""


def look(limit_s: float = LIMIT_S, files: KernelDataCalls | None = None) -> Seen:
    """What this machine shows now; `limit_s`: how long a process of ours may take to answer.

    `files`: those of the kernel's mounts, kept from one look to the next; None: not asked for.
    """
    found: dict[tuple[type, str], Reading] = {}
    problems: list[str] = []
    answers = taken(limit_s)
    silent = frozenset(one["instance"] for one in answers if SILENT in one)
    ours = [one for one in answers if SILENT not in one]
    for read in (lambda: _kernel_mounts(files), lambda: map(_offered, ours), _nfsd):
        try:
            for one in read():
                # A later mount covers an earlier one at the same place.
                found[type(one.counts), one.name] = one
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(str(error))
    return Seen(list(found.values()), silent, problems)


def _kernel_mounts(files: KernelDataCalls | None) -> list[Reading]:
    before_ns = clock.monotonic_ns()
    counts = mountstats.read_counts()
    at_ns = (before_ns + clock.monotonic_ns()) // 2
    by_class = files.by_mount_point() if files and counts else {}
    return [
        Reading(at_ns, "kernel", one.mount_point, one, files=by_class.get(one.mount_point, {}))
        for one in counts
    ]


def _offered(one: dict[str, Any]) -> Reading:
    """KeyError, TypeError: another nfslab wrote it."""
    counters = one["counters"]
    if one["what"] == "server":
        waiting = counters["calls"] - counters["replies"] - counters["duplicates_dropped"]
        counts = ServerCounts(counters)
        return Reading(
            one["at_ns"], "nfslab", one["name"], counts, waiting, None, one["files"],
            one["instance"],
        )  # fmt: skip
    return Reading(
        one["at_ns"], "nfslab", one["name"], _as_mount(one), counters["outstanding"],
        counters["queue"], one["files"], one["instance"],
    )  # fmt: skip


def _as_mount(one: dict[str, Any]) -> MountCounts:
    counters = one["counters"]
    operations = {
        row["operation"]: OperationCounts(
            calls=row["calls"],
            sends=row["sends"],
            bytes_sent=row["bytes_out"],
            bytes_received=row["bytes_in"],
            queue_ms=row["queue_sum_ns"] / NS_PER_MS,
            round_trip_ms=row["round_trip_sum_ns"] / NS_PER_MS,
            errors=row["errors"],
        )
        for row in one["operations"]
    }
    transport = TransportCounts(
        "nfslab", None, sends=counters["sends"], receives=counters["answered"]
    )
    return MountCounts(
        source=one["source"],
        mount_point=one["name"],
        filesystem="fuse.nfslab",
        statvers="",
        age_s=0,
        version=3,
        events={MAJOR_TIMEOUTS: counters["major_timeouts"]},
        transports=(transport,),
        operations=operations,
    )


def _nfsd() -> list[Reading]:
    """Nothing where it does not run."""
    before_ns = clock.monotonic_ns()
    try:
        counts = nfsd.read_counts()
    except FileNotFoundError:
        return []
    if not counts.server.threads:
        return []
    at_ns = (before_ns + clock.monotonic_ns()) // 2
    kept = ("calls", "connections", "read_bytes", "written_bytes", "cache_hits")
    counters = {name: getattr(counts.server, name) for name in kept}
    operations = {
        f"v{version} {name}": count for (version, name), count in counts.by_operation().items()
    }
    server = ServerCounts(counters, operations, counts.server.threads)
    return [Reading(at_ns, "kernel", NFSD, server)]
