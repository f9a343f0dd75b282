"""Two sides of one comparison as lists of values."""

from __future__ import annotations

from typing import Any

from nfslab.statistics.comparison import ALPHA, Comparison, compare_many
from nfslab.statistics.observations import Observations


def compare_blocked(
    base_blocks: Any, base: Any, new_blocks: Any, new: Any, *, better: Any, alpha: float = ALPHA
) -> Comparison:
    """Two points of one experiment in randomised blocks."""
    sides = Observations.of(base, blocks=base_blocks), Observations.of(new, blocks=new_blocks)
    return compare_many(*sides, n_groups=1, better=better, alpha=alpha)[0]


def compare_unpaired(base: Any, new: Any, *, better: Any, alpha: float = ALPHA) -> Comparison:
    """Two sets of independent repetitions."""
    sides = Observations.of(base), Observations.of(new)
    return compare_many(*sides, n_groups=1, better=better, alpha=alpha)[0]
