"""Captures' page: one self-contained HTML file, like the report of an experiment.

Its sections are those that a run's report has of a capture (`nfslab.evidence.capture.section`).
All captures of a page share their scales. Time runs from each capture's first packet.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from nfslab import __version__
from nfslab.display.numbers import count
from nfslab.evidence.capture.section import page_sections
from nfslab.report.html import tables
from nfslab.report.html.document import environment, manifest, script, style
from nfslab.report.html.figures import PageFigures
from nfslab.report.html.sections import section_html
from nfslab.results.durable import write_durably

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison

NS: Final = 1_000_000_000
ROOM_BYTES: Final = 64_000_000
"""For the figures: some four captures of two million calls."""


def render_capture_page(
    captures: Sequence[CaptureAnalysis],
    *,
    comparison: CaptureComparison | None = None,
    command: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """The page of one or several captures, as text of one self-contained file.

    A lens that did not run leaves its part out. `comparison`: each capture against the first.
    `command`: how the page was made; `provenance`: facts to print (machine, versions).
    """
    labels = [capture.label for capture in captures]
    first_ns = captures[0].content["first_ns"]
    figures = PageFigures("-".join(labels)[:80])
    found = page_sections(captures, comparison)
    sections = [section_html(section, figures, environment()) for section in found]
    return (
        environment()
        .get_template("capture.html.j2")
        .render(
            title=" and ".join(labels) if len(labels) < 4 else f"{len(labels)} captures",
            begun=_moment(first_ns),
            sections=sections,
            captures=[{"facts": facts(capture)} for capture in captures],
            command=shlex.join(command),
            provenance=tables.flat(provenance or {}),
            nfslab_version=__version__,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            libraries=tables.libraries(manifest()),
            style=Markup(style()),
            script=Markup(script()),
            chunks=list(figures.chunks(ROOM_BYTES).items()),
        )
    )


def write_capture_page(captures: Sequence[CaptureAnalysis], output: Path, **options: Any) -> Path:
    """`render_capture_page`, written to `output` whole or not at all; `OSError` if it cannot."""
    write_durably(output, render_capture_page(captures, **options).encode())
    return output


def facts(capture: CaptureAnalysis) -> list[tuple[str, str]]:
    """What the capture is: files, frames, times."""
    content = capture.content
    return [
        ("files", ", ".join(capture.names)),
        ("frames", count(content["packets"])),
        ("bytes on the wire", count(content["bytes"])),
        ("first frame", _moment(content["first_ns"])),
        ("length", f"{capture.duration_ns / NS:,.6f} s"),
    ]


def _moment(unix_ns: int | None) -> str:
    if unix_ns is None:
        return "–"
    seconds, rest = divmod(unix_ns, NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d} UTC"
