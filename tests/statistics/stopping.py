"""Experiments that add blocks until an interval is narrow, simulated: how often do they err?

`python -m tests.statistics.stopping` prints the table of docs/decisions/statistics.md (some
minutes). The rule itself is `nfslab.results.precision`; here its formula runs on many experiments
at once, and tests/statistics/test_stopping.py holds the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from nfslab.statistics.comparison import ALPHA
from nfslab.statistics.distributions import critical_t_one
from nfslab.statistics.sequential import SEQUENTIAL_ALPHA
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EXPERIMENTS = 40_000
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def _slow(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return 0.3 * rng.standard_normal(shape) - 4.0 * (rng.random(shape) < 0.1)


NOISE: dict[str, Noise] = {
    "lognormal": lambda rng, shape: rng.standard_normal(shape),
    "heavy tails (t3)": lambda rng, shape: rng.standard_t(3, shape),
    "1 run in 10 slow": _slow,
    "1 + exponential": lambda rng, shape: np.log(1 + rng.exponential(size=shape)),
}
"""Of the logarithm of a run, before it is scaled; "normal" is of the run itself."""


ONE_SIDED = "1 run in 10 slow, one side"
"""Of the new side only: the differences are skewed."""
SPREADS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2)
"""Of a run: from narrow at the first look to never narrow within 30 blocks."""


@dataclass(frozen=True)
class Rates:
    """Of many experiments that ended by the rule; one standard error is at most 0.0016."""

    missed: float
    """Share whose interval leaves out the true ratio (of a family: any); so of A against A the
    share that is called different."""
    reached: float
    """Share that ended because the interval was narrow."""
    blocks: float
    """Mean number."""


def differences(
    kind: str, experiments: int, comparisons: int, spread: float, rng: np.random.Generator
) -> Floats:
    """One block: log(new / base) of each comparison, base shared, shape (experiments, family)."""
    shape = (experiments, comparisons + 1)
    if kind == "normal":
        runs = np.log(np.maximum(1 + spread * rng.standard_normal(shape), 1e-9))
    elif kind == ONE_SIDED:
        runs = 0.3 * spread * rng.standard_normal(shape)
        runs[:, 1:] -= spread * 4 * ((rng.random((experiments, comparisons)) < 0.1) - 0.1)
    else:
        runs = spread * NOISE[kind](rng, shape)
    return runs[:, 1:] - runs[:, :1]


def simulate(
    kind: str,
    spread: float,
    *,
    experiments: int,
    until: float = 0.05,
    least: int = 4,
    most: int = 30,
    comparisons: int = 1,
    alpha: float = SEQUENTIAL_ALPHA,
    correlation: float = 0.0,
    seed: int = 1,
) -> Rates:
    """Rates of experiments with a true ratio of 1 (any other moves both sides of the logarithm).

    `correlation`: of a comparison's neighbouring blocks (AR(1)). What both sides of a block have
    in common, drift included, is no part of a difference of logarithms at all.
    """
    rng = np.random.default_rng(seed)
    kept = np.arange(experiments)
    total = np.zeros((experiments, comparisons))
    squares = np.zeros_like(total)
    before = np.zeros_like(total)
    missed = np.zeros(experiments, dtype=bool)
    narrow = np.zeros(experiments, dtype=bool)
    blocks = np.zeros(experiments)
    for n in range(1, most + 1):
        fresh = differences(kind, kept.size, comparisons, spread, rng)
        now = fresh if n == 1 else correlation * before + math.sqrt(1 - correlation**2) * fresh
        before = now
        total, squares = total + now, squares + now**2
        if n < least:
            continue
        mean = total / n
        error = np.sqrt(np.maximum(squares / n - mean**2, 0.0) / (n - 1))
        half = critical_t_one(alpha / comparisons, n - 1) * error
        fits = np.expm1(half).max(axis=1) <= until
        ends = fits if n < most else np.ones(kept.size, dtype=bool)
        missed[kept[ends]] = (np.abs(mean) > half)[ends].any(axis=1)
        narrow[kept[ends]] = fits[ends]
        blocks[kept[ends]] = n
        kept = kept[~ends]
        total, squares, before = total[~ends], squares[~ends], before[~ends]
        if not kept.size:
            break
    return Rates(float(missed.mean()), float(narrow.mean()), float(blocks.mean()))


def worst(kind: str, **given: float) -> Rates:
    """The largest share missed over the spreads of a run."""
    settings: dict[str, Any] = {"experiments": EXPERIMENTS, **given}
    found = [simulate(kind, spread, **settings) for spread in SPREADS]
    return max(found, key=lambda rates: rates.missed)


def main() -> None:
    print("| noise | least | comparisons | missed | drawn at 5 %: missed | blocks |")
    print("|---|---|---|---|---|---|")
    rows = [(kind, 4, 1) for kind in ("normal", *NOISE, ONE_SIDED)]
    rows += [("normal", least, 1) for least in (3, 6, 10)]
    rows += [("lognormal", 4, comparisons) for comparisons in (3, 10)]
    for kind, least, comparisons in rows:
        one = worst(kind, least=least, comparisons=comparisons)
        plain = worst(kind, least=least, comparisons=comparisons, alpha=ALPHA)
        print(
            f"| {kind} | {least} | {comparisons} | {one.missed:.3f} | {plain.missed:.3f} "
            f"| {one.blocks:.0f} |",
            flush=True,
        )
    print("\n| AR(1) of the differences | missed | 12 blocks, given, at 5 % |\n|---|---|---|")
    for correlation in (0.2, 0.5):
        one = worst("lognormal", correlation=correlation)
        fixed = worst("lognormal", correlation=correlation, least=12, most=12, alpha=ALPHA)
        print(f"| {correlation} | {one.missed:.3f} | {fixed.missed:.3f} |", flush=True)
    fixed = worst(ONE_SIDED, least=4, most=4, alpha=ALPHA)
    print(f"\n{ONE_SIDED}, 4 blocks given, at 5 %: {fixed.missed:.3f} missed")
    print("\n| spread of a run | narrow (5 %) within 30 | blocks |\n|---|---|---|")
    for spread in (0.01, 0.02, 0.03, 0.05, 0.07, 0.1):
        rates = simulate("lognormal", spread, experiments=EXPERIMENTS)
        print(f"| {spread:.0%} | {rates.reached:.2f} | {rates.blocks:.1f} |")


if __name__ == "__main__":
    main()
