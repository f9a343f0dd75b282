"""The preload shim through the bindings, on a Python program, beside strace's text of the same
program. Its inner life is tested in crates/syscalls/tests/system/{strace_and_shim,shim_ring}.rs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab._core import Columns, CoreError, ShimRecords, StraceReader, shim_path

pytestmark = pytest.mark.system

PROGRAM = """\
import os, sys, threading
def writes(path, flags):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flags)
    for _ in range(10):
        os.write(fd, bytes(512))
    os.fsync(fd)
    os.pread(fd, 100, 2048)
    os.close(fd)
    os.rename(path, path + ".new")
folder = sys.argv[1]
threads = [threading.Thread(target=writes, args=(f"{folder}/{n}", 0)) for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if os.fork() == 0:
    writes(folder + "/child", os.O_DSYNC)
    os._exit(0)
os.wait()
try:
    os.open(folder + "/missing", os.O_RDONLY)
except FileNotFoundError:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where library and ring are: in memory if that can be had."""
    shared = Path("/dev/shm")
    made = shared / f"nfslab-test-{os.getpid()}" if os.access(shared, os.W_OK) else tmp_path / "s"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def rows(columns: Columns) -> list[dict[str, Any]]:
    return pa.RecordBatchReader.from_stream(columns).read_all().to_pylist()


def table(files: Columns, counts: Columns, below: Path) -> dict[tuple[str, str], tuple[Any, ...]]:
    """(first name, call) -> calls, errors, bytes, places; of files below a folder."""
    names: dict[int, str] = {}
    for row in rows(files):
        names.setdefault(row["file_id"], row["path"])
    return {
        (Path(names[row["file_id"]]).name, row["call"]): (
            row["calls"], row["errors"], row["bytes"], row["places"],
        )
        for row in rows(counts)
        if names.get(row["file_id"], "").startswith(str(below))
    }  # fmt: skip


def test_a_python_program_is_seen_as_strace_sees_it(tmp_path: Path, folder: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    shim = ShimRecords(folder, "events")
    environment = shim.environment()
    assert set(environment) == {"LD_PRELOAD", "NFSLAB_SHIM_FILE"}
    command = [sys.executable, "-c", PROGRAM, str(data)]
    before_ns = time.monotonic_ns()
    subprocess.run(command, env=os.environ | environment, check=True)
    after_ns = time.monotonic_ns()
    taken = shim.take()
    seen = table(taken["files"], shim.counts(), data)
    assert seen[("0", "write")] == (10, 0, 5120, [1, 9, 0, 0, 0])
    assert seen[("1", "pread64")] == (1, 0, 100, [1, 0, 0, 0, 0])
    assert {name for name, call in seen if call == "rename"} == {"0", "1", "2", "child"}
    syncs = [row for row in rows(taken["syncs"]) if row["file_id"] is not None]
    assert sum(row["synchronous"] for row in syncs) == 10, "the child's O_DSYNC writes"
    assert sum(row["call"] == "fsync" for row in syncs) == 4
    ends = [(row["start_ns"], row["start_ns"] + row["latency_ns"]) for row in syncs]
    assert all(before_ns <= start < end <= after_ns for start, end in ends)
    figures = shim.figures()
    assert figures["processes"] >= 1
    assert figures["forks"] >= 1
    assert not any(figures[name] for name in figures if name.startswith(("lost", "torn", "unco")))
    shim.stop()
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: nothing to lay beside it")
    again, text = tmp_path / "again", tmp_path / "strace.txt"
    again.mkdir()
    trace = ["strace", "-f", "-ttt", "-T", "-y", "-o", str(text)]
    subprocess.run([*trace, sys.executable, "-c", PROGRAM, str(again)], check=True)
    reader = StraceReader("events")
    reader.feed(text.read_bytes())
    reader.end()
    assert table(reader.take()["files"], reader.counts(), again) == seen


def test_nothing_is_seen_of_what_was_not_launched_with_it(folder: Path) -> None:
    shim = ShimRecords(folder, "events")
    subprocess.run(["cat", "/etc/hostname"], check=True, capture_output=True)
    assert shim.figures()["processes"] == 0
    shim.stop()
    shim.stop()
    assert len(shim.take()["syncs"]) == 0


def test_the_library_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    path = Path(shim_path(str(tmp_path)))
    assert path.parent == tmp_path
    assert path.read_bytes()[:4] == b"\x7fELF"
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_folder_with_a_blank_is_refused(tmp_path: Path) -> None:
    blank = tmp_path / "a b"
    blank.mkdir()
    with pytest.raises(CoreError) as caught:
        ShimRecords(str(blank))
    assert caught.value.kind == "config"
    with pytest.raises(CoreError) as caught:
        ShimRecords(str(tmp_path / "missing"))
    assert caught.value.kind == "io"


SYNCS = """\
import os, sys, time
took = []
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    begun = time.monotonic_ns()
    os.fsync(fd)
    took.append(time.monotonic_ns() - begun)
    os.pread(fd, 10, 0)
    took.append(time.monotonic_ns() - begun - took[-1])
print(*took)
"""
DELAY_NS = 300_000_000


@pytest.mark.parametrize("level", [None, "sync"])
def test_a_planted_delay_is_of_one_kind_of_call_below_one_folder(
    folder: Path, level: str | None
) -> None:
    """Also without anybody who records; who does has the delay in the call's time."""
    # In memory: a disk that others use may take as long as the delay for each sync.
    slow, other = folder / "slow", folder / "slower"
    slow.mkdir()
    other.mkdir()
    shim = None if level is None else ShimRecords(folder, level)
    environment = (
        {"LD_PRELOAD": shim_path(folder)} if shim is None else dict(shim.environment())
    ) | {"NFSLAB_SHIM_DELAY": f"read:1:/nowhere/;sync:{DELAY_NS}:{slow.resolve()}/"}
    files = [str(slow / "file"), *(str(other / f"file{n}") for n in range(5))]
    done = subprocess.run(
        [sys.executable, "-c", SYNCS, *files],
        env=os.environ | environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    took = [int(word) for word in done.stdout.split()]
    assert took[0] >= DELAY_NS
    if shim is not None:
        shim.stop()
        taken = shim.take()
        names = {row["file_id"]: row["path"] for row in rows(taken["files"])}
        of_slow = [
            row for row in rows(taken["syncs"])
            if names.get(row["file_id"], "").startswith(f"{slow.resolve()}/")
        ]  # fmt: skip
        assert [row["call"] for row in of_slow] == ["fsync"]
        assert of_slow[0]["latency_ns"] >= DELAY_NS


def test_delays_that_make_no_sense_plant_nothing(tmp_path: Path, folder: Path) -> None:
    for text in ("", "sync", "sync:9", "stat:9:/x", "sync:x:/", ";;", "sync:1:/a;write"):
        environment = {"LD_PRELOAD": shim_path(folder), "NFSLAB_SHIM_DELAY": text}
        command = [sys.executable, "-c", SYNCS, str(tmp_path / "file")]
        subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
