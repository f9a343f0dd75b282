"""What figures show besides single calls: load over time, latencies, network against server.

Nothing is estimated here: columns come from the core's lenses; counts of a bin become rates, and
what is zero all the time is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.captures.causes import told_as_one
from nfslab.display.figures import (
    Axis,
    Figure,
    Lines,
    Panel,
    Part,
    Rule,
    Series,
    Stacked,
    View,
    Whole,
)  # fmt: skip
from nfslab.display.numbers import count
from nfslab.evidence.capture.gaps import bands, gaps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab._core import OperationRow
    from nfslab.captures.analysis import CaptureAnalysis

NS: Final = 1e9
HISTOGRAMS_MOST: Final = 9
"""Operations with a panel of their own, the most frequent first; the table has all."""
NFS_PROGRAM: Final = 100_003


@dataclass(frozen=True, slots=True)
class _Spec:
    key: str
    title: str
    unit: str
    series: tuple[tuple[str, str, bool], ...]
    """(column, label, dashed)."""
    rates: bool = False
    """Counts of a bin that become rates."""
    counts: bool = False
    """Counts of a bin, drawn as steps."""
    always: bool = False
    """Drawn even if it is zero throughout: an idle line is an answer, too."""


_SPECS: Final = (
    _Spec(
        "calls", "Calls", "1/s",
        (("sent_calls", "sent", False), ("answered_calls", "answered", True)),
        rates=True, always=True,
    ),
    _Spec(
        "bytes", "File data", "B/s",
        (("read_bytes", "read", False), ("written_bytes", "written", False)), rates=True,
    ),
    _Spec(
        "messages", "RPC bytes", "B/s",
        (("sent_bytes", "calls sent", False), ("answered_bytes", "replies", True)), rates=True,
    ),
    _Spec(
        "queue", "Calls waiting for a reply", "1",
        (("queue_max", "max", True), ("queue_mean", "mean", False)), always=True,
    ),
    _Spec(
        "again", "Sent again, in each bin", "1",
        (
            ("retransmissions", "calls (RPC)", False),
            ("tcp_client_retransmitted_segments", "TCP segments of the client", False),
            ("tcp_server_retransmitted_segments", "TCP segments of the server", False),
            ("duplicate_replies", "duplicate replies", False),
            ("tcp_client_timeouts", "timeouts of the client's TCP", False),
            ("tcp_server_timeouts", "timeouts of the server's TCP", False),
        ),
        counts=True,
    ),
    _Spec(
        "flight", "Bytes in flight and window offered", "B",
        (
            ("tcp_client_in_flight_max_bytes", "client, max", False),
            ("tcp_server_in_flight_max_bytes", "server, max", False),
            ("tcp_client_window_min_bytes", "client's window, min", True),
            ("tcp_server_window_min_bytes", "server's window, min", True),
        ),
    ),
    _Spec(
        "slots", "Session slots in use (NFSv4.1)", "1",
        (("slots_max", "max", True), ("slots_mean", "mean", False)),
    ),
)  # fmt: skip


def rpcstat(
    capture: CaptureAnalysis, name: str, load: Callable[[], CaptureAnalysis], end_s: float
) -> Figure | None:
    """Load, queue, losses over time; None when the lens did not run."""
    section = capture.content.get("rpcstat")
    if not section or not section["bins"]:
        return None
    caption = (
        f"In bins of {section['bin_ns'] / NS:g} s. Shaded: stalls, pauses and losses. Dashed: "
        "replies, and extremes of a bin."
    )
    view = View(lambda: _over_time(load(), end_s))
    return Figure(f"{name}-rpcstat", "Load and losses over time", caption, [view], link=name)


def _over_time(capture: CaptureAnalysis, end_s: float) -> Lines | None:
    section = capture.content["rpcstat"]
    width_s = section["bin_ns"] / NS
    begin_s = (section["origin_ns"] - capture.first_ns) / NS
    middles = begin_s + (np.arange(section["bins"]) + 0.5) * width_s
    shaded = bands(gaps(capture))
    present = {column["name"] for column in section["columns"]}
    panels = []
    for spec in _SPECS:
        series = []
        for column, label, dashed in spec.series:
            if column not in present:
                continue
            values = capture.column(f"rpcstat/{column}").astype(np.float64)
            known = values[np.isfinite(values)]
            if not spec.always and not known.any():
                continue
            y = values / width_s if spec.rates else values
            draw: Any = "step" if spec.counts else "line"
            series.append(Series(label, middles, y, draw=draw, dash=dashed))
        if series:
            axis = Axis("", spec.unit, low=0.0)
            panels.append(Panel(spec.title, axis, series, bands=shaded, key=spec.key))
    return Lines(Axis("time", "s", low=0.0, high=end_s), panels) if panels else None


def latencies(captures: Sequence[CaptureAnalysis], name: str) -> Figure | None:
    """Histograms of the most frequent operations, on scales that all captures share."""
    found: dict[str, list[tuple[str, OperationRow]]] = {}
    for capture in captures:
        for row in capture.content["operations"]:
            if row["histogram"]:
                found.setdefault(_operation(row), []).append((capture.label, row))
    calls = {key: sum(_calls(row) for _, row in rows) for key, rows in found.items()}
    names = sorted(calls, key=lambda key: -calls[key])[:HISTOGRAMS_MOST]
    if not names:
        return None
    panels = [
        Panel(
            key,
            Axis("share of calls", "share", low=0.0),
            [_histogram(label if len(captures) > 1 else key, row) for label, row in found[key]],
            rules=_quantiles(found[key][0][1]) if len(captures) == 1 else (),
            key="latencies",
        )
        for key in names
    ]
    edges = [edge for key in names for _, row in found[key] for part in row["histogram"]
             for edge in part[:2]]  # fmt: skip
    x = Axis("latency", "s", "log", low=max(min(edges), 1) / NS, high=max(edges) / NS)
    left = len(calls) - len(names)
    more = f" {count(left)} more operations are in the table." if left else ""
    caption = f"Share of an operation's calls by latency, in the buckets of the histogram.{more}"
    return Figure.of(f"{name}-latencies", "Latencies", caption, Lines(x, panels, columns=3))


def _calls(row: OperationRow) -> int:
    return sum(part[2] for part in row["histogram"])


def _histogram(label: str, row: OperationRow) -> Series:
    total = _calls(row)
    x: list[float] = []
    y: list[float] = []
    for low, below, n in row["histogram"]:
        begin = max(low, 1) / NS
        if x and x[-1] == begin:
            y[-1] = n / total
        else:
            x.append(begin)
            y.append(n / total)
        x.append(max(below, 2) / NS)
        y.append(0.0)
    return Series(label, x, y, draw="held")


def _quantiles(row: OperationRow) -> list[Rule]:
    found = ((key, row["latency_ns"][key]) for key in ("p50", "p99"))
    return [Rule(value / NS, "x", key) for key, value in found if value]


SPLIT: Final = ("request", "network's round trip", "server", "reply")
"""Parts of a call's time as the core's lens `network` names them."""


def split(captures: Sequence[CaptureAnalysis], name: str) -> Figure | None:
    """Where the calls' time passed; None when no call could be split."""
    wholes = []
    for capture in captures:
        section = capture.content.get("network")
        for row in section["operations"] if section else ():
            label, hint = row["operation"], f"{count(row['calls'])} calls"
            if label == "all":
                partly = row["calls"] < capture.calls
                label = "all calls that could be split" if partly else "all calls"
                hint = f"{count(row['calls'])} of {count(capture.calls)} calls"
            parts = (row["request_ns"], row["network_ns"], row["server_ns"], row["reply_ns"])
            means = [(part["mean"] or 0.0) / NS for part in parts]
            if told_as_one(row):
                means[1:3] = [means[1] + means[2], 0.0]
                hint += ", network and server together"
            wholes.append(
                Whole(
                    f"{label} · {capture.label}" if len(captures) > 1 else label,
                    means,
                    hint=hint,
                )
            )
    if not wholes:
        return None
    wholes.sort(key=lambda whole: not whole.label.startswith("all "))
    drawing = Stacked(Axis("mean time of a call", "s"), [Part(label) for label in SPLIT], wholes)
    caption = "Mean time of calls over TCP, by where it passed."
    return Figure.of(f"{name}-split", "Network or server", caption, drawing)


def _operation(row: OperationRow) -> str:
    """ "READ" of NFSv3, "READ (v4)", "MOUNT MNT": the version where it matters."""
    name = row["operation"]
    if row["program"] == NFS_PROGRAM:
        return name if row["version"] != 4 else f"{name} (v4)"
    return f"{row['program_name'] or row['program']} {name}"
