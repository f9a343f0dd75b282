"""`nfslab explain`: where the time goes, what differs, and why, of results that are there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from nfslab.display.terminal import section_lines
from nfslab.errors import ResultsError, UsageError


@click.command(
    "explain",
    epilog="""\b
Examples:
  nfslab explain results/log-placement-1a2b3c4d
  nfslab explain results/x-* --markdown      # for a ticket
  nfslab explain results/x-* --json          # parts, differences, findings

What more evidence would explain, it names: run again with those collectors.
""",
)
@click.argument("results", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Parts, differences and findings as JSON.")
@click.option("--markdown", is_flag=True, help="A block for a ticket.")
def command(results: Path, *, as_json: bool, markdown: bool) -> None:
    """Take the mean time of an operation apart, and what makes one configuration slower."""
    from nfslab.findings.explanation import content, explained
    from nfslab.report.analysis import analyse

    if as_json and markdown:
        raise UsageError("--json and --markdown are two forms", fix="give one of them")
    analysis = analyse(results)
    if as_json:
        click.echo(json.dumps(content(analysis), indent=1, allow_nan=False))
        return
    sections = explained(analysis)
    if analysis.emulated:
        click.echo(f"{analysis.emulated}\n")
    if not sections:
        raise ResultsError(
            f"{results}: no run tells what an operation's time was spent in",
            why="its workload is none whose operation is known, or no run is ok",
            fix='run pgbench, files or sfs; collectors = ["postgres", "fsync"] tell most',
        )
    if markdown:
        from nfslab.display.markdown import section_text

        click.echo("\n\n".join(map(section_text, sections)))
        return
    kept = [
        dataclasses.replace(section, tables=[one for one in section.tables if one.open])
        for section in sections
    ]
    click.echo("\n\n".join("\n".join(section_lines(section)) for section in kept))
