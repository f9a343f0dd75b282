"""`nfslab run`: carry an experiment out, or what is missing of it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import anyway_option, print_json, repetitions_option, results_option
from nfslab.display.called import as_called
from nfslab.errors import UsageError

if TYPE_CHECKING:
    from nfslab.experiment.session import Options

EPILOG = """\b
Examples:
  nfslab run experiments/placement-2001.toml --dry-run
  nfslab run my-test.toml --set workload.scale=50 --set 'axes.clients=[1, 8]'
  nfslab run quickstart --repetitions 10

Experiments that come with nfslab: quickstart, placement-2001, bonnie-2001, files-sweep-2004,
variants-2003, queries-2001, web-2001, engines-2001, engines-tpcc, engines-queries; with the
client on another host remote-client-2001; in virtual machines kernels-2003, engines-mounts,
kernel-clients; over NFS placement-nfs-2001, mount-options-2001, rpcstat-2001, nfs-sweep-2004,
sfs-threads-1999, sfs-threads-ganesha, from several client hosts sfs-clients-1999; syncs
fsync-2001. Each answers a question that those studies left open (docs/answers): answer-clients,
answer-nvram, answer-stripe, answer-noac, answer-drain, answer-timeout, answer-rpc,
answer-threads.

Running the same file again makes only the runs that are missing. Exit code: 0 all runs
are good, 1 a run failed, 2 the file or an option is wrong or a configuration cannot run here
(nothing was run; --dry-run says the same), 130 stopped.
"""


@click.command("run", epilog=EPILOG)
@click.argument("file")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a value of the file for this call (again for more).",
)
@repetitions_option
@results_option
@click.option("--dry-run", is_flag=True, help="Show what would run, time and space; run nothing.")
@click.option(
    "--continue",
    "continue_in",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Go on in this folder although the file or the machine has changed.",
)
@click.option("--new", is_flag=True, help="Begin anew beside earlier results.")
@click.option("--keep-failed", is_flag=True, help="Do not try failed runs again.")
@click.option("--skip-unavailable", is_flag=True, help="Leave out what cannot run here.")
@anyway_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(file: str, dry_run: bool, as_json: bool, **asked: Any) -> None:
    """Run an experiment file (or what is missing of it).

    FILE is a TOML file, or the name of an experiment that comes with nfslab.
    """
    from nfslab.experiment.session import Options
    from nfslab.shipped import find_experiment_file

    if asked["new"] and asked["continue_in"] is not None:
        raise UsageError("--new and --continue contradict each other", fix="give one of them")
    options = Options(find_experiment_file(file), called=("nfslab", "run", file), **asked)
    if dry_run:
        sys.exit(_show_plan(options, as_json=as_json))
    sys.exit(_carry_out(options, as_json=as_json))


def _show_plan(options: Options, *, as_json: bool) -> int:
    """Print what would happen; the exit code."""
    from nfslab.experiment.dry_run import dry_run, dry_run_lines
    from nfslab.experiment.session import read_options

    plan = dry_run(read_options(options), options)
    if as_json:
        print_json(plan.as_dict())
    else:
        click.echo(as_called("\n".join(dry_run_lines(plan))))
    return UsageError.exit_code if plan.refused else 0


def _carry_out(options: Options, *, as_json: bool) -> int:
    """Run, sum up; the exit code."""
    from nfslab.experiment.progress import View
    from nfslab.experiment.session import run_experiment
    from nfslab.experiment.summary import summarise, summary_lines
    from nfslab.report.analysis import analyse
    from nfslab.report.verdict import conclusion

    view = View(plain=as_json, stream=sys.stderr if as_json else None)
    session = run_experiment(options, view)
    summary, concluded = summarise(session), conclusion(analyse(session.folder.path))
    if as_json:
        print_json(summary.as_dict() | {"conclusion": concluded})
    else:
        click.echo(as_called("\n".join(["", *concluded])))
        click.echo("\n".join(summary_lines(summary, shlex.join(options.command()))))
    return summary.exit_code
