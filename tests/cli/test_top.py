"""`nfslab top` on mounts and servers that truly run, on a terminal, and refused."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
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

from tests.hosts.here import HERE
from tests.machine import needs
from tests.stopping import stop
from tests.targets.nfs_share import MakeNfs

PATIENCE_S = 120
SIZE = 4 << 20


def nfslab(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "nfslab", *map(str, arguments)]


def test_mounts_and_servers_of_a_run_are_seen(nfs_target: MakeNfs, resources: Resources) -> None:
    def ours() -> list[Reading]:
        return [one for one in look(PATIENCE_S).readings if one.kind == "nfslab"]

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
def serving(what: object = "--memory") -> Iterator[tuple[subprocess.Popen[str], int]]:
    argv = nfslab("serve", what, "--port", "0", "--json")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()


@contextmanager
def mounted(port: int, folder: Path) -> Iterator[Path]:
    options = f"port={port},mountport={port}"
    argv = nfslab("mount", "127.0.0.1:/export", folder, "-o", options)
    subprocess.run(argv, check=True, timeout=PATIENCE_S, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(nfslab("umount", "--force", folder), check=False, timeout=PATIENCE_S)


@contextmanager
def lines(*arguments: object) -> Iterator[Iterator[dict[str, Any]]]:
    argv = nfslab("top", "--json", *arguments)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield map(json.loads, process.stdout)
        finally:
            process.terminate()


def states(line: dict[str, Any]) -> list[str]:
    return [one["state"] for one in line["mounts"] + line["servers"]]


@needs.fuse
def test_a_mount_and_its_server_count_the_same(state: Path, tmp_path: Path) -> None:
    """Both count for themselves; what the program wrote is the truth of both."""
    folder = tmp_path / "m"
    folder.mkdir()
    with serving() as (_, port), mounted(port, folder), lines("--interval", "250ms") as told:
        # What was counted until now is in no later line.
        next(line for line in told if states(line) == ["", ""])
        (folder / "file").write_bytes(bytes(SIZE))
        calls, answered, written = 0.0, 0.0, 0.0
        for line in told:
            (mount,), (server,) = line["mounts"], line["servers"]
            # One that did not answer in time has its rates in the next line, of all that went by.
            if mount["state"] == "":
                calls += mount["calls_per_s"] * mount["interval_s"]
            if server["state"] == "":
                answered += server["replies_per_s"] * server["interval_s"]
            written += sum(
                one["sent_bytes_per_s"] * mount["interval_s"]
                for one in mount["operations"]
                if one["operation"] == "WRITE"
            )
            if written >= SIZE and mount.get("calls_per_s") == server.get("calls_per_s") == 0:
                break
        assert (mount["name"], mount["kind"]) == (str(folder), "nfslab")
        assert round(calls) == round(answered) > 0
        assert SIZE < written < SIZE * 1.01, "with the headers of RPC"


@needs.fuse
def test_calls_on_data_are_told_by_class_of_file(state: Path, tmp_path: Path) -> None:
    """A program that writes and syncs its log so many times, and another file fewer times."""
    folder, store = tmp_path / "m", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    wrote = {"PostgreSQL WAL": 7, "PostgreSQL tables and indexes": 3, "removed while open": 2}
    with serving(store) as (_, port), mounted(port, folder), lines("--interval", "250ms") as told:
        next(line for line in told if states(line) == ["", ""])
        (folder / "pg_wal").mkdir()
        (folder / "base" / "5").mkdir(parents=True)
        log, table = folder / "pg_wal" / "000000010000000000000001", folder / "base" / "5" / "16384"
        seen: dict[str, dict[str, Counter[str]]] = {"mounts": {}, "servers": {}}
        with log.open("wb", buffering=0) as one, table.open("wb", buffering=0) as two:
            _write_synced(one, wrote["PostgreSQL WAL"])
            _write_synced(two, wrote["PostgreSQL tables and indexes"])
            _count_until(told, 7 + 3, seen)
            table.unlink()
            _write_synced(two, wrote["removed while open"])
            _count_until(told, sum(wrote.values()), seen)
    for by_class in seen.values():
        counted = {
            name: (round(one["writes"]), round(one["written_bytes"]))
            for name, one in by_class.items()
        }
        assert counted == {name: (count, count * SYNCED_BYTES) for name, count in wrote.items()}


SYNCED_BYTES = 8192


def _write_synced(file: io.FileIO, times: int) -> None:
    for _ in range(times):
        file.write(bytes(SYNCED_BYTES))
        os.fsync(file.fileno())


def _count_until(
    told: Iterator[dict[str, Any]], writes: int, seen: dict[str, dict[str, Counter[str]]]
) -> None:
    """Adds what mount and server say by class of file, until both have seen so many WRITEs."""
    while any(
        round(sum(one["writes"] for one in by_class.values())) < writes
        for by_class in seen.values()
    ):
        line = next(told)
        for what, by_class in seen.items():
            (shown,) = line[what]
            for row in shown["files"] or []:
                into = by_class.setdefault(row.pop("class"), Counter())
                for name, rate in row.items():
                    into[name.removesuffix("_per_s")] += rate * shown["interval_s"]


@needs.fuse
def test_a_server_that_stands_still_is_a_stall(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    with serving() as (server, port), mounted(port, folder):
        with lines("--interval", "250ms", folder) as told:
            next(told)
            began_s = time.monotonic()
            stop(server.pid)
            writer = threading.Thread(target=(folder / "file").write_bytes, args=(b"text",))
            writer.start()
            stalled = next(line for line in told if line["mounts"][0]["state"] == "stalled")
            # Also when more have asked than may wait.
            for _ in range(8):
                assert any(SILENT in one for one in taken())
            assert stalled["mounts"][0]["outstanding"] >= 1
            # A reading that came late is soon followed by the next one.
            assert 0 < stalled["mounts"][0]["stalled_s"] < time.monotonic() - began_s
            assert stalled["servers"] == [], "only the mount was asked for"
            server.send_signal(signal.SIGCONT)
            next(line for line in told if line["mounts"][0]["state"] == "")
            writer.join()
            assert not any(SILENT in one for one in taken(PATIENCE_S))
        with lines("--interval", "250ms", folder) as told:
            next(told)
            subprocess.run(nfslab("umount", folder), check=True, timeout=PATIENCE_S)
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
            os.execvpe(sys.executable, nfslab("top", *arguments), os.environ | {"TERM": "xterm"})
        self.said = b""

    def until(self, text: str) -> None:
        """Reads what it draws, from here on, until this is there."""
        self.said = b""
        while text.encode() not in self.said:
            ready, _, _ = select.select([self.descriptor], [], [], PATIENCE_S)
            assert ready, f"{text!r} did not come: {self.said[-2000:]!r}"
            self.said += os.read(self.descriptor, 1 << 16)

    def press(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def code(self) -> int:
        """How it ended, with what it still says read."""
        while select.select([self.descriptor], [], [], PATIENCE_S)[0]:
            try:
                if not os.read(self.descriptor, 1 << 16):
                    break
            except OSError:  # EIO: its end
                break
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(status)


def test_on_a_terminal(state: Path) -> None:
    with offered(lambda: counted({"calls": 7, "replies": 7})):
        top = Terminal("--interval", "250ms")
        top.until("planted:1:/x")
        top.press(b"p")
        top.until("PAUSED")
        top.press(b"p+")
        top.until("every 500 ms")
        top.press(b"s")
        top.until("by sent")
        top.press(b"q")
        assert top.code() == 0


def test_an_interrupt_gives_the_terminal_back(state: Path) -> None:
    top = Terminal()
    top.until("no NFS mount")
    top.press(b"\x03")
    assert top.code() == 130


def test_what_is_not_there_and_what_is(state: Path) -> None:
    with offered(lambda: counted({"calls": 7, "replies": 7})):
        argv = nfslab("top", "--json", "/nowhere")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "planted:1:/x" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--json", "--interval", "1ms"]])
def test_usage(state: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        nfslab("top", *arguments), capture_output=True, text=True, timeout=PATIENCE_S,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 2


def test_what_a_killed_owner_left_is_taken_away(state: Path) -> None:
    code = (
        "import os; from nfslab.machine.offered_counters import offered\n"
        "with offered(dict): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE_S)
    (left,) = (state / "counters").iterdir()
    assert taken() == []
    assert not left.exists()


def test_one_that_cannot_answer_hides_no_other(state: Path) -> None:
    def broken() -> dict[str, Any]:
        raise ValueError

    with offered(broken), offered(lambda: {"a": 1}):
        (answer,) = taken(PATIENCE_S)
        assert answer.pop("instance").endswith(".sock")
        assert answer == {"a": 1}
    assert list((state / "counters").iterdir()) == []


def test_without_a_state_folder_nothing_is_offered_and_all_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "file"))
    with offered(dict):
        assert taken() == []
