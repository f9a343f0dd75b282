"""Captures' page: one self-contained HTML file, like the report of an experiment.

Flow: analyses of captures -> payload (`points`, `series`), tables (`sections`), sentences
(`verdict`) -> template. The same parts, without the page around them, go into a run's report
(`embedded`). The frame, the style, the script with its charts and the content policy are those
of `nfslab.report.html.document`.

All captures of a page share their scales. Time runs from each capture's first packet.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nfslab import __version__
from nfslab.report.html import tables
from nfslab.report.html.capture import gaps, points, sections, series, verdict
from nfslab.report.html.columns import pack
from nfslab.report.html.document import environment, manifest, script, style
from nfslab.results.durable import write_durably

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison

NS = 1_000_000_000
PAYLOAD = "captures"


@dataclass(frozen=True, slots=True)
class Embedded:
    """Captures' sections for another page of the report."""

    html: Markup
    """The sections, without a heading of their own."""
    chunks: dict[str, str]
    """Name -> data: to be embedded as the page's other chunks are."""


def render(
    captures: Sequence[CaptureAnalysis],
    *,
    comparison: CaptureComparison | None = None,
    command: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """The page of one or several captures, as HTML text. See `nfslab.report.html.capture`."""
    made = embedded(captures, PAYLOAD, comparison=comparison, compact=False)
    labels = [capture.label for capture in captures]
    first_ns = captures[0].content["first_ns"]
    return (
        environment()
        .get_template("capture.html.j2")
        .render(
            title=" and ".join(labels) if len(labels) < 4 else f"{len(labels)} captures",
            begun=_moment(first_ns) if first_ns is not None else "–",
            sections=made.html,
            captures=[{"facts": facts(capture)} for capture in captures],
            command=shlex.join(command),
            provenance=tables.flat(provenance or {}),
            nfslab_version=__version__,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            libraries=tables.libraries(manifest()),
            style=Markup(style()),
            script=Markup(script()),
            chunks=list(made.chunks.items()),
        )
    )


def write(captures: Sequence[CaptureAnalysis], output: Path, **options: Any) -> Path:
    """`render`, written whole or not at all. Raises `OSError` when it cannot be written."""
    write_durably(output, render(captures, **options).encode())
    return output


def embedded(
    captures: Sequence[CaptureAnalysis],
    name: str,
    *,
    comparison: CaptureComparison | None = None,
    compact: bool = True,
) -> Embedded:
    """The sections of captures under the data name `name`, unique in its page.

    `compact`: for a run's report; the long tables are folded.
    """
    payload, chunks = _payload(captures, name)
    chunks[name] = pack(_json(payload))
    shown = [
        _shown(capture, part) for capture, part in zip(captures, payload["found"], strict=True)
    ]
    html = (
        environment()
        .get_template("capture_sections.html.j2")
        .render(
            name=name,
            compact=compact,
            warnings_shown=tables.WARNINGS_SHOWN,
            captures=shown,
            figures=_figures(payload),
            comparison=sections.comparison(comparison, [c.label for c in captures]),
        )
    )
    return Embedded(Markup(html), chunks)  # autoescaped by the template


def _payload(captures: Sequence[CaptureAnalysis], name: str) -> tuple[Any, dict[str, str]]:
    with_frames = (
        sum(found["calls"] for capture in captures if (found := points.section(capture)))
        <= points.FRAMES_MOST
    )
    stats, frames, chunks = series.rpcstat(captures, name)
    parts = []
    found_gaps = [gaps.gaps(capture) for capture in captures]
    for k, capture in enumerate(captures):
        content, more = points.content(capture, f"{name}-{k}", with_frames)
        chunks.update(more)
        first_ns = int(capture.content["first_ns"] or 0)
        parts.append(
            {
                "label": capture.label,
                "first": [first_ns // NS, first_ns % NS],
                "gaps": gaps.bands(found_gaps[k]),
                "points": content,
                "rpcstat": frames[k],
            }
        )
    longest_s = max(capture.duration_ns for capture in captures) / NS
    return {
        "name": "-".join(capture.label for capture in captures)[:80],
        "captures": parts,
        "time": {"domain": [0.0, longest_s or 1.0]},
        "points": {
            "panels": points.panel_names(captures),
            "domain": points.latency_domain(captures),
            "frames": with_frames,
        },
        "rpcstat": stats,
        "latencies": series.latencies(captures),
        "split": series.split(captures),
        "found": found_gaps,
    }, chunks


def _figures(payload: Mapping[str, Any]) -> list[str]:
    """Figures that there is something to draw for."""
    present = {
        "calls": bool(payload["points"]["panels"]),
        "rpcstat": payload["rpcstat"] is not None,
        "latencies": payload["latencies"] is not None,
        "split": payload["split"] is not None,
    }
    return [name for name, here in present.items() if here]


def _shown(capture: CaptureAnalysis, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "label": capture.label,
        "sentences": verdict.sentences(capture, found),
        "warnings": verdict.warnings(capture),
        "operations": sections.operations(capture),
        "gaps": sections.gap_table(found),
        "looks": gaps.closer_looks(capture),
        "tables": sections.more(capture),
    }


def facts(capture: CaptureAnalysis) -> list[tuple[str, str]]:
    """What the capture is: files, frames, times."""
    content = capture.content
    first_ns = content["first_ns"]
    return [
        ("files", ", ".join(capture.names)),
        ("frames", f"{content['packets']:,}"),
        ("bytes on the wire", f"{content['bytes']:,}"),
        ("first frame", _moment(first_ns) if first_ns is not None else "–"),
        ("length", f"{capture.duration_ns / NS:,.6f} s"),
    ]


def _moment(unix_ns: int) -> str:
    seconds, rest = divmod(unix_ns, NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d} UTC"


def _json(payload: Mapping[str, Any]) -> bytes:
    public = {key: value for key, value in payload.items() if key != "found"}
    return json.dumps(public, separators=(",", ":"), allow_nan=False).encode()
