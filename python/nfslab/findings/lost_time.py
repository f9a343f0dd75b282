"""Causes that are no part of the anatomy: time that every operation lost, by a run's own checks."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from nfslab.evidence.anatomy.differences import of_figures
from nfslab.findings.base import Cause, effect_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts
    from nfslab.findings.alone import Alone
    from nfslab.findings.base import Finding

    Runs = Sequence[RunFacts[AnatomyFacts]]


class LostTimeCause(Cause):
    """Its effect is what each run's mean operation has of it."""

    @abstractmethod
    def lost_ns(self, run: RunFacts[AnatomyFacts]) -> float | None:
        """Of that run's mean operation; 0: none of it is lost so. None: nobody looked."""

    @abstractmethod
    def because(self, runs: Runs) -> str:
        """The figures, of these runs, in words."""

    def judge(self, pair: Compared) -> Finding | None:
        """Where the new point loses more, also of its time, in most of its runs."""
        sides = [[self.lost_ns(run) for run in side] for side in pair.sides]
        if any(one is None for side in sides for one in side) or not _mostly(sides[1]):
            return None
        share = of_figures(pair, self.cause, self._share)
        # A share that stays as it is grows with the operation, whatever made that longer.
        if not share.shown or share.difference_ns <= 0:
            return None
        own = of_figures(pair, self.cause, lambda run: self.lost_ns(run) or 0.0)
        found = effect_of(self, pair, own, (), 0.0)
        return found and self._told(found, pair.sides[1])

    def alone(self, point: Alone) -> Finding | None:
        """Where most runs lose time so, and it is a tenth of the operation."""
        lost = [self.lost_ns(run) for run in point.runs]
        if not _mostly(lost):
            return None
        known = [one for one in lost if one is not None]
        return point.lost(self, known, self.what, self.because(point.runs))

    def _share(self, run: RunFacts[AnatomyFacts]) -> float:
        return (self.lost_ns(run) or 0.0) / run.facts.mean_ns

    def _told(self, found: Finding, runs: Runs) -> Finding:
        because = self.because(runs)
        sentence = f"{found.sentence[:-1]}: {because}."
        return dataclasses.replace(found, because=because, sentence=sentence, evidence=(because,))


def _mostly(lost: Sequence[float | None]) -> bool:
    """Do all know it, and most lose some?"""
    return None not in lost and 2 * sum(bool(one) for one in lost) > len(lost)


def is_closed(run: RunFacts[AnatomyFacts]) -> bool:
    """Does each client wait for its operation? Then time lost is lost by operations."""
    load = run.run.record.load
    return load is not None and load.kind == "closed"


def check_values(run: RunFacts[AnatomyFacts], name: str) -> Mapping[str, Any]:
    """What that check of the run found; empty: it did not run, or could not tell."""
    found = (one for one in run.run.record.checks if one.name == name)
    check = next((one for one in found if one.verdict != "unknown"), None)
    return check.values if check is not None else {}
