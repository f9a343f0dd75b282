"""Where a series of latencies changes its level: "the first 57 calls take 0.4 ms, then 5.1 ms".

Flow: values -> ranks over the whole series -> every interval of a fixed, overlapping set ("seeded
intervals", Kovács and others 2023) is searched for the split that tells its two halves apart best
-> the shortest interval that is significant gives a change ("narrowest over threshold", Baranowski
and others 2019), all intervals that hold it are dropped, and so on -> each place is looked up
again between its neighbours.

Decisions. Ranks, so that no tail is heavy: one sync of a second moves nothing. Logarithms would
rank the same. Given the ranks of an interval, any order of them is as likely as another if nothing
changed; the largest standardised difference over all splits then has the distribution of Miller
and Siegmund (1982; for ranks Lausen and Schumacher 1992), whose tail is multiplied by the number
of intervals (`ALPHA` for the whole series). Latencies follow each other, they are not drawn from
an urn: the difference is divided by the root of the long-run variance of what is left when both
means are taken out, in units of its variance. Latencies of one `GRAIN` have one rank: else a level
that drifts by a hundredth follows itself so closely that a step of forty times is lost in it.
Changes of less than `RATIO_LEAST` in the median, and levels of fewer than `LEVEL_LEAST` calls, are
none: a curve of thousands of points finds significance where nobody would see a step.

Cost: sums from a cumulated series, at most `SPLITS_MOST` splits an interval (a change that falls
between two of them is as good as on one; near an interval's edge a shorter one has it), so about
n log n: 1.4 s for a million syncs on one core. `ruptures` 1.1 searches in Python, which takes
minutes there, and leaves the choice of the penalty, that is the test, to its user.

Limits: `CHANGES_MOST` changes; a series that drifts all the time is shown as steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import erfc, exp, log, pi, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

ALPHA: Final = 0.01
"""A series without a change has one found with at most this probability."""
RATIO_LEAST: Final = 1.25
GRAIN: Final = 1.1
"""Ratio of latencies that are ranked alike at most."""
LEVEL_LEAST: Final = 8
SPLITS_MOST: Final = 128
CHANGES_MOST: Final = 60
LOOKS_MOST: Final = 20_000
"""Intervals whose dependence is looked at."""
CELLS_MOST: Final = 1 << 20
"""Splits judged at once (memory)."""
SHORTEST: Final = 4 * LEVEL_LEAST
DECAY: Final = sqrt(0.5)
PLACED_AGAIN: Final = 2
SECOND_ORDER: Final = 3.0
"""Bias of an autocorrelation of n values: about -(1 + 3 r) / n."""
CORRELATION_MOST: Final = 0.97


@dataclass(frozen=True, slots=True)
class Level:
    """Calls `start` to `end` (exclusive) of the series, between two changes."""

    start: int
    end: int
    median_ns: int
    mean_ns: float

    @property
    def calls(self) -> int:
        """How many."""
        return self.end - self.start


@dataclass(slots=True)
class Steps:
    """A series as levels; one level: nothing changed."""

    levels: list[Level] = field(default_factory=list)
    p_values: list[float] = field(default_factory=list)
    """Of each change, for the whole series (at most ALPHA)."""
    bounded: str = ""
    """Which bound was reached, empty when none was."""

    @property
    def changes(self) -> list[int]:
        """Number (from 0) of the first call of each level but the first."""
        return [level.start for level in self.levels[1:]]


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    split: int
    height: float


def change_points(latencies_ns: ArrayLike) -> Steps:
    """The levels of a series of latencies in their order (nanoseconds, integers)."""
    values = np.asarray(latencies_ns, dtype=np.int64)
    if values.size == 0:
        return Steps()
    series = _Series(values)
    bounded, found = ("", []) if values.size < SHORTEST else _narrowest(series)
    places = [one.split for one in found]
    places = _settled(series, places)
    levels = _levels(values, places)
    p_values = [_p_at(series, levels, i) for i in range(len(levels) - 1)]
    # A change that its own neighbours do not bear out (they were taken for one level) goes.
    while p_values and max(p_values) > ALPHA:
        places.pop(int(np.argmax(p_values)))
        places = _settled(series, places)
        levels = _levels(values, places)
        p_values = [_p_at(series, levels, i) for i in range(len(levels) - 1)]
    return Steps(levels, p_values, bounded)


class _Series:
    """Ranks, their cumulated sums, and the height that a split needs."""

    def __init__(self, values: NDArray[np.int64]) -> None:
        self.values = values
        self.ranks = _ranks(_grains(values))
        self.sums = _cumulated(self.ranks)
        self.squares = _cumulated(self.ranks**2)
        self.layers = list(_layers(values.size))
        self.intervals = sum(starts.size for _, starts in self.layers)

    def heights(self, starts: NDArray[np.int64], length: int, splits: NDArray[np.int64]) -> Floats:
        """Standardised differences: a row an interval, a column a split (from its start)."""
        first, last = self.sums[starts], self.sums[starts + length]
        mean = (last - first) / length
        spread = (self.squares[starts + length] - self.squares[starts]) / length - mean**2
        left = self.sums[starts[:, None] + splits] - first[:, None]
        scale = splits * (length - splits) / length * (length / (length - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            height = np.abs(left - splits * mean[:, None]) / np.sqrt(spread[:, None] * scale)
        # All equal, but for what rounding leaves: no difference.
        found: Floats = np.where(spread[:, None] > 1e-12, height, 0.0)
        return found


def _grains(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of grains on a logarithmic scale: what lies in one differs by less than `GRAIN`."""
    grains: NDArray[np.int64] = np.floor(np.log(np.maximum(values, 1)) / log(GRAIN)).astype(
        np.int64
    )
    return grains


def _ranks(values: NDArray[np.int64]) -> Floats:
    """Mid-ranks in (-1/2, 1/2): `scipy.stats.rankdata`, which takes a second to be imported."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Floats = (last - (count - 1) / 2 - (values.size + 1) / 2)[place] / values.size
    return ranks


def _cumulated(values: Floats) -> Floats:
    sums = np.zeros(values.size + 1)
    np.cumsum(values, out=sums[1:])
    return sums


def _layers(n: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """(length, starts) of the seeded intervals, the shortest first."""
    lengths = []
    length = float(n)
    while length >= SHORTEST:
        lengths.append(round(length))
        length *= DECAY
    for whole in reversed(lengths):
        count = max(1, int(np.ceil(2 * (n - whole) / whole)) + 1)
        starts = np.unique(np.linspace(0, n - whole, count).round().astype(np.int64))
        yield whole, starts


def _splits(length: int) -> NDArray[np.int64]:
    inner = np.arange(LEVEL_LEAST, length - LEVEL_LEAST + 1)
    if inner.size <= SPLITS_MOST:
        return inner
    return np.unique(np.linspace(inner[0], inner[-1], SPLITS_MOST).round().astype(np.int64))


def _narrowest(series: _Series) -> tuple[str, list[_Found]]:
    """A change in each of the shortest significant intervals that hold no other."""
    found: list[_Found] = []
    taken = np.zeros(0, dtype=np.int64)
    looks = 0
    for length, starts in series.layers:
        needed = _height_for(ALPHA / series.intervals, length)
        splits = _splits(length)
        for starts_now in _pieces(starts, splits.size):
            heights = series.heights(starts_now, length, splits)
            best = heights.argmax(axis=1)
            most = heights[np.arange(best.size), best]
            for i in np.argsort(-most):
                if most[i] < needed:
                    break
                start, split = int(starts_now[i]), int(starts_now[i] + splits[best[i]])
                if ((taken > start) & (taken < start + length)).any():
                    continue
                looks += 1
                if looks > LOOKS_MOST:
                    return f"{LOOKS_MOST:,} intervals were looked at, no more", found
                one = _Found(start, start + length, split, float(most[i]))
                if not _bears(series, one, needed):
                    continue
                found.append(one)
                taken = np.append(taken, split)
                if len(found) == CHANGES_MOST:
                    return f"the search ended at {CHANGES_MOST} changes", found
    return "", found


def _pieces(starts: NDArray[np.int64], splits: int) -> Iterator[NDArray[np.int64]]:
    step = max(1, CELLS_MOST // splits)
    for at in range(0, starts.size, step):
        yield starts[at : at + step]


def _bears(series: _Series, one: _Found, needed: float) -> bool:
    """Is it high enough for how its values follow each other, and large enough to be seen?"""
    dependence = _dependence(series.ranks[one.start : one.end], one.split - one.start)
    if one.height < needed * sqrt(dependence):
        return False
    return _ratio(series.values, one.start, one.split, one.end) >= RATIO_LEAST


def _ratio(values: NDArray[np.int64], start: int, split: int, end: int) -> float:
    """Of the medians on both sides, the larger over the smaller."""
    before = max(float(np.median(values[start:split])), 1.0)
    after = max(float(np.median(values[split:end])), 1.0)
    return max(before, after) / min(before, after)


def _dependence(ranks: Floats, split: int) -> float:
    """Long-run variance over variance of the ranks without their two means; at least 1."""
    left = np.concatenate(
        [ranks[:split] - ranks[:split].mean(), ranks[split:] - ranks[split:].mean()]
    )
    n = left.size
    own = float(left @ left)
    if own <= n * 1e-12:
        return 1.0
    lags = max(1, int(sqrt(n)))
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(left, size)
    correlations = np.fft.irfft(np.abs(spectrum) ** 2, size)[1 : lags + 1] / own
    correlations += (1 + SECOND_ORDER * np.maximum(correlations, 0)) / n
    weights = 1 - np.arange(1, lags + 1) / (lags + 1)
    first = min(max(float(correlations[0]), 0.0), CORRELATION_MOST)
    return max(1.0, (1 + first) / (1 - first), 1 + 2 * float(weights @ correlations))


def _tail(height: float, length: int) -> float:
    """Probability that some split of an interval stands higher by chance (Miller, Siegmund)."""
    if height <= 1.0:
        return 1.0
    density = exp(-height * height / 2) / sqrt(2 * pi)
    low = LEVEL_LEAST / length
    room = 2 * log((1 - low) / low)
    many = density * ((height - 1 / height) * room + 4 / height)
    return min(1.0, max(many, erfc(height / sqrt(2))))


def _height_for(p: float, length: int) -> float:
    low, high = 1.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _tail(middle, length) <= p else (middle, high)
    return high


def _settled(series: _Series, places: list[int]) -> list[int]:
    """Each place where it tells its neighbours apart best; those too small to see taken out."""
    places = sorted(places)
    while True:
        edges = [0, *places, series.values.size]
        places = []
        for i in range(1, len(edges) - 1):
            start = places[-1] if places else 0
            best = _best_between(series, start, edges[i + 1])
            if best is not None:
                places.append(best)
        edges = [0, *places, series.values.size]
        ratios = [_ratio(series.values, *edges[i : i + 3]) for i in range(len(places))]
        if not ratios or min(ratios) >= RATIO_LEAST:
            return places
        places.pop(int(np.argmin(ratios)))


def _best_between(series: _Series, start: int, end: int) -> int | None:
    length = end - start
    if length < 2 * LEVEL_LEAST:
        return None
    splits = np.arange(LEVEL_LEAST, length - LEVEL_LEAST + 1)
    heights = series.heights(np.array([start]), length, splits)[0]
    split = int(splits[heights.argmax()])
    # Squares of ranks lean to the middle of a longer side; distances to both medians do not.
    logs = np.log(np.maximum(series.values[start:end], 1))
    for _ in range(PLACED_AGAIN):
        nearer = np.abs(logs - np.median(logs[:split])) - np.abs(logs - np.median(logs[split:]))
        split = int(splits[np.cumsum(nearer)[splits - 1].argmin()])
    return start + split


def _p_at(series: _Series, levels: list[Level], i: int) -> float:
    """Of the change between level i and the next, for the whole series."""
    start, split, end = levels[i].start, levels[i].end, levels[i + 1].end
    height = float(series.heights(np.array([start]), end - start, np.array([split - start]))[0, 0])
    height /= sqrt(_dependence(series.ranks[start:end], split - start))
    return min(1.0, _tail(height, end - start) * series.intervals)


def _levels(values: NDArray[np.int64], places: list[int]) -> list[Level]:
    edges = [0, *places, values.size]
    return [
        Level(a, b, round(float(np.median(values[a:b]))), float(values[a:b].mean()))
        for a, b in pairwise(edges)
    ]
