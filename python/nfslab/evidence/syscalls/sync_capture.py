"""A capture's WRITEs and COMMITs in the form of our client's record, for `sync_steps`.

What joins a sync to a call on the wire is the file: the server's number of it (the inode here),
its file system, and the server. The capture states both numbers once a reply had attributes
(columns `fsid`, `file_id`), the run's summary says which export lies behind which device
(`nfslab.captures.exports`). Nothing is guessed; what cannot be told is counted:

    a handle of which no reply told the numbers, or replies told different ones    unknown
    the same number in two file systems, where it is not known which is mounted    unknown
    a mount beside another one of the same server, neither's file system known      shared
    calls without a reply in the capture: when they ended is not known             unanswered

Instants are brought to the syncs' clock: both tables have `t_ns`, from the same timed start; the
capture's summary says how far its offset between both clocks may be off, and whether the wall
clock was set meanwhile (then nothing is joined).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from nfslab.results.coded_texts import coded_texts, integers, unsigned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

CALLS: Final = "capture_calls"
COLUMNS: Final = (
    "t_ns", "call_first_ns", "reply_last_ns", "server", "server_port", "program", "operation",
    "file_handle", "count",
)  # fmt: skip
NUMBERS: Final = ("fsid", "file_id")
WANTED: Final = ("WRITE", "COMMIT")
MOVED_MOST_NS: Final = 1_000_000
"""A wall clock that moved by more was set: instants before and after are not comparable."""


@dataclass(slots=True)
class CapturedCalls:
    """What the capture gives for the join."""

    calls: pa.Table
    """In the columns of `sync_steps.take_apart`; `file_id` is null where it cannot be told."""
    targets: dict[str, str]
    """Device -> target, of the exports that the capture saw calls to."""
    unanswered: int = 0
    shared: list[str] = field(default_factory=list)
    """Targets whose calls cannot be told from those of other mounts of the same server."""


def clock_problem(clock: Mapping[str, Any]) -> str:
    """Why instants of this capture cannot be compared with the syncs'; empty when they can."""
    if "error_ns" not in clock:
        return "the capture's record does not say how its clock stood to that of the syncs"
    if abs(clock["moved_ns"]) > MOVED_MOST_NS:
        return f"the wall clock was set by {clock['moved_ns'] / 1e6:.1f} ms during the capture"
    return ""


def calls_of_capture(
    calls: pa.Table, zero_ns: int, exports: Mapping[str, Mapping[str, Any]]
) -> CapturedCalls:
    """WRITEs and COMMITs to these exports (by device), on the clock whose t_ns 0 is `zero_ns`."""
    spoken_to = _servers(calls)
    calls = calls.filter(pa.array(_wanted(calls)))
    servers = _servers(calls)
    file_ids, fsids, known = _numbers(calls, servers)
    answered = _valid(calls["reply_last_ns"])
    begun = integers(calls["t_ns"]) + zero_ns
    lasted = integers(calls["reply_last_ns"], missing=0) - integers(calls["call_first_ns"])
    free = np.ones(calls.num_rows, dtype=bool)  # an unknown call counts once
    kept = [_none()]
    found = CapturedCalls(kept[0], {})
    for device, export in exports.items():
        if not spoken_to.are(export).any():
            continue
        if export["fsid"] is None and not export["sole"]:
            found.shared.append(export["target"])
            continue
        told, here = _rows_of(export, servers, file_ids, fsids, known)
        here &= free
        free &= ~here
        found.unanswered += int((here & ~answered).sum())
        rows = np.flatnonzero(here & answered)
        found.targets[device] = export["target"]
        of = calls.take(rows)
        columns: dict[str, Any] = {
            "operation": of["operation"],
            "enqueued_ns": begun[rows],
            "completed_ns": begun[rows] + lasted[rows],
            "file_id": pa.array(file_ids[rows], pa.uint64(), mask=~told[rows]),
            "count": of["count"],
            "target": pa.array([export["target"]] * rows.size, pa.string()),
        }
        kept.append(pa.table(columns).cast(kept[0].schema))
    found.calls = pa.concat_tables(kept)
    return found


def _none() -> pa.Table:
    kinds: list[tuple[str, pa.DataType]] = [
        ("operation", pa.string()), ("enqueued_ns", pa.int64()), ("completed_ns", pa.int64()),
        ("file_id", pa.uint64()), ("count", pa.uint64()), ("target", pa.string()),
    ]  # fmt: skip
    return pa.schema(kinds).empty_table()


def _wanted(calls: pa.Table) -> Flags:
    operations, of_operation = coded_texts(calls["operation"])
    programs, of_program = coded_texts(calls["program"])
    kinds = [i for i, name in enumerate(operations) if name in WANTED]
    nfs = [i for i, name in enumerate(programs) if name == "NFS"]
    wanted: Flags = np.isin(of_operation, kinds) & np.isin(of_program, nfs)
    return wanted


@dataclass(slots=True)
class _Servers:
    names: list[str]
    which: Integers
    ports: Integers

    def are(self, export: Mapping[str, Any]) -> Flags:
        """The calls to this server."""
        address = export["address"]
        same = [i for i, name in enumerate(self.names) if _is_address(name, address)]
        found: Flags = np.isin(self.which, same)
        return found if export["port"] is None else found & (self.ports == export["port"])


def _is_address(name: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(address)
    except ValueError:
        return name == address


def _servers(calls: pa.Table) -> _Servers:
    names, which = coded_texts(calls["server"])
    return _Servers(names, which, integers(calls["server_port"]))


def _valid(column: Any) -> Flags:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


def _numbers(
    calls: pa.Table, servers: _Servers
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Flags]:
    """file_id and fsid of each call, and where both are known: what the first call of a handle
    that tells them says counts for those before it, too. A later one without them means that
    replies disagreed: then none is believed."""
    known = _valid(calls["file_id"])
    fsids, file_ids = (unsigned(calls[name]) for name in NUMBERS)
    handled = _valid(calls["file_handle"])
    handles = np.full(handled.size, -1)
    handles[handled] = coded_texts(calls["file_handle"].filter(pa.array(handled)))[1]
    keys = np.stack([servers.which, servers.ports, handles], axis=1)
    if not keys.shape[0]:
        return file_ids, fsids, known
    _, of_key = np.unique(keys, axis=0, return_inverse=True)
    of_key = of_key.reshape(-1)
    most, n = int(of_key.max()) + 1, of_key.size
    rows, silent = np.flatnonzero(known), np.flatnonzero(handled & ~known)
    first_told = np.full(most, n)
    np.minimum.at(first_told, of_key[rows], rows)
    last_silent = np.full(most, -1)
    np.maximum.at(last_silent, of_key[silent], silent)
    certain = (first_told < n) & (last_silent < first_told)
    for values in (fsids, file_ids):
        said = values[np.minimum(first_told, n - 1)]
        certain[of_key[rows[values[rows] != said[of_key[rows]]]]] = False
        values[silent] = said[of_key[silent]]
    return file_ids, fsids, certain[of_key] & (handled | known)


def _rows_of(
    export: Mapping[str, Any],
    servers: _Servers,
    file_ids: NDArray[np.uint64],
    fsids: NDArray[np.uint64],
    known: Flags,
) -> tuple[Flags, Flags]:
    """Calls whose file is one of this export for certain, and all that may be of it."""
    here = servers.are(export)
    if export["fsid"] is not None:
        own = fsids == np.uint64(export["fsid"])
        return known, here & (own | ~known)
    pairs = np.unique(np.stack([file_ids, fsids], axis=1)[here & known], axis=0)
    numbers, times = np.unique(pairs[:, 0], return_counts=True)
    return here & known & np.isin(file_ids, numbers[times == 1]), here
