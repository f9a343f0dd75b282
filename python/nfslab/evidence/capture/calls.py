"""Every call of a capture as a point: time against latency.

The lens `points` of the core gives, for each of some groups of operations, all calls as byte
columns, or counts in cells with lists of single calls (crates/trace, lens `points`, says how both
are coded): LEB128 differences of times in steps, 16-bit words (12 bits of latency code, 4 flags),
zigzag LEB128 differences of frame numbers, and an operation's index.

A call is in one cloud: with the calls without a reply, else with those of its first mark, else
with its operation's. Calls without a reply have no latency: they stand at the top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.display.figures import Axis, Cloud, Figure, Heat, Points, Rule, View
from nfslab.display.numbers import count
from nfslab.evidence.capture.gaps import bands, gaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from nfslab._core import LatencyCodes, PanelRow, PointsContent
    from nfslab.captures.analysis import CaptureAnalysis

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

NS: Final = 1e9
CODE: Final = 0x0FFF
MARKS: Final = (
    ("retransmitted", 1 << 12, "cross"),
    ("error", 1 << 13, "diamond"),
    ("duplicate reply", 1 << 14, "rect"),
    ("answered before it was sent", 1 << 15, "rect"),
)
NO_REPLY: Final = "no reply"
LISTS: Final = ("slowest", "marked", "sample")
ROOM_DECADES: Final = 0.1
"""Above the largest latency, for the calls without a reply."""
CAPTION: Final = (
    "Each point is a call: when it was sent, and how long until the first byte of its reply. "
    "Shaded: stalls, pauses and losses."
)


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls in the order of time."""

    sent_s: Floats
    """From the first packet."""
    code: Ints
    """Of the latency."""
    flags: Ints
    frame: Ints | None
    operation: Ints | None
    """Index into the lens's operations; None: all are of the group's."""

    def pick(self, wanted: NDArray[np.bool_]) -> Calls:
        """Some of them."""
        return Calls(
            self.sent_s[wanted],
            self.code[wanted],
            self.flags[wanted],
            None if self.frame is None else self.frame[wanted],
            None if self.operation is None else self.operation[wanted],
        )


def calls_figures(
    capture: CaptureAnalysis, name: str, load: Callable[[], CaptureAnalysis], end_s: float
) -> list[Figure]:
    """One figure of all calls; of more than the core keeps, one of counts and one of the calls
    that stand out. None when the lens did not run, or saw no call."""
    section = capture.content.get("points")
    if not section or not section["panels"]:
        return []
    many = count(section["calls"])
    if section["kept"] == "all":
        view = View(lambda: _points(load(), ("",), end_s), caption=f"{many} calls.")
        return [Figure(f"{name}-calls", "Calls", CAPTION, [view], link=name)]
    density = section["density"]
    heat = [
        View(
            _heat_of(load, panel["name"], end_s),
            (panel["name"],),
            f"{count(panel['calls'])} calls.",
        )
        for panel in section["panels"]
    ]
    some = (
        "The slowest calls, those retransmitted, failed or without a reply, and a fair sample of 1 "
        f"in {count(density['sample_one_in'])} of all. Shaded: stalls, pauses and losses."
    )
    shown = sum(p["slowest"] + p["marked"] + p["sample"] for p in section["panels"])
    view = View(lambda: _points(load(), LISTS, end_s), caption=f"{count(shown)} of {many} calls.")
    counts = "How many calls were sent when, and how long they waited; calls without a reply are "
    counts += "in the other figure."
    return [
        Figure(f"{name}-calls", "Calls that stand out", some, [view], link=name),
        Figure(f"{name}-density", "Calls", counts, heat, choices=("Calls of",), link=name),
    ]


def panel_calls(capture: CaptureAnalysis, name: str) -> Calls:
    """All calls of one list: "READ", or "READ.slowest"."""
    section = capture.content["points"]
    prefix = f"points/{name}"
    words = np.frombuffer(capture.blobs[f"{prefix}.words"][1], "<u2").astype(np.int64)
    steps = np.cumsum(varints(capture.blobs[f"{prefix}.steps"][1]))
    offset_ns = section["origin_ns"] - capture.first_ns
    # Whole nanoseconds first: the sum is exact.
    sent_s = (steps * section["step_ns"] + offset_ns) / NS
    frame = operation = None
    if section["frames"] and (coded := capture.blobs.get(f"{prefix}.frames")) is not None:
        zigzag = varints(coded[1])
        frame = np.cumsum((zigzag >> 1) ^ -(zigzag & 1))
    if (coded := capture.blobs.get(f"{prefix}.operations")) is not None:
        operation = np.frombuffer(coded[1], np.uint8).astype(np.int64)
    return Calls(sent_s, words & CODE, words & ~CODE, frame, operation)


def varints(data: bytes) -> Ints:
    """LEB128 numbers."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    length = ends - starts + 1
    values = np.zeros(ends.size, dtype=np.int64)
    for k in range(int(length.max(initial=0))):
        here = length > k
        values[here] |= (octets[starts[here] + k].astype(np.int64) & 0x7F) << (7 * k)
    return values


@dataclass(frozen=True, slots=True)
class Scale:
    """What latency codes mean."""

    codes: LatencyCodes

    def edge_s(self, code: Any) -> Any:
        """Lower edge of a code."""
        low, high = np.log10(self.codes["low_ns"]), np.log10(self.codes["high_ns"])
        return 10 ** (low - 9 + (code - 1) * (high - low) / self.codes["steps"])

    def latency_s(self, code: Ints) -> Floats:
        """Middles of codes; the ends of the scale beyond it."""
        found: Floats = self.edge_s(code + 0.5)
        found[code == self.codes["below"]] = self.codes["low_ns"] / NS
        found[code == self.codes["above"]] = self.codes["high_ns"] / NS
        return found

    def domain_s(self, panels: Iterable[PanelRow]) -> tuple[float, float]:
        """Around all latencies, with room above for the calls without a reply."""
        spans = [panel["latency_ns"] for panel in panels if panel["latency_ns"] is not None]
        low = min((span["min"] for span in spans), default=self.codes["low_ns"])
        high = max((span["max"] for span in spans), default=self.codes["high_ns"])
        low = min(max(low, self.codes["low_ns"]), self.codes["high_ns"])
        high = max(min(high, self.codes["high_ns"]), low)
        return low / NS / 1.1, high / NS * 10 ** (2 * ROOM_DECADES)


def _points(capture: CaptureAnalysis, lists: Sequence[str], end_s: float) -> Points:
    section = capture.content["points"]
    scale = Scale(section["codes"])
    low_s, high_s = scale.domain_s(section["panels"])
    marked: dict[str, list[tuple[str, Calls]]] = {}
    clouds = []
    for panel in section["panels"]:
        name = panel["name"]
        rest = _of_lists(capture, name, lists)
        unanswered = rest.code == section["codes"]["unanswered"]
        marked.setdefault(NO_REPLY, []).append((name, rest.pick(unanswered)))
        rest = rest.pick(~unanswered)
        for mark, flag, _ in MARKS:
            has = (rest.flags & flag) > 0
            marked.setdefault(mark, []).append((name, rest.pick(has)))
            rest = rest.pick(~has)
        if rest.sent_s.size:
            clouds.append(_cloud(name, [(name, rest)], section, scale.latency_s(rest.code)))
    shapes: dict[str, Any] = {mark: shape for mark, _, shape in MARKS}
    top_s = high_s / 10**ROOM_DECADES
    for mark, parts in marked.items():
        code = np.concatenate([calls.code for _, calls in parts])
        if code.size:
            y = np.full(code.size, top_s) if mark == NO_REPLY else scale.latency_s(code)
            clouds.append(_cloud(mark, parts, section, y, shapes.get(mark, "triangle"), 7.0))
    return Points(
        Axis("time", "s", low=0.0, high=end_s),
        Axis("latency", "s", "log", low=low_s, high=high_s),
        clouds,
        bands=bands(gaps(capture)),
        rules=[Rule(top_s, "y", NO_REPLY)] if any(c.label == NO_REPLY for c in clouds) else (),
        drawn_of=section["calls"],
    )


def _of_lists(capture: CaptureAnalysis, name: str, lists: Sequence[str]) -> Calls:
    """The lists of one group together; a call that is in several counts once."""
    found = [panel_calls(capture, f"{name}.{kind}" if kind else name) for kind in lists]
    if len(found) == 1:
        return found[0]
    joined = Calls(
        np.concatenate([one.sent_s for one in found]),
        np.concatenate([one.code for one in found]),
        np.concatenate([one.flags for one in found]),
        _joined([one.frame for one in found]),
        _joined([one.operation for one in found]),
    )
    # Two calls of one group in one step with one latency code are rare, and look the same.
    keys = np.stack([joined.sent_s, joined.code + joined.flags])
    first = np.unique(keys, axis=1, return_index=True)[1]
    once = np.zeros(joined.code.size, dtype=np.bool_)
    once[first] = True
    return joined.pick(once)


def _joined(parts: Sequence[Ints | None]) -> Ints | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _cloud(
    label: str,
    parts: Sequence[tuple[str, Calls]],
    section: PointsContent,
    y: Floats,
    shape: Any = "circle",
    size: float = 3.0,
) -> Cloud:
    extra: dict[str, tuple[Any, str]] = {}
    frames = _joined([calls.frame for _, calls in parts])
    if frames is not None:
        extra["frame"] = (frames, "#")
    if len(parts) > 1 or parts[0][1].operation is not None:
        extra["operation"] = (
            [n for name, calls in parts for n in _names(name, calls, section)],
            "",
        )
    return Cloud(
        label, np.concatenate([calls.sent_s for _, calls in parts]), y,
        shape=shape, size=size, extra=extra,
    )  # fmt: skip


def _names(group: str, calls: Calls, section: PointsContent) -> list[str]:
    if calls.operation is None:
        return [group] * calls.code.size
    names = section["operations"]
    return [names[index] if index < len(names) else group for index in calls.operation.tolist()]


def _heat_of(
    load: Callable[[], CaptureAnalysis], name: str, end_s: float
) -> Callable[[], Heat | None]:
    return lambda: _heat(load(), name, end_s)


def _heat(capture: CaptureAnalysis, name: str, end_s: float) -> Heat:
    """Counts by time and latency of one group."""
    section = capture.content["points"]
    density, scale = section["density"], Scale(section["codes"])
    columns, rows = density["columns"], density["rows"]
    pairs = varints(capture.blobs[f"points/{name}.cells"][1]).reshape(-1, 2)
    flat = np.zeros(columns * rows, dtype=np.int64)
    # How many empty cells lie before each, then what it holds.
    flat[np.cumsum(pairs[:, 0] + 1) - 1] = pairs[:, 1]
    # The last two rows count the calls without a reply, and those retransmitted once more.
    cells = flat.reshape(columns, rows)[:, : rows - 2].T
    used = np.flatnonzero(cells.any(axis=0))
    wide = int(used[-1]) + 1 if used.size else 1
    tall = np.flatnonzero(cells.any(axis=1))
    low, high = (int(tall[0]), int(tall[-1]) + 1) if tall.size else (0, 1)
    first_s = (density["first_column_ns"] - capture.first_ns) / NS
    return Heat(
        Axis("time", "s", low=0.0, high=end_s),
        Axis("latency", "s", "log"),
        first_s + np.arange(wide + 1) * density["column_ns"] / NS,
        scale.edge_s(np.arange(low, high + 1) * density["codes_per_row"]),
        cells[low:high, :wide],
        "calls",
    )
