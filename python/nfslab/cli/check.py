"""`nfslab check`: is everything in a results folder what was sealed?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from nfslab.cli.arguments import print_json
from nfslab.display.numbers import counted
from nfslab.display.progress import Progress
from nfslab.display.terminal import printable
from nfslab.errors import ResultsError


@click.command(
    "check",
    epilog="""\b
Examples:
  nfslab check results
  nfslab check results/placement-2001-1a2b3c4d --json

\b
Reads every byte of every sealed run and compares it with the checksums of its sealing (CRC-32 in
the run's checksums.json); experiment.json, experiment.toml, the catalogue and facts have theirs.
Of what was made before there were checksums only what cannot be read is found. Exit code: 0 all is
whole, 1 something is damaged. `nfslab run` makes damaged runs again; the catalogue and facts are
made anew of the runs by whoever reads them.
""",
)
@click.argument("results", type=click.Path(path_type=Path, exists=True), default=Path("results"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(results: Path, as_json: bool) -> None:
    """Check all files that reports read below RESULTS (default: results)."""
    from nfslab.results.outcomes import located

    paths = located(results)
    with Progress(sys.stderr, quiet_s=1.0, every_s=10.0) as progress:
        found = [_checked(path, progress) for path in paths]
    if as_json:
        print_json(found)
    else:
        _print(found)
    if any(one["damaged"] or one["caches"] or one["problem"] for one in found):
        sys.exit(1)


def _checked(path: Path, progress: Progress) -> dict[str, Any]:
    """Runs of one experiment, and which file of which run is damaged, and how."""
    from nfslab.evidence.cache import changed_facts
    from nfslab.results.catalogue import CATALOGUE, RUNS, changed_lines, read_run, scan_runs
    from nfslab.results.checksums import CHANGED, CHECKSUMS, damage
    from nfslab.results.store import ExperimentFolder

    damaged: dict[str, dict[str, str]] = {}
    problem, sealed, without = "", [], 0
    try:
        ExperimentFolder.open(path)
        sealed = sorted(scan_runs(path / RUNS)[0])
    except ResultsError as error:
        problem = error.in_a_line(": ")
    for number, run_id in enumerate(sealed):
        progress.show(path.name, number, len(sealed), f"run {run_id}")
        run = path / RUNS / run_id
        without += not (run / CHECKSUMS).exists()
        found = damage(run, "whole")
        try:
            read_run(run)
        except ResultsError as error:
            found.setdefault("run.json", error.why or error.what)
        if found:
            damaged[run_id] = found
    caches = {str(file.relative_to(path)): CHANGED for file in changed_facts(path)}
    if lines := changed_lines(path):
        caches[CATALOGUE] = f"{counted(lines, 'line')}: {CHANGED}"
    return {
        "folder": path.name,
        "path": str(path),
        "problem": problem,
        "runs": len(sealed),
        "without_checksums": without,
        "damaged": damaged,
        "caches": caches,
    }


def _print(found: list[dict[str, Any]]) -> None:
    for one in found:
        for run_id, files in one["damaged"].items():
            for name, why in files.items():
                click.echo(printable(f"damaged: {one['folder']}/runs/{run_id}/{name}: {why}"))
        for name, why in one["caches"].items():
            click.echo(printable(f"damaged: {one['folder']}/{name}: {why}"))
        words = [f"{len(one['damaged'])} of {counted(one['runs'], 'run')} damaged"]
        if one["without_checksums"]:
            words.append(f"{one['without_checksums']} without checksums")
        click.echo(printable(f"{one['folder']}: {one['problem'] or ', '.join(words)}"))
