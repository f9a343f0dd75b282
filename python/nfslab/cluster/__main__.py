"""`python -m nfslab.cluster`: what launchers start (docs/cluster.md), and what ssh does.

    certificates --dir DIR                             makes those of a cluster
    scheduler --dir DIR [--host H] [--port P]          the meeting point
    worker --dir DIR [--scheduler ADDRESS] [--name N]  one on each host
    facts                                              which nfslab this is, as JSON
    ordered, detached                                  what to be is read as one line of JSON

Each says one line of JSON on its standard output when it is up, or why it is not.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from urllib.parse import quote

import click

from nfslab.cluster.certificates import Papers
from nfslab.cluster.identity import facts_here
from nfslab.cluster.needed import engine_version
from nfslab.cluster.record import running_address
from nfslab.cluster.serving import serve_scheduler, serve_worker
from nfslab.cluster.starting import begin
from nfslab.errors import NfslabError, UsageError
from nfslab.machine.agent import error_content
from nfslab.machine.journal import state_folder

DEFAULT_PORT = 8786
FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group()
def main() -> None:
    """The processes of a cluster."""


@main.command()
@click.option("--dir", "folder", type=FOLDER, required=True, help="A folder to be made.")
def certificates(folder: Path) -> None:
    """Make those of a new cluster: for a scheduler that something else starts."""
    if folder.exists():
        raise UsageError(
            f"{folder} exists already",
            why="the certificates of a cluster in it would be of no use any more",
            fix="name another folder, or remove this one",
        )
    Papers.new().write(folder)


@main.command()
@click.option("--dir", "folder", type=FOLDER, required=True, help="The cluster's certificates.")
@click.option("--host", default="", help="Listen on this address alone; default: all.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, help="0: any.")
def scheduler(folder: Path, host: str, port: int) -> None:
    """The meeting point, until SIGTERM."""
    sys.exit(serve_scheduler(Papers.of(folder), host, port))


@main.command()
@click.option("--dir", "folder", type=FOLDER, required=True, help="The cluster's certificates.")
@click.option(
    "--scheduler", "address", metavar="tls://HOST:PORT",
    help="Default: that which `nfslab cluster start --dir DIR` has recorded in the folder.",
)  # fmt: skip
@click.option("--name", default=None, help="Of this host in the cluster; default: its host name.")
@click.option("--host", default=None, help="The address at which others reach this host.")
def worker(folder: Path, address: str | None, name: str | None, host: str | None) -> None:
    """One on each host, until the scheduler ends."""
    who = name or socket.gethostname()
    where = running_address(folder, address)
    sys.exit(serve_worker(Papers.of(folder), where, who, host))


@main.command()
def ordered() -> None:
    """What the line says; keys never are in a command's words, where others can read them."""
    said = json.loads(sys.stdin.buffer.readline())
    papers = Papers(**said["papers"])
    lives = said["lives_by_input"]
    if said["do"] == "scheduler":
        sys.exit(serve_scheduler(papers, said["host"], said["port"], lives_by_input=lives))
    sys.exit(
        serve_worker(
            papers, said["scheduler"], said["name"], said.get("host"), lives_by_input=lives
        )
    )


@main.command()
def facts() -> None:
    """One line of JSON."""
    click.echo(json.dumps(facts_here() | {"engine": engine_version()}))


@main.command()
def detached() -> None:
    """As `ordered`, in a session of its own that stays when the line was said (for ssh)."""
    order = json.loads(sys.stdin.buffer.readline())
    folder = state_folder() / "cluster-logs"
    folder.mkdir(mode=0o700, exist_ok=True)
    log = folder / f"{quote(str(order.get('name', 'scheduler')), safe='')}.log"
    # Of the last start alone.
    log.unlink(missing_ok=True)
    try:
        _, said = begin(order, log)
    except NfslabError as error:
        said = {"event": "error", **error_content(error)}
    click.echo(json.dumps(said))


if __name__ == "__main__":
    try:
        main()
    except NfslabError as error:
        print(f"nfslab: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
