"""What a finding is: a cause with the size of its effect, what it rests on, and what tests it.

A finding is judged of two points that were taken apart (`evidence.anatomy.differences`). It is made
only where the difference of its parts is shown; how sure it is follows from how they were seen.
Effects are parts of the difference of the mean operation. Where a cause's parts grew by more than
the whole did, others became shorter meanwhile, because of it or not: its effect is the whole's
difference then, and its interval reaches from there to what its parts grew by. Who holds a lock
for longer makes others wait for longer: where waits for locks grew, too, the interval reaches to
what the effect would be with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from nfslab.display.numbers import interval, quantity
from nfslab.evidence.anatomy.differences import together
from nfslab.evidence.anatomy.parts import ELSEWHERE, label_of
from nfslab.findings.interventions import At, as_at_base, set_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.anatomy.differences import Compared, Difference
    from nfslab.findings.alone import Alone
    from nfslab.findings.confirm import Intervention, Slope
    from nfslab.report.model import Analysis

Confidence = Literal["high", "medium", "low"]
SURER: Final = ("low", "medium", "high")
LEAST_SHARE: Final = 0.1
"""Of the whole's difference: a smaller effect is no finding."""
EXACTER: Final = 0.6
"""Of a finding's effect: what explains so much of it tells it more exactly."""
CLEAR: Final = 0.1
"""Of the effect: so much may samples be off where it is called clear."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause, at one point against its base."""

    cause: str
    sentence: str
    effect_ns: float
    """Of the mean operation; above zero: it makes the point slower."""
    interval_ns: tuple[float, float]
    confidence: Confidence
    without_it: str
    """What would happen without it, and by which law."""
    evidence: tuple[str, ...]
    """Paths of parts, and where the report has them."""
    confirm: str
    """The intervention that would confirm it."""
    paths: tuple[str, ...] = ()
    """The parts of the anatomy that it is of."""
    because: str = ""
    """Why they are longer, by other figures of the same runs; empty: the parts alone tell."""

    def before(self, other: Finding) -> bool:
        """Does it say more of what the other one says? It knows why parts are longer that the other
        is of (or of parts of them; without parts of its own it is of all); or its own lie within
        the other's. Their effects are alike, and it is as sure."""
        less_sure = SURER.index(self.confidence) < SURER.index(other.confidence)
        if less_sure or not other.paths:
            return False
        if bool(self.because) != bool(other.because):
            alike = min(self.effect_ns, other.effect_ns) >= EXACTER * max(
                self.effect_ns, other.effect_ns
            )
            return bool(self.because) and alike and (_inside(self, other) or _inside(other, self))
        if not self.paths:
            return False
        deeper = _inside(self, other) and self.paths != other.paths
        return deeper and self.effect_ns >= EXACTER * other.effect_ns

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "cause": self.cause,
            "confidence": self.confidence,
            "effect_ns": self.effect_ns,
            "interval_ns": list(self.interval_ns),
            "without_it": self.without_it,
            "evidence": list(self.evidence),
            "sentence": self.sentence,
            "confirm": self.confirm,
        }


def _inside(inner: Finding, outer: Finding) -> bool:
    """Are all its parts the other's, or within them?"""
    return all(
        any(path == whole or path.startswith(f"{whole}/") for whole in outer.paths)
        for path in inner.paths
    )


class Cause(ABC):
    """A kind of finding, with its words."""

    cause: ClassVar[str]
    what: ClassVar[str]
    """"a transaction waits longer for ...": the words after "is in"."""
    confirm: ClassVar[str]

    @abstractmethod
    def judge(self, pair: Compared) -> Finding | None:
        """What it says of these two points; None: it does not apply, or is not shown."""

    def alone(self, point: Alone) -> Finding | None:
        """What it says of a point without a base; None: it tells of pairs, or is not shown."""
        return None

    depends: ClassVar[tuple[str, ...]] = ()
    """Parameters that it is known to depend on, as patterns of their paths."""

    def intervention(self, pair: Compared, analysis: Analysis) -> Intervention | Slope | None:
        """What tests it at the new point; None: nothing that a file can say.

        What tells it apart from other causes comes first: counting its calls by a delay, what it
        depends on as at the baseline while others differ, too, a setting that takes it away. Last
        what only repeats the comparison.
        """
        return (
            self.slope(pair, analysis)
            or as_at_base(self.depends, pair, analysis, apart=True)
            or set_to(self.remedy(At.of(pair, analysis)))
            or as_at_base(self.depends, pair, analysis, apart=False)
        )

    def slope(self, pair: Compared, analysis: Analysis) -> Slope | None:
        """Of causes that are calls: a delay of them; None: it cannot be planted here."""
        return None

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """Parameter -> (what it is, what it would have to be for the cause to go)."""
        return {}


class PartsCause(Cause):
    """A cause whose effect is the difference of parts of the anatomy."""

    parts: ClassVar[tuple[str, ...]]
    """Paths, counted together."""

    def judge(self, pair: Compared) -> Finding | None:
        """Where these parts together are longer, shown, and a tenth of the difference at least."""
        return effect(self, pair, self.parts)

    def alone(self, point: Alone) -> Finding | None:
        """Where these parts are a tenth of the operation at least."""
        return point.share(self, self.parts)


def effect(cause: Cause, pair: Compared, parts: Sequence[str]) -> Finding | None:
    """The finding whose effect is the difference of these parts, where it is shown and a tenth of
    the whole's at least."""
    own = together(pair, parts)
    if own is None:
        return None
    paths = tuple(path for path in parts if path in pair.new.parts_ns)
    doubt_ns = max(sum(at.bias_ns.get(path, 0.0) for path in paths) for at in (pair.base, pair.new))
    return effect_of(cause, pair, own, paths, doubt_ns)


def effect_of(
    cause: Cause, pair: Compared, own: Difference, paths: tuple[str, ...], doubt_ns: float
) -> Finding | None:
    """The same of a difference that is known; `doubt_ns`: how far samples may have it off."""
    if own.interval_ns is None or not own.shown or own.difference_ns <= 0:
        return None
    whole = pair.whole
    if not pair.shown or own.difference_ns < LEAST_SHARE * whole.difference_ns:
        return None
    (low, high), effect_ns = own.interval_ns, own.difference_ns
    evidence = [f"{label_of(path)} (#anatomy)" for path in paths]
    if effect_ns > whole.difference_ns > 0 and whole.interval_ns is not None:
        shorter = quantity(effect_ns - whole.difference_ns, "ns")
        evidence.append(f"the other parts together became {shorter} shorter")
        low, effect_ns = min(low, whole.interval_ns[0]), whole.difference_ns
    behind_ns, behind_high_ns = _behind(pair, paths)
    if behind_ns >= LEAST_SHARE * whole.difference_ns and whole.interval_ns is not None:
        what = "server and network" if ELSEWHERE in pair.new.parts_ns else "waits for locks"
        longer = quantity(behind_ns, "ns")
        evidence.append(f"{what}: {longer} longer, which may follow from it")
        high = max(high, min(high + behind_high_ns, whole.interval_ns[1]))
    said = (
        f"{pair.result.label}: {one_of(pair.new.operation)} takes "
        f"{quantity(whole.difference_ns, 'ns')} longer than at {pair.result.base_label}; "
        f"{quantity(effect_ns, 'ns')} ({interval(low, high, 'ns')}) of it is in {cause.what}"
    )
    return Finding(
        cause=cause.cause,
        sentence=f"{said}.",
        effect_ns=effect_ns,
        interval_ns=(low, high),
        confidence=sure_of(effect_ns, doubt_ns),
        without_it=without(pair, own),
        evidence=tuple(evidence),
        confirm=cause.confirm,
        paths=paths,
    )


ROWS: Final = "row_lock_waits"
BEHIND: Final = ("group_commit_wait", ROWS, "lwlock_waits")
"""Parts in which a transaction waits for another one that holds a lock."""
WEB: Final = (ELSEWHERE,)
"""Of a web server: who waits for a worker waits for what that does for another request."""


def _behind(pair: Compared, paths: Sequence[str]) -> tuple[float, float]:
    """By how much waits for locks (or for a web server) are longer that these parts are no part of,
    and at most; ns.

    Who waits for a light lock, or in a group commit, holds his rows meanwhile, and no other such
    lock for longer; who waits for rows makes nobody hold any for longer."""
    own = {path.partition("/")[0] for path in paths}
    behind = () if own <= {ROWS} else (ROWS,) if own <= {*BEHIND} else (*BEHIND, *WEB)
    mine = [
        one
        for one in pair.parts
        if one.path in behind and one.path not in own and one.difference_ns > 0
    ]
    highs = [one.difference_ns if one.interval_ns is None else one.interval_ns[1] for one in mine]
    return sum(one.difference_ns for one in mine), sum(highs)


def sure_of(effect_ns: float, doubt_ns: float) -> Confidence:
    """How sure an effect is that samples may have off by so much: not at all by all of it."""
    if doubt_ns > effect_ns:
        return "low"
    return "medium" if doubt_ns > CLEAR * effect_ns else "high"


def one_of(operation: str) -> str:
    """With its article."""
    return f"{'an' if operation[:1] in 'aeiou' else 'a'} {operation}"


def without(pair: Compared, own: Difference) -> str:
    """By the removal of a part: the mean operation with these parts as at the baseline."""
    left_ns = pair.new.mean_ns - own.difference_ns
    return (
        f"{one_of(pair.new.operation)} would take {quantity(left_ns, 'ns')} on average, not less "
        f"({quantity(pair.base.mean_ns, 'ns')} at the baseline), were all other parts as they are"
    )


def ranked(found: Sequence[Finding]) -> list[Finding]:
    """The largest effect first; before it what says more of the same parts."""
    # Of two that have all of the difference that whose parts grew more.
    made = sorted(found, key=lambda one: (-one.effect_ns, -one.interval_ns[1]))
    for one in list(made):
        outer = next((other for other in made if one.before(other)), None)
        if outer is not None and made.index(outer) < made.index(one):
            made.remove(one)
            made.insert(made.index(outer), one)
    return made
