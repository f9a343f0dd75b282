"""The smallest difference that a comparison could have shown.

"No difference shown" means little without it: five noisy repetitions may miss 20 %. Given
is the true change that would be declared with 80 % probability at the level of the test,
if the spread is what these runs showed: delta times the standard error, where delta is
the noncentrality at which Student's t with these degrees of freedom exceeds its critical
value with that probability.

delta is found by Newton's method on the integral over the distribution of the estimated
spread, P(T > t) = E[Phi(delta - t c)], c = sqrt(chi2 / df). (The handy formula t_crit +
t_0.8 is 5 % too small at three pairs and 20 % under a strict correction.) Degrees of
freedom are rounded down, which errs towards the larger difference.

Limits: the spread is itself an estimate, and a poor one for few repetitions.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nfslab.statistics.distributions import critical_t_one, normal_cdf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

POWER = 0.8
"""Customary: a difference of this size is missed once in five times."""
CELLS = 400
"""Cells of the integral; the power is then good to 0.0005 (checked against scipy)."""
EXACT_UP_TO = 500
"""Degrees of freedom above which the spread counts as known but for t itself."""
MAX_STEPS = 100


def detectable(standard_error: Floats, degrees_of_freedom: Floats, alpha: Floats) -> Floats:
    """The difference found with 80 % probability, on the scale of the standard error.

    Arrays of one length; NaN where the standard error or degrees of freedom are NaN.
    """
    df = np.floor(degrees_of_freedom)
    result = np.full(standard_error.shape, np.nan)
    usable = np.flatnonzero(np.isfinite(standard_error) & np.isfinite(df) & np.isfinite(alpha))
    if usable.size == 0:
        return result
    pairs, inverse = np.unique(alpha[usable] + 1j * df[usable], return_inverse=True)
    deltas = np.array([noncentrality(pair.imag, pair.real) for pair in pairs.tolist()])
    result[usable] = deltas[inverse.ravel()] * standard_error[usable]
    return result


def pairs_for(difference: float, standard_error: float, pairs: int, alpha: float) -> int:
    """Pairs in all that show such a true difference about four times in five.

    By the first sample of Stein's procedure in two stages (Annals of Mathematical Statistics 16,
    1945): the quantiles are those of the pairs that there are, since their spread is an estimate.
    How often it keeps its word is simulated in docs/decisions/statistics.md.
    """
    df = pairs - 1
    quantiles = critical_t_one(alpha, df) + critical_t_one(2 * (1 - POWER), df)
    return math.ceil((quantiles * standard_error / difference) ** 2 * pairs)


@lru_cache(maxsize=8192)
def noncentrality(degrees_of_freedom: float, alpha: float, power: float = POWER) -> float:
    """delta with P(T > critical value) = power for noncentral t; alpha is two-sided.

    The probability of declaring a difference of the wrong sign is not counted as power.
    """
    critical = critical_t_one(alpha, degrees_of_freedom)
    delta = critical + critical_t_one(2 * (1 - power), degrees_of_freedom)
    if degrees_of_freedom > EXACT_UP_TO:
        return delta
    edges, weight = _spread_distribution(degrees_of_freedom)
    width = critical * (edges[1] - edges[0])
    for _ in range(MAX_STEPS):
        z = delta - critical * edges
        below = normal_cdf(z)
        # Phi averaged over each cell exactly: under a strict alpha it is a step within one.
        integral = z * below + np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        found = float(weight @ -np.diff(integral)) / width
        slope = float(weight @ -np.diff(below)) / width
        step = (power - found) / max(slope, 1e-12)
        # Where the slope is small a step could leave the region: bound it by a factor.
        delta += min(max(step, -0.5 * delta), delta)
        if abs(step) < 1e-4 * delta:
            return float(delta)
    raise ValueError("the detectable difference did not converge")


@lru_cache(maxsize=1024)
def _spread_distribution(degrees_of_freedom: float) -> tuple[Floats, Floats]:
    """Cells of c = sqrt(chi2 / df), estimated over true standard deviation: edges, weights."""
    nu = degrees_of_freedom
    reach = 8.0 / math.sqrt(2.0 * nu)
    edges = np.linspace(max(0.0, 1.0 - reach), 1.0 + reach, CELLS + 1)
    c = (edges[1:] + edges[:-1]) / 2
    weight = np.exp((nu - 1.0) * np.log(c) - 0.5 * nu * (c * c - 1.0))
    return edges, weight / weight.sum()
