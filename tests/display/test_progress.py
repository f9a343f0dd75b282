"""The progress display: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import pytest
from nfslab.display.progress import Progress


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    now, stream = [0.0], Screen()
    with Progress(stream, quiet_s=1.0, clock=lambda: now[0]) as progress:
        progress.show("nfs.pcap", 0, 4, "1,000 packets")
        assert stream.getvalue() == "", "what is over at once needs no bar"
        now[0] = 2.0
        progress.show("nfs.pcap", 1, 4, "2,000 packets")
    shown = stream.getvalue()
    for words in ("nfs.pcap", "2,000 packets", "6 s left"):
        assert words in shown
    assert shown.endswith("\x1b[2K"), "it leaves no trace"


def test_a_bar_is_drawn_four_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    now, stream = [0.0], Screen()
    with Progress(stream, clock=lambda: now[0]) as progress:
        for tenth in range(40):
            now[0] = tenth / 10
            progress.show("files", tenth, 40, f"at {tenth}.")
    drawn = [tenth for tenth in range(40) if f"at {tenth}." in stream.getvalue()]
    assert drawn == list(range(0, 40, 3))


def test_without_a_terminal_it_is_told_now_and_then() -> None:
    now, stream = [0.0], io.StringIO()
    with Progress(stream, every_s=10.0, clock=lambda: now[0]) as progress:
        for second in range(25):
            now[0] = float(second)
            progress.show("nfs.pcap", second, 40, "25%")
    assert stream.getvalue().splitlines() == [
        "nfs.pcap: 25%, 30 s left",
        "nfs.pcap: 25%, 20 s left",
    ]


def test_without_a_terminal_a_step_is_told_once_when_it_lasts() -> None:
    now, stream = [0.0], io.StringIO()
    with Progress(stream, begun_s=1.0, clock=lambda: now[0]) as progress:
        for second, step in ((0.0, "one"), (0.9, "one"), (1.0, "two"), (2.0, "two"), (9.0, "two")):
            now[0] = second
            progress.show(step, second)
    assert stream.getvalue().splitlines() == ["two"]


def test_an_unknown_end_has_no_time_left() -> None:
    now, stream = [0.0], io.StringIO()
    with Progress(stream, every_s=1.0, clock=lambda: now[0]) as progress:
        for second in range(2):
            now[0] = float(second)
            progress.show("standard input", second, None, "1 MiB")
    assert stream.getvalue() == "standard input: 1 MiB\n"
