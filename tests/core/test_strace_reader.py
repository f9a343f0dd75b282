"""Text of strace through the bindings: tables, figures, errors. What each form of a line means is
tested in crates/syscalls/tests/all/strace_*.rs, against a program whose calls are known."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab._core import Columns, CoreError, StraceReader, classify_paths
from nfslab.evidence.syscalls.strace_text import read_text

TEXT = b"""\
7 1700000000.000000 openat(AT_FDCWD</d>, "f", O_RDWR|O_CREAT) = 3</d/f> <0.000020>
7 1700000000.000100 write(3</d/f>, "ab", 8192) = 8192 <0.000030>
7 1700000000.000200 fdatasync(3</d/f>) = 0 <0.005000>
7 1700000000.010000 rename("/d/f", "/d/g") = 0 <0.000010>
7 1700000000.020000 fsync(3</d/g>) = -1 EIO (Input/output error) <0.000010>
hello
"""


def rows(columns: Columns) -> list[dict[str, Any]]:
    return pa.RecordBatchReader.from_stream(columns).read_all().to_pylist()


def test_tables_figures_and_clock() -> None:
    reader = StraceReader()
    for byte in TEXT:
        reader.feed(bytes([byte]))
    reader.end()
    taken = reader.take()
    assert set(taken) == {"files", "syncs", "events", "names", "blocks"}
    assert [(row["file_id"], row["path"]) for row in rows(taken["files"])] == [
        (0, "/d/f"),
        (0, "/d/g"),
    ]
    syncs = rows(taken["syncs"])
    assert [(row["call"], row["latency_ns"], row["error"]) for row in syncs] == [
        ("fdatasync", 5_000_000, 0),
        ("fsync", 10_000, 5),
    ]
    assert syncs[0]["start_ns"] == 1_700_000_000_000_200_000
    assert rows(taken["events"]) == [
        {
            "start_ns": 1_700_000_000_000_100_000, "latency_ns": 30_000, "pid": 7, "tid": 7,
            "call": "write", "file_id": 0, "offset": 0, "size": 8192, "bytes": 8192, "error": 0,
        }
    ]  # fmt: skip
    assert rows(taken["names"])[0]["new_path"] == "/d/g"
    counts = {row["call"]: row for row in rows(reader.counts())}
    assert counts["write"]["places"] == [1, 0, 0, 0, 0]
    assert (counts["fsync"]["calls"], counts["fsync"]["errors"]) == (1, 1)
    assert reader.clock == "epoch"
    assert reader.first_not_understood == "hello"
    figures = reader.figures()
    assert (figures["lines"], figures["calls"], figures["not_understood"]) == (6, 5, 1)
    assert not any(figures[name] for name in figures if name.startswith(("lost", "without")))
    assert len(reader.take()["syncs"]) == 0


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"", "empty"), (b"<html>\n", "not_a_trace"), (b"\x1f\x8b\0", "not_a_trace")],
)
def test_what_is_no_trace_is_refused(data: bytes, kind: str) -> None:
    reader = StraceReader("sync")

    def read() -> None:
        reader.feed(data)
        reader.end()

    with pytest.raises(CoreError) as caught:
        read()
    assert caught.value.kind == kind
    assert caught.value.why
    assert "strace" in caught.value.fix


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(CoreError) as caught:
        StraceReader("all")
    assert caught.value.kind == "config"


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.system
def test_a_python_program_under_strace(tmp_path: Path) -> None:
    data, text = tmp_path / "data", tmp_path / "strace.txt"
    program = (
        "import os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "for _ in range(5): os.write(fd, bytes(1000)); os.fdatasync(fd)\n"
        "os.pwrite(fd, bytes(10), 4000)\n"
    )
    command = ["strace", "-f", "-ttt", "-T", "-y", "-o", str(text)]
    subprocess.run([*command, sys.executable, "-c", program, str(data)], check=True)
    reader = StraceReader("events")
    reader.feed(text.read_bytes())
    reader.end()
    taken = reader.take()
    mine = [row["file_id"] for row in rows(taken["files"]) if row["path"] == str(data)]
    counts = {row["call"]: row for row in rows(reader.counts()) if row["file_id"] in mine}
    assert counts["fdatasync"]["calls"] == 5
    assert (counts["write"]["bytes"], counts["write"]["places"]) == (5000, [1, 4, 0, 0, 0])
    assert counts["pwrite64"]["places"] == [0, 0, 1, 0, 0]
    assert len(rows(taken["syncs"])) == 5


REQUESTS = """
import ctypes, os, sys
class Iocb(ctypes.Structure):  # struct iocb of linux/aio_abi.h
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("rw_flags", ctypes.c_int32),
                ("opcode", ctypes.c_uint16), ("priority", ctypes.c_int16), ("fd", ctypes.c_uint32),
                ("buffer", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("offset", ctypes.c_int64),
                ("reserved", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("to", ctypes.c_uint32)]
IO_SETUP, IO_SUBMIT, PWRITE = 206, 209, 1  # x86-64
libc, context = ctypes.CDLL(None), ctypes.c_ulong(0)
if libc.syscall(IO_SETUP, 8, ctypes.byref(context)):
    sys.exit(7)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
text = ctypes.create_string_buffer(b"x" * 512)
made = [Iocb(opcode=PWRITE, fd=fd, buffer=ctypes.addressof(text), bytes=512, offset=512 * n)
        for n in range(3)]
rows = (ctypes.POINTER(Iocb) * 3)(*map(ctypes.pointer, made))
sys.exit(libc.syscall(IO_SUBMIT, context, ctypes.c_long(3), rows) != 3)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.system
def test_requests_past_the_calls_are_counted_and_noted(tmp_path: Path) -> None:
    data, text = tmp_path / "data", tmp_path / "strace.txt"
    command = ["strace", "-f", "-ttt", "-T", "-y", "-o", str(text), sys.executable, "-S", "-c"]
    code = subprocess.run([*command, REQUESTS, str(data)], check=False).returncode
    if code == 7:
        pytest.skip("this kernel has no aio")
    assert code == 0
    assert data.stat().st_size == 3 * 512, "they were writes"
    with text.open("rb") as stream:
        seen, summary = read_text(stream, "counts")
    assert seen.figures["unseen_requests"] == 3
    (note,) = (note for note in summary["notes"] if "io_submit" in note)
    assert note.startswith("3 requests")


def test_paths_get_the_class_of_the_first_pattern_that_matches() -> None:
    classes = [("log", "**/pg_wal/*"), ("data", "**/base/**"), ("log", "**/*.log")]
    paths = ["/d/pg_wal/0001", "/d/base/5/16384", "/d/base/x.log", "/d/a.log", "/d/other"]
    assert classify_paths(paths, classes) == ["log", "data", "data", "log", None]
    assert classify_paths(paths, []) == [None] * 5
    with pytest.raises(CoreError) as caught:
        classify_paths(["/d"], [("bad", "[")])
    assert caught.value.kind == "config"
