"""The most connections that conform: steps of a search (`offered.search`), in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.offered.search import Search, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.workloads.web.parameters import WebParameters


CONFIRMED_MOST: Final = 5
"""Times that less is tried, a precision each."""
COUNTS: Final = ("done", "failed", "unfinished", "verified_replies")
"""Of requests, what a load is judged by."""


@dataclass(frozen=True, slots=True)
class Step:
    """One number of connections, tried."""

    connections: int
    conforming: int
    verdict: Verdict
    done: int
    failed: int
    searched: bool = True
    """False: the timed part."""


@dataclass(slots=True)
class Found:
    """What the search came to."""

    steps: list[Step] = field(default_factory=list)
    most: int = 0
    """0: not even one connection conformed."""
    limit: str = ""
    """Why it may be more: "generator" or "bound"; empty: a larger number did not conform."""


def failed_share(report: dict[str, Any]) -> float:
    """Returns how many of the requests failed that ended, or ought to have.

    Wrong bytes are a share of the replies whose bytes were compared, all else of all requests. On
    lines the load may end before a reply does.
    """
    requests, wrong = report["requests"], int(report["errors"].get("wrong_bytes", 0))
    on_lines = report["connections"]["conforming"] is not None
    failed = requests["failed"] - wrong + (0 if on_lines else requests["unfinished"])
    if not requests["done"]:
        return 1.0
    share = failed / (requests["done"] + wrong + failed)
    return float(share + wrong / (requests["verified_replies"] + wrong)) if wrong else share


def together(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a load is judged by, of the reports of its processes, or of what this made of some."""

    def total(part: str, name: str) -> int:
        return sum(int(one[part][name] or 0) for one in reports)

    kinds = {reason["kind"] for one in reports for reason in one["reasons"]}
    return {
        "connections": {name: total("connections", name) for name in ("asked", "conforming")},
        "requests": {name: total("requests", name) for name in COUNTS},
        "errors": {"wrong_bytes": sum(one["errors"].get("wrong_bytes", 0) for one in reports)},
        "reasons": [{"kind": str(kind)} for kind in sorted(kinds)],
    }


def step_of(report: dict[str, Any], p: WebParameters, *, searched: bool = True) -> Step:
    """A load on lines, judged. What the generator could not do says nothing of the server."""
    lines, requests = report["connections"], report["requests"]
    conforming = lines["conforming"] or 0
    right = conforming >= p.conforming_share * lines["asked"]
    verdict: Verdict = "good" if right and failed_share(report) <= p.errors_max else "bad"
    late = any(reason["kind"].startswith("generator") for reason in report["reasons"])
    if late:
        verdict = "invalid"
    return Step(lines["asked"], conforming, verdict, requests["done"], requests["failed"], searched)


def search(p: WebParameters, load: Callable[[int, float], dict[str, Any]]) -> Found:
    """`load` makes one step with so many connections for so many seconds; the core's report of it,
    or what `together` makes of several.

    Steps are shorter than the timed part, and lines that conform for so long may not for longer:
    what was found is tried at that length, and less of it until it conforms.
    """
    found = Found()
    asking = Search(float(p.connections), p.precision)
    while (wanted := asking.next_load()) is not None:
        connections = min(max(1, round(wanted)), p.connections_max)
        if any(step.connections == connections for step in found.steps):
            break  # nothing lies between the two edges
        step = _tried(found, p, connections, lambda number: load(number, p.step))
        asking.tell(float(connections), step.verdict)
        if connections == p.connections_max and step.verdict == "good":
            break
    found.most = round(asking.good or 0)
    if asking.bounded_by_generator:
        found.limit = "generator"
    elif found.most == p.connections_max and asking.bad is None:
        found.limit = "bound"
    if p.duration > p.step:
        _confirm(found, p, lambda number: load(number, p.duration))
    return found


def _tried(
    found: Found, p: WebParameters, connections: int, load: Callable[[int], dict[str, Any]]
) -> Step:
    """A step; once more where nothing was learnt of the server: somebody else may have been busy
    just then."""
    step = step_of(load(connections), p)
    found.steps.append(step)
    if step.verdict == "invalid":
        step = step_of(load(connections), p)
        found.steps.append(step)
    return step


def _confirm(found: Found, p: WebParameters, load: Callable[[int], dict[str, Any]]) -> None:
    """What conforms for as long as the timed part takes."""
    for _ in range(CONFIRMED_MOST):
        if not found.most:
            return
        step = _tried(found, p, found.most, load)
        if step.verdict != "bad":
            found.limit = "generator" if step.verdict == "invalid" else found.limit
            return
        found.limit = ""
        found.most = min(found.most - 1, int(found.most * (1 - p.precision)))
