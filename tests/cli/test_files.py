"""`nfslab files`: its table, its JSON, its exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nfslab.cli import files
from nfslab.cli.files import PHASES

from tests.cli.invocation import nfslab
from tests.waiting import until

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that is measured."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def phase(name: str, **more: Any) -> dict[str, Any]:
    """128 blocks of 8 KiB in a quarter of a second, half of it the final sync."""
    whole = {
        "phase": name, "wall_ns": 250_000_000, "cpu_ns": 25_000_000, "bytes": 1 << 20,
        "operations": 128, "stopped_by": "done", "final_sync": True, "final_sync_ns": 125_000_000,
        "latency": {"p50_ns": 3_000, "p99_ns": 40_000, "p999_ns": 500_000, "max_ns": 6_000_000},
        "sync": None, "cache": None, "checked_blocks": 0, "first_mismatch": None,
        "errors": {"content_mismatches": 0, "short_reads": 0, "short_writes": 0},
    }  # fmt: skip
    return whole | more


def test_the_table() -> None:
    syncs = {"operations": 9, "latency": {"p50_ns": 1000, "p99_ns": 2000, "max_ns": 3000}}
    cache = {"resident_bytes": 1 << 18, "size_bytes": 1 << 20}
    written = phase(
        "random_write", sync=syncs, cache=cache, stopped_by="time_limit", final_sync=False
    )
    config = {
        "files": 1, "threads": 2, "size_bytes": 1 << 20, "block_size_bytes": 8192,
        "direct": False, "seed": 1,
    }  # fmt: skip
    result = {
        "config": config, "phases": [phase("block_write"), written],
        "skipped": [{"phase": "char_read", "why": "no room"}], "flags": ["odd"],
    }  # fmt: skip
    lines = "\n".join(files._lines(result, "/srv")).splitlines()
    assert lines[0] == (
        "/srv: 1 MiB in 1 file, blocks of 8 KiB, 2 threads, through the page cache, seed 1"
    )
    assert lines[2].split() == ["KiB/s", "%CPU", "op/s", "median", "p99", "p99.9", "max", "sync"]
    figures = ["4,096", "10.0", "512", "3 µs", "40 µs", "500 µs", "6 ms"]
    rows = [re.split(r"  +", line) for line in lines[3:5]]
    assert rows == [["write by block", *figures, "50%"], ["random write *", *figures, "-"]]
    assert lines[-5:] == [
        "random write: 9 syncs, median 1 µs, p99 2 µs, max 3 µs",
        "random write: 25% of the files was in the page cache before",
        "* random write: stopped by the time limit",
        "read by character: left out, no room",
        "note: odd",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--size", "12x"], "12x"),
        (["--size", "1M", "--phases", "block_wrte"], "block_write"),
        (["--size", "1M", "--sync-every", "-1"], "sync_every"),
        (["--size", "1M", "--time-limit", "soon"], "soon"),
        (["--size", "10000"], "multiple of the block"),
        (["--size", "1M", "--phases", "char_read", "--direct"], "direct does not go with"),
        ([], "--size"),
    ],
)
def test_bad_usage(data: Path, capsys: Capture, arguments: list[str], words: str) -> None:
    said = nfslab(capsys, "files", data, *arguments)
    assert (said.code, said.out, words in said.err) == (2, "", True), said.err
    assert list(data.iterdir()) == []


@pytest.mark.system
def test_a_real_run_has_a_row_for_each_phase_and_leaves_nothing(
    data: Path, capsys: Capture
) -> None:
    said = nfslab(
        capsys, "files", data, "--size", "1M", "--seeks", 50, "--threads", 2, "--files", 2,
        "--no-final-sync", "--keep-cache", "--time-limit", "1m", "--seed", 7, "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    result = json.loads(said.out)
    usual = [name for name in PHASES if name != "log_write"]
    assert [one["phase"] for one in result["phases"]] == usual
    assert all(one["cpu_ns"] > 0 for one in result["phases"])
    expected = {
        "size_bytes": 1 << 20, "threads": 2, "files": 2, "final_sync": False, "drop_cache": False,
        "time_limit_ns": 60 * 10**9, "seed": 7, "seeks": 50, "check_every": 64,
    }  # fmt: skip
    assert {name: result["config"][name] for name in expected} == expected
    assert list(data.iterdir()) == []
    said = nfslab(capsys, "files", data, "--size", "1M", "--phases", "block-write")
    assert (said.code, f"{data}: 1 MiB in 1 file" in said.out) == (0, True)
    assert "\nwrite by block " in said.out


@pytest.mark.system
def test_what_cannot_be_done_is_said(data: Path, capsys: Capture) -> None:
    said = nfslab(capsys, "files", data, "--size", "4096T", "--block", "64M")
    assert (said.code, "free" in said.err) == (2, True), said.err
    said = nfslab(capsys, "files", data, "--size", "64k", "--files", "100")
    assert (said.code, "a block of its own" in said.out) == (1, True), said.out
    assert list(data.iterdir()) == []


@pytest.mark.long
def test_a_signal_ends_it_with_130_and_no_files(data: Path) -> None:
    command = [sys.executable, "-m", "nfslab", "files", str(data), "--size", "1M"]
    command += ["--phases", "random_read", "--random-operations", str(10**9)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: list(data.glob("*/*")) or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert process.returncode == 130, err
    assert list(data.iterdir()) == []
