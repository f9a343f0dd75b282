"""The HTML report: one file that opens offline and stays below 10 MB.

`render_html` makes its text (the registry's entry), `write_html` writes it. What it says
comes from `nfslab.report.analysis`; what it draws from the runs' own samples and evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nfslab.report.model import Analysis


def render_html(source: Path | Analysis, *, baseline: Mapping[str, Any] | None = None) -> str:
    """The report of the experiment at `source` (or of its analysis), as text of one file."""
    from nfslab.report.html.document import render

    return render(source, baseline=baseline)


def write_html(
    results_path: Path, output: Path, *, baseline: Mapping[str, Any] | None = None
) -> Path:
    """The report of the experiment at `results_path`, written to `output` whole or not at all.

    `baseline`: {axis: level} to compare with. Returns `output`. Raises `ResultsError` when
    there is no experiment there, `OSError` when the file cannot be written.
    """
    from nfslab.report.html.document import write

    return write(results_path, output, baseline=baseline)
