"""Captures as text for the terminal: what they hold, what is slow and why, the tables.

The sentences and the gaps' names are those of the HTML page (`html.capture`), so that both
say the same. Nothing is computed here: every number is the core's. Long lists are cut, and
what is left out is said with where to find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.captures import anomalies, causes
from nfslab.captures.analysis import is_inner
from nfslab.captures.spelling import ABSENT, count, latency, operation, seconds, size
from nfslab.report import capture_load_text as load_text
from nfslab.report.text import date, printable, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison

    Row = Mapping[str, Any]
    Heading = Callable[[str], str]

QUANTILES = ("mean", "p50", "p99", "p999", "max")
NAMES = {"p50": "median", "p999": "p99.9"}
GAPS_SHOWN = 12
ANOMALIES_SHOWN = 12
ERRORS_SHOWN = 3

BY = {
    "client": ("clients", "clients", "client"),
    "server": ("clients", "servers", "server"),
    "user": ("clients", "users", "user"),
    "file": ("files", "list", "path"),
    "class": ("files", "classes", "class"),
}
"""What a table may be by: section, list in it, the field that names a row."""


def _plain(text: str) -> str:
    return text


def report(
    capture: CaptureAnalysis, *, by: Sequence[str] = (), top: int = 20, heading: Heading = _plain
) -> Iterator[str]:
    """The lines of one capture's report. `heading` marks headings (bold, on a terminal)."""
    from nfslab.report.html.capture import verdict
    from nfslab.report.html.capture.gaps import closer_looks, gaps

    found = gaps(capture)
    yield from summary(capture)
    yield ""
    for sentence in verdict.sentences(capture, found):
        yield f"* {printable(sentence)}"
    yield f"\n{heading('Operations')}"
    yield from operations(capture, top)
    if found:
        yield f"\n{heading('Stalls, pauses and losses')}"
        yield from _gaps(found)
    for title, lines in (
        ("Load", list(load_text.load(capture))),
        ("Access patterns", list(load_text.patterns(capture))),
        ("Network or server", list(load_text.split(capture, top))),
    ):
        if lines:
            yield f"\n{heading(title)}"
            yield from lines
    for what in by:
        yield f"\n{heading(f'By {what}')}"
        yield from breakdown(capture, what, top)
    told = list(_anomalies(capture))
    if told:
        yield f"\n{heading('About the capture')}"
        yield from told
    looks = closer_looks(capture)
    if looks:
        yield f"\n{heading('Closer looks')}"
        for look in looks:
            span = f"{look['from_s']:.3f} s to {look['to_s']:.3f} s"
            yield f"{look['what']}: {look['command'] or span}"


def summary(capture: CaptureAnalysis) -> Iterator[str]:
    """Packets, calls, duration, loss: the first lines."""
    content = capture.content
    first = content.get("first_ns")
    begun = f", from {date(first)}" if first is not None else ""
    yield (
        f"{printable(capture.label)}: {content['packets']:,} packets, "
        f"{size(content['bytes']) or '0 B'}, {seconds(capture.duration_ns)}{begun}"
    )
    lost = content.get("lost") or {}
    gone = (
        f"{size(lost['bytes']) or '0 B'} lost in {lost['gaps']:,} gaps"
        if lost.get("bytes") or lost.get("gaps")
        else _nothing_lost(capture)
    )
    skipped = content.get("skipped_bytes")
    if skipped:
        passed = f"{size(skipped)} of the input passed over, since no packet could be made out"
        gone = f"{passed}; {gone}" if lost.get("gaps") else passed
    dropped = content.get("kernel_drops")
    kernel = f", {dropped:,} packets dropped by the kernel that captured" if dropped else ""
    sides = content.get("clients") or {}
    between = ""
    if sides:
        between = (
            f" of {_number(sides['clients'], 'client')} to {_number(sides['servers'], 'server')}"
        )
    yield f"{capture.calls:,} calls{between}; {gone}{kernel}"


def _nothing_lost(capture: CaptureAnalysis) -> str:
    cut = "the snapshot length cut fronts of messages away"
    return cut if causes.fronts_cut(capture) else "nothing lost"


def _number(rows: Sequence[Row], noun: str) -> str:
    more = " or more" if any(row.get("other") for row in rows) else ""
    return f"{len(rows):,}{more} {noun}" + ("" if len(rows) == 1 else "s")


def operations(capture: CaptureAnalysis, top: int) -> Iterator[str]:
    """The per-operation table: operations inside COMPOUNDs below the row that counts those."""
    rows = capture.content["operations"]
    header = ["", "calls", "no reply", "sent again", "read", "written"]
    header += [NAMES.get(name, name) for name in QUANTILES] + ["errors"]
    shown = _ordered(rows)
    cells = [
        [
            f"  {row['operation']}" if is_inner(row) else operation(row),
            count(row["calls"]),
            count(row["unanswered"]),
            count(row["retransmissions"]),
            size(row["bytes_read"]),
            size(row["bytes_written"]),
            *(latency((row["latency_ns"] or {}).get(name)) for name in QUANTILES),
            _errors(row["errors"]),
        ]
        for row in shown[:top]
    ]
    yield table(header, cells, right=range(1, len(header) - 1))
    yield from _left_out(len(shown) - len(cells), "operations")
    if any(is_inner(row) for row in shown[:top]):
        yield "(indented: inside COMPOUNDs; latencies are those of the COMPOUNDs that they name)"


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """By calls; the operations of COMPOUNDs stay behind the row that counts these."""
    weights: dict[tuple[Any, Any], int] = {}
    for row in rows:
        if is_inner(row):
            continue
        key = (row["program"], row["version"])
        weights[key] = max(weights.get(key, 0), row["calls"])

    def place(row: Row) -> tuple[int, bool, int]:
        inner = is_inner(row)
        compounds = inner or "COMPOUND" in row["operation"]
        key = (row["program"], row["version"])
        return (-(weights.get(key, 0) if compounds else row["calls"]), inner, -row["calls"])

    return sorted(rows, key=place)


def _errors(errors: Mapping[str, int]) -> str:
    ordered = sorted(errors.items(), key=lambda item: -item[1])
    told = ", ".join(f"{name} {n:,}" for name, n in ordered[:ERRORS_SHOWN])
    left = len(ordered) - ERRORS_SHOWN
    return f"{told}, {left} more" if left > 0 else told


def _gaps(found: Sequence[Row]) -> Iterator[str]:
    longest = sorted(found, key=lambda gap: -gap["length_ns"])[:GAPS_SHOWN]
    shown = sorted(longest, key=lambda gap: gap["from_s"])
    rows = [
        [
            gap["key"],
            gap["kind_name"],
            f"{gap['from_s']:.3f} s",
            seconds(gap["length_ns"]),
            count(gap["outstanding_peak"]),
            count(gap["retransmissions"]),
            f"{gap['frame_before']:,}-"
            + (f"{gap['frame_after']:,}" if gap["frame_after"] else "end"),
        ]
        for gap in shown
    ]
    header = ["", "what", "at", "length", "waiting", "sent again", "frames"]
    yield table(header, rows, right=(2, 3, 4, 5))
    yield from _left_out(len(found) - len(rows), "shorter ones")


def breakdown(capture: CaptureAnalysis, what: str, top: int) -> Iterator[str]:
    """The table by client, server, user, file or class of file."""
    section, name, field = BY[what]
    found = capture.content.get(section) or {}
    rows: Sequence[Row] = found.get(name) or []
    if what == "file":
        rows = [rows[place] for place in found.get("by_time", range(len(rows)))]
    else:
        rows = sorted(rows, key=lambda row: -row["calls"])
    header = [what, "calls", "no reply", "sent again", "read", "written"]
    header += ["waited in all", "mean", "p99", "max", "errors"]
    cells = []
    for row in rows[:top]:
        found_ns = row.get("latency_ns") or {}
        cells.append(
            [
                _name(row, field),
                count(row["calls"]),
                count(row["unanswered"]),
                count(row["retransmissions"]),
                size(row["bytes_read"]),
                size(row["bytes_written"]),
                seconds(row["total_latency_ns"] or 0),
                *(latency(found_ns.get(name)) for name in ("mean", "p99", "max")),
                _errors(row.get("errors_by_status") or {}) or count(row["errors"]),
            ]
        )
    if not cells:
        yield "(none)"
        return
    yield table(header, cells, right=range(1, len(header) - 1))
    left = len(rows) - len(cells)
    if what == "file":
        left = found.get("files", len(rows)) - len(cells)
    yield from _left_out(left, {"class": "classes"}.get(what, f"{what}s"))


def _name(row: Row, field: str) -> str:
    value = row.get(field)
    if value is not None:
        return printable(str(value))
    if row.get("other"):
        return "(all others)"
    if field == "user":
        return "(none stated)"
    handle = row.get("file_handle")
    return f"handle {handle}" if handle else ABSENT


def _anomalies(capture: CaptureAnalysis) -> Iterator[str]:
    """What is odd, and what to do about it; notes only as far as there is room."""
    found = anomalies.counted(capture.content)
    for item in found[:ANOMALIES_SHOWN]:
        advice = f"\n  {item.meaning.advice}" if item.meaning.advice else ""
        yield f"{item.meaning.weight:<8}{anomalies.sentence(item)}{advice}"
    yield from _left_out(len(found) - ANOMALIES_SHOWN, "kinds of oddities")


def _left_out(number: int, what: str) -> Iterator[str]:
    if number > 0:
        yield f"({number:,} more {what}: --top N, or --json for all)"


def compared(
    captures: Sequence[CaptureAnalysis], found: CaptureComparison, heading: Heading = _plain
) -> Iterator[str]:
    """The lines of a comparison: every capture against the first."""
    from nfslab.captures.comparison import METHOD
    from nfslab.report.text import change_interval, number, p_value, ratio, words

    for index in range(1, len(captures)):
        yield heading(f"{printable(captures[index].label)} against {printable(captures[0].label)}")
        rows = []
        for figure in found.figures:
            if figure.capture != index:
                continue
            result = figure.result
            shown = latency if figure.measure.unit == "ns" else number
            rows.append(
                [
                    figure.label,
                    figure.measure.name,
                    f"{result.n_base}, {result.n_new}" if figure.blocks else "-",
                    shown(result.base),
                    shown(result.new),
                    f"{ratio(result.ratio)} times" if result.ratio is not None else ABSENT,
                    change_interval(result),
                    p_value(result.p_adjusted),
                    words(result),
                ]
            )
        if not rows:
            yield "no operation is in both"
            continue
        header = ["", "", "blocks", "base", "new", "new/base", "interval", "p (Holm)", "words"]
        yield table(header, rows, right=(3, 4, 5))
        yield ""
    lengths = ", ".join(
        f"{n} of {seconds(width)}" for n, width in zip(found.blocks, found.widths_ns, strict=True)
    )
    yield f"blocks: {lengths}. {METHOD}"
    for note in found.notes:
        yield f"note: {note}"
