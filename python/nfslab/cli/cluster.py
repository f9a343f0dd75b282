"""`nfslab cluster`: several machines for one experiment: check, start, stop.

Exit code: 0; 1 a host is not fit or did not start or stop; 2 bad usage.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nfslab.cli.arguments import polite_kill
from nfslab.display.called import as_called

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

EPILOG = """\b
Examples:
  nfslab cluster check load1 load2 root@load3
  nfslab cluster start load1 load2
  nfslab cluster check
  nfslab cluster stop
  nfslab cluster check --scheduler tls://controller:8786 --dir /shared/certificates --json

\b
docs/cluster.md has recipes for ssh, Slurm, Kubernetes and MPI, and says who can do what.
"""


def _with(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorated(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


FOLDER = click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="The cluster's certificates and record; default: in nfslab's state folder.",
)  # fmt: skip
SCHEDULER = click.option(
    "--scheduler", metavar="ADDRESS", help="tls://HOST:PORT of one that launchers started."
)
PYTHON = click.option(
    "--python", default="", metavar="PATH", help="nfslab's Python there; default: as here."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
HOSTS = click.argument("hosts", nargs=-1, metavar="[HOST]...")


@click.group("cluster", epilog=EPILOG)
def command() -> None:
    """Measure from several machines: are they fit, start them, stop them."""


@command.command("check", epilog=EPILOG)
@_with(HOSTS, SCHEDULER, FOLDER, PYTHON, JSON)
@click.option(
    "--members", type=click.IntRange(min=1), metavar="N",
    help="Of a cluster that runs: wait until so many have joined; another number is an error.",
)  # fmt: skip
def check_command(
    hosts: tuple[str, ...],
    scheduler: str | None,
    folder: Path | None,
    python: str,
    as_json: bool,
    members: int | None,
) -> None:
    """For each host: reachable, same nfslab, clock offset and its error, what it can do.

    HOSTs are reached over ssh, as an experiment would, and left as they were. Without them: those
    of the cluster that runs.
    """
    from nfslab.cluster.commands import check

    with polite_kill():
        reports = check(hosts, scheduler, folder, python, members)
    if as_json:
        click.echo(json.dumps({"hosts": [report.as_json() for report in reports]}, indent=2))
    else:
        for report in reports:
            for line in report.lines():
                click.echo(as_called(line))
        fit = sum(report.ok for report in reports)
        click.echo(f"{fit} of {len(reports)} hosts are fit")
    sys.exit(0 if all(report.ok for report in reports) else 1)


@command.command("start", epilog=EPILOG)
@_with(HOSTS, FOLDER, PYTHON, JSON)
@click.option("--port", default=0, metavar="N", help="Of the scheduler; default: a free one.")
def start_command(
    hosts: tuple[str, ...], folder: Path | None, python: str, as_json: bool, port: int
) -> None:
    """Start a scheduler here and, over ssh, a worker on each HOST; they run until `stop`.

    Makes the cluster's certificates. Without HOSTs: certificates and scheduler alone, for a
    launcher (Slurm, Kubernetes, MPI) that starts the workers.
    """
    from nfslab.cluster.commands import start_to_stay

    with polite_kill():
        running = start_to_stay(hosts, folder, python, port, _say)
    if as_json:
        click.echo(json.dumps({"address": running.address, "dir": str(running.folder)}))
    else:
        click.echo(f"scheduler: {running.address}")
        click.echo(f"certificates: {running.folder}")


@command.command("stop", epilog=EPILOG)
@_with(HOSTS, SCHEDULER, FOLDER, JSON)
def stop_command(
    hosts: tuple[str, ...], scheduler: str | None, folder: Path | None, as_json: bool
) -> None:
    """Stop the cluster: its agents, its workers, its scheduler; with HOSTs, their workers alone."""
    from nfslab.cluster.commands import stop_running

    told = stop_running(hosts, scheduler, folder)
    if as_json:
        click.echo(json.dumps({"hosts": {name: why or "ended" for name, why in told.items()}}))
    else:
        for name, why in sorted(told.items()):
            click.echo(f"{name}: {why or 'ended'}")
        if not hosts:
            click.echo("scheduler: ended")
    sys.exit(1 if any(told.values()) else 0)


def _say(sentence: str) -> None:
    print(f"nfslab: {sentence}", file=sys.stderr, flush=True)
