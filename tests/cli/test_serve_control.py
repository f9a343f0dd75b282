"""`nfslab serve --control`: records on and off by lines on standard input, and bad lines."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.machine.agent import Lines
from nfslab.servers.embedded_control import LINE_BYTES_MAX

from tests.cli.invocation import nfslab
from tests.cli.serving import PATIENCE_S, command, null


class Obeying:
    """A server that listens."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.port: int = self.hear()["port"]

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        return line

    def say(self, line: object) -> None:
        assert self.process.stdin is not None
        text = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.process.stdin.write(text + b"\n")
        self.process.stdin.flush()

    def ask(self, line: object) -> dict[str, Any]:
        self.say(line)
        return self.hear()

    def end(self, number: int = signal.SIGTERM) -> dict[str, Any]:
        self.process.send_signal(number)
        ended = self.hear()
        self.process.wait(PATIENCE_S)
        return ended


@contextmanager
def obeying(*arguments: object) -> Iterator[Obeying]:
    asked = command(*arguments, "--port", 0, "--json", "--control")
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Obeying(process)
        finally:
            process.kill()


def xids(path: Path) -> list[int]:
    found: list[int] = pq.read_table(path)["xid"].to_pylist()
    return found


def test_recordings_hold_the_calls_between_their_ends(tmp_path: Path) -> None:
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    with obeying("--memory") as server:
        assert null(server.port, 1) == 0
        before_ns = time.monotonic_ns()
        began = server.ask({"do": "record", "file": str(first)})
        assert (began["event"], began["file"]) == ("recording", str(first))
        assert before_ns <= began["at_ns"] <= time.monotonic_ns()
        for xid in range(10, 40):
            assert null(server.port, xid) == 0
        assert not first.exists(), "it gets its name when it is whole"
        ended = server.ask({"do": "end_recording"})
        assert [ended[n] for n in ("event", "rows", "lost", "left_out")] == ["recorded", 30, 0, 0]
        assert 0 < ended["cpu_s"] < PATIENCE_S
        assert null(server.port, 2) == 0
        server.ask({"do": "record", "file": str(second), "rows_max": 4})
        for xid in range(50, 60):
            assert null(server.port, xid) == 0
        ended = server.ask({"do": "end_recording"})
        assert (ended["rows"], ended["left_out"]) == (4, 6)
        assert "records" not in server.end()
    assert server.process.returncode == 0
    assert (xids(first), xids(second)) == (list(range(10, 40)), list(range(50, 54)))
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, second.name]
    instants = pq.read_table(first)["received_ns"].to_pylist()
    assert began["at_ns"] <= min(instants)
    stated = json.loads(pq.read_table(first).schema.metadata[b"nfslab.server"])
    assert stated["store"] == "memory"


def test_what_is_wrong_is_said_and_it_goes_on_serving(tmp_path: Path) -> None:
    good = {"do": "record", "file": str(tmp_path / "calls.parquet")}
    wrong: list[tuple[object, str]] = [
        (b"hello", "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b"[" * 5000, "no JSON"),
        ([1], "no JSON object"),
        ({"do": "recrod"}, "nothing that can be done"),
        ({"file": "x"}, "nothing that can be done"),
        ({"do": "record"}, "file has to be"),
        ({"do": "record", "file": ""}, "file has to be"),
        ({"do": "record", "file": 7}, "file has to be"),
        (good | {"rows_max": -1}, "rows_max"),
        (good | {"rows_max": True}, "rows_max"),
        (good | {"speed": 1}, "does not belong"),
        ({"do": "record", "file": str(tmp_path)}, "is a folder"),
        ({"do": "record", "file": str(tmp_path / "a" / "b")}, "there is no folder"),
        ({"do": "end_recording"}, "no calls are recorded now"),
        (b"x" * (LINE_BYTES_MAX + 1), "more than"),
        (b"x" * (5 * LINE_BYTES_MAX), "more than"),
    ]
    with obeying("--null") as server:
        for line, words in wrong:
            told = server.ask(line)
            assert told["event"] == "error", line
            assert words in f"{told['what']} {told['why']}", told
            assert told["fix"]
        server.say(b"\n  ")
        assert server.ask(good)["event"] == "recording"
        assert "already" in server.ask(good)["what"]
        assert null(server.port, 5) == 0
        assert server.ask({"do": "end_recording"})["rows"] == 1
        server.end()
    assert server.process.returncode == 0


def test_the_end_of_input_ends_nothing_and_a_signal_ends_it_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.parquet"
    with obeying("--memory") as server:
        server.ask({"do": "record", "file": str(path)})
        assert server.process.stdin is not None
        server.process.stdin.close()
        for xid in range(20):
            assert null(server.port, xid) == 0
        ended = server.end(signal.SIGINT)
    assert server.process.returncode == 130
    assert ended["records"] == {"file": str(path), "rows": 20}
    assert xids(path) == list(range(20))


def test_records_asked_for_at_the_start_can_be_ended(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    with obeying("--memory", "--records", path) as server:
        assert null(server.port, 3) == 0
        assert "already" in server.ask({"do": "record", "file": str(path)})["what"]
        assert server.ask({"do": "end_recording"})["rows"] == 1
        assert "records" not in server.end()
    assert xids(path) == [3]


def test_a_file_that_cannot_be_written_is_told_when_it_is_ended(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    path = tmp_path / "calls.parquet"
    with obeying("--memory") as server:
        server.ask({"do": "record", "file": str(path)})
        (temporary,) = tmp_path.iterdir()
        temporary.unlink()
        temporary.symlink_to(full)
        assert null(server.port, 3) == 0
        told = server.ask({"do": "end_recording"})
        assert told["event"] == "error"
        assert "cannot write" in told["what"]
        assert null(server.port, 4) == 0
        assert server.ask({"do": "record", "file": str(path)})["event"] == "recording"
        server.end()
    assert xids(path) == []


def test_control_needs_json(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "serve", "--memory", "--port", 0, "--control")
    assert (said.code, "--json" in said.err) == (2, True)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_are_the_same_in_any_pieces(size: int) -> None:
    long = b"y" * (LINE_BYTES_MAX + 7)
    whole = b"\n".join([b"one", b"", long, b"x" * LINE_BYTES_MAX, b" \t", b"last", b"begun"])
    if size == 1:
        whole = whole.replace(long, b"").replace(b"x" * LINE_BYTES_MAX, b"short")
    lines = Lines(LINE_BYTES_MAX)
    found: list[bytes | None] = []
    for at in range(0, len(whole), size):
        found += lines.feed(whole[at : at + size])
    middle = [b"short"] if size == 1 else [None, b"x" * LINE_BYTES_MAX]
    assert found == [b"one", *middle, b"last"]
