"""The tables that `nfslab sfs` prints: a row a point as published ones, then what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.display.terminal import table
from nfslab.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RESPONSES = {
    "mean ms": "mean_ns", "p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns", "p99.9": "p999_ns",
}  # fmt: skip
"""Headings, and where their figures stand in a response."""
HEADINGS = ("offered", "achieved", *RESPONSES, "outstanding", "CPU", "")
EXPLAINED = (
    "Responses: from the planned instant (open load) or the sending (closed) to the reply.",
    "Saturated: less than 98 % of the offered load was achieved, or of what arrived of it",
    "(open load) if that was less; 2/sqrt(N) less of N operations of a closed load is chance.",
    "CPU: of the busiest generator thread, without its spinning; above 90 % a point does not",
    "count.",
)
OPERATION_HEADINGS = ("operation", "share", "answered", *RESPONSES, "unexpected")


def lines(result: dict[str, Any]) -> Iterator[str]:
    """Everything, for people."""
    points = result["points"]
    yield f"{', '.join(result['targets'])}: {result['mix']}"
    yield ""
    yield table(HEADINGS, [_row(n, p, result) for n, p in enumerate(points)], right=range(9))
    yield ""
    yield from meaning(result)
    yield from uncounted(points)
    yield from EXPLAINED
    measured = [point for point in points if not point.get("failed")]
    if measured:
        yield ""
        yield from _of_point(_told(result, measured))


def prepared(point: dict[str, Any]) -> str:
    """A file set that was made without a load."""
    made = "; ".join(
        f"{mount['server']}: {mount['files_found']:,} files found, {mount['files_made']:,} made"
        for mount in point["mounts"]
    )
    return f"for {point['offered_ops_per_s']:,.0f} ops/s: {made}"


def _told(result: dict[str, Any], measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The point whose operations are shown: the highest that counts, else the last."""
    highest = (result.get("curve") or {}).get("highest")
    return measured[-1] if highest is None else result["points"][highest]


def _row(number: int, point: dict[str, Any], result: dict[str, Any]) -> tuple[str, ...]:
    outstanding = point.get("outstanding_mean")
    cpu = [thread["cpu_share"] for thread in point.get("threads", [])]
    return (
        f"{point['offered_ops_per_s']:,.0f}",
        f"{point['achieved_ops_per_s']:,.0f}",
        *_responses(point["response"]),
        "-" if outstanding is None else f"{outstanding:,.1f}",
        f"{max(cpu):.0%}" if cpu else "-",
        verdict(number, point, result["curve"]),
    )


def verdict(number: int, point: dict[str, Any], curve: dict[str, Any]) -> str:
    """What a point is, in a word or two."""
    if point.get("failed"):
        return f"failed ({point['failed']})"
    if not point["valid"]:
        return "INVALID: " + ", ".join(reason["kind"] for reason in point["reasons"])
    words = ["saturated"] if number in curve["saturated"] else []
    words += [word for word in ("peak", "knee") if curve[word] == number]
    return ", ".join(words)


def meaning(result: dict[str, Any]) -> Iterator[str]:
    """The peak, and what a search found."""
    points, curve = result["points"], result["curve"]
    if curve["highest"] is not None:
        peak = points[curve["highest"]]
        name = "peak" if curve["peak"] is not None else "peak not reached; at most"
        yield (
            f"{name}: {peak['achieved_ops_per_s']:,.0f} ops/s (offered "
            f"{peak['offered_ops_per_s']:,.0f}), {ms(peak['response']['mean_ns'])} ms; overall "
            f"response time {curve['overall_response_s'] * 1e3:.3g} ms"
        )
    if (search := result.get("search")) is not None:
        yield _searched(search)


def uncounted(points: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Which points do not count, and why."""
    for point in points:
        for reason in [] if point["valid"] else point["reasons"]:
            yield f"{point['offered_ops_per_s']:,.0f} ops/s does not count: {reason['text']}"


def _searched(search: dict[str, Any]) -> str:
    found = search["found_ops_per_s"]
    if found is None:
        return f"{search['goal']}: at no load that was tried ({search['points']} points)"
    text = f"{search['goal']}: up to {found:,.0f} ops/s ({search['points']} points"
    if (limit := search["generator_limit_ops_per_s"]) is not None:
        return f"{text}); at {limit:,.0f} the generator was the limit, the server may do more"
    return f"{text}; missed at {search['missed_at_ops_per_s']:,.0f})"


def _of_point(point: dict[str, Any]) -> Iterator[str]:
    """Operations, file set and accounts of one point."""
    yield f"at {point['offered_ops_per_s']:,.0f} ops/s offered:"
    rows = []
    for row in sorted(point["operations"], key=lambda row: -row["share"]):
        rows.append(
            (
                row["operation"], f"{row['share']:.1%}", f"{row['answered']:,}",
                *_responses(row["response"]),
                f"{row['unexpected']:,}",
            )
        )  # fmt: skip
    yield table(OPERATION_HEADINGS, rows, right=range(1, 9))
    touched = point["touched"]
    yield (
        f"file set: {touched['set_files']:,} files, {format_size(touched['set_bytes'])}; to be "
        f"used {touched['accessed_files']:,}, {format_size(touched['accessed_bytes'])}; really "
        f"touched by READ and WRITE {touched['files']:,}, {format_size(touched['bytes'])}"
    )
    yield from _processes(point)
    little = point["little"]
    yield (
        f"Little's law: {point['outstanding_mean']:.4g} outstanding on average, rate times "
        f"response {little['rate_times_response']:.4g}; to the nanosecond "
        + ("it holds" if little["residual_ns"] == 0 else f"{little['residual_ns']} ns are missing")
    )
    if point["not_sent"] or point["not_drawn"]:
        yield f"not sent: {point['not_sent']:,}; no free file: {point['not_drawn']:,}"
    for note in point["notes"]:
        yield f"note: {note}"


def _processes(point: dict[str, Any]) -> Iterator[str]:
    """Who made the load, if there were several; and where it went, if there were several mounts."""
    if len(processes := point["processes"]) > 1:
        shares = ", ".join(f"{one['answered']:,}" for one in processes)
        late = max(one["late_p99_ns"] or 0 for one in processes)
        yield (
            f"{len(processes)} generator processes answered {shares} in the window; "
            f"p99 of lateness at most {late / 1e3:,.0f} us"
        )
    if len(mounts := point["mounts"]) > 1:
        each = "; ".join(
            f"{one['server']} {one['answered']:,}{' (went away)' if one['silent'] else ''}"
            for one in mounts
        )
        yield f"answered by mount in the window: {each}"


def _responses(response: dict[str, Any]) -> list[str]:
    """Below `RESPONSES`."""
    return [ms(response.get(key)) for key in RESPONSES.values()]


def ms(latency_ns: float | None) -> str:
    """Milliseconds, three digits."""
    return "-" if latency_ns is None else f"{latency_ns / 1e6:.3g}"
