"""`nfslab top` on mounts and servers that truly run, on a terminal, and refused."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nfslab.live.sources import Reading, ServerCounts, look
from nfslab.machine.offered_counters import SILENT, offered, taken
from nfslab.machine.resources import Resources
from nfslab.storage.mountstats import MountCounts

from tests.cli.invocation import nfslab
from tests.cli.serving import serving
from tests.hosts.here import HERE
from tests.machine import needs
from tests.stopping import stop
from tests.targets.nfs_share import MakeNfs

SYNCED_BYTES = 8192
ANSWER_S = 60.0
"""How long an answer is waited for; none of these tests needs it."""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "nfslab", *map(str, arguments)]


@pytest.mark.system
def test_mounts_and_servers_of_a_run_are_seen(nfs_target: MakeNfs, resources: Resources) -> None:
    def ours() -> list[Reading]:
        return [one for one in look(ANSWER_S).readings if one.kind == "nfslab"]

    target = nfs_target()
    place = target.up(resources, HERE)
    try:
        kinds = {type(one.counts): one.name for one in ours()}
        assert kinds.keys() == {MountCounts, ServerCounts}
        assert kinds[MountCounts] == str(place.mount_point)
    finally:
        target.down(place)
    assert ours() == []


@contextmanager
def mounted(port: int, folder: Path) -> Iterator[Path]:
    options = f"port={port},mountport={port}"
    argv = command("mount", "127.0.0.1:/export", folder, "-o", options)
    subprocess.run(argv, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(command("umount", "--force", folder), check=False, capture_output=True)


@contextmanager
def lines(*arguments: object) -> Iterator[Iterator[dict[str, Any]]]:
    argv = command("top", "--json", "--interval", "250ms", *arguments)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield map(json.loads, process.stdout)
        finally:
            process.terminate()


def states(line: dict[str, Any]) -> list[str]:
    return [one["state"] for one in line["mounts"] + line["servers"]]


@needs.fuse
@pytest.mark.system
def test_a_mount_and_its_server_count_the_same_by_class_of_file(
    state: Path, tmp_path: Path
) -> None:
    """Both count for themselves; what the program wrote is the truth of both."""
    folder, store = tmp_path / "m", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    wrote = {"PostgreSQL WAL": 7, "PostgreSQL tables and indexes": 3, "removed while open": 2}
    with (
        serving(store, "--squash", "none") as served,
        mounted(served.port, folder),
        lines() as told,
    ):
        # What was counted until now is in no later line.
        next(line for line in told if states(line) == ["", ""])
        (folder / "pg_wal").mkdir()
        (folder / "base" / "5").mkdir(parents=True)
        log, table = folder / "pg_wal" / "000000010000000000000001", folder / "base" / "5" / "16384"
        sums = {"mounts": Sums("calls"), "servers": Sums("replies")}
        with log.open("wb", buffering=0) as one, table.open("wb", buffering=0) as two:
            _write_synced(one, wrote["PostgreSQL WAL"])
            _write_synced(two, wrote["PostgreSQL tables and indexes"])
            _count_until(told, 7 + 3, sums)
            table.unlink()
            _write_synced(two, wrote["removed while open"])
            _count_until(told, sum(wrote.values()), sums)
        # Until neither counts any more.
        while not all(one.idle for one in sums.values()):
            _add(next(told), sums)
    for by_class in (one.files for one in sums.values()):
        counted = {
            name: (round(one["writes"]), round(one["written_bytes"]))
            for name, one in by_class.items()
        }
        assert counted == {name: (count, count * SYNCED_BYTES) for name, count in wrote.items()}
    assert round(sums["mounts"].calls) == round(sums["servers"].calls) > sum(wrote.values())
    assert sums["mounts"].name == str(folder)


class Sums:
    """What one of both has said: its rates by the lengths of their intervals."""

    def __init__(self, counted: str) -> None:
        self.counted, self.calls, self.idle, self.name = f"{counted}_per_s", 0.0, False, ""
        self.files: dict[str, Counter[str]] = {}

    def add(self, shown: dict[str, Any]) -> None:
        self.name = shown["name"]
        # One that did not answer in time has its rates in the next line, of all that went by.
        if shown["state"] != "":
            return
        self.idle = shown[self.counted] == 0
        self.calls += shown[self.counted] * shown["interval_s"]
        for row in shown["files"] or []:
            into = self.files.setdefault(row.pop("class"), Counter())
            for name, rate in row.items():
                into[name.removesuffix("_per_s")] += rate * shown["interval_s"]

    def writes(self) -> int:
        return round(sum(one["writes"] for one in self.files.values()))


def _write_synced(file: io.FileIO, times: int) -> None:
    for _ in range(times):
        file.write(bytes(SYNCED_BYTES))
        os.fsync(file.fileno())


def _add(line: dict[str, Any], sums: dict[str, Sums]) -> None:
    for what, one in sums.items():
        (shown,) = line[what]
        one.add(shown)


def _count_until(told: Iterator[dict[str, Any]], writes: int, sums: dict[str, Sums]) -> None:
    """Adds what mount and server say, until both have seen so many WRITEs."""
    while any(one.writes() < writes for one in sums.values()):
        _add(next(told), sums)


@needs.fuse
@pytest.mark.long
def test_a_server_that_stands_still_is_a_stall(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    with serving("--memory") as served, mounted(served.port, folder):
        with lines(folder) as told:
            next(told)
            stop(served.process.pid)
            writer = threading.Thread(target=(folder / "file").write_bytes, args=(b"text",))
            writer.start()
            stalled = next(line for line in told if line["mounts"][0]["state"] == "stalled")
            # Also when more have asked than may wait.
            for _ in range(8):
                assert any(SILENT in one for one in taken())
            assert stalled["mounts"][0]["outstanding"] >= 1
            assert stalled["mounts"][0]["stalled_s"] > 0
            assert stalled["servers"] == [], "only the mount was asked for"
            served.process.send_signal(signal.SIGCONT)
            next(line for line in told if line["mounts"][0]["state"] == "")
            writer.join()
            assert not any(SILENT in one for one in taken(ANSWER_S))
        with lines(folder) as told:
            next(told)
            subprocess.run(command("umount", folder), check=True)
            next(line for line in told if line["mounts"][0]["state"] == "gone")


def counted(counters: dict[str, int]) -> dict[str, Any]:
    """What a server offers that has these."""
    whole = {"duplicates_dropped": 0, "duplicates_answered": 0, "connections": 1} | counters
    return {
        "what": "server", "name": "planted:1:/x", "at_ns": 0, "counters": whole, "files": {}
    }  # fmt: skip


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: object) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execvpe(sys.executable, command("top", *arguments), os.environ | {"TERM": "xterm"})
        self.said = b""

    def until(self, text: str) -> None:
        """Reads what it draws, from here on, until this is there."""
        self.said = b""
        while text.encode() not in self.said:
            self.said += os.read(self.descriptor, 1 << 16)

    def press(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def code(self) -> int:
        """How it ended, with what it still says read."""
        try:
            while os.read(self.descriptor, 1 << 16):
                pass
        except OSError:  # EIO: its end
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.system
@pytest.mark.parametrize(("ends", "code"), [(b"q", 0), (b"\x03", 0)])
def test_on_a_terminal(ends: bytes, code: int, state: Path) -> None:
    with offered(lambda: counted({"calls": 7, "replies": 7})):
        top = Terminal("--interval", "250ms")
        top.until("planted:1:/x")
        for keys, shown in ((b"p", "PAUSED"), (b"p+", "every 500 ms"), (b"s", "by sent")):
            top.press(keys)
            top.until(shown)
        top.press(ends)
        assert top.code() == code


@pytest.mark.parametrize("arguments", [[], ["--json", "--interval", "1ms"]])
def test_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert nfslab(capsys, "top", *arguments).code == 2


@pytest.mark.system
def test_what_is_offered_is_named_and_gone_with_its_owner(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> dict[str, Any]:
        raise ValueError

    with offered(lambda: counted({"calls": 7, "replies": 7})):
        said = nfslab(capsys, "top", "--json", "/nowhere")
    assert (said.code, "planted:1:/x" in said.err) == (2, True)
    with offered(broken), offered(lambda: {"a": 1}):
        (answer,) = taken(ANSWER_S)
        assert answer.pop("instance").endswith(".sock")
        assert answer == {"a": 1}, "one that cannot answer hides no other"
    assert list((state / "counters").iterdir()) == []
    code = (
        "import os; from nfslab.machine.offered_counters import offered\n"
        "with offered(dict): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = (state / "counters").iterdir()
    assert taken() == []
    assert not left.exists()
    # Without a folder for it nothing is offered, and all goes on.
    (tmp_path / "file").touch()
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "file"))
    with offered(dict):
        assert taken() == []
