"""Sections as a page of their own: what a command saw without an experiment around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.report.html import tables
from nfslab.report.html.document import section_html, whole_page
from nfslab.report.html.figures import PageFigures
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
    body = [section_html(section, figures) for section in sections]
    return whole_page(
        "section_page.html.j2",
        figures.chunks(ROOM_BYTES),
        command,
        title=title or sections[0].title,
        about=about,
        sections=body,
        facts=tables.flat(facts or {}),
    )


def write(sections: Sequence[Section], path: Path, name: str, **options: Any) -> None:
    """`render`, written whole or not at all; OSError when it cannot be written."""
    write_durably(path, render(sections, name, **options).encode())
