"""Progress of `nfslab trace`: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
from typing import Any

import pytest
from nfslab.cli.trace_progress import progress_on, time_left


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_a_bar_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    now, stream = [0.0], Screen()
    state: Any = {
        "read_bytes": 1 << 20, "total_bytes": 4 << 20, "frames": 1000, "calls": 400,
        "finished": False,
    }  # fmt: skip
    with progress_on(stream, "nfs.pcap", lambda: now[0]) as show:
        show(state)
        assert stream.getvalue() == "", "what is over at once needs no bar"
        now[0] = 2.0
        show(state)
    shown = stream.getvalue()
    assert "nfs.pcap" in shown
    assert "25%, 1 MiB, 1,000 packets, 400 calls" in shown
    assert "left" in shown
    assert shown.endswith("\x1b[2K"), "it leaves no trace"


class Terminal:
    """A stream that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    now = [0.0]
    stream: Any = Terminal()
    state: Any = {
        "read_bytes": 1 << 20, "total_bytes": 4 << 20, "frames": 1000, "calls": 400,
        "finished": False,
    }  # fmt: skip
    with progress_on(stream, "nfs.pcap", lambda: now[0]) as show:
        for second in range(25):
            now[0] = float(second)
            show(state)
    assert stream.text.splitlines() == [
        "nfs.pcap: 25%, 1 MiB, 1,000 packets, 400 calls, 30 s left",
        "nfs.pcap: 25%, 1 MiB, 1,000 packets, 400 calls, 60 s left",
    ]
    assert time_left({**state, "total_bytes": None}, 3.0) == ""
