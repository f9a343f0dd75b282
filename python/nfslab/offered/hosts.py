"""A point measured by the generator processes of several hosts: kept on each, read, put together.

    each host:   its parts of the load (`processes.Generators`) ──> files in its run's folder
    one place:   the files of all hosts ──> one clock ──> the core adds them up

Sums are integers on the way and histograms are whole: a point of several hosts is as exact as one
of a single process. Instants in them are of each host's clock; how that stood to ours moves the
load's four instants, and nothing else, as all others are durations. A file of another host is read
as text that the core checks: what is no part of this point is refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.machine import handed
from nfslab.machine.handed import HandedOver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab._core import Load
    from nfslab.context import HostPart, Share
    from nfslab.offered.processes import Part

_PROCESS: Final = re.compile(r"^generator process (\d+) of (\d+)")
_INSTANTS: Final = ("start_ns", "window_start_ns", "window_end_ns", "end_ns")


class Handed(HandedOver):
    """What one generator process handed over."""

    sums: str | None
    """As `Load.run_part` made them; None: see `lost`."""
    began_ns: int | None
    lost: str | None
    plan: dict[str, Any]
    """Of the whole load."""


@dataclass(frozen=True, slots=True)
class OfHost:
    """What the processes of one host did in the window."""

    answered: int
    response_ns: int
    """Sum of all responses."""
    planned_share: float
    """Of the whole load."""

    @property
    def mean_ns(self) -> float | None:
        """Mean response."""
        return self.response_ns / self.answered if self.answered else None


def handed_over(part: Part, plan: dict[str, Any]) -> Handed:
    """What a process handed over; `plan` is that of the whole load."""
    return Handed(
        index=part.index, sums=part.sums, began_ns=part.began_ns, lost=part.lost, plan=plan
    )


def read(host: HostPart) -> list[Handed]:
    """What that host kept, its instants on our clock; RunFailed."""
    kept = handed.read(host, Handed)
    try:
        return [moved(one, host.offset_ns) for one in kept]
    except (ValueError, LookupError, TypeError) as error:
        what = f"what generator processes measured on {host.name}"
        raise handed.unreadable(what, error) from error


def plan_of(of_host: dict[str, list[Handed]]) -> dict[str, Any]:
    """The plan of the whole load, which all hosts had, each with the server as it sees it."""
    (first, plan), *others = ((name, one.plan) for name, some in of_host.items() for one in some)
    for name, other in others:
        if other | {"servers": plan.get("servers")} != plan:
            raise _no_point(f"{name} had another plan than {first}")
    return plan


def merged(hosts: Sequence[HostPart]) -> tuple[dict[str, Any], Load, dict[str, OfHost]]:
    """The point's report, the object with its histograms, and what each host did; RunFailed."""
    from nfslab._core import CoreError, Load

    of_host = {host.name: read(host) for host in hosts}
    whole = [one for some in of_host.values() for one in some]
    sums = [one.sums for one in whole if one.sums is not None]
    lost = [(one.index, one.lost or "it said nothing") for one in whole if one.sums is None]
    if not sums:
        raise RunFailed(
            "no generator process measured anything",
            why=lost[0][1],
            fix="see what ended them: memory, limits, somebody's kill",
        )
    load = Load(json.dumps(plan_of(of_host)))
    try:
        report = load.merge(sums, lost)
        planned = {one["process"]: one["offered_ops_per_s"] for one in report["processes"]}
        total = sum(planned.values())
        figures = {
            name: _of_host(some, sum(planned.get(one.index, 0.0) for one in some) / total)
            for name, some in of_host.items()
        }
    except (CoreError, ValueError, LookupError, TypeError) as error:
        raise _no_point(str(error)) from error
    for reason in [*report["reasons"], *(r for p in report["processes"] for r in p["reasons"])]:
        reason["text"] = named(reason["text"], [(host.name, host.share) for host in hosts])
    return report, load, figures


def _no_point(why: str) -> RunFailed:
    return RunFailed(
        "what the client hosts measured is not one point",
        why=why,
        fix="see that all have the same nfslab; if so, please report this",
    )


def named(text: str, hosts: Sequence[tuple[str, Share]]) -> str:
    """A reason of the core's with the name of the host in it."""
    found = _PROCESS.match(text)
    if found is None:
        return text
    index = int(found[1]) - 1
    for name, share in hosts:
        if index in share.indices:
            place = index - share.indices.start + 1
            return f"{name}, generator process {place} of {share.processes}{text[found.end() :]}"
    return text


def moved(one: Handed, offset_ns: int) -> Handed:
    """Sums whose load began at the same instant of our clock; LookupError, ValueError, ..."""
    if one.sums is None or not offset_ns:
        return one
    sums = json.loads(one.sums)
    times = sums["measured"]["accounts"]["times"]
    times |= {name: times[name] - offset_ns for name in _INSTANTS}
    return one.model_copy(update={"sums": json.dumps(sums)})


def _of_host(parts: Sequence[Handed], planned_share: float) -> OfHost:
    answered = response_ns = 0
    for one in parts:
        if one.sums is not None:
            for row in json.loads(one.sums)["measured"]["operations"]:
                answered += row["measured"]
                response_ns += (row["responses"] or {}).get("sum_ns", 0)
    return OfHost(answered, response_ns, planned_share)
