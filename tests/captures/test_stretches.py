"""What is put together of parts, and what is read again where some do not fit: against a model."""

from __future__ import annotations

import json
import random

import pytest
from nfslab.captures.stretches import DoNotFitError, Stretch, Stretches

Pairs = set[tuple[int, int]]
"""Two files: wherever they lie in different parts, these do not fit."""


class Reading:
    """Files that are read, as often as they have to be."""

    def __init__(self, files: int, together: Pairs) -> None:
        self.together = together
        self.parts = Stretches(files, self.join)
        self.again: list[Stretch] = []

    def join(self, one: bytes, other: bytes) -> bytes:
        left, right = json.loads(one), json.loads(other)
        assert left[-1] + 1 == right[0]
        if any(a in left and b in right for a, b in self.together):
            raise DoNotFitError("they belong together")
        return json.dumps(left + right).encode()

    def take(self, stretch: Stretch) -> None:
        waiting = [stretch]
        while waiting:
            read = waiting.pop()
            again = self.parts.take(read, json.dumps(list(read.files)).encode())
            if again is not None:
                assert again.why == "they belong together"
                self.again.append(again.stretch)
                waiting.append(again.stretch)

    def whole(self) -> list[int] | None:
        found = self.parts.whole()
        return None if found is None else json.loads(found)


def one_by_one(files: int) -> list[Stretch]:
    return [Stretch(number, number + 1) for number in range(files)]


def test_files_that_fit_are_read_once_and_few_parts_are_held() -> None:
    reading = Reading(200, set())
    most = 0
    for stretch in one_by_one(200):
        assert reading.whole() is None
        reading.take(stretch)
        most = max(most, len(reading.parts._parts))
    assert reading.whole() == list(range(200))
    assert reading.again == []
    assert most <= 16


@pytest.mark.parametrize("backwards", [False, True])
def test_two_files_that_do_not_fit_are_read_again_and_no_others(backwards: bool) -> None:
    reading = Reading(40, {(20, 21), (30, 31)})
    order = one_by_one(40)
    for stretch in reversed(order) if backwards else order:
        reading.take(stretch)
    assert reading.whole() == list(range(40))
    assert sorted(reading.again, key=lambda one: one.first) == [Stretch(20, 22), Stretch(30, 32)]


def test_a_stretch_that_does_not_fit_either_grows() -> None:
    reading = Reading(9, {(3, 4), (2, 4)})
    for stretch in one_by_one(9):
        reading.take(stretch)
    assert reading.whole() == list(range(9))
    assert reading.again == [Stretch(3, 5), Stretch(2, 5)]


def test_where_nothing_fits_all_is_one_stretch() -> None:
    reading = Reading(4, {(0, 3)})
    for stretch in one_by_one(4):
        reading.take(stretch)
    assert reading.whole() == [0, 1, 2, 3]
    assert reading.again[-1] == Stretch(0, 4)


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_all_files_are_there_once(seed: int) -> None:
    draw = random.Random(seed)
    files = draw.randint(1, 30)
    together = set()
    for _ in range(draw.choice((0, 1, 3, 8))):
        first = draw.randrange(files)
        together.add((first, min(first + draw.choice((1, 1, 2, 5)), files - 1)))
    reading = Reading(files, {pair for pair in together if pair[0] < pair[1]})
    order = one_by_one(files)
    draw.shuffle(order)
    for stretch in order:
        assert reading.whole() is None
        reading.take(stretch)
    assert reading.whole() == list(range(files))
    # Each time for two files that belong together, and lay in both stretches.
    for again in reading.again:
        assert any(a in again.files and b in again.files for a, b in reading.together)
