"""Captures in HTML: what is slow and why, every call as a point, load and losses over time.

`render_capture_page` makes the text of a page of one or several captures, `write_capture_page`
writes it; `capture_sections` gives the same sections for a run's report, compactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.captures.comparison import CaptureComparison
    from nfslab.report.html.capture.page import Embedded

LENSES = (
    "operations",
    "clients",
    "files",
    "points",
    "rpcstat",
    "stalls",
    "access",
    "network",
)
"""What the page is made of; `blocks` too, where captures are compared."""


def render_capture_page(
    captures: Sequence[CaptureAnalysis],
    *,
    comparison: CaptureComparison | None = None,
    command: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """The page of captures, as text of one self-contained file.

    `captures`: one or several analyses with the lenses `LENSES` (one that is missing is left
    out of the page). `comparison`: each capture against the first. `command`: how the page was
    made; `provenance`: facts to print (machine, versions).
    """
    from nfslab.report.html.capture.page import render

    return render(captures, comparison=comparison, command=command, provenance=provenance)


def write_capture_page(captures: Sequence[CaptureAnalysis], output: Path, **options: Any) -> Path:
    """`render_capture_page`, written to `output` whole or not at all; `OSError` if it cannot."""
    from nfslab.report.html.capture.page import write

    return write(captures, output, **options)


def capture_sections(captures: Sequence[CaptureAnalysis], name: str) -> Embedded:
    """One run's captures for its report: HTML, and chunks to embed beside the report's own.

    `name`: of the data, unique in the page (letters, digits, hyphens).
    """
    from nfslab.report.html.capture.page import embedded

    return embedded(captures, name)
