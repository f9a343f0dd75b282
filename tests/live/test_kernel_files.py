"""Which files the kernel's mounts have open: on a /proc that is planted, and on this one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import nfslab._core
import pytest
from nfslab._core import CoreError
from nfslab.live import kernel_files
from nfslab.live.kernel_files import KernelDataCalls, device_of, open_files
from nfslab.machine.mounts import Mount, mount_of

from tests.simulated_clock import SimulatedClock

SHARE = Mount(77, 1, 0, 58, "/", Path("/mnt/share"), "nfs4", "server:/", "rw")
WAL = "/mnt/share/pg_wal/000000010000000000000001"
TABLE = "/mnt/share/base/5/16384"


def plant(proc: Path, files: dict[str, tuple[int, int]]) -> None:
    """A process that has these open: path -> mount, inode."""
    process = proc / "123"
    for folder in ("fd", "fdinfo"):
        (process / folder).mkdir(parents=True, exist_ok=True)
        for old in (process / folder).iterdir():
            old.unlink()
    for number, (path, (mount, inode)) in enumerate(files.items()):
        (process / "fd" / str(number)).symlink_to(path)
        about = f"pos:\t0\nflags:\t0100002\nmnt_id:\t{mount}\nino:\t{inode}\n"
        (process / "fdinfo" / str(number)).write_text(about)


def test_open_files_have_the_number_that_the_kernel_tells(tmp_path: Path) -> None:
    held = tmp_path / "pg_wal"
    with held.open("wb"):
        mount = mount_of(tmp_path)
        found = open_files([mount])
    key = (device_of(mount), held.stat().st_ino)
    assert found[key] == str(held)


def test_only_files_of_these_mounts_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "99").mkdir()  # a process that has just ended
    plant(tmp_path, {WAL: (77, 5), "/mnt/share2/x": (78, 6), "/mnt/share/over": (79, 7)})
    assert open_files([SHARE], tmp_path) == {("0:58", 5): WAL}


class Tracepoints:
    """What is taken, one list after the other."""

    taken: ClassVar[list[list[tuple[str, int, list[int]]]]] = []

    def take(self) -> list[tuple[str, int, list[int]]]:
        return self.taken.pop(0)


def test_calls_go_to_the_class_of_the_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulated_clock: SimulatedClock
) -> None:
    def look() -> int:
        simulated_clock.advance(0.001)
        return simulated_clock.monotonic_ns()

    simulated_clock.tick_ns = 0
    monkeypatch.setattr(simulated_clock, "thread_cpu_ns", look)
    monkeypatch.setattr(nfslab._core, "KernelFiles", Tracepoints)
    monkeypatch.setattr(kernel_files, "mounts", lambda: [SHARE])
    wal, table, other = ("0:58", 5), ("0:58", 6), ("0:99", 5)
    Tracepoints.taken = [
        [],
        [(*wal, [0, 3, 1, 0, 300]), (*table, [2, 0, 0, 16384, 0]), (*other, [9, 9, 9, 9, 9])],
        [(*wal, [0, 1, 0, 0, 100]), (*table, [1, 0, 0, 8192, 0])],
        [(*wal, [0, 1, 0, 0, 100])],
        [(*wal, [0, 1, 0, 0, 100])],
    ]
    files = KernelDataCalls(tmp_path)
    plant(tmp_path, {WAL: (77, 5)})
    assert files.by_mount_point() == {"/mnt/share": {}}
    seen: Any = files.by_mount_point()["/mnt/share"]
    first = seen
    assert seen["PostgreSQL WAL"] == {
        "reads": 0, "writes": 3, "commits": 1, "read_bytes": 0, "written_bytes": 300
    }  # fmt: skip
    assert seen["path not known"]["reads"] == 2
    # The pause after a look is not over: a file that was opened meanwhile is not known yet.
    plant(tmp_path, {TABLE: (77, 6)})
    seen = files.by_mount_point()["/mnt/share"]
    assert (seen["PostgreSQL WAL"]["writes"], seen["path not known"]["reads"]) == (4, 3)
    # It is over: the log was closed, and was open at the look before.
    simulated_clock.advance(1.0)
    assert files.by_mount_point()["/mnt/share"]["PostgreSQL WAL"]["writes"] == 5
    # Twice not open: its number may be another file's by now.
    simulated_clock.advance(1.0)
    seen = files.by_mount_point()["/mnt/share"]
    assert (seen["PostgreSQL WAL"]["writes"], seen["path not known"]["writes"]) == (5, 1)
    assert first["PostgreSQL WAL"]["writes"] == 3, "an earlier answer stays what it was"


def test_where_the_tracepoints_are_not_granted_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def refused() -> None:
        asked.append(1)
        raise CoreError("no")

    monkeypatch.setattr(nfslab._core, "KernelFiles", refused)
    files = KernelDataCalls()
    assert files.by_mount_point() == files.by_mount_point() == {}
    assert len(asked) == 1


def test_a_look_makes_no_call_to_the_files_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """stat(2) of a file on a dead server would wait for ever."""
    plant(tmp_path, {WAL: (77, 5)})

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("a file was touched")

    monkeypatch.setattr(os, "stat", touched)
    monkeypatch.setattr(os, "lstat", touched)
    assert open_files([SHARE], tmp_path) == {("0:58", 5): WAL}
