"""`nfslab new`: an experiment file to begin with, commented, which runs as it stands."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from nfslab.display.called import as_called
from nfslab.display.terminal import table
from nfslab.errors import UsageError
from nfslab.plugins import meant

STDOUT = Path("-")


@click.command(
    "new",
    epilog="""\b
Examples:
  nfslab new
  nfslab new pgbench
  nfslab new command --out tests/tar.toml
""",
)
@click.argument("kind", required=False)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File to write; - for standard output.  [default: KIND.toml]",
)
def command(kind: str | None, out: Path | None) -> None:
    """Write an experiment file for a KIND of workload; without KIND, list the kinds.

    The file compares two storages of this machine and runs as it stands; its comments say
    what to change.
    """
    from nfslab.shipped import template_files

    files = template_files()
    if kind is None:
        click.echo(_kinds(files))
        return
    if kind not in files:
        fix = f"{meant(kind, files)}known: {', '.join(files)}"
        raise UsageError(f"there is no kind of workload {kind!r}", fix=fix)
    text = files[kind].read_text(encoding="utf-8")
    path = out or Path(f"{kind}.toml")
    if path == STDOUT:
        click.echo(text, nl=False)
        return
    write_new(path, text.replace(f"{kind}.toml", shlex.quote(str(path))), "--out")
    follows = as_called(f"nfslab run {shlex.quote(str(path))} --dry-run")
    click.echo(f"{path} is written. Next: {follows}")


def write_new(path: Path, text: str, option: str) -> None:
    """A file that is not there yet; UsageError names `option`, which named it."""
    fix = f"give another name with {option}"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is there already", fix=fix) from None
    except OSError as error:
        raise UsageError(f"cannot write {path}", why=str(error.strerror), fix=fix) from error


def _kinds(files: dict[str, Path]) -> str:
    """A line each."""
    from nfslab.workloads.registry import workload_class

    rows = [[kind, workload_class(kind).summary] for kind in files]
    return table(["kind", "what it does"], rows)
