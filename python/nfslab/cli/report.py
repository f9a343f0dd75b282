"""`nfslab report`: the HTML page, the block for a ticket, or the analysis as JSON."""

from __future__ import annotations

from pathlib import Path

import click

from nfslab.errors import UsageError, system_errors
from nfslab.results.durable import write_durably


@click.command(
    "report",
    epilog="""\b
Examples:
  nfslab report results/placement-2001-1a2b3c4d
  nfslab report results/placement-2001-1a2b3c4d --html /tmp/placement.html
  nfslab report results/*
  nfslab report results/placement-2001-1a2b3c4d --markdown | xclip
  nfslab report results/placement-2001-1a2b3c4d --json | jq .verdict
""",
)
@click.argument("results", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--html", type=click.Path(path_type=Path), help="Write the page to this file.")
@click.option("--markdown", is_flag=True, help="Print one block to paste into a ticket.")
@click.option("--json", "as_json", is_flag=True, help="Print the analysis as JSON.")
@click.option(
    "--baseline",
    metavar="AXIS=LEVEL",
    help="Compare with this level (default: the first level of the first axis of names).",
)
def command(
    results: tuple[Path, ...],
    html: Path | None,
    markdown: bool,
    as_json: bool,
    baseline: str | None,
) -> None:
    """Write the report of the experiment in RESULTS, or of each of several.

    Without options: one HTML page, `report.html` in the experiment's folder, that opens
    offline in any browser.
    """
    from nfslab.report.analysis import analyse
    from nfslab.report.registry import report_renderer

    if markdown and as_json:
        raise UsageError(
            "--markdown and --json both print: give one of them", fix="leave one of them out"
        )
    if len(results) > 1 and (html is not None or as_json):
        one_of = "file" if html is not None else "JSON document"
        raise UsageError(
            f"{len(results)} experiments, and one {one_of}",
            why=", ".join(map(str, results)),
            fix="name one of them; without --html and --json each gets its own page",
        )
    for one in results:
        analysis = analyse(one, baseline=_baseline(baseline))
        if html is not None or not (markdown or as_json):
            path = html if html is not None else Path(analysis.path) / "report.html"
            _write(path, report_renderer("html")(analysis))
            click.echo(f"{path}", err=markdown or as_json)
        if markdown or as_json:
            click.echo(report_renderer("markdown" if markdown else "json")(analysis), nl=False)


def _baseline(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    axis, equals, level = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is no baseline", fix="write AXIS=LEVEL")
    return {axis: level}


def _write(path: Path, text: str) -> None:
    """The file, whole or not at all."""
    with system_errors(f"cannot write {path}", "give another file with --html FILE"):
        write_durably(path, text.encode())
