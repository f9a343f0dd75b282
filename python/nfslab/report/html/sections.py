"""A `display.sections.Section` -> HTML of a page: the one way in which any evidence appears."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

    from nfslab.display.sections import Section
    from nfslab.report.html.figures import PageFigures


def section_html(section: Section, figures: PageFigures, environment: Environment) -> Markup:
    """The section under a heading; its figures are placed among those of the page."""
    template = environment.get_template("section.html.j2")
    return Markup(template.render(section=section, place=figures.place))  # autoescaped there
