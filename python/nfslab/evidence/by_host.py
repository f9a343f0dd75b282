"""What several hosts saw, each for itself: a part of a kind's section for each of them.

Facts of a host are computed of what it sealed (hosts/NAME of the run), as of any run. They
are never mixed with those of this machine, or with each other: medians are over runs of one host.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from nfslab.display.sections import Section
from nfslab.errors import ResultsError
from nfslab.evidence.base import Facts, Found, RunFacts, SealedRun
from nfslab.evidence.cache import facts_of
from nfslab.results.catalogue import read_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.base import EvidenceKind

F = TypeVar("F", bound=Facts)


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run and its place in the matrix."""

    run: SealedRun
    point: int
    block: int
    label: str


def found_by_host(
    kind: EvidenceKind[F], runs: Sequence[PlacedRun], whole: Found[F]
) -> dict[str, Found[F]]:
    """What each client host saw; `whole` names the experiment and its points."""
    if not kind.tables:
        return {}  # it tells of points, or of the record
    made: dict[str, list[RunFacts[F]]] = {}
    problems: dict[str, list[str]] = {}
    for one in runs:
        # What the server's host saw is the run's own.
        for host in one.run.record.client_hosts:
            try:
                part = read_part(one.run.folder, host.name)
                sealed = SealedRun(one.run.folder / host.folder, part)
                facts = facts_of(kind, sealed)
            except ResultsError as error:
                problems.setdefault(host.name, []).append(f"{one.label}: {error.in_a_line()}")
                continue
            if facts is not None:
                run_facts = RunFacts(sealed, one.point, one.block, one.label, facts)
                made.setdefault(host.name, []).append(run_facts)
    return {
        name: Found(whole.name, made.get(name, []), whole.points, problems.get(name, []))
        for name in dict.fromkeys([*made, *problems])
    }


def with_hosts(
    kind: EvidenceKind[F], section: Section | None, hosts: Mapping[str, Found[F]]
) -> Section | None:
    """The section of a kind with a part for each client host that has such evidence."""
    parts = []
    for name, found in hosts.items():
        part = (kind.section(found) if found.runs else None) or Section(kind.title)
        part = dataclasses.replace(part, problems=[*part.problems, *found.problems])
        if not part.empty:
            parts.append(_named(part, name))
    if not parts:
        return section
    whole = section or Section(kind.title, anchor=kind.kind)
    return dataclasses.replace(whole, parts=[*whole.parts, *parts])


def _named(section: Section, host: str) -> Section:
    """Titles and places in a page of one host's part."""

    def figure(id: str) -> str:
        return f"{id}-{host}"

    tables = [
        dataclasses.replace(
            table,
            anchor=table.anchor and figure(table.anchor),
            look=table.look and (table.look[0], figure(table.look[1])),
        )
        for table in section.tables
    ]
    figures: list[Any] = [
        dataclasses.replace(one, id=figure(one.id), link=one.link and figure(one.link))
        for one in section.figures
    ]
    return dataclasses.replace(
        section,
        title=f"On host {host}",
        anchor="",
        intro="",
        tables=tables,
        figures=figures,
        parts=[_inner(part, host) for part in section.parts],
    )


def _inner(section: Section, host: str) -> Section:
    """The same of parts within it, which keep their titles."""
    return dataclasses.replace(_named(section, host), title=section.title, intro=section.intro)
