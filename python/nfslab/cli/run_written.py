"""Experiments that a command writes, runs and shows at once: `try`, `sfs`, `files`."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from nfslab.cli.arguments import print_json
from nfslab.display.called import as_called
from nfslab.errors import Interrupted, RunFailed, UsageError, system_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nfslab.experiment.progress import View
    from nfslab.experiment.session import Session
    from nfslab.report.model import Analysis
    from nfslab.workloads.base import WorkloadParameters

    Told = tuple[dict[str, Any], list[str]]
    """What is printed: for programs, and for a person."""

NO_LIMIT: Final = "7d"
"""Of a run: it lasts as long as was asked."""
P = TypeVar("P", bound="WorkloadParameters")


def parameters_of(model: type[P], values: Mapping[str, Any]) -> P:
    """The workload's, of what options say (None: nothing); UsageError."""
    from pydantic import ValidationError

    try:
        known = {key: value for key, value in values.items() if value is not None}
        known.pop("kind", None)
        return model(**known)
    except ValidationError as error:
        said = (
            ": ".join([*map(str, one["loc"]), one["msg"].removeprefix("Value error, ")])
            for one in error.errors()
        )
        raise UsageError("; ".join(said), fix="see --help") from error


def view_of(*, as_json: bool) -> View:
    """Progress; on standard error beside JSON."""
    from nfslab.experiment.progress import View

    return View(plain=as_json, stream=sys.stderr if as_json else None)


def carry_out(
    name: str,
    content: str,
    run: Callable[[Path], Session],
    tell: Callable[[Analysis], Told],
    *,
    as_json: bool,
    html: Path | None = None,
    failures_count: bool = True,
    failures_told: bool = False,
) -> NoReturn:
    """Run the file, print what it came to, write the report (or `html`), leave with the exit code.

    Interrupted, it prints what was measured. `failures_told`: `tell` has the failed runs, too.
    """
    from nfslab.experiment.summary import summarise, summary_lines
    from nfslab.report.analysis import analyse
    from nfslab.report.html.document import write_html

    with tempfile.TemporaryDirectory(prefix=f"nfslab-{name}-") as folder:
        file = Path(folder) / f"{name}.toml"
        file.write_text(content, encoding="utf-8")
        try:
            session = run(file)
        except Interrupted as error:
            if error.folder is not None:
                error.fix = f"to go on: {_again(error.folder)}"
                if (analysis := analyse(error.folder)).runs:
                    told, lines = tell(analysis)
                    print_json(told) if as_json else click.echo(as_called("\n".join(lines)))
            raise
    summary = summarise(session)
    analysis = analyse(session.folder.path)
    path = html or session.folder.path / "report.html"
    with system_errors(f"cannot write {path}", "give another file", RunFailed):
        page = write_html(analysis, path)
    told, lines = tell(analysis)
    code = summary.exit_code if failures_count else 0
    if as_json:
        print_json(summary.as_dict() | told | {"exit_code": code, "report": str(page)})
    else:
        click.echo(as_called("\n".join(["", *lines, ""])))
        if code and not failures_told:
            click.echo("\n".join(summary_lines(summary, _again(session.folder.path))))
        click.echo(f"report: {page}")
    sys.exit(code)


def _again(folder: Path) -> str:
    """The command that makes what is missing: our own begins anew."""
    from nfslab.results.store import FILE

    return shlex.join(["nfslab", "run", str(folder / FILE), "--continue", str(folder)])
