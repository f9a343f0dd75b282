"""Readings of /proc/self/mountstats: against known numbers, nfs-utils' tools, and garbage."""

from __future__ import annotations

import dataclasses
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nfslab.storage import mountstats
from nfslab.storage.counters import FormError
from nfslab.storage.mountstats import (
    MountCounts,
    counts_at,
    parse_counts,
    since,
)

from tests.storage.mountstats_text import Written, pairs


def one(text: str) -> MountCounts:
    (mount,) = parse_counts(text)
    return mount


@settings(max_examples=25)
@given(pairs())
def test_every_number_is_where_it_belongs(two: tuple[Written, Written]) -> None:
    """The positions are those of net/sunrpc/stats.c and xprtsock.c, written here once more."""
    before, after = two
    moved = since(one(after.text()), one(before.text()))
    assert moved is not None
    assert moved.age_s == after.age - before.age
    for name, numbers in after.operations.items():
        less = [a - b for a, b in zip(numbers, before.operations[name], strict=True)]
        got = moved.operations[name]
        assert [got.calls, got.sends, got.timeouts, got.bytes_sent, got.bytes_received] == less[:5]
        assert [got.queue_ms, got.round_trip_ms, got.execute_ms] == less[5:8]
        assert got.errors == (less[8] if len(less) == 9 else None)
    for number, (kind, numbers) in enumerate(after.transports):
        less = [a - b for a, b in zip(numbers, before.transports[number][1], strict=True)]
        got_of = moved.transports[number]
        assert got_of.protocol == kind
        sends = {"tcp": 5, "rdma": 5, "udp": 2, "local": 4}[kind]
        told = [got_of.sends, got_of.receives, got_of.bad_xids, got_of.in_flight, got_of.backlog]
        assert told == less[sends : sends + 5]
        assert got_of.port == (None if kind == "local" else numbers[0])
        if kind == "rdma":
            assert list(got_of.rdma) == less[10:]
        elif len(numbers) == sends + 8:
            assert got_of.slots_max == numbers[sends + 5]
            assert [got_of.sending, got_of.pending] == less[sends + 6 :]
        else:
            assert (got_of.slots_max, got_of.sending, got_of.pending) == (None, None, None)
    assert list(moved.events.values()) == [
        a - b for a, b in zip(after.events, before.events, strict=True)
    ]
    assert list(moved.bytes.values()) == [
        a - b for a, b in zip(after.bytes, before.bytes, strict=True)
    ]


def test_a_mount_made_anew_has_no_difference() -> None:
    made = Written(age=100, operations={"READ": [10] * 9})
    old, again = one(made.text()), dataclasses.replace(made, age=3)
    assert since(one(again.text()), old) is None, "it is younger"
    fewer = dataclasses.replace(made, age=101, operations={"READ": [9, *[10] * 8]})
    assert since(one(fewer.text()), old) is None, "a counter went down"
    other = dataclasses.replace(made, age=101, source="nas:/other")
    assert since(one(other.text()), old) is None, "another export is there"
    lost = dataclasses.replace(made, age=101, transports=[])
    assert since(one(lost.text()), old) is None, "a connection's counters are gone"


def test_a_connection_that_came_later_is_counted_from_zero() -> None:
    made = Written(age=5, transports=[("tcp", [1] * 13)])
    more = dataclasses.replace(made, age=6, transports=[("tcp", [1] * 13), ("tcp", [7] * 13)])
    moved = since(one(more.text()), one(made.text()))
    assert moved is not None
    assert [transport.sends for transport in moved.transports] == [0, 7]
    assert moved.total("sends") == 7


def test_of_two_mounts_at_one_place_the_later_one_is_seen() -> None:
    text = "device tmpfs mounted on / with fstype tmpfs\n" + Written(source="a:/x").text()
    text += "no device mounted on /z with fstype nfsd\n"
    text += Written(source="b:/x").text() + Written(point="/with blank").text()
    found = parse_counts(text)
    assert [mount.mount_point for mount in found] == ["/m", "/m", "/with blank"]
    seen = counts_at(found, "/m")
    assert seen is not None
    assert seen.source == "b:/x"
    assert counts_at(found, "/n") is None


WHOLE = Written(
    operations={"READ": [1] * 9, "WRITE": [2] * 9},
    transports=[("tcp", [3] * 13), ("udp", [4] * 10)],
).text()


@settings(max_examples=40)
@given(st.integers(0, len(WHOLE)), st.integers(0, 40), st.text(string.printable, max_size=12))
def test_a_damaged_reading_is_an_error_or_right(at: int, gone: int, put: str) -> None:
    """Never a crash; where it is taken, every number that is told stands in the text."""
    text = WHOLE[:at] + put + WHOLE[at + gone :]
    try:
        found = parse_counts(text)
    except FormError:
        return
    present = set(map(int, re.findall(r"\d+", text))) | {0}
    for mount in found:
        for counts in (*mount.operations.values(), *mount.transports):
            for value in dataclasses.astuple(counts):
                assert not isinstance(value, int) or value in present


@settings(max_examples=40)
@given(st.text(max_size=300))
def test_garbage_is_an_error_or_nothing(text: str) -> None:
    for begin in ("", WHOLE, "device a mounted on b with fstype nfs statvers=1.1\n"):
        try:
            found = parse_counts(begin + text)
        except FormError:
            continue
        assert len(found) <= 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("READ: 1 ", "READ: -1 "),
        ("READ: 1 ", "READ: 1.5 "),
        ("READ: 1 ", "READ: ١ "),
        ("READ: 1 ", f"READ: {1 << 64} "),
        ("READ: 1 ", "READ: 1 1 1 "),
        ("WRITE: ", "READ: "),
        ("tcp 3 3", "tcp 3"),
        ("udp 4 4", "quic 4 4"),
        ("\tage:\t1\n", ""),
        ("\tper-op statistics\n", ""),
        ("p/v: 100003/3", "p/v: 100003"),
        ("fstype nfs statvers=1.1", "fstype nfs statvers"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_line(old: str, new: str) -> None:
    assert old in WHOLE
    with pytest.raises(FormError, match=r"line|whole"):
        parse_counts(WHOLE.replace(old, new))


def test_what_has_no_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountstats, "OPERATIONS_MAX", 1)
    with pytest.raises(FormError, match="operations"):
        parse_counts(WHOLE)
    monkeypatch.setattr(mountstats, "TRANSPORTS_MAX", 1)
    with pytest.raises(FormError, match="transports"):
        parse_counts(WHOLE)
    monkeypatch.setattr(mountstats, "READING_CHARACTERS_MAX", len(WHOLE) - 1)
    with pytest.raises(FormError, match="characters"):
        parse_counts(WHOLE)
