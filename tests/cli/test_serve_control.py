"""`nfslab serve --control`: records on and off by lines on standard input, and bad lines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab._core import Server
from nfslab.machine.agent import Lines
from nfslab.servers import embedded_control
from nfslab.servers.embedded_control import LINE_BYTES_MAX, Control

from tests.cli.serving import command, null


class Obeying:
    """A control whose standard input is a pipe of ours, and what it says."""

    def __init__(self, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        heard, self.write = os.pipe()
        monkeypatch.setattr(embedded_control, "STDIN", heard)
        self.said: list[dict[str, Any]] = []
        self.control = Control(server, self.said.append)

    def ask(self, line: object) -> dict[str, Any]:
        text = line if isinstance(line, bytes) else json.dumps(line).encode()
        for at in range(0, len(text) + 1, 4096):
            os.write(self.write, (text + b"\n")[at : at + 4096])
            self.control.obey(0)
        return self.said[-1]


@contextmanager
def obeying(server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Obeying]:
    made = Obeying(server, monkeypatch)
    try:
        yield made
    finally:
        made.control.close()
        with contextlib.suppress(OSError):
            os.close(made.write)
        os.close(embedded_control.STDIN)


def xids(path: Path) -> list[int]:
    found: list[int] = pq.read_table(path)["xid"].to_pylist()
    return found


def test_what_is_wrong_is_said_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with obeying(None, monkeypatch) as asked:
        for number, (line, words) in enumerate(wrong, 1):
            told = asked.ask(line)
            assert (len(asked.said), told["event"]) == (number, "error"), line
            assert words in f"{told['what']} {told['why']}", told
            assert told["fix"]
        asked.ask(b"\n  ")
        assert len(asked.said) == len(wrong), "an empty line asks for nothing"
        os.close(asked.write)
        asked.control.obey(0)
        asked.control.obey(0)  # the end of input ends nothing


@pytest.mark.system
def test_recordings_hold_the_calls_between_their_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    with (
        Server(json.dumps({"store": "memory"})) as server,
        obeying(server, monkeypatch) as asked,
    ):
        assert null(server.port, 1) == 0
        began = asked.ask({"do": "record", "file": str(first)})
        assert (began["event"], began["file"]) == ("recording", str(first))
        assert "already" in asked.ask({"do": "record", "file": str(first)})["what"]
        for xid in range(10, 40):
            assert null(server.port, xid) == 0
        assert not first.exists(), "it gets its name when it is whole"
        ended = asked.ask({"do": "end_recording"})
        assert [ended[n] for n in ("event", "rows", "lost", "left_out")] == ["recorded", 30, 0, 0]
        assert began["at_ns"] <= ended["at_ns"]
        assert ended["cpu_s"] > 0
        assert null(server.port, 2) == 0
        asked.ask({"do": "record", "file": str(second), "rows_max": 4})
        for xid in range(50, 60):
            assert null(server.port, xid) == 0
        ended = asked.ask({"do": "end_recording"})
        assert (ended["rows"], ended["left_out"]) == (4, 6)
        # A file that cannot be written is told when it is ended, and the next one is.
        if Path("/dev/full").exists():
            third = tmp_path / "third.parquet"
            asked.ask({"do": "record", "file": str(third)})
            (temporary,) = set(tmp_path.iterdir()) - {first, second}
            temporary.unlink()
            temporary.symlink_to("/dev/full")
            assert null(server.port, 3) == 0
            assert asked.ask({"do": "end_recording"})["event"] == "error"
            assert asked.ask({"do": "record", "file": str(third)})["event"] == "recording"
            assert asked.ask({"do": "end_recording"})["rows"] == 0
    assert (xids(first), xids(second)) == (list(range(10, 40)), list(range(50, 54)))
    assert began["at_ns"] <= min(pq.read_table(first)["received_ns"].to_pylist())
    stated = json.loads(pq.read_table(first).schema.metadata[b"nfslab.server"])
    assert stated["store"] == "memory"


@pytest.mark.system
def test_a_process_obeys_and_a_signal_ends_it_with_its_file(tmp_path: Path) -> None:
    path, other = tmp_path / "calls.parquet", tmp_path / "other.parquet"
    asked = command("--memory", "--records", path, "--port", 0, "--json", "--control")
    pipe = subprocess.PIPE
    with subprocess.Popen(asked, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        assert null(port, 3) == 0
        # Records that were asked for at the start can be ended, and others begun.
        lines = [{"do": "end_recording"}, {"do": "record", "file": str(other)}]
        process.stdin.writelines(json.dumps(line) + "\n" for line in lines)
        process.stdin.close()
        said = [json.loads(process.stdout.readline()) for _ in lines]
        assert [one["event"] for one in said] == ["recorded", "recording"]
        for xid in range(20):
            assert null(port, xid) == 0
        process.send_signal(signal.SIGINT)
        ended = json.loads(process.stdout.readline())
    assert process.returncode == 0
    assert ended["records"] == {"file": str(other), "rows": 20}
    assert (xids(path), xids(other)) == ([3], list(range(20)))


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
