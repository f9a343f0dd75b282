"""What `nfslab sfs` measured, for its page and for the terminal alike. One run of each point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.display.cells import count, latency, quantity, share, text
from nfslab.display.figures import Axis, Figure, Lines, Panel, Rule, Series, View
from nfslab.display.numbers import number
from nfslab.display.numbers import quantity as said
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NS_PER_MS: Final = 1e6
ROOM: Final = 1.05
"""Axes end this much behind the largest value."""
RESPONSES: Final = {
    "mean": "mean_ns", "p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns", "p99.9": "p999_ns",
}  # fmt: skip
"""Headings, and where their figures stand in a response."""
EXPLAINED: Final = (
    "Responses: from the planned instant (open load) or the sending (closed) to the reply. "
    "Saturated: less than 98 % of the offered load was achieved, or of what arrived of it (open "
    "load) if that was less; 2/sqrt(N) less of N operations of a closed load is chance. CPU: of "
    "the busiest generator thread, without its spinning; above 90 % a point does not count."
)


def section(result: dict[str, Any], *, in_short: bool = False) -> Section:
    """`result` as `nfslab sfs --json` has it, with its curve.

    `in_short`: operations of one point alone, the highest that counts (else the last).
    """
    points, highest = result["points"], result["curve"]["highest"]
    measured = [point for point in points if not point.get("failed")]
    if in_short and measured:
        measured = [measured[-1] if highest is None else points[highest]]
    notes = [note for point in measured for note in point["notes"]]
    return Section(
        f"{', '.join(result['targets'])}: {result['mix']}",
        sentences=list(_meaning(result)),
        figures=_figures(points, result["curve"]),
        tables=[_points(result), *map(_operations, measured)],
        notes=[*dict.fromkeys(notes), EXPLAINED],
        problems=list(_uncounted(points)),
    )


def prepared(point: dict[str, Any]) -> str:
    """A file set that was made without a load."""
    made = "; ".join(
        f"{mount['server']}: {mount['files_found']:,} files found, {mount['files_made']:,} made"
        for mount in point["mounts"]
    )
    return f"for {point['offered_ops_per_s']:,.0f} ops/s: {made}"


def _points(result: dict[str, Any]) -> Table:
    rows = []
    for place, point in enumerate(result["points"]):
        cpu = [thread["cpu_share"] for thread in point.get("threads", [])]
        tone: Any = "" if point["valid"] else "severe"
        rows.append(
            [
                quantity(point["offered_ops_per_s"], "1/s"),
                quantity(point["achieved_ops_per_s"], "1/s"),
                *_responses(point["response"]),
                quantity(point.get("outstanding_mean"), ""),
                share(max(cpu, default=None)),
                text(_verdict(place, point, result["curve"]), tone),
            ]
        )
    columns = map(Column, ("offered", "achieved", *RESPONSES, "outstanding", "CPU"))
    return Table("At every point", [*columns, Column("verdict", False)], rows)


def _verdict(place: int, point: dict[str, Any], curve: dict[str, Any]) -> str:
    """What a point is, in a word or two."""
    if point.get("failed"):
        return f"failed ({point['failed']})"
    if not point["valid"]:
        return "INVALID: " + ", ".join(reason["kind"] for reason in point["reasons"])
    words = ["saturated"] if place in curve["saturated"] else []
    return ", ".join(words + [word for word in ("peak", "knee") if curve[word] == place])


def _operations(point: dict[str, Any]) -> Table:
    rows = [
        [
            text(row["operation"]),
            share(row["share"]),
            count(row["answered"]),
            *_responses(row["response"]),
            count(row["unexpected"], "severe"),
        ]
        for row in sorted(point["operations"], key=lambda row: -row["share"])
    ]
    columns = [Column("operation", False), *map(Column, ("share", "answered", *RESPONSES))]
    title = f"Operations at {point['offered_ops_per_s']:,.0f} offered"
    note = ". ".join(_accounts(point))
    return Table(title, [*columns, Column("unexpected")], rows, f"{note}.", open=False)


def _responses(response: dict[str, Any]) -> list[Cell]:
    return [latency(response.get(key)) for key in RESPONSES.values()]


def _accounts(point: dict[str, Any]) -> Iterator[str]:
    """File set, who made the load, where it went, and whether the accounts add up."""
    touched = point["touched"]
    yield (
        f"File set: {touched['set_files']:,} files, {format_size(touched['set_bytes'])}; to be "
        f"used {touched['accessed_files']:,}, {format_size(touched['accessed_bytes'])}; really "
        f"touched by READ and WRITE {touched['files']:,}, {format_size(touched['bytes'])}"
    )
    if len(processes := point["processes"]) > 1:
        shares = ", ".join(f"{one['answered']:,}" for one in processes)
        late = said(max(one["late_p99_ns"] or 0 for one in processes), "ns")
        yield (
            f"{len(processes)} generator processes answered {shares} in the window; p99 of "
            f"lateness at most {late}"
        )
    if len(mounts := point["mounts"]) > 1:
        each = "; ".join(
            f"{one['server']} {one['answered']:,}{' (went away)' if one['silent'] else ''}"
            for one in mounts
        )
        yield f"Answered by mount in the window: {each}"
    little = point["little"]
    missing = little["residual_ns"]
    yield (
        f"Little's law: {number(point['outstanding_mean'], 4)} outstanding on average, rate times "
        f"response {number(little['rate_times_response'], 4)}; to the nanosecond "
        f"{f'{missing} ns are missing' if missing else 'it holds'}"
    )
    if point["not_sent"] or point["not_drawn"]:
        yield f"Not sent: {point['not_sent']:,}; no free file: {point['not_drawn']:,}"


def _meaning(result: dict[str, Any]) -> Iterator[str]:
    """The peak, and what a search found."""
    points, curve = result["points"], result["curve"]
    if curve["highest"] is not None:
        peak = points[curve["highest"]]
        name = "peak" if curve["peak"] is not None else "peak not reached; at most"
        yield (
            f"{name}: {peak['achieved_ops_per_s']:,.0f} ops/s (offered "
            f"{peak['offered_ops_per_s']:,.0f}), {said(peak['response']['mean_ns'], 'ns')}; "
            f"overall response time {said(curve['overall_response_s'], 's')}"
        )
    if (search := result.get("search")) is not None:
        yield _searched(search)


def _uncounted(points: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Which points do not count, and why."""
    for point in points:
        for reason in [] if point["valid"] else point["reasons"]:
            yield f"{point['offered_ops_per_s']:,.0f} ops/s does not count: {reason['text']}"


def _searched(search: dict[str, Any]) -> str:
    found = search["found_ops_per_s"]
    if found is None:
        return f"{search['goal']}: at no load that was tried ({search['points']} points)"
    told = f"{search['goal']}: up to {found:,.0f} ops/s ({search['points']} points"
    if (limit := search["generator_limit_ops_per_s"]) is not None:
        return f"{told}); at {limit:,.0f} the generator was the limit, the server may do more"
    return f"{told}; missed at {search['missed_at_ops_per_s']:,.0f})"


def _figures(points: Sequence[dict[str, Any]], curve: dict[str, Any]) -> list[Figure]:
    """Achieved over offered load, response time over achieved load."""
    in_order = sorted(points, key=lambda point: point["offered_ops_per_s"])
    valid = [point for point in in_order if point["valid"]]
    others = [point for point in in_order if not point["valid"]]
    most = max(point["offered_ops_per_s"] for point in in_order)

    def values(found: Sequence[dict[str, Any]], of: str) -> list[float]:
        return [point[f"{of}_ops_per_s"] for point in found]

    def achieved() -> Lines:
        series = [Series("achieved", values(valid, "offered"), values(valid, "achieved"))]
        if others:
            x, y = values(others, "offered"), values(others, "achieved")
            series.append(Series("does not count", x, y, draw="dots"))
        series.append(Series("all that is offered", [0.0, most], [0.0, most], dash=True))
        rules = []
        if curve["peak"] is not None:
            rules.append(Rule(points[curve["peak"]]["offered_ops_per_s"], "x", "peak"))
        y_axis = Axis("achieved load", "1/s", low=0.0, high=most * ROOM)
        x_axis = Axis("offered load", "1/s", low=0.0, high=most * ROOM)
        return Lines(x_axis, [Panel("", y_axis, series, rules=rules)])

    def responses() -> Lines | None:
        if not valid:
            return None
        series = []
        for name, key in RESPONSES.items():
            known = [point for point in valid if point["response"].get(key) is not None]
            y = [point["response"][key] / NS_PER_MS for point in known]
            series.append(Series(name, values(known, "achieved"), y))
        axis = Axis("response time", "ms", low=None, log_choice=True)
        return Lines(Axis("achieved load", "1/s", low=0.0), [Panel("", axis, series)])

    return [
        Figure("load-achieved", "Achieved against offered load", "", [View(achieved)]),
        Figure(
            "load-response",
            "Response time against achieved load",
            "Points are joined by offered load: where a line bends back, more is offered and less "
            "achieved.",
            [View(responses)],
        ),
    ]
