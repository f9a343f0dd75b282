"""Two points' NFS calls: did their number grow, or their time, and where in a call.

A queue grows when what it leads to gets slower: waiting in the client and for the server's workers
is counted to the slower service, or the longer way, where one is shown to have grown. Only queues
that grew by themselves are causes of their own.

More calls or slower calls: the sum of n t over kinds of calls changes by (n1 - n0) t0, which is of
their number, and by n1 (t1 - t0), which is of their time.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.evidence.anatomy.differences import together
from nfslab.findings.base import LEAST_SHARE, Cause, effect
from nfslab.findings.interventions import At
from nfslab.findings.slopes import planned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.anatomy.differences import Compared, Difference
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts
    from nfslab.findings.alone import Alone
    from nfslab.findings.base import Finding
    from nfslab.findings.confirm import Slope
    from nfslab.report.model import Analysis

SERVICE: Final = ("server processing",)
SERVER_QUEUE: Final = ("server queue",)
WIRE: Final = ("request transit", "reply transit", "outside")
RPC_BACKLOG: Final = ("RPC backlog",)
QUEUES: Final = (SERVER_QUEUE, RPC_BACKLOG)
BEFORE: Final = {
    SERVICE: (*SERVER_QUEUE, *RPC_BACKLOG), SERVER_QUEUE: RPC_BACKLOG, WIRE: RPC_BACKLOG,
}  # fmt: skip
"""Stage -> the queues that lead to it."""
LEADS_TO: Final = {SERVER_QUEUE: (SERVICE,), RPC_BACKLOG: (SERVICE, WIRE, SERVER_QUEUE)}
"""Queue -> what it waits for; a queue alone is a cause only where none of that is slower."""
ALL_STAGES: Final = (*RPC_BACKLOG, *WIRE, *SERVER_QUEUE, *SERVICE)
WITH_REST: Final = (*ALL_STAGES, "rest", "kernel")
"""With what the kernel and the mount do around each call, waiting or on a processor."""
GROWN: Final = 0.25
"""Of what it was: less is no cause of a queue."""
SLOWER: Final = 0.1
"""Of the time of a call of the same kind."""
UNCHANGED: Final = 0.05
"""Of what a queue leads to: near saturation it grows by far more than that."""
MOSTLY: Final = 0.6
"""Of a sum: it is due to this."""
SMALLER: Final = 2 / 3
"""Of their bytes at the baseline: calls that move no more are smaller."""
LEAST_CALLS: Final = 20
"""Of both points: kinds of calls that are told from others by their times."""
DATA: Final = ("READ", "WRITE")
IN_MEMORY: Final = (
    "NULL",
    "GETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
)
"""Calls that a server answers from memory, once it has seen the file."""


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of call at a point: means over its runs."""

    per_operation: float
    bytes_mean: float
    parts_ns: Mapping[str, float]
    number: float = math.inf
    """Of all runs: of few no mean is believed."""

    @property
    def ns(self) -> float:
        """Mean time of a call."""
        return sum(self.parts_ns.values())

    @property
    def busy_ns(self) -> float:
        """The same without its queues."""
        return sum(ns for name, ns in self.parts_ns.items() if (name,) not in QUEUES)


@dataclass(frozen=True, slots=True)
class Calls:
    """What two points' calls say."""

    pair: Compared
    base: Mapping[str, Call]
    new: Mapping[str, Call]

    @classmethod
    def of(cls, pair: Compared) -> Calls | None:
        """None: both ends of the calls were not recorded at both points."""
        base, new = (calls_at(side) for side in pair.sides)
        none = all(run.facts.calls_recorded for run in pair.sides[0])
        return cls(pair, base, new) if new and (base or none) else None

    def paths(self, stages: Sequence[str]) -> tuple[str, ...]:
        """Parts of the anatomy that are these stages of calls."""
        return paths_of(self.pair, stages)

    def difference(self, stages: Sequence[str]) -> Difference | None:
        """Of these stages together; None: neither point has them."""
        paths = self.paths(stages)
        return together(self.pair, paths) if paths else None

    def grew(self, stages: Sequence[str]) -> bool:
        """Is a difference shown, a tenth of the whole and a quarter of what it was at least?"""
        one = self.difference(stages)
        if one is None or not one.shown or one.difference_ns <= 0:
            return False
        least_ns = max(LEAST_SHARE * self.pair.whole.difference_ns, GROWN * one.base_ns)
        return one.difference_ns >= least_ns and self._slower(stages)

    def _slower(self, stages: Sequence[str]) -> bool:
        """Is a call of a kind slower there, too? Calls that no longer overlap are not."""
        base_ns, new_ns = self._of_same_calls(stages)
        # Neither has them: they are of no single call (what is outside the server).
        return new_ns > (1 + SLOWER) * base_ns or new_ns == base_ns == 0.0

    def _of_same_calls(self, stages: Sequence[str]) -> tuple[float, float]:
        """These stages of the kinds of calls that both points have, in their numbers at the new
        one: at the baseline, and at the new one; ns."""
        both = [name for name in self.new if name in self.base]
        base_ns, new_ns = (
            sum(self.new[name].per_operation * side[name].parts_ns.get(one, 0.0)
                for name in both for one in stages)
            for side in (self.base, self.new)
        )  # fmt: skip
        return base_ns, new_ns

    def _longer_by(self, stage: Sequence[str], all_: Sequence[Sequence[str]]) -> float:
        """How much longer calls take for that stage, of what they took for all of these."""
        base_ns, new_ns = self._of_same_calls(stage)
        whole_ns, _ = self._of_same_calls([name for one in all_ for name in one])
        return (new_ns - base_ns) / whole_ns if whole_ns else 0.0

    def slower_stages(self) -> Sequence[tuple[str, ...]]:
        """Where calls got slower, the most first; what waits for that is left out."""
        if self.more_calls() >= MOSTLY:
            return []
        grown = [stages for stages in (SERVICE, WIRE) if self.grew(stages)]
        for queue, leads_to in LEADS_TO.items():
            led = self._more_often() or any(one in grown for one in leads_to)
            if led or not self.grew(queue):
                continue
            longer = {one: self._longer_by(one, leads_to) for one in leads_to}
            shown = [one for one in leads_to if longer[one] > UNCHANGED and self._shown(one)]
            doubt = max(longer.values()) > SLOWER
            grown += shown[:1] if shown else [] if doubt else [queue]
        return sorted(grown, key=self._grown_ns, reverse=True)

    def served_mostly(self) -> bool:
        """Are calls at the server for most of their time? What the kernel there holds meanwhile
        counts as their way."""
        at_server = sum(
            one.per_operation * one.parts_ns.get(stage, 0.0)
            for one in self.new.values()
            for stage in (*SERVER_QUEUE, *SERVICE)
        )
        return at_server > sum(one.per_operation * one.ns for one in self.new.values()) / 2

    def _shown(self, stages: Sequence[str]) -> bool:
        one = self.difference(stages)
        return one is not None and one.shown and one.difference_ns > 0

    def with_queues(self, stages: Sequence[str]) -> tuple[str, ...]:
        """Paths of the stage that grew most and of the queues that lead to it, where they grew with
        it; of any other stage its own."""
        if [*self.slower_stages()][:1] != [tuple(stages)]:
            return self.paths(stages)
        before = BEFORE.get(tuple(stages), ())
        return self.paths([*stages, *(one for one in before if self.grew((one,)))])

    def more_calls(self) -> float:
        """Share of the difference of all calls' time that is of their number; 0: they take no
        longer together."""
        whole = number = 0.0
        for name in {*self.base, *self.new}:
            base, new = self.base.get(name), self.new.get(name)
            n0, n1 = (one.per_operation if one else 0.0 for one in (base, new))
            # More calls queue longer: what waits is of their number, if that grew, or of neither.
            t0, t1 = (one.busy_ns if one else 0.0 for one in (base, new))
            whole += n1 * t1 - n0 * t0
            # A kind that the baseline did not have is more calls, whatever they take.
            number += (n1 - n0) * (t0 if base else t1)
        return number / whole if whole > 0 else 0.0

    def more_of(self) -> dict[str, float]:
        """Of kinds that there are more of: ns of an operation, at what a call takes there."""
        made = {}
        for name, new in self.new.items():
            base = self.base.get(name)
            more = new.per_operation - (base.per_operation if base else 0.0)
            if more > 0:
                made[name] = more * new.ns
        return made

    def slower_by(self, stages: Sequence[str]) -> dict[str, float]:
        """Kind of call -> by how much these stages of one take longer, ns; kinds with calls enough
        at both points."""
        return {
            name: sum(new.parts_ns.get(one, 0.0) - self.base[name].parts_ns.get(one, 0.0)
                      for one in stages)
            for name, new in self.new.items()
            if name in self.base and min(new.number, self.base[name].number) >= LEAST_CALLS
        }  # fmt: skip

    def weighed(self, slower: Mapping[str, float]) -> dict[str, float]:
        """The same, of an operation."""
        return {name: ns * self.new[name].per_operation for name, ns in slower.items()}

    def slope(self, cause: str, operation: str, analysis: Analysis) -> Slope | None:
        """A delay of each call of that operation at our own mount; None without one."""
        at = At.of(self.pair, analysis)
        targets = [
            name
            for name in at.targets("nfs")
            if at.value(f"targets.{name}.client") in (None, "user")
        ]
        if operation not in self.new or len(targets) != 1:
            return None
        paths, own = self.paths(ALL_STAGES), self.new[operation]
        slopes = [_in_a_row(run, paths, operation) for run in self.pair.sides[1]]
        # As many as there are may lie in a row; what is known is a mean of all kinds of calls.
        doubt = max(own.per_operation - sum(slopes) / len(slopes), 0.0)
        return planned(
            cause, f"{operation} calls", f"targets.{targets[0]}.call_delay", slopes, doubt,
            [own.ns], self.pair, f"{operation}:{{us}}us",
        )  # fmt: skip

    def _more_often(self) -> bool:
        """Are there more calls of an operation? Those queue longer by themselves."""
        base, new = (sum(one.per_operation for one in side.values())
                     for side in (self.base, self.new))  # fmt: skip
        return new > (1 + SLOWER) * base > 0

    def _grown_ns(self, stages: Sequence[str]) -> float:
        one = self.difference(stages)
        return one.difference_ns if one is not None else 0.0


class CallPartsCause(Cause):
    """A cause whose effect is the difference of parts of calls, wherever calls were taken apart."""

    names: ClassVar[tuple[str, ...]]
    """Of these parts, counted together."""

    def judge(self, pair: Compared) -> Finding | None:
        """Where these parts are longer, shown, and a tenth of the difference at least."""
        return effect(self, pair, paths_of(pair, self.names))

    def alone(self, point: Alone) -> Finding | None:
        """Where these parts are a tenth of the operation at least."""
        return point.share(self, point.paths(self.names))


def paths_of(pair: Compared, names: Sequence[str]) -> tuple[str, ...]:
    """Parts of the anatomy with these names, wherever they lie."""
    known = dict.fromkeys([*pair.base.parts_ns, *pair.new.parts_ns])
    return tuple(path for path in known if path.rpartition("/")[2] in names)


def smaller(calls: Calls) -> bool:
    """Do READs and WRITEs move at most two thirds of the bytes that they did?"""
    sides = []
    for side in (calls.base, calls.new):
        data = [one for name, one in side.items() if name in DATA]
        number = sum(one.per_operation for one in data)
        if not number:
            return False
        sides.append(sum(one.bytes_mean * one.per_operation for one in data) / number)
    return sides[1] <= SMALLER * sides[0]


def _in_a_row(run: RunFacts[AnatomyFacts], paths: Sequence[str], operation: str) -> float:
    """Calls of that kind, by how much of all calls' time the operation waits for."""
    parts = run.facts.by_path()
    waited = sum(parts[path].ns for path in paths if path in parts)
    taken = sum(one.per_operation * sum(one.parts_ns.values()) for one in run.facts.calls)
    own = sum(one.per_operation for one in run.facts.calls if one.operation == operation)
    return own * waited / taken if taken else 0.0


def calls_at(side: Sequence[RunFacts[AnatomyFacts]]) -> dict[str, Call]:
    """A point's calls by kind, of these runs; empty: not recorded."""
    sums: dict[str, tuple[float, float, dict[str, float]]] = {}
    numbers: dict[str, float] = {}
    runs = len(side)
    for run in side:
        for one in run.facts.calls:
            calls = one.per_operation * run.facts.operations
            numbers[one.operation] = numbers.get(one.operation, 0.0) + calls
            n, size, parts = sums.setdefault(one.operation, (0.0, 0.0, {}))
            number = one.per_operation
            for name, ns in one.parts_ns.items():
                parts[name] = parts.get(name, 0.0) + ns * number
            sums[one.operation] = n + number, size + (one.bytes_mean or 0.0) * number, parts
    return {
        name: Call(n / runs, size / n, {part: ns / n for part, ns in parts.items()}, numbers[name])
        for name, (n, size, parts) in sums.items()
        if n > 0
    }


class StageCause(Cause):
    """A cause that is a stage of calls which got slower, with the queues before it."""

    stages: ClassVar[tuple[str, ...]]

    def judge(self, pair: Compared) -> Finding | None:
        """Where this stage is the one that got slower, and in this way."""
        calls = Calls.of(pair)
        if calls is None or self.stages not in calls.slower_stages() or not self.fits(calls):
            return None
        found = effect(self, pair, calls.with_queues(self.stages))
        if found is None or found.confidence != "high" or self.told_apart(calls):
            return found
        return dataclasses.replace(found, confidence="medium")

    def alone(self, point: Alone) -> Finding | None:
        """This stage of a point's calls, where its kinds of calls tell which cause it is."""
        why = self.fits_alone(point)
        return None if why is None else point.share(self, point.paths(self.stages), why)

    def fits_alone(self, point: Alone) -> str | None:
        """Of causes of one stage: is it this one, and by which figure? None: no; "": it is the only
        one."""
        return ""

    def told_apart(self, calls: Calls) -> bool:
        """Are there the calls that would tell it from another cause of this stage?"""
        return True

    def fits(self, calls: Calls) -> bool:
        """Of causes of one stage: is it this one?"""
        return True


class NumberCause(Cause):
    """A cause that is more calls, of some kinds."""

    def judge(self, pair: Compared) -> Finding | None:
        """Where the calls' number is most of their difference, and in this way."""
        calls = Calls.of(pair)
        if calls is None or calls.more_calls() < MOSTLY or not self.fits(calls):
            return None
        return effect(self, pair, calls.paths(WITH_REST))

    def slope(self, pair: Compared, analysis: Analysis) -> Slope | None:
        """A delay of the kind of call that there is most more of."""
        calls = Calls.of(pair)
        more = calls.more_of() if calls is not None else {}
        if calls is None or not more:
            return None
        return calls.slope(self.cause, max(more, key=lambda name: more[name]), analysis)

    def fits(self, calls: Calls) -> bool:
        """Of causes of more calls: is it this one?"""
        raise NotImplementedError


def mostly(part: Mapping[str, float], kinds: Sequence[str]) -> bool:
    """Are these kinds of calls most of that sum (of what is above zero)?"""
    positive = {name: ns for name, ns in part.items() if ns > 0}
    total = sum(positive.values())
    return total > 0 and sum(positive.get(name, 0.0) for name in kinds) >= MOSTLY * total
