"""The runs' captures in an experiment's report: each as the page of a capture shows it.

A run that the collector `capture` watched has its analysis in `evidence/`. One run of every
point is shown first, then second runs, as far as `RUNS_MOST` and the report's size allow; a
capture that is too large loses its single points before it is left out. What is left out is
counted and said, with the command that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nfslab.errors import ResultsError
from nfslab.evidence.capture.stored import ANALYSIS_TABLE, stored_analysis
from nfslab.report.html.capture import capture_sections
from nfslab.report.shown_runs import RUNS_MOST, first_of_each_point, problem
from nfslab.results.evidence_tables import has_evidence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from markupsafe import Markup

    from nfslab.captures.analysis import CaptureAnalysis

ROOM_SHARE = 0.5
"""Of the report's room for series; the captures' points are its largest part."""
POINTS = "points"


@dataclass(frozen=True, slots=True)
class Watched:
    """A counted run with a capture: where it is, and what it is called."""

    folder: Path
    point: int
    block: int
    label: str


@dataclass(slots=True)
class RunCaptures:
    """What goes into the page."""

    sections: list[tuple[str, Markup]] = field(default_factory=list)
    """(label, HTML), in the order of points and blocks."""
    chunks: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    """Runs with a capture that is not in the page."""
    problems: list[str] = field(default_factory=list)
    """Runs whose capture cannot be read, and why."""
    size_bytes: int = 0


def read_captures(runs: Sequence[Watched], room_bytes: int) -> RunCaptures:
    """The captures of these runs, within the room."""
    found = RunCaptures()
    chosen: list[tuple[Watched, Markup]] = []
    for run in first_of_each_point(runs):
        if len(chosen) >= RUNS_MOST:
            found.left_out += 1
            continue
        try:
            capture = stored_analysis(run.folder, run.label)
        except ResultsError as error:
            found.problems.append(problem(run.label, error))
            continue
        if capture is None:
            continue
        name = f"capture-{len(chosen)}"
        for candidate in (capture, _without_points(capture)):
            made = capture_sections([candidate], name)
            size = len(made.html.encode()) + sum(map(len, made.chunks.values()))
            if found.size_bytes + size <= room_bytes:
                chosen.append((run, made.html))
                found.chunks.update(made.chunks)
                found.size_bytes += size
                break
        else:
            found.left_out += 1
    chosen.sort(key=lambda one: (one[0].point, one[0].block))
    found.sections = [(run.label, html) for run, html in chosen]
    return found


def has_capture(run: Path) -> bool:
    """Did the collector store an analysis in this run's folder?"""
    return has_evidence(run, ANALYSIS_TABLE)


def _without_points(capture: CaptureAnalysis) -> CaptureAnalysis:
    content = {key: value for key, value in capture.content.items() if key != POINTS}
    return replace(capture, content=content)
