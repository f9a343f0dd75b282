"""NFS calls of a run as each collector counted them, and which of these cannot be complete.

While they are on count `rpc`, `nfs_server`, `capture` and `capture_server`; in the timed part alone
`rpc` and `nfs_server` once more, `mountstats` and `nfsd`.

Rule. The first window holds the timed part, and whoever watches it can only lose calls: one that
has fewer of an operation than another counted in the timed part, of the same mounts, is incomplete,
but for an edge (`EDGE_CALLS`, `EDGE_SHARE`): calls under way at the ends, totals between samples.
Having more accuses nobody: other mounts of a server are on the wire, other clients at a server. So
nobody is judged by a server that others may use, nor by `nfsd`.

Limits: NFSv4's compounds are counted differently by each, but for READ, WRITE and COMMIT. What
several client hosts saw is not compared.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nfslab.display.numbers import count
from nfslab.evidence.base import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nfslab.results.records import RunRecord

    ByTarget = Mapping[str, Mapping[str, float]]
    """Target -> operation -> calls."""

EDGE_CALLS: Final = 32
EDGE_SHARE: Final = 0.02
"""Of the calls that another counted."""
NOT_DERIVED: Final = "It is incomplete ({lacks}): of {what} nothing is said."
DATA: Final = frozenset({"READ", "WRITE", "COMMIT"})
ON_WIRE: Final = re.compile(r"NFSv\d(?:\.\d)? (\w+)")
LISTED: Final = 12
"""Operations in a capture's summary of before: of others nothing is known."""
TIMED: Final = ", timed part"
BY_TARGET: Final = (
    ("rpc", "clients", "watched_calls", ""), ("nfs_server", "servers", "calls", ""),
    ("rpc", "clients", "timed_calls", TIMED), ("nfs_server", "servers", "timed_calls", TIMED),
    ("mountstats", "mounts", "calls", TIMED),
)  # fmt: skip
"""Collector, where its summary has targets, their column of calls, and of what these are."""
JUDGES: Final = {
    "rpc": ("mountstats",),
    "nfs_server": ("rpc", "mountstats"),
    "capture": ("rpc", "mountstats", "nfs_server"),
    "capture_server": ("rpc", "mountstats", "nfs_server"),
}


class CountedOperation(Facts):
    """One operation."""

    operation: str
    by: dict[str, float]
    """Calls by collector, those of the timed part by "COLLECTOR, timed part"."""

    @property
    def calls(self) -> int:
        """By who counted most."""
        return round(max(self.by.values(), default=0))


class Missing(Facts):
    """What a collector must have missed."""

    collector: str
    operation: str
    calls: float
    least: float
    """That there were at least."""

    @property
    def said(self) -> str:
        """For sentences: "677 of at least 1,280 WRITEs"."""
        return (
            f"{count(round(self.calls))} of at least {count(round(self.least))} {self.operation}s"
        )


class CallCounts(Facts):
    """Of one run."""

    operations: tuple[CountedOperation, ...]
    """The most frequent first."""
    missing: tuple[Missing, ...]


def call_counts(record: RunRecord) -> CallCounts | None:
    """None where fewer than two collectors counted."""
    counted = _counted({one.collector: one.summary for one in record.evidence})
    if len({name.removesuffix(TIMED) for name in counted}) < 2:
        return None
    places = record.places.values()
    names = {name for by in counted.values() for one in by.values() for name in one
             if name != "NULL" and " " not in name}  # fmt: skip
    if any(place.filesystem == "nfs4" for place in places):
        names &= DATA
    rows = [CountedOperation(operation=name, by=dict(_by(name, counted))) for name in names]
    rows = sorted((row for row in rows if row.calls), key=lambda row: (-row.calls, row.operation))
    own = {p.target for p in places if p.facts.get("nfs", {}).get("server") == "embedded"}
    missing = tuple(one for row in rows for one in _missing(row, counted, own))
    return CallCounts(operations=tuple(rows), missing=missing)


def why_incomplete(record: RunRecord, collector: str) -> str:
    """What that collector lacks, by its own word or by the others' counts; empty: nothing known."""
    said = [one.reason for one in record.evidence
            if one.collector == collector and one.status == "incomplete"]  # fmt: skip
    if not said and (found := call_counts(record)) is not None:
        said = [one.said for one in found.missing if one.collector == collector]
    return ", ".join(said)


def past_rpc(record: RunRecord) -> list[str]:
    """Targets of which READ, WRITE and COMMIT went past RPC (LOCALIO): as the mount says, or since
    its bytes moved without a call. pNFS moves bytes by calls to other servers."""
    found = {
        place.target
        for place in record.places.values()
        if place.facts.get("nfs", {}).get("localio") == "in use"
    }
    mounts: dict[str, Any] = {}
    for seen in record.evidence:
        mounts |= seen.summary.get("mounts", {}) if seen.collector == "mountstats" else {}
    for target, one in mounts.items():
        bytes_moved, events = one.get("bytes", {}), one.get("events", {})
        moved = any(bytes_moved.get(f"server_{way}_bytes") for way in ("read", "written"))
        called = DATA & {row["operation"] for row in one.get("operations", [])}
        if moved and not called and not events.get("pnfs_reads") and not events.get("pnfs_writes"):
            found.add(target)
    return sorted(found)


def _missing(
    row: CountedOperation, counted: Mapping[str, ByTarget], own: set[str]
) -> Iterator[Missing]:
    """Who was on all the time and has fewer calls than others of the timed part, by mounts."""
    for collector, judges in JUDGES.items():
        if collector not in row.by:
            continue
        known = {target: [
            calls.get(row.operation, 0)
            for judge in judges
            if judge != "nfs_server" or target in own
            for calls in [counted.get(judge + TIMED, {}).get(target, {})]
        ] for target in _targets(collector, counted)}  # fmt: skip
        calls, least = row.by[collector], sum(max(one, default=0) for one in known.values())
        if calls < least - max(EDGE_CALLS, EDGE_SHARE * least):
            yield Missing(collector=collector, operation=row.operation, calls=calls, least=least)


def _targets(collector: str, counted: Mapping[str, ByTarget]) -> set[str]:
    """Whose calls it sees."""
    if collector == "capture":
        return {target for by in counted.values() for target in by}
    return {*counted.get("nfs_server" if collector == "capture_server" else collector, {})}


def _by(name: str, counted: Mapping[str, ByTarget]) -> Iterator[tuple[str, float]]:
    """By collector, of all targets."""
    for collector, by in counted.items():
        calls = [one[name] for one in by.values() if name in one]
        if calls or not any(len(one) == LISTED for one in by.values()):
            yield collector, sum(calls)


def _counted(summaries: Mapping[str, Any]) -> dict[str, ByTarget]:
    """By collector."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for collector, key, column, part in BY_TARGET:
        for target, one in summaries.get(collector, {}).get(key, {}).items():
            rows = one.get("operations", [])
            if calls := {r["operation"]: r[column] for r in rows if r.get(column) is not None}:
                found.setdefault(collector + part, {})[target] = calls
    if rows := summaries.get("nfsd", {}).get("operations"):
        every: Counter[str] = Counter()
        for one in rows:
            every[one["operation"]] += one["calls"]
        found["nfsd" + TIMED] = {"": dict(every)}
    for wire in ("capture", "capture_server"):
        if (listed := summaries.get(wire, {}).get("operations")) is not None:
            every = Counter()
            for name, one in listed.items():
                match = ON_WIRE.fullmatch(name)
                every[match[1] if match else name] += one["calls"]  # no NFS: "MOUNTv3 MNT"
            found[wire] = {"": dict(every)}
    return dict(found)
