"""A capture as a section: what is slow and why, tables, figures. For a run and for a file alike.

Every number is the core's. A lens that did not run has no table and no figure. The figures are
made of the long columns when a page is written (`load`), the rest of the JSON alone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from nfslab.captures import anomalies, causes
from nfslab.display import numbers
from nfslab.display.sections import Section
from nfslab.display.terminal import date
from nfslab.evidence.capture import gaps, operations, patterns, places, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab._core import HostRow
    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison
    from nfslab.display.figures import Figure
    from nfslab.display.sections import Table


def capture_section(
    capture: CaptureAnalysis,
    name: str,
    *,
    load: Callable[[], CaptureAnalysis] | None = None,
    by: Sequence[str] | None = None,
    longest_s: float | None = None,
) -> Section:
    """One capture. `name` makes its figures' names unique in a page.

    `load` gives the capture with its long columns, for figures; None: no figures. `by`: tables by
    these (`places.breakdown`); None: the files, classes, clients and users that a page has.
    `longest_s`: where the time axis ends, common to several captures.
    """
    found = gaps.gaps(capture)
    figure = f"{name}-calls"
    tables = [
        operations.operations(capture),
        operations.unanswered_table(capture),
        operations.gap_table(found, figure),
        operations.look_table(capture, figure) if load is not None else None,
        operations.load_table(capture),
        *_more(capture, by),
    ]
    return Section(
        capture.label,
        anchor=name,
        intro=" ".join(f"{line}." for line in summary(capture)),
        sentences=verdict.sentences(capture, found),
        tables=[table for table in tables if table is not None],
        figures=[] if load is None else _figures(capture, name, load, longest_s),
        notes=[*verdict.notes(capture), *gaps.closer_looks(capture)],
        problems=verdict.doubts(capture),
    )


def comparison_section(
    captures: Sequence[CaptureAnalysis], comparison: CaptureComparison | None
) -> list[Section]:
    """Each capture against the first; empty where nothing was compared."""
    table = operations.comparison(comparison, [capture.label for capture in captures])
    if comparison is None or table is None:
        return []
    return [Section("Compared", anchor="comparison", tables=[table], notes=comparison.notes)]


def page_sections(
    captures: Sequence[CaptureAnalysis], comparison: CaptureComparison | None
) -> list[Section]:
    """The page of one or several captures; several have common scales."""
    if len(captures) == 1:
        return [capture_section(captures[0], "capture", load=partial(_itself, captures[0]))]
    from nfslab.evidence.capture.figures import latencies, split

    longest_s = max(capture.duration_ns for capture in captures) / 1e9
    drawn = [split(captures, "all"), latencies(captures, "all")]
    together = Section("Together", figures=[figure for figure in drawn if figure is not None])
    each = [
        capture_section(
            capture, f"capture-{k}", load=partial(_itself, capture), longest_s=longest_s
        )
        for k, capture in enumerate(captures)
    ]
    return [*comparison_section(captures, comparison), together, *each]


def _itself(capture: CaptureAnalysis) -> CaptureAnalysis:
    return capture


def facts(capture: CaptureAnalysis) -> dict[str, str]:
    """What the capture is: files, frames, times."""
    content = capture.content
    first_ns = content["first_ns"]
    return {
        "files": ", ".join(capture.names),
        "frames": numbers.count(content["packets"]),
        "bytes on the wire": numbers.count(content["bytes"]),
        "first frame": numbers.ABSENT if first_ns is None else _moment(first_ns),
        "length": f"{capture.duration_ns / 1e9:,.6f} s",
    }


def _moment(unix_ns: int) -> str:
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d} UTC"


def summary(capture: CaptureAnalysis) -> list[str]:
    """Packets, calls, duration, loss: two lines."""
    content = capture.content
    first = content["first_ns"]
    begun = f", from {date(first)}" if first is not None else ""
    within = verdict.part(capture)
    packets = (
        f"{capture.label}: {content['packets']:,} packets, "
        f"{numbers.quantity(content['bytes'], 'B')}{f'{within},' if within else ','} "
        f"{numbers.quantity(capture.duration_ns, 'ns')}{begun}"
    )
    lost = content["lost"]
    gone = "no missing packets"
    if causes.fronts_cut(capture):
        gone = "the snapshot length cut fronts of messages away"
    elif losses := [it for it in anomalies.counted(content) if it.meaning.weight == "loss"]:
        gone = f"the capture is not whole: {anomalies.sentence(losses[0])}"
    if causes.has_loss(capture):
        gaps_said = f"{lost['gaps']:,} gap{'' if lost['gaps'] == 1 else 's'}"
        gone = f"the capture lacks {numbers.quantity(lost['bytes'], 'B')} in {gaps_said}"
    if skipped := content.get("skipped_bytes"):
        passed = (
            f"{numbers.quantity(skipped, 'B')} of the input passed over, since no packet could be "
            "made out"
        )
        gone = f"{passed}; {gone}" if lost["gaps"] else passed
    dropped = content.get("kernel_drops")
    kernel = f", {dropped:,} packets dropped by the kernel that captured" if dropped else ""
    between = ""
    if sides := content.get("clients"):
        between = (
            f" of {_number(sides['clients'], 'client')} to {_number(sides['servers'], 'server')}"
        )
    return [packets, f"{capture.calls:,} calls{between}; {gone}{kernel}"]


def _number(rows: Sequence[HostRow], noun: str) -> str:
    more = " or more" if any(row.get("other") for row in rows) else ""
    return f"{len(rows):,}{more} {noun}" + ("" if len(rows) == 1 else "s")


def _more(capture: CaptureAnalysis, by: Sequence[str] | None) -> list[Table | None]:
    """Access patterns, network, then files and clients as far as they are wanted."""
    content = capture.content
    made: list[Table | None] = []
    if access := content.get("access"):
        made += [patterns.access(access), patterns.sizes(access), patterns.stability(access)]
    if network := content.get("network"):
        made += [places.network(network), places.flows(network)]
    if by is not None:
        return [*made, *(places.breakdown(content, what) for what in by)]
    if files := content.get("files"):
        made += [places.classes(files), places.files(content)]
    if clients := content.get("clients"):
        by_connection = places.connections(clients, content.get("stalls"))
        made += [places.clients(clients), by_connection, places.users(clients)]
    return made


def _figures(
    capture: CaptureAnalysis,
    name: str,
    load: Callable[[], CaptureAnalysis],
    longest_s: float | None,
) -> list[Figure]:
    from nfslab.evidence.capture.calls import calls_figures
    from nfslab.evidence.capture.figures import latencies, rpcstat, split

    end_s = longest_s or capture.duration_ns / 1e9 or 1.0
    made = [
        *calls_figures(capture, name, load, end_s),
        rpcstat(capture, name, load, end_s),
        split([capture], name),
        latencies([capture], name),
    ]
    return [figure for figure in made if figure is not None]
