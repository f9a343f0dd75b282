"""Reports by name: one line each, imported when first used.

A report is a function `render(source) -> str`; `source` is an experiment's folder, or its
analysis where that is there already (`nfslab.report.model.Analysis`). What a report says
comes from the analysis; raw samples it reads itself, from the folder `analysis.path`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nfslab.report.model import Analysis

REPORTS: dict[str, str] = {
    "html": "nfslab.report.html.document:render_html",
    "json": "nfslab.report.analysis:render_json",
    "markdown": "nfslab.report.markdown:render_markdown",
}


def report_renderer(name: str) -> Callable[[Path | Analysis], str]:
    """The function that renders a report; `UsageError` names the nearest known one."""
    return cast("Callable[[Path | Analysis], str]", load_plugin(REPORTS, name, what="report"))
