"""Experiments over time with and without a change: how often is one called, and where?

`python -m tests.statistics.over_time` prints the tables of docs/decisions/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from nfslab.statistics.regimes import regimes
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]

SERIES = 1_000
NOISE: dict[str, Noise] = {
    "lognormal": lambda rng, shape: rng.standard_normal(shape),
    "heavy tails (t3)": lambda rng, shape: rng.standard_t(3, shape),
    "1 in 10 slow": lambda rng, shape: (
        0.3 * rng.standard_normal(shape) - 4.0 * (rng.random(shape) < 0.1)
    ),
}


def called(
    kind: str,
    n: int,
    figures: int,
    *,
    shift: float = 0.0,
    at: int = 0,
    correlation: float = 0.0,
    series: int = SERIES,
    seed: int = 1,
) -> tuple[float, float]:
    """(share with any change, share with one change at most one experiment from `at`).

    `shift` is in units of the noise of an experiment, at all figures; `correlation` of neighbours
    (AR(1)).
    """
    rng = np.random.default_rng(seed)
    any_change = placed = 0
    for _ in range(series):
        noise = NOISE[kind](rng, (n, figures))
        for one in range(1, n if correlation else 0):
            fresh = math.sqrt(1 - correlation**2) * noise[one]
            noise[one] = correlation * noise[one - 1] + fresh
        noise[at:] += shift * (at > 0)
        found = regimes(np.exp(0.05 * noise))
        any_change += bool(found)
        placed += len(found) == 1 and abs(found[0].at - at) <= 1
    return any_change / series, placed / series


def main() -> None:
    print("| noise | experiments | figures | a change called |\n|---|---|---|---|")
    for kind, n, figures in (
        *(("lognormal", n, k) for n in (10, 20, 50) for k in (1, 6)),
        ("heavy tails (t3)", 20, 1), ("1 in 10 slow", 20, 1), ("1 in 10 slow", 20, 6),
    ):  # fmt: skip
        print(f"| {kind} | {n} | {figures} | {called(kind, n, figures)[0]:.3f} |", flush=True)
    print("\n| AR(1) | 20 experiments | 50 |\n|---|---|---|")
    for correlation in (0.3, 0.6):
        shares = [called("lognormal", n, 1, correlation=correlation)[0] for n in (20, 50)]
        print(f"| {correlation} | {shares[0]:.2f} | {shares[1]:.2f} |", flush=True)
    print("\n| shift | 20, at 10 | 20, at 17 | 12, at 6 | 20, at 10, 6 figures |")
    print("|---|---|---|---|---|")
    for shift in (1.0, 2.0, 3.0, 5.0):
        cells = [
            called("lognormal", n, k, shift=shift, at=at, series=300)[1]
            for n, at, k in ((20, 10, 1), (20, 17, 1), (12, 6, 1), (20, 10, 6))
        ]
        print(f"| {shift:g} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
