"""One watch of `nfslab syscalls` as a page: the section of a report, alone."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from markupsafe import Markup

from nfslab import __version__
from nfslab.report.html import tables
from nfslab.report.html.document import environment, manifest, script, style
from nfslab.report.html.syscalls import CallsSection, run_section
from nfslab.results.durable import write_durably

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.report.syscalls import WatchedCalls


def render(calls: WatchedCalls, *, by_file: bool = False, command: Sequence[str] = ()) -> str:
    """The page, as HTML text."""
    section = CallsSection()
    section.runs = [
        run_section(section.chunks, calls, "syncs", "system-calls", "", by_file=by_file)
    ]
    return (
        environment()
        .get_template("syscalls_page.html.j2")
        .render(
            calls=section,
            nfslab_version=__version__,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            command=shlex.join(command),
            libraries=tables.libraries(manifest()),
            style=Markup(style()),
            script=Markup(script()),
            chunks=list(section.chunks.items()),
        )
    )


def write(
    calls: WatchedCalls, path: Path, *, by_file: bool = False, command: Sequence[str] = ()
) -> None:
    """`render`, written whole or not at all; OSError when it cannot be written."""
    write_durably(path, render(calls, by_file=by_file, command=command).encode())
