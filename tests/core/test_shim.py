"""The preload shim through the bindings, on a Python program. Its inner life is tested in
crates/syscalls/tests/system/{shim_table,shim_ring}.rs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab._core import Columns, CoreError, ShimRecords, shim_path

pytestmark = pytest.mark.system


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
