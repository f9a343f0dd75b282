"""Latencies taken apart: the join against dictionaries, the shares by hand, nothing clamped."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.statistics.latency_parts import join_unique, parts_of, summarise_parts

KEYS = st.lists(st.integers(0, 12), max_size=30)


@given(KEYS, KEYS)
def test_the_join_is_that_of_dictionaries(left: list[int], right: list[int]) -> None:
    ours, theirs = Counter(left), Counter(right)
    wanted = [
        (i, right.index(key)) for i, key in enumerate(left) if ours[key] == 1 and theirs[key] == 1
    ]
    found = join_unique(np.array(left, np.uint64), np.array(right, np.uint64))
    assert list(zip(found.left.tolist(), found.right.tolist(), strict=True)) == wanted
    assert found.unmatched == sum(key not in theirs for key in left)
    assert found.repeated == len(left) - len(wanted) - found.unmatched


def test_shares_and_means_by_hand() -> None:
    # Three instants, two parts: calls of 10 + 30, 20 + 20, 30 + 70.
    parts = parts_of([[0, 5, 10], [10, 25, 40], [40, 45, 110]])
    assert parts.tolist() == [[10, 20, 30], [30, 20, 70]]
    (one,) = summarise_parts(parts, np.zeros(3, int), 1)
    assert one is not None
    assert (one.calls, one.whole_mean_ns, one.whole_p50_ns, one.whole_p99_ns) == (3, 60, 40, 100)
    assert one.mean_ns == [20, 40]
    assert one.share == [60 / 180, 120 / 180]
    # The slowest one per cent of three is the slowest one.
    assert (one.slow_calls, one.slow_share) == (1, [0.3, 0.7])
    assert one.negative == [0, 0]


def test_a_part_below_zero_is_counted_and_stays_in_the_sum() -> None:
    parts = parts_of([[0, 0], [8, 6], [5, 7]])
    (one,) = summarise_parts(parts, [0, 0], 1)
    assert one is not None
    assert one.negative == [0, 1]
    assert one.mean_ns == [7, -1]
    assert sum(one.mean_ns) == one.whole_mean_ns == 6
    (none,) = summarise_parts(parts_of([[5], [3]]), [0], 1)
    assert none is not None
    assert none.share == [None], "no share of less than nothing"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(-50, 10**12), min_size=4,
             max_size=4)), min_size=1, max_size=40)
)  # fmt: skip
def test_parts_sum_to_the_whole_in_every_group(calls: list[tuple[int, list[int]]]) -> None:
    instants = np.cumsum(np.array([steps for _, steps in calls]), axis=1).T
    summaries = summarise_parts(parts_of(list(instants)), [group for group, _ in calls], 5)
    assert summaries[4] is None
    for group, found in enumerate(summaries):
        mine = [steps for number, steps in calls if number == group]
        if found is None:
            assert not mine
            continue
        wholes = sorted(sum(steps[1:]) for steps in mine)
        assert found.calls == len(mine)
        assert found.whole_mean_ns == pytest.approx(sum(wholes) / len(wholes))
        assert sum(found.mean_ns) == pytest.approx(found.whole_mean_ns, abs=1e-3)
        assert found.whole_p99_ns == wholes[-1]
        if found.share[0] is not None:
            assert sum(share or 0 for share in found.share) == pytest.approx(1)


def test_what_slow_calls_wait_for_is_told_apart_from_what_most_do() -> None:
    n = 1000
    steps = np.zeros((4, n), np.int64)
    steps[1] = 100
    steps[2, :10] = 5000
    steps[3] = 40
    (one,) = summarise_parts(parts_of(list(np.cumsum(steps, axis=0))), np.zeros(n, int), 1)
    assert one is not None
    # Rank 990 of 1000 is the last quick one: all are at or above it.
    assert one.slow_calls == n
    steps[2, 10] = 5000
    (one,) = summarise_parts(parts_of(list(np.cumsum(steps, axis=0))), np.zeros(n, int), 1)
    assert one is not None
    assert one.slow_calls == 11
    assert int(np.argmax([share or 0 for share in one.slow_share])) == 1
    assert int(np.argmax([share or 0 for share in one.share])) == 0


def test_many_calls_are_joined_and_summed() -> None:
    n = 20_000
    generator = np.random.default_rng(1)
    keys = generator.permutation(n).astype(np.uint64) * 2147483647 % 2**63
    found = join_unique(keys, keys[::-1])
    assert (found.left.size, found.unmatched, found.repeated) == (n, 0, 0)
    parts = parts_of(list(np.cumsum(generator.integers(0, 10**6, (7, n)), axis=0)))
    summaries = summarise_parts(parts, generator.integers(0, 12, n), 12)
    assert sum(one.calls for one in summaries if one) == n
