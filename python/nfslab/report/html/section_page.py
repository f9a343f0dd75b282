"""Sections as a page of their own: what a command saw without an experiment around it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from nfslab import __version__
from nfslab.report.html import tables
from nfslab.report.html.document import environment, manifest, script, style
from nfslab.report.html.figures import PageFigures
from nfslab.report.html.sections import section_html
from nfslab.results.durable import write_durably

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nfslab.display.sections import Section

ROOM_BYTES: Final = 64_000_000
"""For the figures: some four captures of two million calls."""


def render(
    sections: Sequence[Section],
    name: str,
    command: Sequence[str] = (),
    *,
    title: str = "",
    about: str = "",
    facts: Mapping[str, Any] | None = None,
) -> str:
    """The page, as HTML text; `name` is part of the names of saved pictures.

    `title`: default: that of the first section; `about`: a line below it; `facts`: where it comes
    from, below the sections.
    """
    figures = PageFigures(name)
    body = [section_html(section, figures, environment()) for section in sections]
    return (
        environment()
        .get_template("section_page.html.j2")
        .render(
            title=title or sections[0].title,
            about=about,
            sections=body,
            facts=tables.flat(facts or {}),
            nfslab_version=__version__,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            command=shlex.join(command),
            libraries=tables.libraries(manifest()),
            style=Markup(style()),
            script=Markup(script()),
            chunks=list(figures.chunks(ROOM_BYTES).items()),
        )
    )


def write(sections: Sequence[Section], path: Path, name: str, **options: Any) -> None:
    """`render`, written whole or not at all; OSError when it cannot be written."""
    write_durably(path, render(sections, name, **options).encode())
