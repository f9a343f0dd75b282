"""The evidence `nfs_server` in reports: where a call's time goes, between client and server.

Needs both records of a run: `rpc` with every call, and `nfs_server`. By point over all runs: sums
of the parts are exact, the p99 is the median of the runs'. Then each run by operation.

What is left out is no random part (retransmitted calls are the slow ones): of how many calls the
figures are is said wherever not all are in them; below `SHARE_LEAST` no part is named the largest.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from nfslab.display.cells import count, latency, text
from nfslab.display.figures import Whole
from nfslab.display.numbers import ABSENT, percent, quantity
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, TableSpec
from nfslab.evidence.by_mount import by_mount
from nfslab.evidence.found import by_point, parts_of
from nfslab.evidence.latency_parts import NS, part_cells, part_columns, stacked, whole_of
from nfslab.evidence.nfs_server.breakdown import (
    ALL,
    BACK,
    CLIENT_TABLE,
    COMMON,
    INSTANTS,
    PARTS,
    SERVER_TABLE,
    THERE,
    WAYS_JOINED,
    BreakdownFacts,
    OperationBreakdown,
    read_breakdown,
)
from nfslab.evidence.slowest import left_out, slowest_of, slowest_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.display.figures import Figure
    from nfslab.display.sections import Shown
    from nfslab.evidence.base import Facts, Found, RunFacts, SealedRun

EXPLAINED: Final = (
    "RPC backlog: taken by the client until it is given to its kernel. Request transit: until the "
    "server has read its last byte (both kernels, the wire, a server busy elsewhere). Waiting: "
    "until the server begins with it. Server processing: until it is done. Sending: until the "
    "server gives its kernel the reply's last byte (a modelled delay or wire lies here). Reply "
    "transit: until the client has noticed the reply. The parts of each call sum to its time; "
    "calls side by side count with all of theirs. All calls of the timed part count, those "
    "that fill files, too."
)
COLOURS: Final = ("c8", "c1", "c5", "c3", "c4", "c6")
"""By part: the client is grey, transits are blue, the server's parts have colours of their own."""
CAPTION: Final = (
    "Shares of the summed time of the calls, from their being taken by the client to its noticing "
    "the reply; beside each bar the mean of the whole."
)
SHARE_LEAST: Final = 0.9
"""Of a run's calls that were taken apart."""
OPERATIONS_MOST: Final = 24
"""Bars of one run: those with most time; the table has all."""
TYPES: Final = {"target": "string", "xid": "uint32", "program": "uint32", "procedure": "uint32"}


class NfsServerEvidence(EvidenceKind[BreakdownFacts]):
    """Where a call's time goes."""

    kind: ClassVar[str] = "nfs_server"
    title: ClassVar[str] = "Where a call's time goes"
    tables: ClassVar[tuple[TableSpec, ...]] = tuple(
        TableSpec(
            table,
            (
                *(ColumnSpec(name, TYPES[name]) for name in COMMON),
                *(ColumnSpec(name, "uint64", "ns") for of, name in INSTANTS if of == table),
            ),
            host,
            "monotonic",
        )
        for table, host in ((CLIENT_TABLE, "client"), (SERVER_TABLE, "server"))
    )
    Facts: ClassVar[type[Facts]] = BreakdownFacts
    version: ClassVar[int] = 9
    json_key: ClassVar[str] = "latency_breakdown"

    def facts(self, run: SealedRun) -> BreakdownFacts | None:
        """The calls that are in both records."""
        return read_breakdown(run.folder)

    def content(self, found: Found[BreakdownFacts]) -> list[dict[str, Any]]:
        """Of each run its rows; parts by name, nanoseconds, shares 0 to 1."""
        return [
            {
                "run": run.run.run_id,
                "point": run.point,
                "block": run.block,
                "calls": run.facts.calls,
                "left_out": run.facts.left_out,
                "negative": run.facts.negative,
                "slowest": run.facts.slowest and run.facts.slowest.model_dump(),
                "operations": [_content(row) for row in run.facts.rows],
            }
            for run in found.runs
        ]

    def section(self, found: Found[BreakdownFacts]) -> Section | None:
        """Of one run by operation; of several by point first, then the runs."""
        problems = [
            f"{run.label}: no call could be taken apart. "
            + (" ".join(run.facts.notes) or "There was none in the timed part.")
            for run in found.runs
            if not run.facts.rows
        ]
        shown = replace(found, runs=[run for run in found.runs if run.facts.rows])
        parts, said = parts_of(shown, _part)
        said += left_out((run.label, run.facts.slowest_calls) for run in shown.runs)
        whole = Section(self.title, "call-parts-section", EXPLAINED, notes=said, problems=problems)
        slowest = slowest_of(shown, lambda facts: facts.slowest_calls)
        slow = [slowest_table(slowest, str)] if slowest else []
        if len(shown.runs) == 1:
            one = parts[0]
            return replace(whole, sentences=one.sentences, tables=[*one.tables, *slow],
                           figures=one.figures, notes=[*said, *one.notes])  # fmt: skip
        rows = _by_point(shown)
        if rows:
            also = [WAYS_JOINED] * any(row.ways_joined for row in rows)
            note = " ".join(filter(None, [_left_out(shown), *also]))
            table = replace(_points_table(rows), note=note)
            whole = replace(whole, tables=[table, *slow], figures=[_points_figure(rows)])
        return replace(whole, parts=parts)


class PointRow(NamedTuple):
    """All calls to one target, over the runs of a configuration."""

    label: str
    target: str
    runs: int
    calls: int
    sums_ns: list[float]
    """By part."""
    p99_ns: float
    """Median of the runs'."""

    @property
    def mean_ns(self) -> list[float]:
        """Of a call, by part."""
        return [total / self.calls for total in self.sums_ns]

    ways_joined: bool
    """In some run."""

    @property
    def share(self) -> list[float | None]:
        """Of the summed time, by part."""
        whole = sum(self.sums_ns)
        found = [total / whole if whole > 0 else None for total in self.sums_ns]
        if self.ways_joined:
            found[BACK] = None
        return found


def _by_point(found: Found[BreakdownFacts]) -> list[PointRow]:
    made = []
    for same in by_mount(found, lambda facts: (r for r in facts.rows if r.operation == ALL)):
        rows = [row.summary for row in same.runs]
        of_runs = [[mean * row.calls for mean in row.mean_ns] for row in rows]
        sums = [sum(parts) for parts in zip(*of_runs, strict=True)]
        if joined := any(row.share[BACK] is None for row in rows):
            sums[THERE], sums[BACK] = sums[THERE] + sums[BACK], 0.0
        made.append(
            PointRow(
                same.point,
                same.target,
                len(rows),
                sum(row.calls for row in rows),
                sums,
                median(row.whole_p99_ns for row in rows),
                joined,
            )
        )
    return made


def _left_out(found: Found[BreakdownFacts]) -> str:
    """Of how many calls the figures are, by point; empty: of all."""
    said = []
    for _, label, runs in by_point(found):
        calls, total = sum(run.facts.calls for run in runs), sum(run.facts.total for run in runs)
        if calls < total:
            said.append(f"{label}: {count(calls).text} of {count(total).text} calls")
    return f"Not all calls could be taken apart. {'; '.join(said)}." if said else ""


def _points_table(rows: Sequence[PointRow]) -> Table:
    return Table.of("Calls taken apart, by configuration", rows, [
        (Column("configuration", numeric=False), lambda row: text(row.label)),
        (Column("target", numeric=False), lambda row: text(row.target)),
        (Column("runs"), lambda row: count(row.runs)),
        (Column("calls"), lambda row: count(row.calls)),
        (Column("mean"), lambda row: latency(sum(row.mean_ns))),
        (part_columns(PARTS), lambda row: part_cells(row.mean_ns, row.share)),
        (Column("p99", hint="of the whole; the median of the runs'"),
         lambda row: latency(row.p99_ns)),
    ])  # fmt: skip


def _points_figure(rows: Sequence[PointRow]) -> Figure:
    several = len({row.target for row in rows}) > 1
    wholes = [
        Whole(
            f"{row.label} · {row.target}" if several else row.label,
            [mean / NS for mean in row.mean_ns],
            hint=f"{row.calls:,} calls of {row.runs} runs",
        )
        for row in rows
    ]
    parts = list(zip(PARTS, COLOURS, strict=True))
    title = "Where a call's time goes, by configuration"
    return stacked("call-parts", title, CAPTION, parts, wholes)


def _part(run: RunFacts[BreakdownFacts]) -> Section:
    """One run by operation."""
    facts = run.facts
    rows = facts.rows[:OPERATIONS_MOST]
    wholes = [whole_of(_name(row, facts), row.summary) for row in rows]
    title = "Where a call's time goes, by operation"
    parts = list(zip(PARTS, COLOURS, strict=True))
    return Section(
        run.label,
        sentences=sentences(facts),
        tables=[_table(facts)],
        figures=[stacked(f"call-parts-{run.run.run_id}", title, CAPTION, parts, wholes)],
        notes=facts.notes,
    )


def _name(row: OperationBreakdown, facts: BreakdownFacts) -> str:
    name = _operation(row, facts)
    return f"{name} · {row.target}" if facts.several else name


def _operation(row: OperationBreakdown, facts: BreakdownFacts) -> str:
    """Calls of which some were left out are not called all."""
    return "calls taken apart" if row.operation == ALL and facts.left_out else row.operation


def _table(facts: BreakdownFacts) -> Table:
    target: Shown[OperationBreakdown] = (
        Column("target", numeric=False), lambda row: text(row.target)
    )  # fmt: skip
    return Table.of("Calls by operation", facts.rows, [
        *[target] * facts.several,
        (Column("operation", numeric=False), lambda row: text(_operation(row, facts))),
        (Column("calls"), lambda row: count(row.summary.calls)),
        (Column("mean"), lambda row: latency(row.summary.whole_mean_ns)),
        (part_columns(PARTS), lambda row: part_cells(row.summary.mean_ns, row.summary.share)),
        (Column("p99", hint="of the whole"), lambda row: latency(row.summary.whole_p99_ns)),
        (Column("largest above p99", numeric=False, hint="and its share there"),
         lambda row: text(_slowest(row, facts.ways_joined))),
    ])  # fmt: skip


def _slowest(row: OperationBreakdown, ways_joined: bool) -> str:
    """ "waiting (81 %)": the largest part among the slowest calls."""
    if row.largest_slow is None:
        return ABSENT
    place, share = row.largest_slow
    return f"{_named(place, ways_joined)} ({percent(share)})"


def _named(place: int, ways_joined: bool) -> str:
    return "both transits" if ways_joined and place == THERE else PARTS[place]


def sentences(facts: BreakdownFacts) -> list[str]:
    """In what a call spends most, for each target: on average, and of its slowest calls."""
    found = []
    if facts.left_out:
        said = f"{count(facts.calls).text} of {count(facts.total).text} calls could be taken apart"
        if facts.calls < SHARE_LEAST * facts.total:
            return [f"{said}: too few to say where the time of all went."]
    for row in _wholes(facts.rows):
        if row.largest is None:
            continue
        place, share = row.largest
        of = f" of {row.target}" if facts.several else ""
        said = (
            f"A call{of} spends most in {_named(place, facts.ways_joined)}: {percent(share)}, "
            f"{quantity(row.summary.mean_ns[place], 'ns')} of "
            f"{quantity(row.summary.whole_mean_ns, 'ns')} on average"
        )
        if row.largest_slow is not None:
            slow, slow_share = row.largest_slow
            also = "too" if slow == place else f"it is {_named(slow, facts.ways_joined)}"
            said += f"; above p99 {also} ({percent(slow_share)})"
        found.append(said + ".")
    return found


def _wholes(rows: Iterable[OperationBreakdown]) -> list[OperationBreakdown]:
    """The row of all calls of each target: the first one."""
    firsts: dict[str, OperationBreakdown] = {}
    for row in rows:
        firsts.setdefault(row.target, row)
    return list(firsts.values())


def _content(row: OperationBreakdown) -> dict[str, Any]:
    one = row.summary
    parts = zip(PARTS, one.mean_ns, one.share, one.slow_share, strict=True)
    return {
        "target": row.target,
        "operation": row.operation,
        "calls": one.calls,
        "mean_ns": one.whole_mean_ns,
        "p50_ns": one.whole_p50_ns,
        "p99_ns": one.whole_p99_ns,
        "parts": {
            name: {"mean_ns": mean, "share": share, "slow_share": slow}
            for name, mean, share, slow in parts
        },
    }
