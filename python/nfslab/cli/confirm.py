"""`nfslab confirm`: the experiment that would refute a finding, run, and what it decided."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.display.called import as_called
from nfslab.errors import ResultsError, UsageError
from nfslab.plugins import meant

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.base import Finding
    from nfslab.findings.confirm import Intervention, Slope
    from nfslab.report.model import Analysis


@click.command(
    "confirm",
    epilog="""\b
Examples:
  nfslab confirm results/quickstart-1a2b3c4d
  nfslab confirm results/quickstart-1a2b3c4d log_sync --write mine.toml --no-run

The experiment has the finding's configuration without and with an intervention, in turns: what it
depends on as at the baseline, a setting, or a delay of its calls in several sizes. The
prediction stands in its file before anything runs. Exit code 3: refuted, or not decided.
""",
)
@click.argument("results", type=click.Path(path_type=Path))
@click.argument("finding", required=False)
@click.option(
    "--write",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="The experiment's file. [default: confirm-NAME-FINDING.toml]",
)
@click.option("--no-run", is_flag=True, help="Write it, and tell the prediction.")
@click.option("--repetitions", type=int, metavar="N", help="Instead of the file's.")
@click.option(
    "--results",
    "into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Where the new experiment's folder is made.",
)
@click.option("--anyway", is_flag=True, help="Do not wait for another experiment of this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print prediction and outcome as JSON.")
def command(
    results: Path, finding: str | None, file: Path | None, into: Path, *, no_run: bool,
    as_json: bool, **asked: Any,
) -> None:  # fmt: skip
    """Test a finding by an intervention: confirmed, refuted, or not decided."""
    from nfslab.cli.new import write_new
    from nfslab.experiment.progress import View
    from nfslab.experiment.session import Options, run_experiment
    from nfslab.findings.confirm import Prediction, Slope, experiment_text, intervention_label
    from nfslab.findings.explanation import confirmation
    from nfslab.report.analysis import analyse
    from nfslab.results.outcomes import locate
    from nfslab.results.store import FILE

    analysis = analyse(results)
    pair, found, intervention = _choose(analysis, finding)
    test = intervention if isinstance(intervention, Slope) else Prediction.of(found)
    original = (locate(Path(analysis.path)) / FILE).read_text(encoding="utf-8")
    text = experiment_text(original, analysis, pair, intervention, test)
    path = file or Path(f"confirm-{analysis.name}-{found.cause}.toml")
    if not (path.is_file() and path.read_text(encoding="utf-8") == text):
        write_new(path, text, "--write")
    told: dict[str, Any] = {
        "file": str(path),
        "intervention": intervention_label(intervention),
    } | asdict(test)
    if not as_json:
        with_it = f"with: {told['intervention']}. File: {path}"
        click.echo(f"{found.sentence}\n{test.sentence()}, {with_it}")
    if no_run:
        if as_json:
            click.echo(json.dumps(told, indent=1))
        return
    view = View(plain=as_json, stream=sys.stderr if as_json else None)
    session = run_experiment(Options(path, results=into, **asked), view)
    tested = confirmation(analyse(session.folder.path))
    decided = tested.decided if tested is not None else "not decided"
    said = tested.sentence if tested is not None else decided
    if as_json:
        click.echo(json.dumps(told | {"outcome": decided, "said": said}, indent=1))
    else:
        report = shlex.quote(str(session.folder.path))
        click.echo(as_called(f"{said}\nreport: nfslab report {report}"))
    sys.exit(0 if decided == "confirmed" else 3)


def _choose(
    analysis: Analysis, cause: str | None
) -> tuple[Compared, Finding, Intervention | Slope]:
    """The first finding (of that cause) with an intervention; ResultsError says why none has."""

    from nfslab.findings.explanation import first_testable, named
    from nfslab.findings.registry import FINDINGS

    if cause is not None and cause not in FINDINGS:
        fix = f"{meant(cause, FINDINGS)}known: {', '.join(FINDINGS)}"
        raise UsageError(f"there is no finding {cause!r}", fix=fix)
    known = [(pair, one) for pair, one in named(analysis) if cause in (None, one.cause)]
    if (chosen := first_testable(known, analysis)) is not None:
        return chosen
    fix = "; ".join(dict.fromkeys(f"{one.cause}: {one.confirm}" for _, one in known))
    raise ResultsError(
        "no finding can be tested by a file",
        why="there is none" if not known else "none has an intervention that a file can make",
        fix=f"by hand: {fix}" if known else "see `nfslab explain`: what more evidence would tell",
    )
