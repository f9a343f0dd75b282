"""Causes told by what stands beside an operation's time: figures of a run's other evidence.

A part that grew says where the time goes; why it grew, another figure of the same runs may say:
more checkpoints, more bytes of log, other durability. Such a cause has the effect of the parts that
it can make longer, and is named only where its own figure differs, too. It says more than a finding
of the same parts, so it is ranked before that.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.findings.base import Cause, effect
from nfslab.statistics.comparison import compare_many
from nfslab.statistics.observations import Observations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts, SealedRun
    from nfslab.findings.base import Finding

Figure = Callable[["SealedRun"], "float | None"]
LOG_PARTS: Final = ("wal_fsync", "group_commit_wait", "wal_write", "log_fsync", "log_write")
FILE_PARTS: Final = (
    *LOG_PARTS, "buffer_read", "buffer_write", "relation_extend", "other_files", "unreported",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Beside:
    """A figure at both points: means over the runs."""

    base: float
    new: float
    grew: bool
    """Is it shown to be larger at the new point?"""


def beside(pair: Compared, figure: Figure) -> Beside | None:
    """None: some run of either point does not have it."""
    known = [_values(side, figure) for side in pair.sides]
    sides = [[value for value in side if value is not None] for side in known]
    if any(not some or len(some) != len(all_) for some, all_ in zip(sides, known, strict=True)):
        return None
    observed = [
        Observations.of(values, blocks=[run.block for run in side])
        for values, side in zip(sides, pair.sides, strict=True)
    ]
    (result,) = compare_many(*observed, n_groups=1, better="lower", ratios=False)
    base, new = (sum(values) / len(values) for values in sides)
    apart = max(sides[0]) < min(sides[1])
    # Counters may have no spread at all: then every run of one side beyond all of the other tells.
    grew = new > base and (result.shown or (result.interval is None and apart))
    return Beside(base, new, grew)


def _values(side: Sequence[RunFacts[AnatomyFacts]], figure: Figure) -> list[float | None]:
    return [figure(one.run) for one in side]


def counters(run: SealedRun) -> Mapping[str, Mapping[str, float]]:
    """View -> column -> its difference over the timed part, of the collector `postgres`."""
    found: Mapping[str, Mapping[str, float]] = run.summary("postgres").get("deltas", {})
    return found


def a_counter(view: str, column: str) -> Figure:
    """A counter of PostgreSQL, of a run."""
    return lambda run: counters(run).get(view, {}).get(column)


def a_transaction(view: str, column: str) -> Figure:
    """A counter of PostgreSQL, of a transaction."""

    def figure(run: SealedRun) -> float | None:
        number = run.record.metrics.get(run.record.operations)
        value = counters(run).get(view, {}).get(column)
        if number is None or not number.value or value is None:
            return None
        return value / number.value

    return figure


class ReasonCause(Cause):
    """A cause whose effect is that of parts, and which figures beside them tell."""

    parts: ClassVar[tuple[str, ...]]
    """Paths that it makes longer, counted together."""

    def judge(self, pair: Compared) -> Finding | None:
        """Where the parts are longer and the figures tell why."""
        found = effect(self, pair, self.paths(pair))
        because = self.because(pair) if found is not None else None
        if found is None or because is None:
            return None
        return dataclasses.replace(
            found,
            because=because,
            sentence=f"{found.sentence[:-1]}: {because}.",
            evidence=(*found.evidence, because),
        )

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """Of the anatomy's parts those that it makes longer."""
        return self.parts

    @abstractmethod
    def because(self, pair: Compared) -> str | None:
        """The figures, in words; None: they do not tell it."""
