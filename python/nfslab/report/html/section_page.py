"""One section as a page of its own: what a command saw without an experiment around it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from markupsafe import Markup

from nfslab import __version__
from nfslab.report.html import tables
from nfslab.report.html.document import (
    DATA_SHARE,
    SIZE_LIMIT_BYTES,
    environment,
    manifest,
    script,
    style,
)
from nfslab.report.html.figures import PageFigures
from nfslab.report.html.sections import section_html
from nfslab.results.durable import write_durably

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.display.sections import Section


def render(section: Section, name: str, command: Sequence[str] = ()) -> str:
    """The page, as HTML text; `name` is part of the names of saved pictures."""
    figures = PageFigures(name)
    body = section_html(section, figures, environment())
    chunks = figures.chunks(int(SIZE_LIMIT_BYTES * DATA_SHARE))
    return (
        environment()
        .get_template("section_page.html.j2")
        .render(
            title=section.title,
            section=body,
            nfslab_version=__version__,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            command=shlex.join(command),
            libraries=tables.libraries(manifest()),
            style=Markup(style()),
            script=Markup(script()),
            chunks=list(chunks.items()),
        )
    )


def write(section: Section, path: Path, name: str, command: Sequence[str] = ()) -> None:
    """`render`, written whole or not at all; OSError when it cannot be written."""
    write_durably(path, render(section, name, command).encode())
