"""Runs that an emulated processor made: shown, never compared.

QEMU without KVM runs each instruction as many of ours, some of them much more so than others. A
ratio of two such times is no ratio of anything. So each run is stamped with a check, and whoever
compares asks here first.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from nfslab.statistics.verdicts import EMULATED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.results.outcomes import Outcomes
    from nfslab.results.records import CatalogueLine, CheckRecord
    from nfslab.statistics.comparison import Comparison

CHECK: Final = "emulated"
"""The name of the check that stamps a run."""
FLAG: Final = f"{CHECK}:warning"
"""As the catalogue has it."""
NO_FIGURES: Final = (
    "ratio", "difference", "interval", "interval_unadjusted", "p_value", "p_adjusted",
    "smallest_detectable", "estimate", "standard_error", "degrees_of_freedom",
)  # fmt: skip
"""What a comparison does not say of emulated runs."""


def is_stamped(flags: Iterable[str]) -> bool:
    """Was a run with these flags emulated?"""
    return FLAG in flags


def is_stamped_by(checks: Iterable[CheckRecord]) -> bool:
    """Was a run with these checks emulated?"""
    return any(check.name == CHECK for check in checks)


def emulated_runs(outcomes: Outcomes) -> list[CatalogueLine]:
    """Returns the counted runs that were emulated."""
    return [line for line in outcomes.counted if is_stamped(line.flags)]


def emulated_points(outcomes: Outcomes) -> set[int]:
    """Points with any such run: their figures are of no use in a comparison."""
    return {outcomes.index_of[line.point_id] for line in emulated_runs(outcomes)}


def sentence(outcomes: Outcomes) -> str:
    """For the first line of every output; empty where no run was emulated."""
    some, all_ = len(emulated_runs(outcomes)), len(outcomes.counted)
    if not some:
        return ""
    return EMULATED if some == all_ else f"{EMULATED} in {some} of {all_} runs"


def without_emulated(results: Sequence[Comparison], emulated: Sequence[bool]) -> list[Comparison]:
    """The comparisons, those of emulated runs without any figure of the change."""
    nothing: dict[str, Any] = dict.fromkeys(NO_FIGURES)
    return [
        dataclasses.replace(result, verdict=EMULATED, notes=(), **nothing) if one else result
        for result, one in zip(results, emulated, strict=True)
    ]
