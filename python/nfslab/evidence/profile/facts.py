"""The profile of a run in numbers that add up: those of several runs together are their sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nfslab.errors import ResultsError
from nfslab.evidence.base import Facts
from nfslab.evidence.profile.stacks import (
    IDLE_CLASS,
    OWN_CLASSES,
    Stacks,
    functions_of,
    has_profile,
    read_stacks,
    summary_of,
)

if TYPE_CHECKING:
    from nfslab.evidence.base import SealedRun


class FunctionFacts(NamedTuple):
    """One function; samples and weights add up over runs."""

    name: str
    kernel: bool
    self_samples: int
    """In processes of the run, in nfslab, in the kernel's threads and interrupts."""
    self_weight: int
    total_weight: int
    """With all that it called."""
    machine_self_weight: int
    """In all processes."""


class ProfileFacts(Facts):
    """What a report needs of a run's stacks."""

    samples: int
    """Of something that was not idle."""
    weight: int
    classes: dict[str, tuple[int, int]]
    """Class of processes -> weights (in user mode, in the kernel), the idle one not with them."""
    functions: tuple[FunctionFacts, ...]
    """The most time of their own first."""
    summary: dict[str, Any]
    """The collector's."""


def profile_facts(run: SealedRun) -> ProfileFacts | None:
    """None without a profile. ResultsError: it cannot be read."""
    if not has_profile(run.folder):
        return None
    summary = summary_of(run.record.evidence)
    if summary is None:
        raise ResultsError(
            "its profile has no summary",
            why="the collector ended before it wrote one",
            fix="run its configuration again; other runs are not affected",
        )
    stacks = Stacks()
    stacks.merge(read_stacks(run.folder))
    return facts_of_stacks(stacks, summary)


def facts_of_stacks(stacks: Stacks, summary: dict[str, Any]) -> ProfileFacts:
    """Of stacks and the collector's summary."""
    busy = stacks.busy()
    own = {(one.name, one.kernel): one for one in functions_of(stacks.found, OWN_CLASSES)}
    functions = []
    for every in functions_of(stacks.found):
        mine = own.get((every.name, every.kernel))
        if mine is not None or every.self_weight:
            functions.append(
                FunctionFacts(
                    every.name,
                    every.kernel,
                    mine.self_samples if mine else 0,
                    mine.self_weight if mine else 0,
                    mine.total_weight if mine else 0,
                    every.self_weight,
                )
            )
    functions.sort(key=rank)
    return ProfileFacts(
        samples=busy.samples,
        weight=busy.weight,
        classes={
            klass: (user.weight, kernel.weight)
            for klass, (user, kernel) in stacks.by_class().items()
            if klass != IDLE_CLASS
        },
        functions=tuple(functions),
        summary=summary,
    )


def rank(one: FunctionFacts) -> tuple[int, int, str, bool]:
    """The order of functions."""
    return -one.self_weight, -one.total_weight, one.name, one.kernel
