"""From planted counters to what `nfslab top` shows: exact rates, and stalls that are certain."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from nfslab.live.screen import EVENTS_MOST, KEYS, Screen
from nfslab.live.sources import Reading, ServerCounts
from nfslab.live.views import GONE_MOST, View, Views
from nfslab.storage.data_calls import COUNTED, ByClass
from nfslab.storage.mountstats import parse_counts

from tests.storage.mountstats_text import Written
from tests.storage.test_mountstats_real import READINGS

S = 10**9
CONNECTED = (800, 1, 1, 0, 0)
"""Port, binds, connects, seconds to connect, idle."""


def mount(
    at_s: float, sends: int, replies: int, connects: int = 1, calls: int | None = None, **more: Any
) -> Reading:
    """A kernel's mount that has sent so many READs, of which `calls` ended after 4 ms each."""
    ended = replies if calls is None else calls
    read = [
        ended,
        sends if calls is None else ended,
        0,
        ended * 100,
        ended * 8192,
        ended,
        ended * 4,
    ]
    transport = [*CONNECTED[:2], connects, 0, 0, sends, replies, 0, 0, 0, 9, 0, 0]
    text = Written(
        operations={"READ": [*read, ended * 5, 0]}, transports=[("tcp", transport)], **more
    ).text()
    (counts,) = parse_counts(text)
    return Reading(round(at_s * S), "kernel", counts.mount_point, counts)


def shown(views: Views, *readings: Reading) -> View:
    (view,) = views.take(readings)
    return view


def test_rates_are_differences_by_the_exact_time() -> None:
    views = Views()
    assert shown(views, mount(0, 100, 100)).state == "first reading"
    view = shown(views, mount(0.5, 200, 200))
    assert (view.state, view.interval_s, view.outstanding) == ("", 0.5, 0)
    assert view.figures["calls_per_s"] == 200
    assert view.figures["received_bytes_per_s"] == 200 * 8192
    assert view.figures["queue_ms"] == 1
    (read,) = view.operations
    assert (read["operation"], read["calls_per_s"], read["round_trip_ms"]) == ("READ", 200, 4)


def test_a_stall_is_seen_while_it_lasts() -> None:
    views = Views()
    shown(views, mount(0, 100, 100))
    first = shown(views, mount(1, 104, 100, calls=100))
    assert (first.state, first.outstanding) == ("", 4), "it may have been sent just now"
    second = shown(views, mount(2, 104, 100, calls=100))
    assert (second.state, second.stalled_s, second.outstanding) == ("stalled", 1, 4)
    third = shown(views, mount(3.5, 104, 100, calls=100))
    assert third.stalled_s == 2.5
    over = shown(views, mount(4, 104, 104))
    assert (over.state, over.stalled_s, over.outstanding) == ("", None, 0)


def test_a_mount_that_is_idle_or_answers_is_not_stalled() -> None:
    views = Views()
    shown(views, mount(0, 100, 100))
    for at_s in range(1, 4):
        assert shown(views, mount(at_s, 100, 100)).state == ""
    for at_s in range(4, 7):
        assert shown(views, mount(at_s, 104 + at_s, 100 + at_s)).state == ""


def test_replies_that_were_lost_are_not_outstanding() -> None:
    """Two replies went with a connection: sends stay two more than replies, for ever."""
    views = Views()
    shown(views, mount(0, 102, 100, connects=2, calls=100))
    for at_s in range(1, 4):
        view = shown(views, mount(at_s, 102, 100, connects=2, calls=100))
        assert (view.state, view.outstanding) == ("", 0)
    assert shown(views, mount(4, 105, 100, connects=2, calls=100)).outstanding == 3
    again = shown(views, mount(5, 109, 101, connects=3, calls=101))
    assert again.state == "", "a reply came"
    assert again.outstanding == 0, "how many of the eight were lost is not known"


def test_a_stall_goes_on_while_calls_are_sent_again() -> None:
    views = Views()
    shown(views, mount(0, 100, 100))
    shown(views, mount(1, 103, 100, calls=100))
    view = shown(views, mount(2, 106, 100, connects=2, calls=100))
    assert (view.state, view.stalled_s, view.outstanding) == ("stalled", 1, None)
    assert shown(views, mount(3, 106, 100, connects=2, calls=100)).stalled_s == 2


def test_a_mount_that_goes_and_comes() -> None:
    views = Views()
    shown(views, mount(0, 100, 100, age=50))
    (gone,) = views.take([])
    assert (gone.state, gone.operations) == ("gone", [])
    assert shown(views, mount(2, 7, 7, age=1)).state == "made anew"
    assert shown(views, mount(3, 8, 8, age=2)).figures["calls_per_s"] == 1
    assert shown(views, mount(4, 2, 2, age=1)).state == "made anew", "between two readings"


def test_what_has_gone_is_bounded() -> None:
    views = Views()
    views.take([mount(0, 1, 1, point=f"/m{number}") for number in range(GONE_MOST + 5)])
    assert len(views.take([])) == GONE_MOST


def server(at_s: float, calls: int, replies: int) -> Reading:
    counters = {"calls": calls, "replies": replies, "connections": 1, "duplicates_answered": 0}
    return Reading(round(at_s * S), "nfslab", "a:1", ServerCounts(counters), calls - replies)


def test_a_server_that_answers_nothing_is_stalled() -> None:
    views = Views(only=["a:1"])
    assert views.take([mount(0, 1, 1), server(0, 10, 10)])[0].what == "server"
    assert shown(views, server(1, 14, 12)).figures["replies_per_s"] == 2
    view = shown(views, server(3, 14, 12))
    assert (view.state, view.outstanding, view.stalled_s) == ("stalled", 2, 2)


def test_one_that_does_not_answer_is_not_gone() -> None:
    views = Views()
    for at_s, counts in ((0, 10), (1, 20)):
        views.take([dataclasses.replace(server(at_s, counts, counts), instance="7-a.sock")])
    (view,) = views.take([], silent={"7-a.sock"})
    assert (view.state, view.figures) == ("silent", {})
    again = dataclasses.replace(server(5, 60, 60), instance="7-a.sock")
    assert shown(views, again).figures["calls_per_s"] == 10, "since it was last read"


def test_keys_do_what_they_say() -> None:
    screen = Screen(1.0)
    views = Views()
    busy = [mount(at_s, 100 * at_s, 100 * at_s, point="/busy") for at_s in (1, 2)]
    calm = [mount(at_s, at_s, at_s, point="/calm") for at_s in (1, 2)]
    for two in zip(calm, busy, strict=True):
        screen.show(views.take(two), [], "12:00:00")
    assert [one.name for one in screen.views] == ["/busy", "/calm"]
    text = screen.text("12:00:01").plain
    assert "operation of /busy" in text
    assert text.endswith(KEYS)
    screen.press(b"\x1b[B")
    screen.press(b"\x1b[B")
    assert "operation of /calm" in screen.text("12:00:01").plain
    screen.show(views.take([mount(3, 999, 999, point="/calm"), busy[1]]), [], "12:00:02")
    assert [one.name for one in screen.views] == ["/calm", "/busy"]
    assert "operation of /calm" in screen.text("12:00:02").plain, "it is still chosen"
    screen.press(b"+")
    screen.press(b"+")
    screen.press(b"-")
    assert screen.interval_s == 2
    while screen.sort != "name":
        screen.press(b"s")
    screen.press(b" ")
    assert "PAUSED" in screen.text("12:00:01").plain
    screen.press(b"q")
    assert screen.over


def with_files(reading: Reading, files: ByClass | None) -> Reading:
    return dataclasses.replace(reading, files=files)


def calls_on_data(reads: int, writes: int = 0, read_bytes: int = 0) -> dict[str, int]:
    return dict(zip(COUNTED, (reads, writes, 0, read_bytes, 0), strict=True))


def test_calls_on_data_by_class_are_all_of_the_mounts() -> None:
    """20 READs in 2 s: 12 of the log, none of the other file, and those that nobody can name."""
    screen, views = Screen(1.0), Views()
    screen.show(views.take([with_files(mount(0, 100, 100), {})]), [], "")
    log = {"log": calls_on_data(12, read_bytes=12 * 512), "other": calls_on_data(0)}
    seen = {**log, "path not known": calls_on_data(5)}
    view = shown(views, with_files(mount(2, 120, 120), seen))
    assert view.files == [
        {
            "class": "log", "reads_per_s": 6, "writes_per_s": 0, "commits_per_s": 0,
            "read_bytes_per_s": 6 * 512, "written_bytes_per_s": 0,
        },
        {
            "class": "path not known", "reads_per_s": 4, "writes_per_s": 0, "commits_per_s": 0,
            "read_bytes_per_s": None, "written_bytes_per_s": None,
        },
    ]  # fmt: skip
    screen.show([view], [], "")
    lines = screen.text("").plain.splitlines()
    row = lines[next(at for at, line in enumerate(lines) if "files of /m" in line) + 1]
    assert row.split()[:2] == ["log", "6/s"]
    view = shown(views, with_files(mount(3, 120, 120), seen))
    assert view.files == [], "nothing was called"
    # Counted a moment after the mount's own calls: one more is no call less than none.
    view = shown(views, with_files(mount(4, 121, 121), {"log": calls_on_data(14)}))
    assert view.files is not None
    assert [one["class"] for one in view.files] == ["log"]


def test_a_mount_that_says_nothing_of_files_has_none() -> None:
    views = Views()
    shown(views, mount(0, 1, 1))
    assert shown(views, mount(1, 2, 2)).files is None


def test_what_happens_stands_below() -> None:
    screen, views = Screen(1.0), Views()
    for one in (mount(0, 1, 1), mount(1, 2, 1, calls=1), mount(2, 2, 1, calls=1)):
        screen.show(views.take([one]), [], "12:00:00")
    assert "no reply for at least 1 s, in flight: 1" in screen.events[-1]
    screen.show(views.take([mount(3, 2, 2)]), [], "12:00:03")
    assert "12:00:03 /m: it answers again" in screen.text("12:00:03").plain
    for _ in range(EVENTS_MOST):
        screen.show(views.take([]), [], "12:00:04")
        screen.show(views.take([mount(5, 2, 2)]), [], "12:00:05")
    assert len(screen.events) == EVENTS_MOST


@pytest.mark.parametrize("name", ["\x1b[2Jevil", "/a b"])
def test_names_steer_no_terminal(name: str) -> None:
    screen = Screen(1.0)
    screen.show(Views().take([mount(0, 1, 1, point=name)]), [], "12:00:00")
    assert "\x1b" not in screen.text("12:00:00").plain


@pytest.mark.parametrize("path", sorted(READINGS.glob("*.after")), ids=lambda path: path.stem)
def test_real_mounts_at_rest_have_nothing_outstanding(path: Path) -> None:
    """Of every connection: with NFSv4's callbacks, with calls of NFSACL, with nconnect."""
    for counts in parse_counts(path.read_text()):
        reading = Reading(0, "kernel", counts.mount_point, counts)
        later = Reading(S, "kernel", counts.mount_point, counts)
        views = Views()
        views.take([reading])
        (view,) = views.take([later])
        assert (view.state, view.outstanding) == ("", 0)
