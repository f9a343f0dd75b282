"""Is a cluster fit? For each host: reachable, same nfslab, clocks, what it can mount and watch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab.cluster.identity import SAME, UNKNOWN, facts_here, shown
from nfslab.display.numbers import quantity
from nfslab.errors import NfslabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nfslab.cluster.base import Clocks
    from nfslab.cluster.remote import MemberThere

GROUPS = {"targets": "can mount", "collectors": "can watch"}
"""Groups of `nfslab doctor` that are told of."""
ASKED_AT_ONCE = 16


@dataclass(slots=True)
class HostReport:
    """What was found of one host."""

    name: str
    address: str = ""
    problem: NfslabError | None = None
    """Why it is not fit; the rest is what was found before."""
    facts: dict[str, Any] = field(default_factory=dict)
    clocks: Clocks | None = None
    probes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Fit."""
        return self.problem is None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        here = facts_here()
        problem = None
        if self.problem is not None:
            problem = {
                "what": self.problem.what, "why": self.problem.why, "fix": self.problem.fix,
            }  # fmt: skip
        return {
            "host": self.name,
            "address": self.address,
            "reachable": bool(self.facts),
            "same": {part: self.facts.get(part) == here[part] for part in SAME if self.facts},
            "problem": problem,
            "facts": self.facts,
            "clocks": None if self.clocks is None else {
                "monotonic": self.clocks.monotonic.model_dump(),
                "realtime": self.clocks.realtime.model_dump(),
            },
            "probes": self.probes,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.name}{f' ({self.address})' if self.address else ''}"
        yield f"  {_mark(bool(self.facts))} reachable"
        for part in SAME if self.facts else ():
            here, there = facts_here()[part], self.facts.get(part, UNKNOWN)
            told = there if here == there else f"{there}; here {here}"
            yield f"  {_mark(here == there)} same {part}: {told}"
        if self.clocks is not None:
            for name, record in asdict(self.clocks).items():
                offset, error = record.offset_ns / 1e9, record.error_ns / 1e9
                way = "ahead of" if offset >= 0 else "behind"
                told = f"{quantity(abs(offset), 's')} {way} here, to ± {quantity(error, 's')}"
                yield f"      {name} clock: {told}"
        for group, words in GROUPS.items():
            yield from self._group(group, words)
        if self.problem is not None:
            yield from (f"      {line}" for line in self.problem.lines())

    def _group(self, group: str, words: str) -> Iterator[str]:
        found = [probe for probe in self.probes if probe.get("group") == group]
        if not found:
            return
        able = [str(probe.get("name")) for probe in found if probe.get("ok")]
        yield f"      {words}: {', '.join(able) or 'nothing'}"
        for probe in found:
            if not probe.get("ok"):
                yield f"      cannot: {probe.get('name')}: {probe.get('found')}"


def _mark(ok: bool) -> str:
    return "yes" if ok else "no "


def checked(members: Sequence[MemberThere]) -> list[HostReport]:
    """Of members that were not greeted yet."""
    reports = [_greeted(member) for member in members]
    # After all clocks: the doctor gives processors something to do.
    with ThreadPoolExecutor(min(len(members), ASKED_AT_ONCE) or 1) as pool:
        list(pool.map(_asked, members, reports))
    return reports


def _greeted(member: MemberThere) -> HostReport:
    report = HostReport(member.name, member.address)
    try:
        member.connect()
        report.clocks = member.clocks()
    except NfslabError as error:
        report.problem = error
    report.facts = member.facts()
    return report


def _asked(member: MemberThere, report: HostReport) -> None:
    if not report.ok:
        return
    try:
        report.probes = [
            {key: value if isinstance(value, bool) else shown(value) for key, value in one.items()}
            for one in member.doctor()["probes"]
            if isinstance(one, dict)
        ]
    except NfslabError as error:
        report.problem = error
