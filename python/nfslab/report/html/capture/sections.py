"""One capture's tables: operations, gaps, clients, files, access patterns, network.

Only wording and order happen here; every number is the core's. A lens that did not run has no
table, and a field that a lens does not give is a dash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.captures import spelling
from nfslab.captures.analysis import is_inner
from nfslab.report.html import wording
from nfslab.report.html.capture import patterns, places
from nfslab.report.html.capture.cells import (
    Cell,
    Column,
    Table,
    count,
    instant,
    latency,
    quantity,
    size,
    text,
)
from nfslab.results.comparison import sense_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison

Row = list[Cell]
QUANTILES = ("min", "mean", "p50", "p90", "p99", "p999", "max")
HEADINGS = {"p999": "p99.9"}


def operations(analysis: CaptureAnalysis) -> Table:
    """The per-operation table."""
    rows = analysis.content.get("operations", [])
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
    errors = [max((r["quantile_relative_error"] for r in rows), default=0.0)] if rows else [0.0]
    inner = any(is_inner(row) for row in rows)
    note = (
        "Latency: from the first byte of the first send to the first byte of the first reply. "
        "Least, mean and largest are exact, quantiles within "
        f"{errors[0] * 100:.2g} % (nearest rank)."
    )
    if inner:
        note += (
            " Rows under COMPOUND count the operations inside COMPOUNDs; their latencies are "
            "those of the COMPOUNDs that they name."
        )
    return Table(
        "Operations", columns, [_operation(row) for row in rows], note, anchor="operations"
    )


def _operation(row: Mapping[str, Any]) -> Row:
    found = row["latency_ns"] or {}
    errors = sorted(row["errors"].items(), key=lambda item: -item[1])
    told = ", ".join(f"{name} {n:,}" for name, n in errors)
    name = spelling.operation(row)
    return [
        Cell(f"· {name}" if is_inner(row) else name, name, "nowrap"),
        count(row["calls"]),
        count(row["answered"]),
        count(row["unanswered"], "bad"),
        count(row["retransmissions"], "bad"),
        count(row["duplicate_replies"], "bad"),
        text(told or ""),
        size(row["bytes_read"]),
        size(row["bytes_written"]),
        *(latency(found.get(q)) for q in QUANTILES),
    ]


def gap_table(found: Sequence[Mapping[str, Any]]) -> Table | None:
    """Stalls, pauses and losses, in the order of time."""
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
        Column("", False),
    ]
    rows = []
    for gap in found:
        frames = f"{gap['frame_before']:,} to " + (
            f"{gap['frame_after']:,}" if gap["frame_after"] else "the end"
        )
        rows.append(
            [
                text(gap["key"], "word"),
                text(gap["kind_name"], f"gap {gap['kind']}"),
                instant(gap["from_s"]),
                latency(gap["length_ns"]),
                latency(gap["not_longer_than_ns"]),
                count(gap["outstanding_peak"]),
                count(gap["retransmissions"]),
                count(gap["tcp_retransmissions"]),
                text(frames, "nowrap"),
                text(gap["evidence"]),
                Cell("closer", style="closer", hint=f"{gap['from_s']:.6f} {gap['to_s']:.6f}"),
            ]
        )
    return Table("Stalls, pauses and losses", columns, rows, anchor="gaps")


def more(analysis: CaptureAnalysis) -> list[Table]:
    """Access patterns, files, clients, network, as far as their lenses ran."""
    content = analysis.content
    made: list[Table | None] = []
    if content.get("access"):
        made += [patterns.access(content["access"]), patterns.sizes(content["access"])]
        made += [patterns.stability(content["access"])]
    if content.get("files"):
        made += [places.classes(content["files"]), places.files(content)]
    if content.get("clients"):
        made += [places.clients(content["clients"]), places.users(content["clients"])]
    if content.get("network"):
        made += [places.network(content["network"]), places.flows(content["network"])]
    return [table for table in made if table is not None]


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
SENSES = {"better": "good", "worse": "bad"}


def comparison(found: CaptureComparison | None, labels: Sequence[str]) -> Table | None:
    """Each capture against the first."""
    if found is None or not found.figures:
        return None
    from nfslab.captures.comparison import METHOD

    rows = []
    for figure in found.figures:
        result, unit = figure.result, figure.measure.unit
        interval = result.interval
        sense = SENSES.get(sense_of(result), "")
        rows.append(
            [
                text(figure.label),
                text(figure.measure.name),
                text(labels[figure.capture]),
                Cell(f"{result.n_base} / {result.n_new}" if figure.blocks else "–", result.n_new),
                quantity(result.base, unit),
                quantity(result.new, unit),
                Cell(
                    wording.ABSENT if result.ratio is None else f"{wording.plain(result.ratio)} ×",
                    "" if result.ratio is None else result.ratio,
                ),
                text(wording.span(interval.low, interval.high, "") if interval else None),
                Cell(
                    wording.probability(result.p_adjusted),
                    "" if result.p_adjusted is None else result.p_adjusted,
                ),
                text(result.verdict, f"word {sense}"),
            ]
        )
    note = f"Against {labels[0]}. {METHOD}"
    return Table("Compared", COMPARED, rows, " ".join([note, *(f"{n}." for n in found.notes)]))
