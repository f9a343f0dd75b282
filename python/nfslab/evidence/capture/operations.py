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
    from collections.abc import Callable, Sequence

    from nfslab._core import OperationRow, TcpTotals
    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison, ComparedFigure
    from nfslab.display.sections import Tone
    from nfslab.evidence.capture.gaps import Gap

Row = list[Cell]
QUANTILES = ("min", "mean", "p50", "p90", "p99", "p999", "max")
HEADINGS = {"p999": "p99.9"}


def operations(analysis: CaptureAnalysis) -> Table:
    """The per-operation table."""
    rows = analysis.content["operations"]
    error = max((row["quantile_relative_error"] for row in rows), default=0.0)
    inner = any(is_inner(row) for row in rows)
    note = (
        "Latency: from the first byte of the first send to the first byte of the first reply. "
        "Min, mean and max are exact, quantiles within "
        f"{error * 100:.2g} % (nearest rank)."
    )
    if inner:
        note += (
            " Rows under COMPOUND count the operations inside COMPOUNDs; their latencies are "
            "those of the COMPOUNDs that they name."
        )
    again = "sends after the first, of RPC; TCP's own are not counted here"
    return Table.of("Operations", ordered(rows), [
        (Column("operation", False), _name),
        (Column("calls"), lambda row: count(row["calls"])),
        (Column("answered"), lambda row: count(row["answered"])),
        (Column("without reply"), lambda row: count(row["unanswered"], "severe")),
        (Column("retransmitted", hint=again), lambda row: count(row["retransmissions"], "severe")),
        (Column("duplicate replies"), lambda row: count(row["duplicate_replies"], "severe")),
        (Column("errors", False, "by status; NFS3ERR_NOENT and the like are no fault"), _errors),
        (Column("read"), lambda row: size(row["bytes_read"])),
        (Column("written"), lambda row: size(row["bytes_written"])),
        ([Column(HEADINGS.get(q, q)) for q in QUANTILES],
         lambda row: [latency(row["latency_ns"][q]) for q in QUANTILES]),
    ], note=note)  # fmt: skip


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


def _name(row: OperationRow) -> Cell:
    name = spelling.operation(row)
    return Cell(f"· {name}" if is_inner(row) else name, name)


def _errors(row: OperationRow) -> Cell:
    errors = sorted(row["errors"].items(), key=lambda item: -item[1])
    return text(", ".join(f"{name} {n:,}" for name, n in errors))


def unanswered_table(analysis: CaptureAnalysis) -> Table | None:
    """Calls that had no reply, those that waited longest first; however many answered ones were
    slow."""
    waiting = causes.unanswered(analysis)
    if not waiting:
        return None
    return Table.of("Calls never answered", waiting, [
        (Column("call", False), lambda call: text(call["kind"])),
        (Column("client", False), lambda call: text(call["client"])),
        (Column("server", False), lambda call: text(call["server"])),
        (Column("waited", hint="until the capture ended"), lambda call: latency(call["waited_ns"])),
        (Column("sends"), lambda call: count(call["sends"])),
        (Column("frame"), lambda call: text(f"{call['frame']:,}")),
    ])  # fmt: skip


def gap_table(found: Sequence[Gap], figure: str) -> Table | None:
    """Stalls, pauses and losses, in the order of time; `figure` can be zoomed to each."""
    if not found:
        return None
    longest = "since the last reply before it: the stop cannot be longer"
    return Table.of("Stalls, pauses and losses", found, [
        (Column("", False), lambda gap: text(gap["key"])),
        (Column("what", False), lambda gap: text(gap["kind_name"])),
        (Column("begins, s"),
         lambda gap: Cell(f"{gap['from_s']:.6f}", span(gap["from_s"], gap["to_s"]))),
        (Column("length"), lambda gap: latency(gap["length_ns"])),
        (Column("at most", hint=longest), lambda gap: latency(gap["not_longer_than_ns"])),
        (Column("waiting", hint="calls in flight, at most"),
         lambda gap: count(gap["outstanding_peak"])),
        (Column("retransmitted", hint="RPC retransmissions during it"),
         lambda gap: count(gap["retransmissions"])),
        (Column("TCP again"), lambda gap: count(gap["tcp_retransmissions"])),
        (Column("frames", False, "the frame before it and the frame that ended it"),
         lambda gap: text(f"{gap['frame_before']:,} to "
                          + (f"{gap['frame_after']:,}" if gap["frame_after"] else "the end"))),
        (Column("evidence", False), lambda gap: text(gap["evidence"])),
    ], look=(2, figure))  # fmt: skip


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
    """Throughput, calls in flight, what TCP had to do: totals and extremes."""
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
        [text("calls in flight, mean"), quantity(queue["mean"], "1")],
        [text("calls in flight, max"), count(queue["max"])],
    ]
    if queue["slots_max"]:
        rows.append([text("NFSv4.1 slots in use, max"), count(queue["slots_max"])])
    rows += _tcp_rows("client to server", totals["tcp"]["client"])
    rows += _tcp_rows("server to client", totals["tcp"]["server"])
    return Table("Load", [Column("", False), Column("")], rows)


def _tcp_rows(what: str, tcp: TcpTotals) -> list[Row]:
    if not tcp["segments"]:
        return []
    rows = [[text(f"TCP {what}: bytes in flight, max"), size(tcp["in_flight_max_bytes"])]]
    if tcp["window_min_bytes"] is not None:
        rows.append([text(f"TCP {what}: window, min"), size(tcp["window_min_bytes"])])
    for times, name in (
        (tcp["retransmitted_segments"], "segments retransmitted"),
        (tcp["timeouts"], "timeouts"),
        (tcp["out_of_order"], "segments out of order"),
        (tcp["zero_windows"], "zero windows"),
    ):
        if times:
            rows.append([text(f"TCP {what}: {name}"), count(times, "warning")])
    return rows


SENSES: Final[dict[str, Tone]] = {"better": "good", "worse": "severe"}


def comparison(found: CaptureComparison | None, labels: Sequence[str]) -> Table | None:
    """Each capture against the first."""
    if found is None or not found.figures:
        return None
    from nfslab.captures.comparison import METHOD
    from nfslab.results.comparison import sense_of

    blocks = ", ".join(
        f"{n} of {numbers.quantity(width, 'ns')}"
        for n, width in zip(found.blocks, found.widths_ns, strict=True)
    )
    note = f"Against {labels[0]}. Blocks: {blocks}. {METHOD}"
    return Table.of("", found.figures, [
        (Column("operation", False), lambda one: text(one.label)),
        (Column("figure", False), lambda one: text(one.measure.name)),
        (Column("capture", False), lambda one: text(labels[one.capture])),
        (Column("blocks"), _blocks),
        (Column("before"), lambda one: quantity(one.result.base, one.measure.unit)),
        (Column("after"), lambda one: quantity(one.result.new, one.measure.unit)),
        (Column("ratio"), lambda one: _known(one.result.ratio, lambda r: f"{numbers.ratio(r)} ×")),
        (Column("interval"), _interval),
        (Column("p adjusted"), lambda one: _known(one.result.p_adjusted, numbers.p_value)),
        (Column("result", False),
         lambda one: text(words(one.result), SENSES.get(sense_of(one.result), ""))),
    ], note=note)  # fmt: skip


def _blocks(one: ComparedFigure) -> Cell:
    n = f"{one.result.n_base}, {one.result.n_new}"
    return Cell(n if one.blocks else numbers.ABSENT, one.result.n_new)


def _interval(one: ComparedFigure) -> Cell:
    spread = one.result.interval
    return interval(spread.low, spread.high) if spread else text(None)


def _known(value: float | None, shown: Callable[[float], str]) -> Cell:
    return Cell(numbers.ABSENT, "") if value is None else Cell(shown(value), value)
