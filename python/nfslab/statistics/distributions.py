"""Student's t, the normal distribution and F: what intervals and tests here need.

Why not scipy: importing `scipy.special` costs as much as all the rest of `nfslab compare`
together (docs/decisions/statistics.md has the figures), and what is needed of it is one
function, the regularised incomplete beta function, of which Student's t is a special case.
It is computed by its continued fraction (NIST DLMF 8.17.22) with the modified Lentz method,
vectorised. The tests compare every function here with scipy.

Accuracy: p-values and critical values agree with scipy to 1e-10 relative for 1 to 1e6
degrees of freedom and p down to 1e-250.
Limits: degrees of freedom from 1 to 1e6 (more pairs than any experiment has); the number of
terms and of Newton steps is bounded, and running into a bound is an error, never a guess.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

MAX_DEGREES_OF_FREEDOM = 1e6
MAX_TERMS = 20_000
"""Terms of the continued fraction; it needs about 3 sqrt(degrees of freedom)."""
MAX_STEPS = 100
"""Newton steps for a critical value; 12 are usual, 40 the most seen."""
MAX_REMEMBERED = 50_000
"""Critical values kept (5 MB); when full, all are forgotten."""
_PRECISION = 4e-15
"""A little above rounding: the last bits of a product never stand still."""
_TINY = 1e-300
"""Stands in for a zero denominator in Lentz's method."""

_NORMAL = NormalDist()
_solved: dict[complex, float] = {}
_lgamma = np.frompyfunc(math.lgamma, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_cdf(z: ArrayLike) -> Floats:
    """P(Z <= z) of the standard normal distribution, for arrays."""
    scaled = -np.asarray(z, dtype=np.float64) / math.sqrt(2.0)
    return 0.5 * np.asarray(_erfc(scaled), dtype=np.float64)


def normal_critical(alpha: float) -> float:
    """z with P(|Z| > z) = alpha."""
    return -_NORMAL.inv_cdf(alpha / 2.0)


def two_sided_p(t: ArrayLike, degrees_of_freedom: ArrayLike) -> Floats:
    """P(|T| >= |t|) of Student's t, for arrays (broadcast). Raises `ValueError`."""
    t_values, df = np.broadcast_arrays(
        np.abs(np.asarray(t, dtype=np.float64)), np.asarray(degrees_of_freedom, dtype=np.float64)
    )
    if df.size and not (np.all(df >= 1) and np.all(df <= MAX_DEGREES_OF_FREEDOM)):
        raise ValueError(f"degrees of freedom must be 1 to {MAX_DEGREES_OF_FREEDOM:g}")
    if np.any(np.isnan(t_values)):
        raise ValueError("t is not a number")
    t2 = np.minimum(t_values, 1e150) ** 2  # beyond that p is 0 to the last bit anyway
    x = df / (df + t2)
    y = t2 / (df + t2)  # 1 - x without cancellation
    flat = _tail(x.ravel(), y.ravel(), df.ravel())
    return flat.reshape(x.shape)


def critical_t(alpha: ArrayLike, degrees_of_freedom: ArrayLike) -> Floats:
    """t with P(|T| >= t) = alpha, for arrays (broadcast): the half width of intervals.

    `alpha` is two-sided (0.05 for a 95 % interval) and in (0, 0.5]. Raises `ValueError`.
    """
    alphas, df = np.broadcast_arrays(
        np.asarray(alpha, dtype=np.float64), np.asarray(degrees_of_freedom, dtype=np.float64)
    )
    if alphas.size == 0:
        return np.zeros(alphas.shape)
    if not (np.all(alphas > 0) and np.all(alphas <= 0.5)):
        raise ValueError("alpha must be above 0 and at most 0.5")
    # Equal numbers of repetitions are the rule: few distinct pairs, each solved once.
    pairs, inverse = np.unique(alphas.ravel() + 1j * df.ravel(), return_inverse=True)
    return _critical_of_pairs(pairs)[inverse.ravel()].reshape(alphas.shape)


def critical_t_one(alpha: float, degrees_of_freedom: float) -> float:
    """`critical_t` for one pair."""
    return float(critical_t(alpha, degrees_of_freedom))


def _critical_of_pairs(pairs: NDArray[np.complex128]) -> Floats:
    """Critical values of distinct (alpha + i df), remembered: the same few come again."""
    keys = pairs.tolist()
    missing = [key for key in keys if key not in _solved]
    if missing:
        wanted = np.array(missing)
        if len(_solved) + len(missing) > MAX_REMEMBERED:
            _solved.clear()
            return _solve_critical(pairs.real, pairs.imag)
        found = _solve_critical(wanted.real, wanted.imag)
        _solved.update(zip(missing, found.tolist(), strict=True))
    return np.array([_solved[key] for key in keys])


def _solve_critical(alpha: Floats, df: Floats) -> Floats:
    """Newton's method on log p as a function of log t.

    That function is concave and nearly straight in the tail (p ~ t^-df), so the first step
    may go past the solution and all others come back to it without crossing.
    """
    alphas, inverse = np.unique(alpha, return_inverse=True)
    z = np.array([normal_critical(float(a)) for a in alphas])[inverse.ravel()]
    t = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    log_alpha = np.log(alpha)
    for _ in range(MAX_STEPS):
        p = two_sided_p(t, df)
        density = np.exp(_log_density_constant(df) - (df + 1) / 2 * np.log1p(t * t / df))
        step = (np.log(p) - log_alpha) * p / (2.0 * density * t)
        t = t * np.exp(np.clip(step, -20.0, 20.0))
        if np.all(np.abs(step) < 1e-9):  # it converges quadratically: nothing is left to gain
            return np.asarray(t)
    raise ValueError("the critical value of t did not converge")


def _log_density_constant(df: Floats) -> Floats:
    """log of the density of t at 0: -log(sqrt(df) B(df/2, 1/2))."""
    return -(0.5 * np.log(df) + _log_beta_half(df / 2.0))


def _log_beta_half(a: Floats) -> Floats:
    """log B(a, 1/2); for large `a` by Stirling's series, where lgamma would cancel."""
    small = np.minimum(a, 64.0)
    exact = (
        np.asarray(_lgamma(small), dtype=np.float64)
        + math.lgamma(0.5)
        - np.asarray(_lgamma(small + 0.5), dtype=np.float64)
    )
    u = 1.0 / np.maximum(a, 64.0)
    # log(Gamma(a + 1/2) / Gamma(a)) - log(a)/2, from the series of log Gamma (DLMF 5.11.8)
    series = u * (-1 / 8 + u**2 * (1 / 192 + u**2 * (-1 / 640 + u**2 * (17 / 14336))))
    large = 0.5 * math.log(math.pi) + 0.5 * np.log(u) - series
    return np.asarray(np.where(a <= 64.0, exact, large))


def _tail(x: Floats, y: Floats, df: Floats) -> Floats:
    """I_x(df/2, 1/2) with y = 1 - x: the two-sided p of t."""
    a = df / 2.0
    p = np.ones_like(x)
    inside = y > 0.0
    direct = inside & (x < (a + 1.0) / (a + 2.5))  # where the fraction converges quickly
    swapped = inside & ~direct
    for mask, swap in ((direct, False), (swapped, True)):
        if not np.any(mask):
            continue
        am, xm, ym = a[mask], x[mask], y[mask]
        half = np.full_like(am, 0.5)
        front = np.exp(am * np.log(np.maximum(xm, _TINY)) + 0.5 * np.log(ym) - _log_beta_half(am))
        if swap:
            p[mask] = 1.0 - front * _continued_fraction(half, am, ym) / 0.5
        else:
            p[mask] = front * _continued_fraction(am, half, xm) / am
    return np.clip(p, 0.0, 1.0)  # rounding only: the exact value lies in [0, 1]


def _continued_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), vectorised.

    An element leaves the loop when it has converged: going on would only add rounding.
    """
    out = np.empty_like(x)
    left = np.arange(x.size)
    c = np.ones_like(x)
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    result = d.copy()
    for m in range(1, MAX_TERMS + 1):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + even * d)
        c = _away_from_zero(1.0 + even / c)
        result = result * (d * c)
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _away_from_zero(1.0 + odd * d)
        c = _away_from_zero(1.0 + odd / c)
        change = d * c
        result = result * change
        going = np.abs(change - 1.0) >= _PRECISION
        if not np.all(going):
            out[left[~going]] = result[~going]
            if not np.any(going):
                return out
            left, a, b, x = left[going], a[going], b[going], x[going]
            c, d, result = c[going], d[going], result[going]
    raise ValueError("the incomplete beta function did not converge")


def _away_from_zero(values: Any) -> Any:
    return np.where(np.abs(values) < _TINY, _TINY, values)


def f_tail(f: float, degrees_between: int, degrees_within: int) -> float:
    """P(F >= f) of Fisher's F: the p-value of a lack of fit."""
    if f <= 0:
        return 1.0
    a, b = degrees_within / 2, degrees_between / 2
    x = degrees_within / (degrees_within + degrees_between * f)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) if 0 < x < 1 else 0.0
    if x < (a + 1) / (a + b + 2):  # where the fraction converges quickly
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    return float(_continued_fraction(np.array([a]), np.array([b]), np.array([x]))[0])
