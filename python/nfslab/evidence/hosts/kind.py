"""Client hosts beside each other: who did how much, who was slower, later or busier, what differs.

All of it stands in the record of a run; there is no table of its own. A host is *slower* when its
operations took `SLOWER` times as long as those of the host in the middle, *later* when it began
`LATER_NS` behind that one, *busier* when it used `BUSIER` more of its processors. Two hosts have no
middle: each is held against the other.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display import cells
from nfslab.display.figures import Axis, Figure, Part, Stacked, Whole
from nfslab.display.numbers import percent, quantity
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import EvidenceKind, Facts
from nfslab.evidence.found import by_point
from nfslab.evidence.over_time import middle
from nfslab.results import alike

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab.display.sections import Shown
    from nfslab.evidence.base import Found, RunFacts, SealedRun
    from nfslab.results.records import RunHostRecord

SLOWER: Final = 1.25
LATER_NS: Final = 1_000_000
BUSIER: Final = 0.2
NAMED_MOST: Final = 12
"""Sentences about single hosts; further ones are counted."""
INTRO: Final = (
    "Several client hosts made each load together, from one common start. Shares are of all "
    "operations; skew is when a host's programs began, by their own account, behind that start."
)


class HostFacts(Facts):
    """One client host in one run."""

    name: str
    address: str
    kernel: str
    processes: int
    operations: float | None
    share: float | None
    planned_share: float | None
    mean_latency_ns: float | None
    cpu_busy: float | None
    skew_ns: int | None
    error_ns: int
    """Of the clocks' comparison."""
    offset_ns: int
    drift_ppm: float | None
    silence_ns: int


class HostsFacts(Facts):
    """Of one run."""

    hosts: tuple[HostFacts, ...]
    server: HostFacts | None = None
    """Where the servers were, if not on the machine that nfslab ran on."""
    differences: tuple[str, ...]
    effect_share: float | None
    """What the skew can have left out of the timed part, at most."""


class HostsEvidence(EvidenceKind[HostsFacts]):
    """Who made the load."""

    kind: ClassVar[str] = "hosts"
    title: ClassVar[str] = "Client hosts"
    Facts: ClassVar[type[Facts]] = HostsFacts
    version: ClassVar[int] = 2

    def present(self, run: SealedRun) -> bool:
        """Did several hosts make it?"""
        return bool(run.record.client_hosts)

    def facts(self, run: SealedRun) -> HostsFacts:
        """As recorded."""
        checks = {check.name: check.values for check in run.record.checks}
        server = run.record.server_host
        return HostsFacts(
            hosts=tuple(_facts(one) for one in run.record.client_hosts),
            server=None if server is None else _facts(server),
            differences=tuple(alike.differences(run.record.checks)),
            effect_share=checks.get("start_skew", {}).get("effect_share"),
        )

    def section(self, found: Found[HostsFacts]) -> Section | None:
        """Of all counted runs."""
        differ = alike.sentence(text for run in found.runs for text in run.facts.differences)
        sentences = [differ] if differ else []
        sentences += [*_shares(found), *_served(found), *_named(found), *_start(found)]
        return Section(
            self.title,
            anchor=self.kind,
            intro=INTRO,
            sentences=sentences,
            tables=[Table.of("Each host at each configuration", list(_rows(found)), COLUMNS)],
            figures=_figure(found),
        )


def _facts(record: RunHostRecord) -> HostFacts:
    clock = record.clock
    names = HostFacts.model_fields.keys() - {"error_ns", "offset_ns", "kernel"}
    known = {name: getattr(record, name) for name in names}
    known["kernel"] = str(record.facts.get("kernel", ""))
    return HostFacts(error_ns=clock.error_ns, offset_ns=clock.offset_ns, **known)


class _Row:
    """A host at a point: medians over the runs."""

    def __init__(self, point: str, name: str, hosts: Sequence[HostFacts]) -> None:
        self.point, self.name, self.hosts = point, name, hosts

    def of(self, name: str) -> Any:
        """The median of a figure."""
        return middle(getattr(one, name) for one in self.hosts)

    def most(self, name: str) -> int | None:
        """The largest of a figure, whatever its sign."""
        known = [getattr(one, name) for one in self.hosts if getattr(one, name) is not None]
        return max(known, key=abs) if known else None


COLUMNS: Final[Sequence[Shown[_Row]]] = (
    (Column("configuration", False), lambda row: cells.text(row.point)),
    (Column("host", False), lambda row: cells.text(row.name)),
    (Column("address", False), lambda row: cells.text(row.hosts[0].address)),
    (Column("kernel", False), lambda row: cells.text(row.hosts[0].kernel)),
    (Column("processes"), lambda row: cells.count(row.hosts[0].processes)),
    (Column("planned"), lambda row: cells.share(row.of("planned_share"))),
    (Column("share"), lambda row: cells.share(row.of("share"))),
    (Column("operations"), lambda row: cells.number(row.of("operations"))),
    (Column("mean response"), lambda row: cells.latency(row.of("mean_latency_ns"))),
    (Column("CPU busy"), lambda row: cells.share(row.of("cpu_busy"))),
    (Column("max skew"), lambda row: cells.latency(row.most("skew_ns"))),
    (Column("clock, compared to"), lambda row: cells.latency(row.most("error_ns"))),
    (Column("clock ahead"), lambda row: cells.latency(row.most("offset_ns"))),
    (Column("drift, ppm"), lambda row: cells.number(row.of("drift_ppm"))),
    (Column("longest silence"), lambda row: cells.latency(row.most("silence_ns"))),
)


def _rows(found: Found[HostsFacts]) -> Iterator[_Row]:
    for _, label, runs in by_point(found):
        names = dict.fromkeys(one.name for run in runs for one in run.facts.hosts)
        for name in names:
            same = [one for run in runs for one in run.facts.hosts if one.name == name]
            yield _Row(label, name, same)


def _shares(found: Found[HostsFacts]) -> list[str]:
    """How many there were, and how evenly they shared."""
    many = sorted({len(run.facts.hosts) for run in found.runs})
    processes = sorted({one.processes for run in found.runs for one in run.facts.hosts})
    word = "client host" if many == [1] else "client hosts"
    each = "process" if processes == [1] else "processes"
    said = f"{_listed(many)} {word} with {_listed(processes)} {each} each"
    uneven = [
        one.share / one.planned_share
        for run in found.runs
        for one in run.facts.hosts
        if one.share is not None and one.planned_share
    ]
    if not uneven or many == [1]:
        return [f"{said}."]
    low, high = percent(min(uneven)), percent(max(uneven))
    return [f"{said}; each did {low} to {high} of what was planned for it."]


def _served(found: Found[HostsFacts]) -> list[str]:
    """Where the servers were."""
    servers = [run.facts.server for run in found.runs if run.facts.server is not None]
    if not servers:
        return []
    names = dict.fromkeys(f"{one.name} ({one.address})" for one in servers)
    busy = middle(one.cpu_busy for one in servers)
    told = "" if busy is None else f"; it used {percent(busy)} of its processors"
    error = quantity(max(one.error_ns for one in servers), "ns")
    return [f"The servers were on {', '.join(names)}{told}. Its clock was compared to {error}."]


def _listed(values: Sequence[int]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


def _start(found: Found[HostsFacts]) -> list[str]:
    """The worst start of all runs, and what it can have done."""
    known = [
        (abs(one.skew_ns) + one.error_ns, one.name, run)
        for run in found.runs
        for one in run.facts.hosts
        if one.skew_ns is not None
    ]
    if not known:
        return []
    most_ns, name, run = max(known, key=lambda one: one[0])
    said = (
        f"All began within {quantity(most_ns, 'ns')} of their common start ({name} in {run.label}"
    )
    effects = [run.facts.effect_share for run in found.runs if run.facts.effect_share is not None]
    if effects:
        said += f"), which is at most {percent(max(effects))} of a timed part."
        return [said]
    return [f"{said})."]


def _named(found: Found[HostsFacts]) -> list[str]:
    """Hosts that were slower, later or busier than the others."""
    said = [text for run in found.runs for text in _of_run(run)]
    left = len(said) - NAMED_MOST
    more = [f"{left} more such findings stand in the table below."] if left > 0 else []
    return said[:NAMED_MOST] + more


def _of_run(run: RunFacts[HostsFacts]) -> Iterator[str]:
    hosts = run.facts.hosts

    def others(name: str, one: HostFacts) -> float | None:
        known = [getattr(other, name) for other in hosts if other is not one]
        known = [value for value in known if value is not None]
        return median(known) if known else None

    ways: tuple[tuple[str, Callable[[Any, Any], str]], ...] = (
        ("mean_latency_ns", _slower),
        ("skew_ns", _later),
        ("cpu_busy", _busier),
    )
    for one in hosts:
        for name, way in ways:
            mine, theirs = getattr(one, name), others(name, one)
            if mine is not None and theirs is not None and (text := way(mine, theirs)):
                yield f"{one.name} was {text} ({run.label})."


def _slower(mine: float, theirs: float) -> str:
    if mine <= SLOWER * theirs:
        return ""
    return (
        f"slower: its operations took {quantity(mine, 'ns')}, "
        f"those of the others {quantity(theirs, 'ns')}"
    )


def _later(mine: float, theirs: float) -> str:
    return f"later by {quantity(mine - theirs, 'ns')}" if mine - theirs > LATER_NS else ""


def _busier(mine: float, theirs: float) -> str:
    if mine - theirs <= BUSIER:
        return ""
    return f"busier: {percent(mine)} of its processors, {percent(theirs)} of the others'"


def _figure(found: Found[HostsFacts]) -> list[Figure]:
    """Operations of each host at each point."""
    rows = list(_rows(found))
    names = list(dict.fromkeys(row.name for row in rows))
    points = list(dict.fromkeys(row.point for row in rows))
    done = {(row.point, row.name): row.of("operations") for row in rows}
    if len(names) < 2 or not any(done.values()):
        return []
    wholes = [Whole(point, [done.get((point, name)) or 0.0 for name in names]) for point in points]
    drawing = Stacked(Axis("operations", ""), [Part(name) for name in names], wholes)
    caption = "Operations of each host at each point: medians over the runs."
    return [Figure.of("hosts-shares", "Shares of the client hosts", caption, drawing)]
