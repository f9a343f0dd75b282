"""Shared time: by hand, and by the time in which anything was under way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.statistics.pauses import covered, pauses
from nfslab.statistics.shared_time import SharedTime

AT = 10**13
"""Instants are those of a clock that runs since long."""


def test_by_hand() -> None:
    """Two from 0 to 100, a third from 50 to 200; nothing until 300; one alone until 400."""
    begins, ends = np.array([0, 0, 50, 300]) + AT, np.array([100, 100, 200, 400]) + AT
    clock = SharedTime.of(begins, ends)
    first = 50 / 2 + 50 / 3
    assert clock.between(begins, ends) == pytest.approx([first, first, 50 / 3 + 100, 100])
    # A part of one: it was alone from 100 on.
    assert clock.between([AT + 100], [AT + 150]) == pytest.approx([50])
    assert clock.between([AT + 200], [AT + 300]) == pytest.approx([0])


def test_nothing_under_way_has_no_time() -> None:
    clock = SharedTime.of([], [])
    assert clock.between([1, 2], [3, 4]).tolist() == [0, 0]
    assert SharedTime.of([5], [5]).between([0], [9]).tolist() == [0]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)), min_size=1, max_size=40))
def test_all_shares_are_the_time_in_which_any_was_under_way(pieces: list[tuple[int, int]]) -> None:
    begins = np.array([AT + begin for begin, _ in pieces])
    ends = begins + np.array([length for _, length in pieces])
    clock = SharedTime.of(begins, ends)
    assert clock.between(begins, ends).sum() == pytest.approx(covered(begins, ends))
    whole = (np.array([AT]), np.array([AT + 2000]))
    assert clock.between(*whole) <= covered(begins, ends) + 1e-6


def test_pauses_take_the_share_of_what_they_interrupt() -> None:
    """Ten calls of 1 ms one after the other, then two together that wait 200 ms for each other."""
    ms = 1_000_000
    begins = np.array([AT + k * ms for k in range(10)] + [AT + 10 * ms] * 2)
    ends = np.array([AT + (k + 1) * ms for k in range(10)] + [AT + 210 * ms] * 2)
    found, clock = pauses(begins, ends), SharedTime.of(begins, ends)
    assert found.within(begins, ends) == 2 * 200 * ms
    assert found.within(begins, ends, clock) == pytest.approx(200 * ms)
