"""The evidence of an experiment: facts of all its counted runs, and the sections made of them.

Facts are small and cached, so tables by point are of all counted runs. What a section shows of
single runs (`parts_of`) is bounded, one run of every point before second ones; how many are left
out is said, and `nfslab show` has each.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from nfslab.display.sections import Section
from nfslab.errors import ResultsError
from nfslab.evidence.base import Facts, Found, RunFacts, SealedRun
from nfslab.evidence.by_host import PlacedRun, found_by_host, with_hosts
from nfslab.evidence.cache import facts_of
from nfslab.evidence.registry import evidence_kinds
from nfslab.results.catalogue import RUNS, read_run
from nfslab.results.groups import grouped
from nfslab.results.outcomes import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pydantic import BaseModel

    from nfslab.display.sections import Cell, Column
    from nfslab.evidence.base import EvidenceKind
    from nfslab.report.model import Analysis

PARTS_MOST: Final = 12
"""Runs that a section shows one by one."""

F = TypeVar("F", bound=Facts)


class Placed(Protocol):
    """What has a place in the matrix."""

    @property
    def point(self) -> int:
        """Index of its point."""

    @property
    def block(self) -> int:
        """Its repetition."""


P = TypeVar("P", bound=Placed)


@dataclasses.dataclass(frozen=True, slots=True)
class CountedRun:
    """A run that is in the figures; its record is read when a kind needs it."""

    folder: Path
    point: int
    block: int
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """A kind that has something to tell (or to complain about) of an experiment."""

    kind: EvidenceKind[Any]
    found: Found[Any] | None
    """Of this machine; None: nothing."""
    by_host: dict[str, Found[Any]]
    """Of each client host, where several made the load together."""


def found_evidence(analysis: Analysis) -> Iterator[Told]:
    """Every kind that does."""
    runs = counted_runs(analysis)
    sealed: dict[str, SealedRun] = {}
    for kind in evidence_kinds():
        found = _find(kind, analysis, runs, sealed)
        placed = [
            PlacedRun(one, run.point, run.block, run.label)
            for run in runs
            if (one := sealed.get(run.folder.name)) is not None and one.record.client_hosts
        ]
        by_host = found_by_host(kind, placed, found)
        tells = found.runs or found.problems or kind.workload == analysis.workload
        if tells or by_host:
            yield Told(kind, found if tells else None, by_host)


def find(kind: EvidenceKind[F], analysis: Analysis) -> Found[F]:
    """The facts of one kind, of all counted runs that have them."""
    return _find(kind, analysis, counted_runs(analysis), {})


def sections_of(analysis: Analysis) -> list[Section]:
    """What reports show, in the order of the registry."""
    made = []
    for told in found_evidence(analysis):
        section = None if told.found is None else section_of(told.kind, told.found)
        made.append(with_hosts(told.kind, section, told.by_host))
    return [section for section in made if section is not None]


def point_sections(analysis: Analysis, only: Collection[int]) -> list[Section]:
    """What `nfslab show` says of these points."""
    made = [
        section_of(kind, dataclasses.replace(find(kind, analysis), only=only))
        for kind in evidence_kinds()
        if kind.workload == analysis.workload
    ]
    return [section for section in made if section is not None]


def section_of(kind: EvidenceKind[F], found: Found[F]) -> Section | None:
    """A kind's section with the problems of runs that cannot be read; None: nothing to show."""
    made = kind.section(found) if found.runs or kind.workload else None
    if made is None:
        if not found.problems:
            return None
        made = Section(kind.title, anchor=kind.kind)
    if found.problems:
        made = dataclasses.replace(made, problems=[*made.problems, *found.problems])
    return None if made.empty else made


def content_of(analysis: Analysis) -> dict[str, Any]:
    """What `report --json` has of each kind, by its key; by host, of client hosts: KEY_by_host."""
    made: dict[str, Any] = {}
    for told in found_evidence(analysis):
        kind, found = told.kind, told.found
        key = kind.json_key or kind.kind
        if found is not None and (found.runs or kind.workload):
            made[key] = kind.content(found)
        hosts = {name: kind.content(one) for name, one in told.by_host.items() if one.runs}
        made[f"{key}_by_host"] = hosts
    return {key: content for key, content in made.items() if content}


def figures_at_point(runs: Sequence[SealedRun]) -> dict[str, BaseModel | None]:
    """What kinds of evidence say of a point with these runs, by their `point_key`."""
    made: dict[str, BaseModel | None] = {}
    for kind in evidence_kinds():
        if kind.point_key:
            known = [facts_of(kind, run) for run in runs]
            made[kind.point_key] = kind.at_point([one for one in known if one is not None])
    return made


def point_columns(analysis: Analysis) -> tuple[list[Column], list[list[Cell]]]:
    """What kinds of evidence add to the table of points: headings, and each point's cells."""
    columns: list[Column] = []
    rows: list[list[Cell]] = [[] for _ in analysis.points]
    for kind in evidence_kinds():
        figures = [point.figures.get(kind.point_key) for point in analysis.points]
        if any(one is not None for one in figures):
            columns += kind.point_columns
            for row, one in zip(rows, figures, strict=True):
                row += kind.point_cells(one)
    return columns, rows


def run_sections(run: SealedRun) -> list[Section]:
    """What `nfslab show` says of one run; what cannot be read is a section that says so."""
    made = []
    for kind in evidence_kinds():
        if not kind.present(run):
            continue
        found: Found[Any] = Found(run.run_id, (), (run.run_id,))
        try:
            facts = facts_of(kind, run)
        except ResultsError as error:
            found = dataclasses.replace(found, problems=[problem(run.run_id, error)])
            section = section_of(kind, found)
        else:
            one = RunFacts(run, 0, run.record.block, run.run_id, facts) if facts else None
            section = kind.run_section(one) if one else None
        if section is not None and not section.empty:
            made.append(section)
    return made


def parts_of(
    found: Found[F],
    part: Callable[[RunFacts[F]], Section | None],
    most: int = PARTS_MOST,
) -> tuple[list[Section], list[str]]:
    """Sections of single runs, by point and block, and what has to be said of those left out."""
    chosen = first_of_each_point(found.runs)[:most]
    made = [part(run) for run in sorted(chosen, key=lambda run: (run.point, run.block))]
    left = len(found.runs) - len(chosen)
    runs = "run" if left == 1 else "runs"
    said = [f"{left:,} more {runs} with this evidence: `nfslab show` has each."] if left else []
    return [section for section in made if section is not None], said


def first_of_each_point(runs: Iterable[P]) -> list[P]:
    """First runs of all points, then second ones: the order in which room is given away."""
    seen: dict[int, int] = {}
    ranked = []
    for run in sorted(runs, key=lambda run: (run.point, run.block)):
        seen[run.point] = seen.get(run.point, 0) + 1
        ranked.append((seen[run.point], run.point, run))
    return [run for _, _, run in sorted(ranked, key=lambda entry: entry[:2])]


def by_point(found: Found[F]) -> list[tuple[int, str, list[RunFacts[F]]]]:
    """(index of the point, its label, its runs) of points that have some."""
    points = grouped((run.point, run) for run in found.runs)
    return [(point, found.points[point], runs) for point, runs in sorted(points.items())]


def counted_runs(analysis: Analysis) -> list[CountedRun]:
    """Runs that are in the figures, by point and block."""
    folder = locate(Path(analysis.path)) / RUNS

    def label(point: int, block: int) -> str:
        return f"{analysis.points[point].label}, repetition {block + 1}"

    made = [
        CountedRun(folder / run.run_id, run.point, run.block, label(run.point, run.block))
        for run in analysis.runs
        if run.counted and run.point is not None
    ]
    return sorted(made, key=lambda run: (run.point, run.block))


def problem(name: str, error: ResultsError) -> str:
    """What a report says of a run whose evidence cannot be read."""
    return f"{name}: " + ": ".join(part for part in (error.what, error.why) if part)


def _find(
    kind: EvidenceKind[F],
    analysis: Analysis,
    runs: Sequence[CountedRun],
    sealed: dict[str, SealedRun],
) -> Found[F]:
    made: list[RunFacts[F]] = []
    problems: list[str] = []
    for run in runs:
        name = run.folder.name
        try:
            one = sealed.get(name)
            if one is None:
                one = sealed[name] = SealedRun(run.folder, read_run(run.folder))
            facts = facts_of(kind, one)
        except ResultsError as error:
            problems.append(problem(name, error))
            continue
        if facts is not None:
            made.append(RunFacts(one, run.point, run.block, run.label, facts))
    labels = [point.label for point in analysis.points]
    return Found(analysis.name, made, labels, problems, analysis)
