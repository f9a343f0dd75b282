"""`nfslab syscalls` as a person meets it: commands, processes, bad usage, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.evidence.syscalls.watch import SyscallWatch
from nfslab.evidence.syscalls.ways import Asked, Subject, obstacle

from tests.cli.invocation import nfslab
from tests.cli.watching import watched_syncer
from tests.machine import needs

Capture = pytest.CaptureFixture[str]
PATTERN = """
import os, sys
log = os.open(sys.argv[1] + "/bank-wal", os.O_RDWR | os.O_CREAT)
data = os.open(sys.argv[1] + "/bank.db", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
for n in range(30):
    os.pwrite(log, b"x" * 4096, n * 4096)
    os.pwrite(log, b"y" * 100, n * 4096 + 50)     # the page again
for n in (7, 3, 20, 3):
    os.pwrite(data, b"z" * 8192, n * 8192)
for n in range(28):
    os.pread(data, 8192, n * 8192)                # the last ones are beyond the end
import mmap, socket
folder = sys.argv[1]
page = os.open(folder + "/page.html", os.O_RDONLY)
near, far = socket.socketpair()
for n in range(50):
    assert os.sendfile(near.fileno(), page, 0, 5000) == 5000
    assert len(far.recv(5000, socket.MSG_WAITALL)) == 5000
copy = os.open(folder + "/copy.html", os.O_RDWR | os.O_CREAT)
assert os.copy_file_range(page, copy, 3000, 0, 0) == 3000
ends = os.pipe()
assert os.splice(page, ends[1], 2000, 3000) == 2000
assert os.splice(ends[0], copy, 2000, None, 3000) == 2000
mapped = mmap.mmap(copy, 5000)
mapped[:4] = b"html"
mapped.flush()
for _ in range(20):
    os.fdatasync(log)
sys.exit(3)
"""
"""A database's pattern; then what a static web server does: 50 pages by sendfile, a copy within the
kernel, a flush of mapped bytes."""
SMALL = 100


def skip_without(way: str) -> None:
    reason, _ = obstacle(way, Asked(), Subject(argv=[sys.executable]))  # type: ignore[arg-type]
    if reason:
        pytest.skip(f"{way}: {reason}")


@pytest.mark.system
@pytest.mark.parametrize("way", ["ebpf", "shim"])
def test_what_a_command_does_is_in_its_tables(capsys: Capture, tmp_path: Path, way: str) -> None:
    skip_without(way)
    (tmp_path / "page.html").write_bytes(b"x" * 5000)
    tables = tmp_path / "tables"
    said = nfslab(
        capsys, "syscalls", "--way", way, "--level", "events", "--by-file", "--json", "--parquet",
        tables, "--", sys.executable, "-S", "-c", PATTERN, tmp_path,
    )  # fmt: skip
    assert (said.code, "exit code 3" in said.err) == (1, True), "the command's own"
    found = json.loads(said.out)
    assert (found["way"], found["exit_code"]) == (way, 3)
    of = {(one["class"], one["call"]): one for one in found["series"]}
    series = of["SQLite WAL", "fdatasync"]
    assert series["calls"] == 20
    assert 0 < series["p50_ns"] <= series["max_ns"]
    assert pq.read_table(tables / "syncs.parquet").num_rows == 20 + 4 + 1, "O_DSYNC, and msync"
    _are_the_pattern(pq.read_table(tables / "accesses.parquet").to_pylist(), found)
    # The web server's files.
    files = {row["name"]: row["calls"] for row in found["files"]}
    page, copy = (files[str(tmp_path / name)] for name in ("page.html", "copy.html"))
    done = [
        (calls[group]["calls"], calls[group]["errors"], calls[group]["bytes"])
        for calls, group in ((page, "reads"), (copy, "writes"))
    ]
    assert done == [(52, 0, 50 * 5000 + 3000 + 2000), (2, 0, 5000)]
    assert found["total"]["calls"]["msync"]["calls"] == 1
    mapped = found["total"]["calls"]["mmap"]["calls"]
    assert copy["mmap"]["calls"] == 1 <= mapped
    assert any(note.startswith(f"{mapped} x mmap: ") for note in found["notes"]), "not silent"


def _are_the_pattern(rows: list[dict[str, Any]], content: dict[str, Any]) -> None:
    """Sizes and offsets over time, and their totals by place."""
    assert [row["t_ns"] for row in rows] == sorted(row["t_ns"] for row in rows)
    log = [(row["kind"], row["place"], row["offset"], row["size"])
           for row in rows if row["class"] == "SQLite WAL"]  # fmt: skip
    wanted = []
    for n in range(30):
        # Behind the few bytes of the page that was written again.
        wanted += [("write", "forward" if n else "first", n * 4096, 4096),
                   ("write", "rewrite", n * 4096 + 50, SMALL)]  # fmt: skip
    assert log == wanted
    data = [(row["kind"], row["place"], row["offset"], row["size"])
            for row in rows if row["class"] == "SQLite database"]  # fmt: skip
    places = ("first", "backward", "forward", "backward")
    durable = [("synchronous write", place, n * 8192, 8192)
               for n, place in zip((7, 3, 20, 3), places, strict=True)]  # fmt: skip
    reads = [("read", "sequential" if n else "first", n * 8192, 8192) for n in range(21)]
    ends = [("read", "forward" if n > 21 else "sequential", n * 8192, 0) for n in range(21, 28)]
    assert data == durable + reads + ends
    # The totals of the kernel's programs (or the library) judge places by themselves.
    totals = {row["name"]: row["calls"] for row in content["classes"]}
    for one in content["accesses"]:
        if one["class"].startswith("SQLite"):
            counted = totals[one["class"]]
            for place in ("first", "sequential", "rewrite", "forward", "backward"):
                assert one["places"][place] == sum(
                    counted.get(group, {"places": {place: 0}})["places"][place]
                    for group in ("reads", "writes")
                ), (one["class"], place)
            assert one["one_in"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "say what is to be watched"),
        (["--pid", "1", "--postgres", "x"], "exclude each other"),
        (["--pid", "1", "--way", "strace"], "'ebpf', 'shim', 'views'"),
        (["--lseek", "--pid", "1"], "--lseek needs a level"),
        (["--postgres", "/nowhere"], "no data directory"),
        (["--pid", "1", "--duration", "0s"], "above 0"),
        (["--pid", "1", "--by-relation"], "give --postgres"),
        (["--pid", "1", "--html", "/nowhere/x.html"], "/nowhere"),
        (["--", "no-such-program-here"], "was not found"),
    ],
)
def test_bad_usage_says_what_to_do(
    capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    said = nfslab(capsys, "syscalls", *options)
    assert said.code == 2
    assert words in said.err


def test_a_stale_postmaster_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("15\n", "utf-8")
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n", "utf-8")
    said = nfslab(capsys, "syscalls", "--postgres", tmp_path)
    assert said.code == 2
    assert "no PostgreSQL runs" in said.err


@needs.ebpf
@pytest.mark.parametrize(
    "ends",
    [
        pytest.param("by Ctrl-C", marks=pytest.mark.system),
        pytest.param("with the process", marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_what_was_seen_until_the_end_is_shown(ends: str, tmp_path: Path) -> None:
    """The exit code is 0: both are the way to end."""
    with watched_syncer(tmp_path) as (syncer, watching):
        syncer.sync(20)
        if ends == "by Ctrl-C":
            watching.send_signal(signal.SIGINT)
        else:
            syncer.end()
        out, _ = watching.communicate()
        assert (syncer.process.poll() is None) == (ends == "by Ctrl-C"), "it goes on"
    assert watching.returncode == 0
    (series,) = json.loads(out)["series"]
    assert (series["class"], series["call"]) == ("SQLite rollback journal", "fsync")
    assert series["calls"] == 20


@needs.ebpf
@pytest.mark.long
def test_ctrl_c_while_it_attaches_is_the_way_to_end_too(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach = SyscallWatch.attach

    def interrupted(watch: SyscallWatch) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        attach(watch)

    monkeypatch.setattr(SyscallWatch, "attach", interrupted)
    said = nfslab(capsys, "syscalls", "--pid", os.getpid(), "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["way"] == "ebpf"
