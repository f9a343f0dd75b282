"""The universal scalability law on curves that are known: coverage, false refusals, acceptances.

`python -m tests.statistics.scaling` prints the tables of docs/decisions/statistics.md (five
minutes). A value is within its interval if the best fit with it stays within the limit: that is
asked of the true one; tests/statistics/test_scalability.py holds the intervals against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from nfslab.statistics.scalability import (
    MISFIT_MOST,
    REFUSED_BELOW,
    Squares,
    by_coherency,
    by_contention,
    by_knee,
    by_peak,
    knee,
)
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shape = Callable[[Floats], Floats]

EXPERIMENTS = 1_000
LEVELS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
TRUTHS = ((0.03, 0.0005), (0.3, 0.01), (0.05, 0.0), (0.0, 0.001))
OTHERS: dict[str, Shape] = {
    "linear to 8, then level": lambda n: np.minimum(n, 8.0),
    "linear to 8, then half": lambda n: np.where(n <= 8, n, 4.0),
    "law, one level 30 % lower": lambda n: law(n, 0.03, 0.0005) * np.where(n == 8, 0.7, 1.0),
    "law, one level 15 % lower": lambda n: law(n, 0.03, 0.0005) * np.where(n == 8, 0.85, 1.0),
    "faster than linear (N^1.2)": lambda n: n**1.2,
    "root of N": lambda n: n**0.5,
}
"""Curves that the law does not describe; a constant factor is of no interest."""


def law(n: Floats, sigma: float, kappa: float) -> Floats:
    return n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def runs(
    curve: Floats, blocks: int, noise: float, rng: np.random.Generator, *, uneven: bool = False
) -> Floats:
    """Rates by block and level: noise of each run, and 10 % that a block has in common.

    `uneven`: the noise of the largest level is three times that of the smallest.
    """
    spread = noise * (np.linspace(0.5, 1.5, curve.size) if uneven else 1.0)
    each = spread * rng.standard_normal((blocks, curve.size))
    return curve * np.exp(each + 0.1 * rng.standard_normal((blocks, 1)))


def is_refused(squares: Squares) -> bool:
    """As `Scalability.refused`, without the intervals."""
    best = squares.best()
    return squares.misfit_p(*best) < REFUSED_BELOW and squares.misfit(*best) > MISFIT_MOST


def coverage(
    truth: tuple[float, float],
    blocks: int,
    noise: float,
    *,
    experiments: int = EXPERIMENTS,
    uneven: bool = False,
    seed: int = 1,
) -> tuple[list[float], float]:
    """(shares whose intervals of σ, κ, peak, knee hold the truth; share refused)."""
    rng = np.random.default_rng(seed)
    sigma, kappa = truth
    peak = math.sqrt((1 - sigma) / kappa) if kappa else math.inf
    asked = (
        (by_contention, sigma),
        (by_coherency, kappa),
        (by_peak, peak),
        (by_knee, knee(sigma, kappa)),
    )
    held = np.zeros(4)
    refused = 0
    for _ in range(experiments):
        rates = runs(law(LEVELS, sigma, kappa), blocks, noise, rng, uneven=uneven)
        squares = Squares(LEVELS, np.log(rates))
        limit = squares.limit(*squares.best())
        for place, (curve, value) in enumerate(asked):
            held[place] += squares.profile(curve, np.array([value]))[0][0] <= limit
        refused += is_refused(squares)
    return (held / experiments).tolist(), refused / experiments


def refusals(shape: Shape, blocks: int, noise: float, *, experiments: int = EXPERIMENTS) -> float:
    """Share refused of curves of another shape."""
    rng = np.random.default_rng(2)
    curve = shape(LEVELS)
    found = (
        is_refused(Squares(LEVELS, np.log(runs(curve, blocks, noise, rng))))
        for _ in range(experiments)
    )
    return sum(found) / experiments


def main() -> None:
    print("| σ, κ | noise | blocks | σ | κ | peak | knee | refused |\n" + "|---" * 8 + "|")
    for truth in TRUTHS:
        for noise, blocks, uneven in (
            (0.02, 4, False), (0.05, 3, False), (0.05, 4, False), (0.05, 10, False),
            (0.15, 4, False), (0.05, 4, True),
        ):  # fmt: skip
            held, refused = coverage(truth, blocks, noise, uneven=uneven)
            shares = " | ".join(f"{share:.3f}" for share in held)
            words = f"{noise:.0%}" + ", uneven" * uneven
            print(
                f"| {truth[0]}, {truth[1]} | {words} | {blocks} | {shares} | {refused:.3f} |",
                flush=True,
            )
    print("\n| curve | noise 2 %, 4 blocks | 5 %, 4 | 5 %, 10 | 15 %, 4 |\n" + "|---" * 5 + "|")
    for name, shape in OTHERS.items():
        cells = [(0.02, 4), (0.05, 4), (0.05, 10), (0.15, 4)]
        shares = " | ".join(f"{refusals(shape, blocks, noise):.2f}" for noise, blocks in cells)
        print(f"| {name} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
