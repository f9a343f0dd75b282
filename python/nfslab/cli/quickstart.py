"""`nfslab quickstart`: the first comparison, from nothing to a report that is open."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import anyway_option, repetitions_option, results_option
from nfslab.display.called import as_called

if TYPE_CHECKING:
    from pathlib import Path

EPILOG = """\b
Examples:
  nfslab quickstart
  nfslab quickstart --repetitions 10 --no-open

It runs the experiment `quickstart` (see `nfslab run quickstart --dry-run`). Called again, it
runs what is missing and writes the report again.
"""


@click.command("quickstart", epilog=EPILOG)
@results_option
@repetitions_option
@anyway_option
@click.option("--no-open", is_flag=True, help="Do not open the report in a browser.")
def command(results: Path, repetitions: Any, anyway: bool, no_open: bool) -> None:
    """Compare where a PostgreSQL database and its log live, and open the report.

    Data and log local, over NFS or in memory, one and eight clients, four repetitions in
    random order: four to five minutes.
    """
    from nfslab.experiment.progress import View
    from nfslab.experiment.session import Options, run_experiment
    from nfslab.experiment.summary import summarise, summary_lines
    from nfslab.report.analysis import analyse
    from nfslab.report.html.document import write_html
    from nfslab.report.verdict import conclusion
    from nfslab.shipped import experiment_files

    options = Options(
        file=experiment_files()["quickstart"],
        repetitions=repetitions,
        results=results,
        anyway=anyway,
        called=("nfslab", "quickstart"),
    )
    session = run_experiment(options, View())
    summary = summarise(session)
    analysis = analyse(session.folder.path)
    click.echo(as_called("\n".join(["", *conclusion(analysis)])))
    click.echo("\n".join(summary_lines(summary, shlex.join(options.command()))[:-1]))
    if summary.ok:
        report = write_html(analysis, session.folder.path / "report.html").resolve()
        click.echo(f"report: {report}")
        if not no_open and _has_display():
            click.launch(str(report))
    sys.exit(summary.exit_code)


def _has_display() -> bool:
    """Is there a desktop on which a browser could open? (A text browser is no help.)"""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
