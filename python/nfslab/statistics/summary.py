"""What the repetitions at one point come to: centre, spread, intervals, odd values.

Flow: `summarise_many` takes the values of many points as (group, value) pairs in the order
measured, sets aside what is not finite (flagged by index), sorts the points by their number
of values and treats each such matrix in one go. `summarise` is the same for one point, so
that one number has one estimator.

Decisions (docs/decisions/statistics.md): `interval` is the interval of the median that
keeps its stated coverage with few repetitions; `mean_interval` is Student's t; the two
bootstrap intervals are the customary ones, named as such, and narrower than the truth for
small n. n = 0 is allowed, n = 1 has no spread, and below three there is no interval.

Nothing is dropped silently: NaN and infinities cannot enter a mean, so they are left out
*and listed*; negative values stay in and are listed; outliers stay in and are listed.
Indices count within the point, in the order measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from nfslab.statistics import bootstrap
from nfslab.statistics.intervals import METHOD_T, Interval, median_interval, t_interval
from nfslab.statistics.outlier_marks import MIN_N, limit, modified_z_scores
from nfslab.statistics.verdicts import MIN_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

CONFIDENCE = 0.95
SEED = 2001
"""Default seed of the bootstrap, so that the same results give the same report."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The repetitions of one metric at one point; None where n is too small for it."""

    n: int
    """Finite values: what every figure below is computed from."""
    median: float | None = None
    mean: float | None = None
    standard_deviation: float | None = None
    """Of the sample (n - 1 in the denominator); None for n < 2."""
    coefficient_of_variation: float | None = None
    """Standard deviation over mean; None for n < 2 or a mean that is not positive."""
    minimum: float | None = None
    maximum: float | None = None
    interval: Interval | None = None
    """Of the median: the one to show."""
    mean_interval: Interval | None = None
    bootstrap_median: Interval | None = None
    bootstrap_mean: Interval | None = None
    outliers: tuple[int, ...] = ()
    not_finite: tuple[int, ...] = ()
    negative: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the reader: what is odd about these values."""


def summarise(
    values: ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    bootstrap_resamples: int = bootstrap.RESAMPLES,
    seed: int = SEED,
) -> Summary:
    """The summary of one point's values, in the order measured.

    `bootstrap_resamples=0` leaves the bootstrap intervals out.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    return summarise_many(
        np.zeros(array.size, dtype=np.int64),
        array,
        n_groups=1,
        confidence=confidence,
        bootstrap_resamples=bootstrap_resamples,
        seed=seed,
    )[0]


def summarise_many(
    groups: ArrayLike,
    values: ArrayLike,
    *,
    n_groups: int,
    confidence: float = CONFIDENCE,
    bootstrap_resamples: int = bootstrap.RESAMPLES,
    seed: int = SEED,
) -> list[Summary]:
    """Summaries of many points: `values[i]` belongs to point `groups[i]` (0 to n_groups-1).

    Returns one summary a point, empty ones (n = 0) included. Raises `ValueError` for arrays
    of unequal length, groups out of range or a confidence outside [0.5, 1).
    """
    group = np.asarray(groups, dtype=np.int64).ravel()
    value = np.asarray(values, dtype=np.float64).ravel()
    if group.shape != value.shape:
        raise ValueError("groups and values must have the same length")
    if group.size and (group.min() < 0 or group.max() >= n_groups):
        raise ValueError(f"groups must be 0 to {n_groups - 1}")
    if not 0.5 <= confidence < 1.0:
        raise ValueError(f"the confidence must be at least 0.5 and below 1, not {confidence}")
    order = np.argsort(group, kind="stable")
    group, value = group[order], value[order]
    total = np.bincount(group, minlength=n_groups)
    index = np.arange(group.size) - np.repeat(np.cumsum(total) - total, total)
    finite = np.isfinite(value)
    odd = _by_group(group[~finite], index[~finite])
    group, value, index = group[finite], value[finite], index[finite]
    sizes = np.bincount(group, minlength=n_groups)
    starts = np.cumsum(sizes) - sizes
    found: list[Summary | None] = [None] * n_groups
    for n in np.unique(sizes).tolist():
        members = np.flatnonzero(sizes == n)
        at = starts[members][:, None] + np.arange(n)
        matrix = _Matrix(members, value[at], index[at])
        for number, summary in zip(
            members.tolist(),
            _summarise_rows(matrix, odd, confidence, bootstrap_resamples, seed),
            strict=True,
        ):
            found[number] = summary
    return [summary for summary in found if summary is not None]


@dataclass(slots=True)
class _Matrix:
    """All points with the same number of finite values, one a row."""

    members: Integers
    rows: Floats
    index: Integers


def _by_group(groups: Integers, index: Integers) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for number, i in zip(groups.tolist(), index.tolist(), strict=True):
        found[number] = (*found.get(number, ()), i)
    return found


def _summarise_rows(
    matrix: _Matrix,
    odd: dict[int, tuple[int, ...]],
    confidence: float,
    resamples: int,
    seed: int,
) -> list[Summary]:
    rows, n = matrix.rows, matrix.rows.shape[1]
    if n == 0:
        return [_empty(odd.get(number, ())) for number in matrix.members.tolist()]
    centre = np.median(rows, axis=1)
    mean = rows.mean(axis=1)
    columns = [centre, mean, rows.min(axis=1), rows.max(axis=1)]
    deviation = rows.std(axis=1, ddof=1) if n > 1 else np.zeros(len(rows))
    deviation[np.ptp(rows, axis=1) == 0] = 0.0  # equal values have no spread, rounding or not
    intervals = _row_intervals(rows, confidence, resamples, seed)
    marked = _marked(rows)
    negative = rows < 0
    listed = np.any(marked, axis=1) | np.any(negative, axis=1)
    summaries = []
    plain = [column.tolist() for column in columns]
    for i, number in enumerate(matrix.members.tolist()):
        spread = float(deviation[i]) if n > 1 else None
        outlying: tuple[int, ...] = ()
        below: tuple[int, ...] = ()
        if listed[i]:
            outlying = tuple(matrix.index[i][marked[i]].tolist())
            below = tuple(matrix.index[i][negative[i]].tolist())
        bad = odd.get(number, ())
        average = plain[1][i]
        summaries.append(
            Summary(
                n=n,
                median=plain[0][i],
                mean=average,
                standard_deviation=spread,
                coefficient_of_variation=(
                    spread / average if spread is not None and average > 0 else None
                ),
                minimum=plain[2][i],
                maximum=plain[3][i],
                interval=intervals[i][0],
                mean_interval=intervals[i][1],
                bootstrap_median=intervals[i][2],
                bootstrap_mean=intervals[i][3],
                outliers=outlying,
                not_finite=bad,
                negative=below,
                notes=_notes(n, spread, outlying, bad, below),
            )
        )
    return summaries


def _row_intervals(
    rows: Floats, confidence: float, resamples: int, seed: int
) -> list[tuple[Interval | None, ...]]:
    """(median, mean, bootstrap of the median, of the mean) of every row."""
    count, n = rows.shape
    if n < MIN_RUNS:
        return [(None,) * 4] * count

    def intervals(low: Floats, high: Floats, methods: Iterable[str]) -> list[Interval | None]:
        columns = zip(low.tolist(), high.tolist(), methods)  # noqa: B905  (`repeat` has no end)
        return [Interval(a, b, confidence, method) for a, b, method in columns]

    found = [
        intervals(*median_interval(rows, confidence)),
        intervals(*t_interval(rows, confidence), repeat(METHOD_T)),
    ]
    if resamples and n <= bootstrap.MAX_N:
        means, medians = bootstrap.bootstrap_intervals(rows, confidence, seed, resamples)
        found += [
            intervals(both[:, 0], both[:, 1], repeat(bootstrap.METHOD)) for both in (medians, means)
        ]
    else:
        found += [[None] * count] * 2
    return list(zip(*found, strict=True))


def _marked(rows: Floats) -> NDArray[np.bool_]:
    n = rows.shape[1]
    if n < MIN_N:
        return np.zeros(rows.shape, dtype=np.bool_)
    return np.asarray(np.abs(modified_z_scores(rows)) > limit(n))


def _notes(
    n: int,
    spread: float | None,
    outlying: tuple[int, ...],
    bad: tuple[int, ...],
    below: tuple[int, ...],
) -> tuple[str, ...]:
    notes = []
    if bad:
        notes.append(f"{len(bad)} of {n + len(bad)} values are not finite and left out")
    if below:
        notes.append(f"{len(below)} of {n} values are negative")
    if outlying:
        notes.append(f"{len(outlying)} of {n} values stand out (kept)")
    if n == 1:
        notes.append("one value: its spread is unknown")
    if n > 1 and spread == 0:
        notes.append("all values are equal")
    return tuple(notes)


def _empty(bad: tuple[int, ...]) -> Summary:
    note = f"all {len(bad)} values are not finite" if bad else "no values"
    return Summary(n=0, not_finite=bad, notes=(note,))
