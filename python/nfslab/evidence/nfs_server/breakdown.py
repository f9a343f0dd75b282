"""Where the time of a run's NFS calls went: the client's record and the server's, joined.

Needs two tables of one run, both with every call: `rpc_calls` (collector `rpc` with
`calls = true`) and `nfs_server_calls` (collector `nfs_server`). Rows belong together by target
and transaction id. Client and server run on one machine and read CLOCK_MONOTONIC; every
instant is read *before* the step that lets the other side go on, so no part should be below
zero. The parts:

    client queue   taken by the client -> about to be given to its kernel
    way there      -> its last byte has been read by the server (both kernels, the wire, and a
                      server whose thread was busy elsewhere)
    waiting        -> the server begins with it (a thread, or a worker of the model, is free)
    service        -> the procedure is done (with the model's service time, disk and stalls)
    sending        -> the server is about to give its kernel the reply's last byte (the model's
                      bandwidth on the way out, delay and jitter lie here)
    way back       -> the client has noticed the reply (both kernels and the wire again)

Only calls that were answered and sent once, in the timed part, and that are in both tables
once, are taken apart; all others are counted by the reason (`left_out`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.results.coded_texts import coded_texts
from nfslab.results.evidence_tables import has_evidence, read_evidence
from nfslab.statistics.latency_parts import PartsSummary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

CLIENT_TABLE: Final = "rpc_calls"
SERVER_TABLE: Final = "nfs_server_calls"
INSTANTS: Final = (
    (CLIENT_TABLE, "enqueued_ns"), (CLIENT_TABLE, "sent_first_ns"),
    (SERVER_TABLE, "received_ns"), (SERVER_TABLE, "started_ns"), (SERVER_TABLE, "finished_ns"),
    (SERVER_TABLE, "sent_ns"), (CLIENT_TABLE, "completed_ns"),
)  # fmt: skip
PARTS: Final = ("client queue", "way there", "waiting", "service", "sending", "way back")
ALL: Final = "all calls"
NFS_PROGRAM: Final = 100_003
COMMON: Final = ("target", "xid", "program", "procedure")


@dataclass(frozen=True, slots=True)
class OperationBreakdown:
    """One operation of one target, or all calls of it."""

    target: str
    operation: str
    summary: PartsSummary

    @property
    def largest(self) -> tuple[int, float] | None:
        """The part that is the largest of all, and its share."""
        return _largest(self.summary.share)

    @property
    def largest_slow(self) -> tuple[int, float] | None:
        """The part that is the largest among the slowest calls, and its share there."""
        return _largest(self.summary.slow_share)


@dataclass(slots=True)
class LatencyBreakdown:
    """A run's calls taken apart."""

    rows: list[OperationBreakdown] = field(default_factory=list)
    """By target; first all its calls, then its operations, the most time first."""
    calls: int = 0
    """Calls that were taken apart."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> calls in the timed part that were not; none of them is zero."""
    negative: dict[str, int] = field(default_factory=dict)
    """Part -> calls in which it is below zero (and is in all sums as it is)."""

    def notes(self) -> list[str]:
        """What a reader has to know, in sentences."""
        return notes_of(self.left_out, self.negative)


def notes_of(left_out: Mapping[str, int], negative: Mapping[str, int]) -> list[str]:
    """What was left out, and what is below zero, in sentences."""
    notes = []
    if left_out:
        listed = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
        notes.append(f"Left out: {listed}.")
    if negative:
        listed = ", ".join(f"{part} in {count:,} calls" for part, count in negative.items())
        notes.append(f"Below zero, and in all sums as they are: {listed}.")
    return notes


def has_breakdown(run: Path) -> bool:
    """Are both tables there?"""
    return has_evidence(run, CLIENT_TABLE, SERVER_TABLE)


def read_breakdown(run: Path) -> LatencyBreakdown | None:
    """The calls of a sealed run's folder; None without both tables. ResultsError."""
    if not has_breakdown(run):
        return None
    client = [name for table, name in INSTANTS if table == CLIENT_TABLE]
    server = [name for table, name in INSTANTS if table == SERVER_TABLE]
    more = ["t_ns", "operation", "outcome", "sends"]
    return take_apart(
        read_evidence(run, CLIENT_TABLE, [*COMMON, *client, *more]),
        read_evidence(run, SERVER_TABLE, [*COMMON, *server]),
    )


def take_apart(client: pa.Table, server: pa.Table) -> LatencyBreakdown:
    """The same of the two tables, with the columns that they have as evidence."""
    import numpy as np

    from nfslab.statistics.latency_parts import join_unique, parts_of, summarise_parts

    found = LatencyBreakdown()
    wanted = _wanted(client, found)
    client = client.filter(wanted)
    targets = sorted({*_distinct(client["target"]), *_distinct(server["target"])})
    joined = join_unique(_keys(client, targets), _keys(server, targets))
    mine, theirs = client.take(joined.left), server.take(joined.right)
    same = np.ones(mine.num_rows, dtype=bool)
    for name in ("program", "procedure"):
        same &= _numbers(mine[name]) == _numbers(theirs[name])
    mine, theirs = mine.filter(same), theirs.filter(same)
    _leave_out(found, "not in the server's record", joined.unmatched)
    _leave_out(found, "with an id that is there more than once", joined.repeated)
    _leave_out(found, "with another procedure on the server", int((~same).sum()))
    found.calls = mine.num_rows
    if not found.calls:
        return found
    tables = {CLIENT_TABLE: mine, SERVER_TABLE: theirs}
    parts = parts_of([_numbers(tables[table][name]) for table, name in INSTANTS])
    below = (parts < 0).sum(axis=1).tolist()
    found.negative = {part: n for part, n in zip(PARTS, below, strict=True) if n}
    names, which = coded_texts(mine["operation"])
    place = _places(mine["target"], targets)
    whole = summarise_parts(parts, place, len(targets))
    single = summarise_parts(parts, place * len(names) + which, len(targets) * len(names))
    for i, target in enumerate(targets):
        if (summary := whole[i]) is None:
            continue
        rows = [
            OperationBreakdown(target, name, one)
            for k, name in enumerate(names)
            if (one := single[i * len(names) + k]) is not None
        ]
        rows.sort(key=lambda row: -row.summary.sum_ns)
        found.rows += [OperationBreakdown(target, ALL, summary), *rows]
    return found


def _wanted(client: pa.Table, found: LatencyBreakdown) -> NDArray[np.bool_]:
    """Rows to be taken apart; the others of the timed part are counted."""
    import numpy as np

    timed = _numbers(client["t_ns"]) >= 0
    answered = np.array(_equal(client["outcome"], "answered"))
    once = _numbers(client["sends"]) == 1
    _leave_out(found, "not answered", int((timed & ~answered).sum()))
    _leave_out(found, "sent more than once", int((timed & answered & ~once).sum()))
    wanted: NDArray[np.bool_] = timed & answered & once
    return wanted


def _leave_out(found: LatencyBreakdown, why: str, count: int) -> None:
    if count:
        found.left_out[why] = count


def _largest(shares: list[float | None]) -> tuple[int, float] | None:
    known = [(share, -i) for i, share in enumerate(shares) if share is not None]
    if not known:
        return None
    share, place = max(known)
    return -place, share


def _keys(table: pa.Table, targets: list[str]) -> NDArray[np.uint64]:
    """Target and transaction id in one number."""
    import numpy as np

    high = _places(table["target"], targets).astype(np.uint64) << np.uint64(32)
    keys: NDArray[np.uint64] = high | _numbers(table["xid"]).astype(np.uint64)
    return keys


def _places(column: Any, names: list[str]) -> NDArray[np.int64]:
    """Of every text its place among the names."""
    import numpy as np

    known, which = coded_texts(column)
    places = np.array([names.index(name) for name in known], dtype=np.int64)
    return places[which]


def _numbers(column: Any) -> NDArray[np.int64]:
    import numpy as np

    return np.asarray(column.to_numpy(), dtype=np.int64)


def _distinct(column: Any) -> list[str]:
    return [str(value) for value in column.unique().to_pylist()]


def _equal(column: Any, value: str) -> Any:
    names, which = coded_texts(column)
    return which == (names.index(value) if value in names else -1)
