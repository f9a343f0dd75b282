"""How levels of an axis are called in the page."""

from __future__ import annotations

from nfslab.report.html.content import shown_levels
from nfslab.report.model import AxisInfo


def axis(*levels: object) -> AxisInfo:
    numbers = [0.0, 491_520.0, 1_048_576.0]
    return AxisInfo("nvram", ["targets.log.nvram"], list(levels), True, "bytes", numbers, False)


def test_sizes_have_their_unit_and_names_are_as_they_were_given() -> None:
    assert shown_levels(axis(0, "480k", 1_048_576)) == ["0 B", "480 KiB", "1 MiB"]
    assert shown_levels(axis("none", "60 pages", "1M")) == ["none", "60 pages", "1 MiB"]
