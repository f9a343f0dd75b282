"""Where a call's time goes, for all outputs: which runs are shown, in words and as rows of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.evidence.nfs_server.breakdown import PARTS, has_breakdown, read_breakdown
from nfslab.report.shown_runs import RUNS_MOST, read_shown
from nfslab.report.text import ABSENT, NS_PER_MS, milliseconds, number, percent, table

if TYPE_CHECKING:
    from nfslab.evidence.nfs_server.breakdown import LatencyBreakdown, OperationBreakdown
    from nfslab.report.model import Analysis
    from nfslab.report.shown_runs import ShownRuns

EXPLAINED = (
    "Client queue: taken by the client until it is given to its kernel. Way there: until the "
    "server has read its last byte (both kernels, the wire, a server busy elsewhere). Waiting: "
    "until the server begins with it. Service: until it is done. Sending: until the server gives "
    "its kernel the reply's last byte (a modelled delay or wire lies here). Way back: until the "
    "client has noticed the reply. The parts of each call sum to its time."
)


def read_parts(analysis: Analysis, most: int = RUNS_MOST) -> ShownRuns[LatencyBreakdown]:
    """The calls of an experiment's counted runs, as many runs as may be."""
    return read_shown(analysis, has_breakdown, read_breakdown, most)


def sentences(parts: LatencyBreakdown) -> list[str]:
    """What is largest, for each target: of all its time, and in its slowest calls."""
    several = len({row.target for row in parts.rows}) > 1
    found = []
    for row in parts.rows[:1] if not several else _wholes(parts):
        if row.largest is None:
            continue
        place, share = row.largest
        of = f" of {row.target}" if several else ""
        text = (
            f"The largest part of the calls' time{of} is {PARTS[place]}: {percent(share)}, "
            f"{milliseconds(row.summary.mean_ns[place])} of "
            f"{milliseconds(row.summary.whole_mean_ns)} on average"
        )
        if row.largest_slow is not None:
            slow, slow_share = row.largest_slow
            also = "too" if slow == place else f"it is {PARTS[slow]}"
            text += f"; in the slowest 1 % {also} ({percent(slow_share)})"
        found.append(text + ".")
    return found


def _wholes(parts: LatencyBreakdown) -> list[OperationBreakdown]:
    """The row of all calls of each target: the first one."""
    firsts: dict[str, OperationBreakdown] = {}
    for row in parts.rows:
        firsts.setdefault(row.target, row)
    return list(firsts.values())


HEADER = ("target", "operation", "calls", "mean ms", *PARTS, "p99 ms", "largest in the slowest 1 %")
NUMBERS = tuple(range(2, 2 + 2 + len(PARTS) + 1))
"""Columns of numbers."""


def text_row(row: OperationBreakdown) -> list[str]:
    """One operation as texts, below `HEADER`; parts as shares."""
    one = row.summary
    return [
        row.target,
        row.operation,
        f"{one.calls:,}",
        number(one.whole_mean_ns / NS_PER_MS),
        *map(percent, one.share),
        number(one.whole_p99_ns / NS_PER_MS),
        slowest(row),
    ]


def text_lines(parts: LatencyBreakdown) -> list[str]:
    """A run's calls on a terminal: what it says, then a row an operation."""
    rows = [text_row(row) for row in parts.rows]
    shown = table(HEADER, rows, right=NUMBERS) if rows else "no call is in both records"
    return [*sentences(parts), *parts.notes(), shown]


def slowest(row: OperationBreakdown) -> str:
    """ "waiting (81 %)": the largest part among the slowest calls."""
    if row.largest_slow is None:
        return ABSENT
    place, share = row.largest_slow
    return f"{PARTS[place]} ({percent(share)})"
