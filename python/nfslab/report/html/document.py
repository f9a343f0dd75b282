"""One self-contained HTML file: the page's text by Jinja2, the data compressed inside it.

Flow: `analyse` -> what the template shows; `matrix`, `published`, `over_time` and the kinds of
evidence -> figures and sections as data, packed by `figures`; the vendored script and the style
sheet -> text. The page names no host and a content policy forbids it to fetch anything; it opens
from a file, offline, years later.

Every text that comes from outside (names, reasons, options, logs) is escaped by Jinja2 in
the page, and inside the data it is base64, so that nothing in it can become markup.

Limit: `SIZE_LIMIT_BYTES`; views of figures give way (`figures`), text and tables never do.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nfslab import __version__, clock
from nfslab.errors import NfslabError
from nfslab.evidence.anatomy.section import ANCHOR as ANATOMY
from nfslab.evidence.found import sections_of
from nfslab.findings.explanation import why, with_findings
from nfslab.report.analysis import analyse
from nfslab.report.html import content, matrix, order, over_time, published, tables
from nfslab.report.html.figures import PageFigures
from nfslab.report.html.series import Series, read_series
from nfslab.report.model import Analysis
from nfslab.results.durable import write_durably

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from nfslab.display.figures import Figure
    from nfslab.display.sections import Section

SIZE_LIMIT_BYTES = 10_000_000
DATA_SHARE = 0.95
"""Of what is left of the limit beside the page itself; the rest is a reserve."""
METRICS_MOST = 60
"""Metrics that figures can choose from; all are in the results folder."""


def render_html(source: Path | Analysis) -> str:
    """The report of the experiment at `source` (or of its analysis), as HTML text.

    Raises `ResultsError` when there is no experiment, `NfslabError` when the report would be
    larger than it may be.
    """
    analysis = source if isinstance(source, Analysis) else analyse(source)
    names = metric_names(analysis)
    series = read_series(analysis)
    figures = PageFigures(analysis.name)
    found = [with_findings(one, analysis) for one in sections_of(analysis)]
    # The page's first figure is where the time goes: beside the answer, not below its sentences.
    lead = [figure for one in found if one.anchor == ANATOMY for figure in one.figures]
    own = [figures.place(figure) for figure in (*lead, *_figures(analysis, names, series))]
    first = [replace(one, figures=()) for one in found if one.anchor == ANATOMY]
    later = [one for one in found if one.anchor != ANATOMY]
    made: dict[str, Any] = {
        "figures": own,
        "first_sections": [
            {"anchor": one.anchor, "title": one.title, "html": section_html(one, figures)}
            for one in first
        ],
        "evidence_sections": [section_html(one, figures) for one in later],
        "places": [(one.anchor, one.title) for one in later if one.anchor],
        "why": why(analysis),
        "runs": tables.runs_table(
            analysis, names, over_time.EVIDENCE_ID, over_time.shown_choice(analysis, series)
        ),
    }
    fixed = len(_page(analysis, series, made, {}).encode())
    chunks = figures.chunks(max(0, int((SIZE_LIMIT_BYTES - fixed) * DATA_SHARE)))
    text = _page(analysis, series, made, chunks)
    size = len(text.encode())
    if size > SIZE_LIMIT_BYTES:
        raise NfslabError(
            f"the report would be {size / 1e6:.1f} MB, more than {SIZE_LIMIT_BYTES / 1e6:.0f} MB",
            why=f"{len(analysis.runs)} runs with {len(names)} metrics",
            fix="report a selection, or ask the results with `nfslab query`",
        )
    return text


def _figures(analysis: Analysis, names: list[str], series: Series) -> list[Figure]:
    """The report's own, in the order of the page."""
    beside = published.figure(analysis, names)
    made = [
        *matrix.figures(analysis, names),
        *([beside] if beside else []),
        *over_time.figures(analysis, series),
    ]
    if names and len(analysis.runs) > 1:
        made.append(order.figure(analysis, names))
    return made


def write_html(source: Path | Analysis, output: Path) -> Path:
    """`render_html`, written whole or not at all. Raises `OSError` when it cannot be written."""
    write_durably(output, render_html(source).encode())
    return output


def metric_names(analysis: Analysis) -> list[str]:
    """Metrics with values, the primary one first."""
    known = [m.name for m in analysis.metrics if content.metric_values(analysis, m.name)]
    known.sort(key=lambda name: name != analysis.primary)
    return known[:METRICS_MOST]


def _page(
    analysis: Analysis, series: Series, made: Mapping[str, Any], chunks: Mapping[str, str]
) -> str:
    warnings = tables.warnings(analysis, series)
    return whole_page(
        "report.html.j2",
        chunks,
        analysis.command,
        a=analysis,
        counted=sum(run.counted for run in analysis.runs),
        failed=sum(run.status == "failed" for run in analysis.runs),
        created=_minute(datetime.fromtimestamp(analysis.created_unix_ns / 1e9, UTC)),
        verdict=tables.sentences(analysis.verdict),
        question=tables.question(analysis),
        verdict_shown=tables.VERDICT_SHOWN,
        warnings=warnings,
        doubt=tables.doubt(warnings),
        comparisons=tables.comparison_tables(analysis),
        estimates=tables.estimate_table(analysis),
        evidence=tables.evidence_table(analysis),
        **made,
    )


def whole_page(
    template: str, chunks: Mapping[str, str], command: Sequence[str], **shown: Any
) -> str:
    """A page by its template, with what every page carries."""
    return (
        environment()
        .get_template(template)
        .render(
            nfslab_version=__version__,
            written=_minute(clock.wall()),
            command=shlex.join(command),
            libraries=tables.libraries(manifest()),
            style=Markup(_asset("report.css")),
            script=Markup(script()),
            chunks=list(chunks.items()),
            **shown,
        )
    )


def _minute(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Jinja2 with everything escaped, and undefined names an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("nfslab.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    made.filters.update(
        flat=tables.flat,
        plain=tables.plain_text,
        cost=tables.cost_text,
        machine=tables.machine_facts,
    )
    return made


def section_html(section: Section, figures: PageFigures) -> Markup:
    """The section under a heading: the one way in which any evidence appears in a page. Its
    figures are placed among those of the page."""
    template = environment().get_template("section.html.j2")
    return Markup(template.render(section=section, place=figures.place))  # autoescaped there


def _asset(*parts: str) -> str:
    return resources.files("nfslab.report.html").joinpath("assets", *parts).read_text("utf-8")


@lru_cache(maxsize=1)
def script() -> str:
    """The vendored bundle; its hash is checked by the tests."""
    return _asset("vendor", "report.min.js")


@lru_cache(maxsize=1)
def manifest() -> dict[str, Any]:
    """What the bundle was made of: versions, licences, hashes."""
    found = json.loads(_asset("vendor", "BUNDLE.json"))
    return dict(found)
