"""Cover of windows by intervals: against counting every nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.statistics import interval_cover
from nfslab.statistics.interval_cover import began_within, cover

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=12)


@given(SPANS, SPANS, st.integers(1, 30))
def test_it_is_the_number_of_covered_nanoseconds(
    intervals: list[tuple[int, int]], windows: list[tuple[int, int]], pairs: int
) -> None:
    before = interval_cover.PAIRS_MOST
    interval_cover.PAIRS_MOST = pairs  # type: ignore[misc]
    try:
        found = cover(
            [s for s, _ in intervals],
            [s + n for s, n in intervals],
            [s for s, _ in windows],
            [s + n for s, n in windows],
        )
    finally:
        interval_cover.PAIRS_MOST = before  # type: ignore[misc]
    covered = {t for s, n in intervals for t in range(s, s + n)}
    assert found.tolist() == [sum(t in covered for t in range(s, s + n)) for s, n in windows]


def test_large_instants_stay_exact() -> None:
    base = 1 << 62
    found = cover([base], [base + 7], [base - 3], [base + 5])
    assert found.tolist() == [5]
    assert found.dtype == np.int64


def test_those_that_begin_within() -> None:
    first, last = began_within([1, 5, 5, 9], [0, 5, 6], [5, 9, 9])
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == [(0, 1), (1, 3), (3, 3)]


@pytest.mark.parametrize("windows", [[], [0, 5]])
def test_nothing_covers_nothing(windows: list[int]) -> None:
    assert cover([], [], windows, [w + 1 for w in windows]).tolist() == [0] * len(windows)
