"""The file workload from Python: what it asked the kernel for, and how it ends.

`strace` is the witness for the accesses: it sees system calls whatever the workload says.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import FILES_SCHEMA, Histogram, build_info, run_files

pytestmark = pytest.mark.system

BLOCK = 8192
SIZE = 1 << 20
BLOCKS = SIZE // BLOCK
REPORTS_MAX = 100


def run(directory: Path, **config: Any) -> dict[str, Any]:
    config = {"directory": str(directory), "size_bytes": SIZE} | config
    result: dict[str, Any] = json.loads(run_files(json.dumps(config)))
    return result


def traced(directory: Path, **config: Any) -> list[str]:
    """Lines of strace about the run's files, in order, without the process's number."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    config = {"directory": str(directory), "size_bytes": SIZE} | config
    log = directory / "strace.log"
    program = "import sys; from nfslab._core import run_files; run_files(sys.argv[1])"
    calls = "openat,read,write,pread64,pwrite64,lseek,fsync,fdatasync,fadvise64,unlink,close"
    command = ["strace", "-f", "-y", "-s", "0", "-e", f"trace={calls}", "-o", str(log)]
    command += [sys.executable, "-c", program, json.dumps(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"strace cannot trace here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    return [line.split(maxsplit=1)[1] for line in lines if re.search(r"file\d{5}", line)]


def offsets(lines: list[str], call: str) -> list[int]:
    pattern = re.compile(rf"{call}\(.*, {BLOCK}, (\d+)\) += {BLOCK}$")
    return [int(match[1]) for line in lines if (match := pattern.match(line))]


def count(lines: list[str], call: str) -> int:
    return sum(line.startswith(f"{call}(") for line in lines)


IN_ORDER = list(range(0, SIZE, BLOCK))


def test_blocks_are_one_call_each_in_order_and_files_go_at_the_end(tmp_path: Path) -> None:
    lines = traced(tmp_path, phases=["block_write", "rewrite", "block_read"])
    assert offsets(lines, "pread64") == IN_ORDER * 2
    assert offsets(lines, "pwrite64") == IN_ORDER * 2
    writes = [n for n, line in enumerate(lines) if line.startswith("pwrite64")]
    syncs = [n for n, line in enumerate(lines) if line.startswith("fsync")]
    # One when the empty file is made, before timing; one behind the last write of each phase.
    assert syncs[0] < writes[0]
    assert writes[BLOCKS - 1] < syncs[1] < writes[BLOCKS]
    assert syncs[-1] > writes[-1]
    # Rewriting alternates: each block is written right after it was read.
    rewrite = [line[:6] for line in lines if line.startswith(("pread", "pwrite"))][
        BLOCKS : 3 * BLOCKS
    ]
    assert rewrite == ["pread6", "pwrite"] * BLOCKS
    # The cache is dropped, after a sync, before each of the two phases on existing files.
    assert count(lines, "fadvise64") == 2
    assert all("POSIX_FADV_DONTNEED" in line for line in lines if line.startswith("fadvise"))
    assert sum(line.startswith("unlink(") and line.endswith("= 0") for line in lines) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["strace.log"]


def test_characters_go_through_stdio_s_own_buffer(tmp_path: Path) -> None:
    lines = traced(tmp_path, phases=["char_write", "char_read"])
    buffer = os.stat(tmp_path).st_blksize
    assert count(lines, "pwrite64") == count(lines, "pread64") == 0
    written = [int(line.rsplit("= ", 1)[1]) for line in lines if line.startswith("write(")]
    assert sum(written) == SIZE
    assert set(written) == {buffer}
    read = [int(line.rsplit("= ", 1)[1]) for line in lines if line.startswith("read(")]
    assert sum(read) == SIZE


def test_a_sync_after_each_n_writes(tmp_path: Path) -> None:
    lines = traced(
        tmp_path,
        phases=["random_write"],
        random_operations=40,
        sync_every=4,
        sync_kind="fdatasync",
        final_sync=False,
        drop_cache=False,
    )
    fill, writes = offsets(lines, "pwrite64")[:BLOCKS], offsets(lines, "pwrite64")[BLOCKS:]
    assert fill == IN_ORDER
    assert len(writes) == 40
    assert writes != sorted(writes)
    # When the file is made, and after filling.
    assert (count(lines, "fdatasync"), count(lines, "fsync")) == (10, 2)
    tail = [line.split("(")[0] for line in lines if line.startswith(("pwrite", "fdata"))]
    assert tail[-5:] == ["pwrite64"] * 4 + ["fdatasync"]


def test_dsync_opens_with_o_dsync_and_never_syncs(tmp_path: Path) -> None:
    lines = traced(
        tmp_path,
        phases=["random_write"],
        random_operations=10,
        sync_kind="dsync",
        final_sync=False,
        drop_cache=False,
    )
    assert any("O_DSYNC" in line for line in lines if line.startswith("openat"))
    assert count(lines, "fdatasync") == 0


def test_the_result_is_what_the_contract_says(tmp_path: Path) -> None:
    result = run(tmp_path, phases=["block_write", "seeks"], seeks=100, threads=2)
    assert (result["schema"], result["kind"]) == (FILES_SCHEMA, "files")
    assert result["build"] == build_info()
    assert result["config"]["block_size_bytes"] == BLOCK
    assert result["file_sizes_bytes"] == [SIZE // 2] * 2
    assert ("debug_build" in result["flags"]) == (build_info()["profile"] == "debug")
    for phase in result["phases"]:
        latency = phase["latency"]
        histogram = Histogram.from_v2(base64.b64decode(latency["v2_base64"]))
        assert histogram.count == latency["count"] == phase["operations"]
        assert latency["relative_error"] == 0.001
        assert latency["min_ns"] <= latency["p50_ns"] <= latency["p99_ns"] <= latency["max_ns"]
        # A thread cannot use more CPU time than it lives.
        assert phase["cpu_ns"] <= 2 * phase["wall_ns"]
        # getrusage has microseconds, and the two clocks are read one after the other.
        spent = phase["user_ns"] + phase["system_ns"]
        assert spent == pytest.approx(phase["cpu_ns"], abs=2_000_000)
    assert list(tmp_path.iterdir()) == []


def test_content_does_not_compress(tmp_path: Path) -> None:
    import lzma

    result = run(tmp_path, phases=["block_write"], keep=True)
    data = b"".join(p.read_bytes() for p in sorted(Path(result["directory"]).iterdir()))
    # 256 KiB, a window larger than file systems use; the whole MiB repeats its pool by design.
    part = data[: 256 * 1024]
    assert len(lzma.compress(part)) > len(part)
    pages = {data[at : at + 4096] for at in range(0, len(data), 4096)}
    assert len(pages) == len(data) // 4096


def test_progress_tells_phases_in_order_and_can_stop_the_run(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def progress(text: str) -> None:
        seen.append(json.loads(text))
        if seen[-1]["phase"] == "seeks":
            raise RuntimeError("enough")

    config = {"directory": str(tmp_path), "size_bytes": SIZE}
    with pytest.raises(RuntimeError, match="enough"):
        run_files(json.dumps(config), progress)
    phases = list(dict.fromkeys(report["phase"] for report in seen))
    assert phases == [
        "char_write", "block_write", "rewrite", "char_read", "block_read", "seeks"
    ]  # fmt: skip
    assert seen[0]["phases"] == 8
    assert list(tmp_path.iterdir()) == []


def test_python_goes_on_while_the_workload_runs(tmp_path: Path) -> None:
    """The GIL is free: another thread gets its turns between two progress reports."""
    turns, reports = 0, []
    stop = threading.Event()

    def count_turns() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1

    def progress(text: str) -> None:
        reports.append(turns)
        if len(set(reports)) > 3 or len(reports) > REPORTS_MAX:
            raise StopIteration

    thread = threading.Thread(target=count_turns)
    thread.start()
    config = {
        "directory": str(tmp_path),
        "size_bytes": SIZE,
        "phases": ["random_read"],
        "random_operations": 1 << 40,
    }
    try:
        with pytest.raises(StopIteration):
            run_files(json.dumps(config), progress)
    finally:
        stop.set()
        thread.join()
    assert len(set(reports)) > 3, "it had no turn between them"
