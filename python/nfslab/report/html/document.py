"""One self-contained HTML file: the page's text by Jinja2, the data compressed inside it.

Flow: `analyse` -> what the template shows, `content` and `series` -> the payload, the
vendored script and the style sheet -> text. The page names no host and a content policy
forbids it to fetch anything; it opens from a file, offline, years later.

Every text that comes from outside (names, reasons, options, logs) is escaped by Jinja2 in
the page, and inside the payload it is base64, so that nothing in it can become markup.

Limit: `SIZE_LIMIT_BYTES`; series give way (`series`), text and tables never do.
"""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nfslab import __version__
from nfslab.errors import NfslabError
from nfslab.evidence.found import sections_of
from nfslab.report.analysis import analyse
from nfslab.report.html import content, published, tables
from nfslab.report.html.columns import pack
from nfslab.report.html.evidence import NOTES
from nfslab.report.html.figures import PageFigures
from nfslab.report.html.grid import quantile_grid
from nfslab.report.html.offered_load import LoadSection, load_section
from nfslab.report.html.payload import PAYLOAD_SCHEMA
from nfslab.report.html.samples import TRANSACTIONS, counts_operations
from nfslab.report.html.sections import section_html
from nfslab.report.html.series import Series, read_series
from nfslab.report.model import Analysis
from nfslab.results.catalogue import RUNS
from nfslab.results.durable import write_durably
from nfslab.results.outcomes import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2 import Environment

    from nfslab.report.html import payload

SIZE_LIMIT_BYTES = 10_000_000
SERIES_SHARE = 0.9
"""Of what is left of the limit beside the page itself; the rest is a reserve."""
EVIDENCE_SHARE = 0.7
"""Of that room for the figures of evidence."""
METRICS_MOST = 60
"""Metrics that figures can choose from; all are in the results folder."""
LATENCY_PAD = 0.02


def render(source: Path | Analysis, *, baseline: Mapping[str, Any] | None = None) -> str:
    """The report of the experiment at `source` (or of its analysis), as HTML text.

    `baseline`: {axis: level} to compare with, where `source` is a path. Raises
    `ResultsError` when there is no experiment, `NfslabError` when the report would be
    larger than it may be.
    """
    analysis = source if isinstance(source, Analysis) else analyse(source, baseline=baseline)
    names = metric_names(analysis)
    load = load_section(analysis)
    own = list(load.chunks.items())
    figures = PageFigures(analysis.name)
    found = sections_of(analysis)
    evidence = [section_html(section, figures, environment()) for section in found]
    places = [(section.anchor, section.title) for section in found if section.anchor]
    page = _page(analysis, load, evidence, places, chunks=own)
    fixed = len(page.encode()) + sum(len(part) for part in (script(), style()))
    main_size = _main_size(analysis, names)
    room = max(0, int((SIZE_LIMIT_BYTES - fixed - main_size) * SERIES_SHARE))
    drawn = figures.chunks(int(room * EVIDENCE_SHARE))
    series = read_series(_series_runs(analysis), room - sum(map(len, drawn.values())))
    main = main_content(analysis, names, series)
    chunks = [("main", pack(_json(main))), *series.chunks.items()]
    chunks += [*drawn.items(), *own]
    text = _page(analysis, load, evidence, places, series, chunks)
    size = len(text.encode())
    if size > SIZE_LIMIT_BYTES:
        raise NfslabError(
            f"the report would be {size / 1e6:.1f} MB, more than {SIZE_LIMIT_BYTES / 1e6:.0f} MB",
            why=f"{len(analysis.runs)} runs with {len(names)} metrics",
            fix="report a selection, or ask the results with `nfslab query`",
        )
    return text


def write(results: Path, output: Path, *, baseline: Mapping[str, Any] | None = None) -> Path:
    """`render`, written whole or not at all. Raises `OSError` when it cannot be written."""
    write_durably(output, render(results, baseline=baseline).encode())
    return output


def metric_names(analysis: Analysis) -> list[str]:
    """Metrics with values, the primary one first."""
    known = [m.name for m in analysis.metrics if content.metric_values(analysis, m.name)]
    known.sort(key=lambda name: name != analysis.primary)
    return known[:METRICS_MOST]


def _series_runs(analysis: Analysis) -> list[tuple[int, int, int, Path]]:
    folder = locate(Path(analysis.path)) / RUNS
    return [
        (i, run.point, run.block, folder / run.run_id)
        for i, run in enumerate(analysis.runs)
        if run.counted and run.point is not None
    ]


def _main_size(analysis: Analysis, names: list[str]) -> int:
    """Size of the main part as embedded, before the series are known."""
    runs = content.runs_content(analysis, names, {}, set())
    rows = content.comparisons(analysis)
    return len(pack(_json([runs, rows]))) * 2


def main_content(analysis: Analysis, names: list[str], series: Series) -> payload.Main:
    """The main part of the payload."""
    axes = [content.axis_content(axis) for axis in analysis.axes]
    metrics = [found for name in names if (found := content.metric_content(analysis, name))]
    return {
        "schema": PAYLOAD_SCHEMA,
        "name": analysis.name,
        "axes": axes,
        "metrics": metrics,
        "points": [
            {
                "id": point.point_id,
                "label": point.label,
                "levels": content.level_indexes(analysis.axes, point),
                "chunk": series.chunk_of_point.get(point.index),
            }
            for point in analysis.points
        ],
        "estimates": {name: content.estimates(analysis, name) for name in names},
        "interval": {"label": analysis.interval},
        "comparisons": content.comparisons(analysis),
        "facets": content.facets(axes),
        "runs": content.runs_content(analysis, names, series.warm_up_s, series.shown_runs),
        "block_starts": content.block_starts(analysis.runs),
        "time": time_content(series),
        "latency": latency_content(series),
        "evidence": {"panels": series.panels.panels, "note": evidence_note(series)},
        "reference": published.reference(analysis, names),
    }


def time_content(series: Series) -> payload.Time:
    """The time axis and the quantities over it."""
    panels = series.panels
    return {
        "domain": [0.0, panels.end_s],
        "rates": [
            _rate(key, most, panels.rate_span_s[key]) for key, most in panels.rate_most.items()
        ],
    }


def _rate(key: str, most: float, span: tuple[float, float]) -> payload.Rate:
    operations = counts_operations(key)
    what = key if key == TRANSACTIONS else "operations" if operations else "bytes"
    name = key.replace("_", " ")
    label = f"{name} per second" if key == TRANSACTIONS else f"{name} throughput"
    return {
        "key": key,
        "label": label,
        "unit": "1/s" if operations else "B/s",
        "what": what,
        "most": most,
        "span": [span[0], max(span[1], span[0] + 1e-9)],
    }


def latency_content(series: Series) -> payload.Latency:
    """The latency axis, common to all runs."""
    import math

    panels = series.panels
    low, high = panels.latency_domain_s or (-6.0, 0.0)
    nines = max(1.0, math.log10(max(panels.operations_most, 10)))
    kinds: list[payload.Kind] = [
        {"key": key, "label": key.replace("_", " ")} for key in panels.latency_kinds
    ]
    return {
        "kinds": kinds,
        "heat_kinds": [kind for kind in kinds if kind["key"] in panels.heat_most],
        "quantiles": quantile_grid(),
        "nines_domain": [-LATENCY_PAD, nines * (1 + LATENCY_PAD)],
        "domain": [low, high],
        "heat_most": panels.heat_most,
        "quantile_method": (
            "Nearest rank: each value is a latency that was measured, or the upper edge of its "
            "histogram bucket."
        ),
    }


def evidence_note(series: Series) -> str:
    """What the evidence figure has to say about what it leaves out."""
    shown = {panel["key"] for panel in series.panels.panels}
    notes = [text for key, text in NOTES.items() if key in shown]
    if series.evidence_stride > 1:
        notes.append(f"Evidence of 1 in {series.evidence_stride} blocks is in this file.")
    return " ".join(notes)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _run_label(analysis: Analysis) -> Callable[[int, int], str]:
    """What a run is called, by its point and block."""
    return lambda point, block: (
        f"{content.short_point_label(analysis, point) or 'run'}, block {block + 1}"
    )


def _page(
    analysis: Analysis,
    load: LoadSection,
    evidence_sections: list[Markup],
    places: list[tuple[str, str]],
    series: Series | None = None,
    chunks: list[tuple[str, str]] | None = None,
) -> str:
    counted = sum(run.counted for run in analysis.runs)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            a=analysis,
            counted=counted,
            failed=sum(run.status == "failed" for run in analysis.runs),
            created=_day(analysis.created_unix_ns),
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            verdict=tables.sentences(analysis.verdict),
            warnings=tables.warnings(analysis, series),
            warnings_shown=tables.WARNINGS_SHOWN,
            comparisons=tables.comparison_tables(analysis),
            baseline=tables.baseline_text(analysis),
            estimates=tables.estimate_table(analysis),
            evidence=tables.evidence_rows(analysis),
            evidence_sections=evidence_sections,
            places=places,
            failures=analysis.failures,
            load=load,
            command=shlex.join(analysis.command),
            nfslab_version=__version__,
            libraries=tables.libraries(manifest()),
            style=Markup(style()),
            script=Markup(script()),
            chunks=chunks or [],
        )
    )


def _day(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


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


def _asset(*parts: str) -> str:
    return resources.files("nfslab.report.html").joinpath("assets", *parts).read_text("utf-8")


@lru_cache(maxsize=1)
def script() -> str:
    """The vendored bundle; its hash is checked by the tests."""
    return _asset("vendor", "report.min.js")


@lru_cache(maxsize=1)
def style() -> str:
    """The style sheet, the only source of colours."""
    return _asset("report.css")


@lru_cache(maxsize=1)
def manifest() -> dict[str, Any]:
    """What the bundle was made of: versions, licences, hashes."""
    found = json.loads(_asset("vendor", "BUNDLE.json"))
    return dict(found)
