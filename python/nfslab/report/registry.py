"""Reports by name: one line each, imported when first used.

A report is a function from an experiment's folder to text, `render(path) -> str`. What it
says comes from `nfslab.report.analysis.analyse(path)`; raw samples it reads itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REPORTS: dict[str, str] = {
    "html": "nfslab.report.html:render_html",
    "json": "nfslab.report.analysis:render_json",
    "markdown": "nfslab.report.markdown:render_markdown",
}


def report_renderer(name: str) -> Callable[[Path], str]:
    """The function that renders a report; `UsageError` names the nearest known one."""
    return cast("Callable[[Path], str]", load_plugin(REPORTS, name, what="report"))
