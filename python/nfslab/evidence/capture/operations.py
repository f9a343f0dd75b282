"""One capture's tables: operations, gaps, load; those of `patterns` and `places` beside.

Only wording and order happen here; every number is the core's. A lens that did not run has no
table, and a field that a lens does not give is a dash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.captures import causes, spelling
from nfslab.captures.analysis import is_inner
from nfslab.display import numbers
from nfslab.display.cells import count, interval, latency, quantity, size, text
from nfslab.display.sections import Cell, Column, Table
from nfslab.statistics.effect_text import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab._core import OperationRow, TcpTotals
    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison
    from nfslab.display.sections import Tone
    from nfslab.evidence.capture.gaps import Gap

Row = list[Cell]
QUANTILES = ("min", "mean", "p50", "p90", "p99", "p999", "max")
HEADINGS = {"p999": "p99.9"}


def operations(analysis: CaptureAnalysis) -> Table:
    """The per-operation table."""
    rows = analysis.content["operations"]
    columns = [
        Column("operation", False),
        Column("calls"),
        Column("answered"),
        Column("without reply"),
        Column("sent again", hint="sends after the first, of RPC; TCP's own are not counted here"),
        Column("duplicate replies"),
        Column("errors", False, "by status; NFS3ERR_NOENT and the like are no fault"),
        Column("read"),
        Column("written"),
        *(Column(HEADINGS.get(q, q)) for q in QUANTILES),
    ]
    error = max((row["quantile_relative_error"] for row in rows), default=0.0)
    inner = any(is_inner(row) for row in rows)
    note = (
        "Latency: from the first byte of the first send to the first byte of the first reply. "
        "Least, mean and largest are exact, quantiles within "
        f"{error * 100:.2g} % (nearest rank)."
    )
    if inner:
        note += (
            " Rows under COMPOUND count the operations inside COMPOUNDs; their latencies are "
            "those of the COMPOUNDs that they name."
        )
    return Table("Operations", columns, [_operation(row) for row in ordered(rows)], note)


def ordered(rows: Sequence[OperationRow]) -> list[OperationRow]:
    """By calls; operations of COMPOUNDs stay behind the row that counts these."""
    weights: dict[tuple[int | None, int | None], int] = {}
    for row in rows:
        if not is_inner(row):
            key = (row["program"], row["version"])
            weights[key] = max(weights.get(key, 0), row["calls"])

    def place(row: OperationRow) -> tuple[int, bool, int]:
        inner = is_inner(row)
        compounds = inner or "COMPOUND" in row["operation"]
        key = (row["program"], row["version"])
        return (-(weights.get(key, 0) if compounds else row["calls"]), inner, -row["calls"])

    return sorted(rows, key=place)


def _operation(row: OperationRow) -> Row:
    errors = sorted(row["errors"].items(), key=lambda item: -item[1])
    told = ", ".join(f"{name} {n:,}" for name, n in errors)
    name = spelling.operation(row)
    return [
        Cell(f"· {name}" if is_inner(row) else name, name),
        count(row["calls"]),
        count(row["answered"]),
        count(row["unanswered"], "severe"),
        count(row["retransmissions"], "severe"),
        count(row["duplicate_replies"], "severe"),
        text(told or ""),
        size(row["bytes_read"]),
        size(row["bytes_written"]),
        *(latency(row["latency_ns"][q]) for q in QUANTILES),
    ]


def unanswered_table(analysis: CaptureAnalysis) -> Table | None:
    """Calls that had no reply, those that waited longest first; however many answered ones were
    slow."""
    waiting = causes.unanswered(analysis)
    if not waiting:
        return None
    columns = [
        Column("call", False),
        Column("client", False),
        Column("server", False),
        Column("waited", hint="until the capture ended"),
        Column("sends"),
        Column("frame"),
    ]
    rows = [
        [
            text(call["kind"]),
            text(call["client"]),
            text(call["server"]),
            latency(call["waited_ns"]),
            count(call["sends"]),
            text(f"{call['frame']:,}"),
        ]
        for call in waiting
    ]
    return Table("Calls never answered", columns, rows)


def gap_table(found: Sequence[Gap], figure: str) -> Table | None:
    """Stalls, pauses and losses, in the order of time; `figure` can be zoomed to each."""
    if not found:
        return None
    columns = [
        Column("", False),
        Column("what", False),
        Column("begins, s"),
        Column("length"),
        Column("at most", hint="since the last reply before it: the stop cannot be longer"),
        Column("waiting", hint="calls outstanding, at most"),
        Column("sent again", hint="RPC retransmissions during it"),
        Column("TCP again"),
        Column("frames", False, "the frame before it and the frame that ended it"),
        Column("evidence", False),
    ]
    rows = []
    for gap in found:
        frames = f"{gap['frame_before']:,} to " + (
            f"{gap['frame_after']:,}" if gap["frame_after"] else "the end"
        )
        rows.append(
            [
                text(gap["key"]),
                text(gap["kind_name"]),
                Cell(f"{gap['from_s']:.6f}", span(gap["from_s"], gap["to_s"])),
                latency(gap["length_ns"]),
                latency(gap["not_longer_than_ns"]),
                count(gap["outstanding_peak"]),
                count(gap["retransmissions"]),
                count(gap["tcp_retransmissions"]),
                text(frames),
                text(gap["evidence"]),
            ]
        )
    return Table("Stalls, pauses and losses", columns, rows, look=(2, figure))


def look_table(analysis: CaptureAnalysis, figure: str) -> Table | None:
    """Stretches that are worth a closer look, to which a figure can be zoomed."""
    section = analysis.content.get("stalls")
    rows = []
    for look in section["closer_look"] if section else ():
        from_s, to_s = look["from_ns"] / 1e9, look["to_ns"] / 1e9
        cell = Cell(f"{from_s:.3f} s to {to_s:.3f} s", span(from_s, to_s))
        rows.append([text(look["what"]), cell])
    columns = [Column("stretch", False), Column("from first packet", False)]
    return Table("Closer looks", columns, rows, look=(1, figure)) if rows else None


def span(from_s: float, to_s: float) -> str:
    """A stretch as figures are zoomed to it; a tenth of its length around it."""
    room_s = (to_s - from_s) / 10
    return f"{max(0.0, from_s - room_s):.6f}..{to_s + room_s:.6f}"


def load_table(analysis: CaptureAnalysis) -> Table | None:
    """Throughput, calls outstanding, what TCP had to do: totals and extremes."""
    section = analysis.content.get("rpcstat")
    if not section or not analysis.looked_at_ns:
        return None
    totals, queue = section["totals"], section["queue"]
    per_s = 1e9 / analysis.looked_at_ns
    rows = [
        [text("calls sent"), quantity(totals["calls"] * per_s, "1/s")],
        [text("calls answered"), quantity(totals["answered"] * per_s, "1/s")],
        [text("read"), quantity(totals["read_bytes"] * per_s, "B/s")],
        [text("written"), quantity(totals["written_bytes"] * per_s, "B/s")],
        [text("calls outstanding, mean"), quantity(queue["mean"], "1")],
        [text("calls outstanding, most"), count(queue["max"])],
    ]
    if queue["slots_max"]:
        rows.append([text("NFSv4.1 slots in use, most"), count(queue["slots_max"])])
    rows += _tcp_rows("client to server", totals["tcp"]["client"])
    rows += _tcp_rows("server to client", totals["tcp"]["server"])
    return Table("Load", [Column("", False), Column("")], rows)


def _tcp_rows(what: str, tcp: TcpTotals) -> list[Row]:
    if not tcp["segments"]:
        return []
    rows = [[text(f"TCP {what}: bytes in flight, most"), size(tcp["in_flight_max_bytes"])]]
    if tcp["window_min_bytes"] is not None:
        rows.append([text(f"TCP {what}: window, least"), size(tcp["window_min_bytes"])])
    for times, name in (
        (tcp["retransmitted_segments"], "segments sent again"),
        (tcp["timeouts"], "timeouts"),
        (tcp["out_of_order"], "segments out of order"),
        (tcp["zero_windows"], "zero windows"),
    ):
        if times:
            rows.append([text(f"TCP {what}: {name}"), count(times, "warning")])
    return rows


COMPARED = (
    Column("operation", False),
    Column("figure", False),
    Column("capture", False),
    Column("blocks"),
    Column("before"),
    Column("after"),
    Column("ratio"),
    Column("interval"),
    Column("p adjusted"),
    Column("in words", False),
)
"""Headings of the comparison of captures."""
SENSES: Final[dict[str, Tone]] = {"better": "good", "worse": "severe"}


def comparison(found: CaptureComparison | None, labels: Sequence[str]) -> Table | None:
    """Each capture against the first."""
    if found is None or not found.figures:
        return None
    from nfslab.captures.comparison import METHOD
    from nfslab.results.comparison import sense_of

    rows = []
    for figure in found.figures:
        result, unit = figure.result, figure.measure.unit
        spread = result.interval
        sense: Tone = SENSES.get(sense_of(result), "")
        rows.append(
            [
                text(figure.label),
                text(figure.measure.name),
                text(labels[figure.capture]),
                Cell(
                    f"{result.n_base}, {result.n_new}" if figure.blocks else numbers.ABSENT,
                    result.n_new,
                ),
                quantity(result.base, unit),
                quantity(result.new, unit),
                Cell(
                    numbers.ABSENT if result.ratio is None else f"{numbers.ratio(result.ratio)} ×",
                    "" if result.ratio is None else result.ratio,
                ),
                interval(spread.low, spread.high) if spread else text(None),
                Cell(
                    numbers.p_value(result.p_adjusted),
                    "" if result.p_adjusted is None else result.p_adjusted,
                ),
                text(words(result), sense),
            ]
        )
    blocks = ", ".join(
        f"{n} of {numbers.quantity(width, 'ns')}"
        for n, width in zip(found.blocks, found.widths_ns, strict=True)
    )
    note = f"Against {labels[0]}. Blocks: {blocks}. {METHOD}"
    return Table("", COMPARED, rows, note)
