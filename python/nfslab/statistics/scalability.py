"""The universal scalability law over an axis of clients or threads: fit, intervals, refusal.

    C(N) = λ N / (1 + σ (N - 1) + κ N (N - 1))        (Gunther 1993, 2007)

σ is the contention (a share that is done by one at a time: κ = 0 is Amdahl's law), κ the
coherency (each pair of clients costs the others), λ the rate of one. Storage noise multiplies, so
the logarithms of the means over blocks are fitted by least squares, σ and κ from 0 to 1; what a
block has in common is in λ. The error is that of runs within blocks and levels, with (blocks -
1)(levels - 1) degrees of freedom.

Intervals are profiles of the sum of squares (a value is in if the best fit with it is not worse
than Student's t allows): exact for none, but right where a bound is 0 or the peak lies beyond all
that was measured, and for three blocks, of which a bootstrap has ten different samples. Where the
fit misses by more than the runs' own error, that is taken for the error.

Refused: where the misfit is significant at 1 % (F test of the lack of fit) and a level is off by
more than 5 %. Rates of false refusals and acceptances: docs/decisions/statistics.md.

The peak is sqrt((1 - σ) / κ). The knee is where throughput over response time is largest
(Kleinrock 1979), as for offered load; of clients in a closed loop that is the largest C² / N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.statistics.distributions import critical_t_one, f_tail

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Curve = Callable[[Floats, Floats], tuple[Floats, Floats]]
    """(values of a parameter, a free share 0 to 1) -> σ and κ."""

LEVELS_LEAST: Final = 4
BLOCKS_LEAST: Final = 3
REFUSED_BELOW: Final = 0.01
MISFIT_MOST: Final = 0.05
CONFIDENCE: Final = 0.95
SMALLEST: Final = 1e-9
"""Of σ and κ beside 0."""
BEYOND: Final = 100.0
"""A peak so many times above the largest level is none."""
GRID: Final = 48
REFINED: Final = 4
GOLDEN: Final = (math.sqrt(5) - 1) / 2
GOLDEN_STEPS: Final = 36
"""Of the logarithm of nine decades: to a relative 1e-6."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """A value with its 95 % interval; infinite: none within `BEYOND` times the largest level."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float | None]:
        """Plain values; infinity is None."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {key: one if math.isfinite(one) else None for key, one in values.items()}


@dataclass(frozen=True, slots=True)
class Scalability:
    """The law at one curve."""

    blocks: int
    rate_of_one: float
    contention: Bounded
    coherency: Bounded
    peak: Bounded
    """Clients (threads)."""
    knee: Bounded
    misfit: float
    """Largest distance of a level from the law, as a share."""
    misfit_p: float
    """Of the F test of the lack of fit."""

    @property
    def refused(self) -> bool:
        """Does the law not describe this curve?"""
        return self.misfit_p < REFUSED_BELOW and self.misfit > MISFIT_MOST

    def rate(self, clients: ArrayLike) -> Floats:
        """C(N)."""
        n = np.asarray(clients, dtype=np.float64)
        cost = self.contention.value * (n - 1) + self.coherency.value * n * (n - 1)
        found: Floats = self.rate_of_one * n / (1 + cost)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; no parameters of a law that is refused."""
        fit = {
            "blocks": self.blocks,
            "largest_misfit": self.misfit,
            "misfit_p": self.misfit_p,
            "refused": self.refused,
        }
        if self.refused:
            return fit
        bounded = ("contention", "coherency", "peak", "knee")
        return {
            **fit,
            "rate_of_one": self.rate_of_one,
            **{name: getattr(self, name).as_dict() for name in bounded},
        }


def scalability(clients: ArrayLike, rates: ArrayLike) -> Scalability:
    """The law of `rates[block][level]` (all above zero) at `clients[level]` (rising, from 1 on).

    Raises `ValueError` for fewer than `LEVELS_LEAST` levels or `BLOCKS_LEAST` blocks.
    """
    n, table = np.asarray(clients, dtype=np.float64), np.log(np.asarray(rates, dtype=np.float64))
    blocks, levels = table.shape
    if levels < LEVELS_LEAST or blocks < BLOCKS_LEAST:
        raise ValueError(f"{levels} levels in {blocks} blocks are too few")
    squares = Squares(n, table)
    sigma, kappa = squares.best()
    limit = squares.limit(sigma, kappa)
    peak = math.sqrt((1 - sigma) / kappa) if kappa > 0 else math.inf
    return Scalability(
        blocks=blocks,
        rate_of_one=math.exp(squares.log_rate(sigma, kappa)),
        contention=_bounds(squares, limit, by_contention, sigma, _shares()),
        coherency=_bounds(squares, limit, by_coherency, kappa, _shares()),
        peak=_bounds(squares, limit, by_peak, max(1.0, peak), _places(n[-1])),
        knee=_bounds(squares, limit, by_knee, knee(sigma, kappa), _places(n[-1])),
        misfit=squares.misfit(sigma, kappa),
        misfit_p=squares.misfit_p(sigma, kappa),
    )


def knee(sigma: float, kappa: float) -> float:
    """N with the largest C² / N: the root of 3 κ N² + (σ - κ) N - (1 - σ); at least 1."""
    if kappa == 0:
        return max(1.0, (1 - sigma) / sigma) if sigma > 0 else math.inf
    slope = sigma - kappa
    root = math.sqrt(slope**2 + 12 * kappa * (1 - sigma))
    # Of the two forms of the root the one that does not cancel.
    found = 2 * (1 - sigma) / (slope + root) if slope > 0 else (root - slope) / (6 * kappa)
    return max(1.0, found)


def by_contention(values: Floats, free: Floats) -> tuple[Floats, Floats]:
    """σ given, κ free."""
    return values, free


def by_coherency(values: Floats, free: Floats) -> tuple[Floats, Floats]:
    """κ given, σ free."""
    return free, values


def by_peak(values: Floats, free: Floats) -> tuple[Floats, Floats]:
    """The peak given, σ free."""
    return free, (1 - free) / values**2


def by_knee(values: Floats, free: Floats) -> tuple[Floats, Floats]:
    """The knee given, σ free below what Amdahl's law would need for it."""
    amdahl = 1 / (1 + values)
    sigma = free * amdahl
    infinite = np.isinf(values)
    with np.errstate(invalid="ignore"):
        kappa = (1 - sigma - sigma * values) / (3 * values**2 - values)
    return np.where(infinite, 0.0, sigma), np.where(infinite, 0.0, kappa)


class Squares:
    """Sums of squares of one curve, on logarithms, by σ and κ; λ is always the best one."""

    def __init__(self, clients: Floats, table: Floats) -> None:
        self.n = clients
        self.blocks, self.levels = int(table.shape[0]), int(table.shape[1])
        self.means = table.mean(axis=0) - np.log(clients)
        rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
        self.df = (self.blocks - 1) * (self.levels - 1)
        self.variance = float((rest**2).sum()) / self.df
        """Of one run."""

    def _residuals(self, sigma: Floats, kappa: Floats) -> Floats:
        more = self.n - 1
        cost = np.log1p(np.multiply.outer(sigma, more) + np.multiply.outer(kappa, self.n * more))
        rest = self.means + cost
        found: Floats = rest - rest.mean(axis=-1, keepdims=True)
        return found

    def at(self, sigma: Floats, kappa: Floats) -> Floats:
        """Sum over levels, for arrays."""
        found: Floats = (self._residuals(sigma, kappa) ** 2).sum(axis=-1)
        return found

    def log_rate(self, sigma: float, kappa: float) -> float:
        """log λ."""
        more = self.n - 1
        return float((self.means + np.log1p(sigma * more + kappa * self.n * more)).mean())

    def misfit(self, sigma: float, kappa: float) -> float:
        """Largest distance of a level from the law, as a share."""
        rest = self._residuals(np.asarray(sigma), np.asarray(kappa))
        return float(np.expm1(np.abs(rest).max()))

    def _free_levels(self, sigma: float, kappa: float) -> int:
        """Levels less parameters; one at 0 was not free."""
        return self.levels - 1 - int(sigma > 0) - int(kappa > 0)

    def misfit_p(self, sigma: float, kappa: float) -> float:
        """P(F) of the lack of fit, were the law true."""
        free = self._free_levels(sigma, kappa)
        mean = self.blocks * float(self.at(np.asarray(sigma), np.asarray(kappa))) / free
        if self.variance == 0:
            return 1.0 if mean == 0 else 0.0
        return f_tail(mean / self.variance, free, self.df)

    def limit(self, sigma: float, kappa: float) -> float:
        """The largest sum of squares of a value within the interval."""
        least = float(self.at(np.asarray(sigma), np.asarray(kappa)))
        error = max(self.variance / self.blocks, least / self._free_levels(sigma, kappa))
        return least + critical_t_one(1 - CONFIDENCE, self.df) ** 2 * error

    def profile(self, curve: Curve, values: Floats) -> tuple[Floats, Floats]:
        """(least sum of squares, its free share) with the parameter at each of the values."""

        def at(logs: Floats) -> Floats:
            return self.at(*curve(values, np.exp(logs)))

        low, high = np.full(values.shape, math.log(SMALLEST)), np.zeros(values.shape)
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        at_left, at_right = at(left), at(right)
        for _ in range(GOLDEN_STEPS):
            down = at_left < at_right
            low, high = np.where(down, low, left), np.where(down, right, high)
            length = GOLDEN * (high - low)
            fresh = np.where(down, high - length, low + length)
            at_fresh = at(fresh)
            left, right = np.where(down, fresh, right), np.where(down, left, fresh)
            at_left, at_right = (
                np.where(down, at_fresh, at_right),
                np.where(down, at_left, at_fresh),
            )
        ends = [np.exp((low + high) / 2), np.zeros(values.shape), np.ones(values.shape)]
        sums = np.array([self.at(*curve(values, free)) for free in ends])
        chosen = sums.argmin(axis=0)
        return sums.min(axis=0), np.choose(chosen, ends)

    def best(self) -> tuple[float, float]:
        """σ and κ of the least sum."""
        values = _shares()
        for _ in range(REFINED):
            sums, free = self.profile(by_contention, values)
            place = int(sums.argmin())
            found = float(values[place]), float(free[place])
            low, high = values[max(0, place - 1)], values[min(values.size - 1, place + 1)]
            values = np.unique([low, found[0], *np.geomspace(max(low, SMALLEST), high, GRID)])
        # What cannot be told from 0 at this size of the squares is 0.
        sums = self.at(*np.array([found, (0.0, found[1]), (found[0], 0.0), (0.0, 0.0)]).T)
        for place, zero in ((3, (0.0, 0.0)), (1, (0.0, found[1])), (2, (found[0], 0.0))):
            if sums[place] <= sums[0] * (1 + 1e-9):
                return zero
        return found


def _shares() -> Floats:
    return np.concatenate([[0.0], np.geomspace(1e-7, 1.0, GRID)])


def _places(largest: float) -> Floats:
    return np.append(np.geomspace(1.0, BEYOND * largest, GRID), math.inf)


def _bounds(squares: Squares, limit: float, curve: Curve, value: float, grid: Floats) -> Bounded:
    """The values whose best fit is within the limit, around the estimate."""
    values = np.unique(np.append(grid, value))
    ends = []
    for side in (values[values <= value][::-1], values[values >= value]):
        outside = np.flatnonzero(squares.profile(curve, side)[0] > limit)
        outside = outside[side[outside] != value]
        if not outside.size:
            ends.append(float(side[-1]))
            continue
        inner, outer = float(side[outside[0] - 1]), float(side[outside[0]])
        for _ in range(REFINED):
            if not (0 < inner < math.inf and 0 < outer < math.inf):
                break
            between = np.geomspace(inner, outer, GRID // 3)
            still = squares.profile(curve, between)[0] <= limit
            still[0] = True
            last = int(np.flatnonzero(still)[-1]) if still.all() else int(still.argmin()) - 1
            inner, outer = float(between[last]), float(between[min(last + 1, between.size - 1)])
        ends.append(inner)
    return Bounded(value, ends[0], ends[1])
