"""A point alone: what its operation's time is bound by, without another point beside it.

Effects are the parts themselves: how much of the mean operation a cause has at most. What would
happen without it is the part's removal (no other part grows), and Amdahl's law in a closed load:
the rate rises at most as the mean operation becomes shorter. A queue before the server's workers
goes with their utilisation: U = XS/m, calls a second times mean service over the workers. Causes of
one stage are told apart by kinds of calls, or not named.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.display.numbers import interval, quantity
from nfslab.evidence.anatomy.parts import ELSEWHERE, label_of
from nfslab.findings.base import LEAST_SHARE, Finding, one_of, sure_of
from nfslab.findings.calls import Call, calls_at
from nfslab.statistics.intervals import t_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.anatomy.differences import PointAnatomy
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts
    from nfslab.findings.base import Cause

LEAST_RUNS: Final = 3
"""With fewer the interval is that of all that could be, and the confidence low."""
LEAST_NAMED: Final = 0.02
"""Of the effect: smaller parts of it go without a word."""
CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Alone:
    """A point with its runs."""

    at: PointAnatomy
    runs: Sequence[RunFacts[AnatomyFacts]]

    @property
    def calls(self) -> Mapping[str, Call]:
        """Its NFS calls, by kind; empty: not recorded."""
        return calls_at(self.runs)

    def paths(self, names: Sequence[str]) -> tuple[str, ...]:
        """Parts with these names, wherever they lie."""
        return tuple(path for path in self.at.parts_ns if path.rpartition("/")[2] in names)

    def share(self, cause: Cause, paths: Sequence[str], because: str = "") -> Finding | None:
        """The finding that these parts are a tenth of the operation or more."""
        return _share(cause, self, paths, because)

    def lost(
        self, cause: Cause, own_ns: Sequence[float], what: str, because: str
    ) -> Finding | None:
        """Likewise of time that is no part, run by run."""
        return _share_of(cause, self, own_ns, what, because)

    def workers_busy(self) -> float | None:
        """Mean utilisation of the server's workers, by the utilisation law; None: their number, or
        the calls, are not known."""
        known = [_utilisation(run) for run in self.runs]
        shares = [share for share in known if share is not None]
        return sum(shares) / len(shares) if shares and len(shares) == len(known) else None


def _share(cause: Cause, point: Alone, paths: Sequence[str], because: str) -> Finding | None:
    at = point.at
    mine = tuple(path for path in paths if path in at.parts_ns)
    own_ns = sum(at.parts_ns[path] for path in mine)
    said_of = [label_of(path) for path in mine if at.parts_ns[path] >= LEAST_NAMED * own_ns]
    if not mine:
        return None
    bias_ns = sum(at.bias_ns.get(path, 0.0) for path in mine)
    tables = [run.facts.by_path() for run in point.runs]
    sums = [sum(table[path].ns for path in mine if path in table) for table in tables]
    found = _share_of(cause, point, sums, " and ".join(said_of), because, bias_ns)
    if found is None:
        return None
    evidence = (*(f"{label} (#anatomy)" for label in said_of), *found.evidence)
    return dataclasses.replace(found, evidence=evidence, paths=mine)


def _share_of(
    cause: Cause,
    point: Alone,
    own_ns: Sequence[float],
    what: str,
    because: str,
    bias_ns: float = 0.0,
) -> Finding | None:
    """The finding that so much of the operation, run by run, is in `what`; None: below a tenth.

    `bias_ns`: how far samples may have it off.
    """
    at, mean_ns = point.at, sum(own_ns) / len(own_ns)
    if mean_ns < LEAST_SHARE * at.mean_ns:
        return None
    few = len(own_ns) < LEAST_RUNS
    low, high = 0.0, at.mean_ns
    if not few:
        ends = t_interval(np.array([own_ns]), CONFIDENCE)
        low, high = (float(one[0]) for one in ends)
    low, high = max(low - bias_ns, 0.0), min(high + bias_ns, at.mean_ns)
    said = (
        f"{at.label}: {one_of(at.operation)} takes {quantity(at.mean_ns, 'ns')}; "
        f"{quantity(mean_ns, 'ns')} ({interval(low, high, 'ns')}) of it, "
        f"{mean_ns / at.mean_ns:.0%}, is in {what}"
    )
    left_ns = at.mean_ns - mean_ns
    less, faster = "not less", ""
    if ELSEWHERE in at.parts_ns:
        # Requests wait for a server that is in calls for others: that goes, too.
        less = "were all other parts as they are"
    elif left_ns > 0:
        faster = f", at most {at.mean_ns / left_ns:.3g} times as many in a closed load (Amdahl)"
    return Finding(
        cause=cause.cause,
        sentence=f"{said}: {because}." if because else f"{said}.",
        effect_ns=mean_ns,
        interval_ns=(low, high),
        confidence="low" if few else sure_of(mean_ns, bias_ns),
        without_it=f"{one_of(at.operation)} would take {quantity(left_ns, 'ns')}, {less}{faster}",
        evidence=(because,) if because else (),
        confirm=cause.confirm,
        because=because,
    )


def _utilisation(run: RunFacts[AnatomyFacts]) -> float | None:
    facts = run.facts
    workers = [
        model["threads"]
        for place in run.run.record.places.values()
        if (model := place.facts.get("nfs", {}).get("served", {}).get("model") or {}).get("threads")
    ]
    load = run.run.record.load
    threads = load.clients if load is not None else None
    if not workers or not threads or not facts.calls:
        return None
    # By Little's law an operation of each of the load's threads is under way all the time.
    busy_ns = sum(
        one.per_operation * one.parts_ns.get("server processing", 0.0) for one in facts.calls
    )
    return float(threads * busy_ns / facts.mean_ns / max(workers))
