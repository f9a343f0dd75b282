"""The web workload on several client hosts: what each hands over, and the load of all of them.

    prime: documents, server up ──> told: its address ──> each step of the search, and the timed
    load, begun at one instant on all hosts ──> sums of each process ──> the core adds them up

All hosts make the search: each tells the others what came of a step on it, and by the sums all take
the same next one. Posts of all loads are handed over: the log of the server has them all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.machine import handed
from nfslab.machine.handed import HandedOver
from nfslab.offered.hosts import named
from nfslab.workloads.base import HostFigures
from nfslab.workloads.web.search import Found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.context import HostPart

PARTS_MAX: Final = 1 << 10
"""Generator processes of one load, as the core has it."""
REPORT: Final = "load-report.json"
"""In the run's `logs`: the timed load of all hosts."""


class Handed(HandedOver):
    """What one process hands over."""

    sums: str | None
    """Of the timed load; None: it had no connection in it."""
    posts: list[dict[str, Any]]
    """Of all its loads."""
    found: Found
    """What the search came to: the same on all."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What all hosts did."""

    report: dict[str, Any]
    """Of the timed load."""
    posts: list[dict[str, Any]]
    found: Found
    by_host: dict[str, HostFigures]


def merged(parts: Sequence[HostPart]) -> Whole:
    """All of it, instants on our clock; RunFailed for what is no part of one load."""
    from nfslab._core import CoreError, merge_web_parts

    found = [(part, one) for part in parts for one in handed.read(part, Handed)]
    first = found[0][1].found
    for part, one in found:
        if one.found != first:
            raise RunFailed(
                f"{part.name} came to another end of the search than {found[0][0].name}",
                fix="see that all have the same nfslab; if so, please report this",
            )
    sums = [(one.sums, part.offset_ns) for part, one in found if one.sums is not None]
    try:
        report = json.loads(merge_web_parts(sums))
    except CoreError as error:
        raise RunFailed(error.what, why=error.why, fix=error.fix) from error
    shares = [(part.name, part.share) for part in parts]
    for reason in [*report["reasons"], *(r for p in report["processes"] for r in p["reasons"])]:
        reason["text"] = named(reason["text"], shares)
    posts = [writer for _, one in found for writer in one.posts]
    by_host = {part.name: _figures(report, part) for part in parts}
    return Whole(report, posts, first, by_host)


def _figures(report: dict[str, Any], part: HostPart) -> HostFigures:
    """Requests done, their mean latency; planned by connections, of an open load by rate."""
    processes = report["processes"]
    own = [one for one in processes if one["process"] in part.share.indices]
    done = sum(one["done"] for one in own)
    time_ns = sum(one["done"] * one["mean_ns"] for one in own if one["done"])
    planned = sum(one["connections"] for one in own) / report["connections"]["asked"]
    if report["requests"]["offered_per_s"] is not None:
        planned = len(own) / len(processes)
    return HostFigures(float(done), time_ns / done if done else None, planned)
