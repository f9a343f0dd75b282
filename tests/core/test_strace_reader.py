"""Text of strace through the bindings: tables, figures, errors. What each form of a line means is
tested in crates/syscalls/tests/system/strace_*.rs, against a program whose calls are known."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from nfslab._core import Columns, CoreError, StraceReader, classify_paths

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


def test_paths_get_the_class_of_the_first_pattern_that_matches() -> None:
    classes = [("log", "**/pg_wal/*"), ("data", "**/base/**"), ("log", "**/*.log")]
    paths = ["/d/pg_wal/0001", "/d/base/5/16384", "/d/base/x.log", "/d/a.log", "/d/other"]
    assert classify_paths(paths, classes) == ["log", "data", "data", "log", None]
    assert classify_paths(paths, []) == [None] * 5
    with pytest.raises(CoreError) as caught:
        classify_paths(["/d"], [("bad", "[")])
    assert caught.value.kind == "config"
