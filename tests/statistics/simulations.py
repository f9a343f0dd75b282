"""Simulated experiments with a known truth: how often do the statistics err?

The tests run small numbers of these; `python -m tests.statistics.simulations` prints the
tables of docs/decisions/statistics.md (a few minutes). Seeded: the same figures each time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from nfslab.statistics.bootstrap import RESAMPLES
from nfslab.statistics.checks.steady_state import check_steady_state
from nfslab.statistics.comparison import ALPHA, compare_many
from nfslab.statistics.distributions import critical_t_one
from nfslab.statistics.observations import Observations
from nfslab.statistics.outlier_marks import limit, modified_z_scores
from nfslab.statistics.power import pairs_for
from nfslab.statistics.summary import summarise_many
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return 1 + 0.05 * rng.standard_normal(shape)


def _lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return np.exp(0.2 * rng.standard_normal(shape))


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return np.exp(0.5 * rng.standard_normal(shape))


def _heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return np.exp(0.05 * rng.standard_t(3, shape))


def _slow_runs(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One run in ten is a third slower: something else used the machine."""
    return np.exp(0.03 * rng.standard_normal(shape) - 0.4 * (rng.random(shape) < 0.1))


def _exponential(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return 1 + rng.exponential(size=shape)


NOISE: dict[str, Noise] = {
    "normal, 5 %": _normal,
    "lognormal, 20 %": _lognormal,
    "lognormal, 50 %": _skewed,
    "heavy tails (t3)": _heavy,
    "1 in 10 slow": _slow_runs,
    "1 + exponential": _exponential,
}
# (median, mean) of each; None: from a large sample
TRUTH: dict[str, tuple[float | None, float | None]] = {
    "normal, 5 %": (1.0, 1.0),
    "lognormal, 20 %": (1.0, math.exp(0.02)),
    "lognormal, 50 %": (1.0, math.exp(0.125)),
    "heavy tails (t3)": (1.0, None),  # its mean is infinite
    "1 in 10 slow": (None, None),
    "1 + exponential": (1 + math.log(2), 2.0),
}


def draw(
    kind: str, experiments: int, n: int, drift: float, seed: int
) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """(base, new, groups, blocks) of many A/A experiments, drift common to both sides."""
    rng = np.random.default_rng(seed)
    shape = (experiments, n)
    common = np.exp(np.cumsum(drift * rng.standard_normal(shape), axis=1))
    base, new = NOISE[kind](rng, shape) * common, NOISE[kind](rng, shape) * common
    groups = np.repeat(np.arange(experiments), n)
    blocks = np.tile(np.arange(n), experiments)
    return base.ravel(), new.ravel(), groups, blocks


def comparison_rates(
    kind: str,
    n: int,
    *,
    experiments: int,
    ratio: float = 1.0,
    drift: float = 0.0,
    paired: bool = True,
    seed: int = 1,
) -> tuple[float, float]:
    """(share declared different, share whose interval holds the true ratio)."""
    base, new, groups, blocks = draw(kind, experiments, n, drift, seed)
    given = blocks if paired else None
    found = compare_many(
        Observations.of(base, groups=groups, blocks=given),
        Observations.of(new * ratio, groups=groups, blocks=given),
        n_groups=experiments,
        better="higher",
        correct=False,
    )
    declared = sum(c.shown for c in found)
    covered = sum(c.interval is not None and c.interval.contains(ratio) for c in found)
    return declared / experiments, covered / experiments


def summary_coverage(
    kind: str, n: int, *, experiments: int, bootstrap: bool = True, seed: int = 2
) -> dict[str, float]:
    """Share of intervals that hold the true median (mean), by the kind of interval."""
    rng = np.random.default_rng(seed)
    median, mean = TRUTH[kind]
    if median is None:
        large = NOISE[kind](rng, (2_000_000,))
        median, mean = float(np.median(large)), float(large.mean())
    values = NOISE[kind](rng, (experiments, n)).ravel()
    resamples = RESAMPLES if bootstrap else 0
    groups = np.repeat(np.arange(experiments), n)
    found = summarise_many(groups, values, n_groups=experiments, bootstrap_resamples=resamples)
    truth = {"interval": median}
    if mean is not None:
        truth["mean_interval"] = mean
    if bootstrap:
        truth["bootstrap_median"] = median
    if bootstrap and mean is not None:
        truth["bootstrap_mean"] = mean
    return {
        name: sum(getattr(summary, name).contains(value) for summary in found) / experiments
        for name, value in truth.items()
    }


def family_rate(members: int, different: int, n: int, *, families: int, seed: int = 3) -> float:
    """Share of families in which at least one of the equal pairs is declared different."""
    wrong = 0
    for k in range(families):
        base, new, groups, blocks = draw("normal, 5 %", members, n, 0.1, seed + k)
        new = np.where(groups < different, new * 1.5, new)
        found = compare_many(
            Observations.of(base, groups=groups, blocks=blocks),
            Observations.of(new, groups=groups, blocks=blocks),
            n_groups=members,
            better="higher",
        )
        wrong += any(c.shown for c in found[different:])
    return wrong / families


def rate_series(n: int, likeness: float, spread: float, runs: int, seed: int) -> Floats:
    """Throughput over time at a steady level: an AR(1) process, one run a row."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((runs, n + 100))
    for i in range(1, n + 100):
        noise[:, i] = likeness * noise[:, i - 1] + noise[:, i] * math.sqrt(1 - likeness**2)
    return np.maximum(1000 * (1 + spread * noise[:, 100:]), 0.0)


def warned(series: Floats) -> float:
    """Share of the runs (rows) for which the steady-state check warns."""
    checks = [check_steady_state(row, 1_000_000_000) for row in series]
    return sum(check.verdict == "warning" for check in checks) / len(checks)


# The candidates that were not taken, for the table that says why.


def signed_rank_interval(d: Floats) -> tuple[Floats, Floats]:
    """Hodges-Lehmann 95 % interval of every row; infinite where the test cannot reach 5 %."""
    n = d.shape[1]
    i, j = np.triu_indices(n)
    walsh = np.sort((d[:, i] + d[:, j]) / 2, axis=1)
    ways = np.array([1.0])
    for rank in range(1, n + 1):
        wider = np.zeros(ways.size + rank)
        wider[: ways.size] += ways
        wider[rank:] += ways
        ways = wider
    cumulative = np.cumsum(ways) / 2**n
    k = int(np.searchsorted(cumulative, 0.025, side="right")) - 1
    if k < 0:
        return np.full(len(d), -np.inf), np.full(len(d), np.inf)
    return walsh[:, k], walsh[:, walsh.shape[1] - 1 - k]


def sign_flip_p(d: Floats, seed: int = 4) -> Floats:
    """Sign-flip permutation p of every row: all flips up to n = 10, 1000 random ones above."""
    n = d.shape[1]
    if n <= 10:
        flips = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    else:
        flips = np.random.default_rng(seed).choice([-1.0, 1.0], (1000, n))
    p = np.empty(len(d))
    for start in range(0, len(d), 1000):
        block = d[start : start + 1000]
        observed = np.abs(block.mean(axis=1))[:, None]
        p[start : start + 1000] = (np.abs(block @ flips.T / n) >= observed - 1e-12).mean(axis=1)
    return p


@dataclass
class Proposals:
    """Experiments that showed nothing, and were told how many pairs would."""

    asked: int = 0
    shown: int = 0
    """By so many pairs, those that there were among them."""


def proposals(
    change_pct: float, pairs: int, spread: float, *, experiments: int, seed: int = 6
) -> Proposals:
    """True change, pairs so far, standard deviation of a pair's difference (on logarithms)."""
    random, found = np.random.default_rng(seed), Proposals()
    true = math.log(1 + change_pct / 100)
    for _ in range(experiments):
        first = random.normal(true, spread, pairs)
        error = float(first.std(ddof=1)) / math.sqrt(pairs)
        wanted = pairs_for(true, error, pairs, ALPHA)
        if abs(first.mean()) > critical_t_one(ALPHA, pairs - 1) * error or wanted <= pairs:
            continue
        whole = np.concatenate([first, random.normal(true, spread, wanted - pairs)])
        error = float(whole.std(ddof=1)) / math.sqrt(wanted)
        found.asked += 1
        found.shown += bool(whole.mean() > critical_t_one(ALPHA, wanted - 1) * error)
    return found


def _print_proposals() -> None:
    print("\n| blocks so far | spread of a difference | asked | shown then |")
    for pairs in (3, 4, 5, 8, 12):
        for spread in (0.05, 0.1, 0.2, 0.4):
            found = proposals(10, pairs, spread, experiments=5000)
            if found.asked:
                share = found.shown / found.asked
                print(f"| {pairs} | {spread:.0%} | {found.asked / 5000:.2f} | {share:.2f} |")


def _print_comparisons() -> None:
    print(
        "| noise | n | level, no drift | level, drift | Welch, drift | Wilcoxon | sign flips ",
        end="",
    )
    print("| power at +10 % | Welch | Wilcoxon | coverage |")
    for kind in ("normal, 5 %", "lognormal, 20 %", "heavy tails (t3)", "1 in 10 slow"):
        for n in (3, 5, 10, 20):
            base, new, _, _ = draw(kind, 10_000, n, 0.2, 1)
            d = np.log(new / base).reshape(-1, n)
            low, high = signed_rank_interval(d)
            rank_level = float(np.mean((low > 0) | (high < 0)))
            flip_level = float(np.mean(sign_flip_p(d) < 0.05))
            rank_power = float(np.mean(low > -math.log(1.1)))
            many = {"experiments": 20_000}
            level, _ = comparison_rates(kind, n, **many)
            drifted, _ = comparison_rates(kind, n, drift=0.2, **many)
            welch, _ = comparison_rates(kind, n, drift=0.2, paired=False, **many)
            power, covered = comparison_rates(kind, n, ratio=1.1, drift=0.2, **many)
            lost, _ = comparison_rates(kind, n, ratio=1.1, drift=0.2, paired=False, **many)
            figures = (level, drifted, welch, rank_level, flip_level, power, lost, rank_power)
            shown = " | ".join(f"{figure:.3f}" for figure in (*figures, covered))
            print(f"| {kind} | {n} | {shown} |")


def _print_summaries() -> None:
    print("\n| values | n | median: shown | bootstrap | mean: t | bootstrap |")
    for kind in NOISE:
        for n in (2, 3, 5, 6, 10, 20, 50):
            found = summary_coverage(kind, n, experiments=10_000)
            names = ("interval", "bootstrap_median", "mean_interval", "bootstrap_mean")
            shown = " | ".join(f"{found[name]:.3f}" if name in found else "-" for name in names)
            print(f"| {kind} | {n} | {shown} |")


def _print_marks() -> None:
    print("\n| n | samples with a mark: modified z > 3.5 | Tukey's fences | limit by n |")
    for n in (3, 5, 10, 20):
        rows = np.random.default_rng(n).standard_normal((50_000, n))
        customary = np.mean(np.any(np.abs(modified_z_scores(rows)) > 3.5, axis=1))
        own = np.mean(np.any(np.abs(modified_z_scores(rows)) > limit(n), axis=1))
        low, high = np.quantile(rows, [0.25, 0.75], axis=1)
        reach = 1.5 * (high - low)
        outside = (rows < (low - reach)[:, None]) | (rows > (high + reach)[:, None])
        print(f"| {n} | {customary:.3f} | {np.mean(np.any(outside, axis=1)):.3f} | {own:.3f} |")


def _print_unpaired() -> None:
    print("\n| n | level of Welch's t without drift |")
    for n in (3, 5, 10):
        level, _ = comparison_rates("lognormal, 20 %", n, experiments=20_000, paired=False)
        print(f"| {n} | {level:.3f} |")


def _print_series() -> None:
    print("\n| samples | likeness | spread | level | warm-up step | drop at 70 % | slope 30 % |")
    for n in (30, 60, 300):
        for likeness in (0.0, 0.5, 0.8):
            for spread in (0.05, 0.2):
                x, t = rate_series(n, likeness, spread, 1000, 5), np.arange(n)
                changes = (1.0, np.where(t < n / 10, 0.5, 1), np.where(t < 0.7 * n, 1, 0.7))
                rates = [warned(x * c) for c in (*changes, 1 + 0.3 * t / n)]
                shown = " | ".join(f"{rate:.3f}" for rate in rates)
                print(f"| {n} | {likeness} | {spread:.0%} | {shown} |")


if __name__ == "__main__":
    _print_comparisons()
    _print_unpaired()
    _print_summaries()
    _print_marks()
    for members, different in ((10, 0), (10, 5), (100, 0), (100, 50)):
        rate = family_rate(members, different, 5, families=5000)
        print(f"\nfamily of {members}, {different} different: any false {rate:.4f}")
    _print_series()
    _print_proposals()
