"""Which of many experiments, one after the other in time, changed the level of their figures.

E-divisive (Matteson and James 2014; used for performance tests by MongoDB and Hunter): the place
that tells what is before from what is after best, by the distances between all pairs (energy
statistic), is a change if few orders of the same experiments drawn at random have one as clear
(permutation test); then each side is searched. No distribution is assumed, and several figures (the
points of an experiment) are one search, so one test. Figures are logarithms, in units of their own
deviation.

Limits: an order drawn at random is as likely as the true one only if neighbours do not resemble
each other; where days drift, drift is called a change (rates: docs/decisions/statistics.md).
`SIDE_LEAST` experiments are the least on a side: one that stands alone is no new level. Why not
`change_points`: that one is made for thousands of latencies, with levels of eight and more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

ALPHA: Final = 0.01
"""Equal experiments have a change called with this probability."""
SIDE_LEAST: Final = 3
EXPERIMENTS_LEAST: Final = 10
"""Below it no order is rarer than `ALPHA`."""
EXPERIMENTS_MOST: Final = 300
PERMUTATIONS: Final = 999
CELLS_MOST: Final = 1 << 18
"""Distances that are put in order at once (memory)."""
SEED: Final = 2014


@dataclass(frozen=True, slots=True)
class Change:
    """A change between two neighbours."""

    at: int
    """Place of the first experiment of the new level."""
    p_value: float
    """Share of orders in which some place is as clear, of those of its stretch."""


def regimes(figures: ArrayLike) -> list[Change]:
    """Changes of level in `figures[experiment][figure]`, all above zero, in the order of time.

    Raises `ValueError` for more than `EXPERIMENTS_MOST`; fewer than `EXPERIMENTS_LEAST` have none.
    """
    logs = np.log(np.asarray(figures, dtype=np.float64))
    if logs.shape[0] > EXPERIMENTS_MOST:
        raise ValueError(f"{logs.shape[0]} experiments are more than {EXPERIMENTS_MOST}")
    deviation = logs.std(axis=0)
    varied = deviation > 1e-12
    if logs.shape[0] < EXPERIMENTS_LEAST or not varied.any():
        return []
    scaled = (logs[:, varied] - logs[:, varied].mean(axis=0)) / deviation[varied]
    distances = np.sqrt(((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=-1))
    found: list[Change] = []
    stretches = [(0, logs.shape[0])]
    while stretches:
        start, end = stretches.pop()
        if end - start < 2 * SIDE_LEAST:
            continue
        change = _clearest(distances[start:end, start:end])
        if change.p_value <= ALPHA:
            found.append(Change(start + change.at, change.p_value))
            stretches += [(start, start + change.at), (start + change.at, end)]
    return sorted(found, key=lambda change: change.at)


def _clearest(distances: Floats) -> Change:
    """The best place of one stretch, with its probability."""
    n = distances.shape[0]
    energies = _energies(distances)
    best = int(energies.argmax())
    random = np.random.default_rng(SEED)
    as_clear, left = 1, PERMUTATIONS
    while left:
        many = min(left, max(1, CELLS_MOST // n**2))
        orders = random.permuted(np.tile(np.arange(n), (many, 1)), axis=1)
        drawn = _energies(distances[orders[:, :, None], orders[:, None, :]]).max(axis=-1)
        # Orders that are the same as the true one to rounding are as clear.
        as_clear += int((drawn >= energies[best] * (1 - 1e-9)).sum())
        left -= many
    return Change(best + SIDE_LEAST, as_clear / (PERMUTATIONS + 1))


def _energies(distances: Floats) -> Floats:
    """Q of a split before each place from `SIDE_LEAST` on, as Matteson and James state it.

    Of distances of shape (..., n, n).
    """
    n = distances.shape[-1]
    sums = np.cumsum(np.cumsum(distances, axis=-2), axis=-1)
    left = np.arange(SIDE_LEAST, n - SIDE_LEAST + 1)
    right = n - left
    within_left = sums[..., left - 1, left - 1]
    between = sums[..., left - 1, n - 1] - within_left
    within_right = sums[..., n - 1, n - 1, None] - 2 * between - within_left
    energy = (
        2 * between / (left * right)
        - within_left / (left * (left - 1))
        - within_right / (right * (right - 1))
    )
    found: Floats = left * right / n * energy
    return found
