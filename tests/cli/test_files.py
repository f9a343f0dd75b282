"""`nfslab files`: its table, its JSON, its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.cli.files import PHASES

from tests.cli.invocation import nfslab

PATIENCE_S = 120


def test_the_table_has_a_row_for_each_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "files", tmp_path, "--size", "1M", "--seeks", 50)
    assert said.code == 0
    # A phase that takes longer than a second is announced.
    assert all(re.fullmatch(r"\d/\d [a-z ]+", line) for line in said.err.splitlines()), said.err
    lines = said.out.splitlines()
    assert lines[0] == (
        f"{tmp_path}: 1 MiB in 1 file, blocks of 8 KiB, 1 thread, through the page cache, seed 1"
    )
    assert lines[2].split() == ["KiB/s", "%CPU", "op/s", "median", "p99", "p99.9", "max", "sync"]
    usual = [name for phase, name in PHASES.items() if phase != "log_write"]
    rows = lines[3 : 3 + len(usual)]
    assert [re.split(r"  +", row)[0] for row in rows] == usual
    for row in rows:
        rate, cpu, operations = re.split(r"  +", row)[1:4]
        # A block is 8 KiB: both rates say the same, within their rounding.
        in_blocks = int(rate.replace(",", "")) / 8
        assert in_blocks == pytest.approx(int(operations.replace(",", "")), abs=1)
        # Of a phase that waits long for the disk it is shown as 0.0.
        assert 0 <= float(cpu) <= 110
    assert list(tmp_path.iterdir()) == []


def test_json_is_the_core_s_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(
        capsys, "files", tmp_path, "--size", "1M", "--block", "64k", "--threads", 2, "--files", 3,
        "--phases", "block-write,random_write", "--random-operations", 9, "--sync-every", 2,
        "--sync-kind", "fsync", "--no-final-sync", "--keep-cache", "--time-limit", "1m",
        "--seed", 7, "--check-every", 0, "--seek-threads", 3, "--json",
    )  # fmt: skip
    assert said.code == 0
    result = json.loads(said.out)
    config = result["config"]
    assert config == {
        "directory": str(tmp_path),
        "size_bytes": 1 << 20,
        "files": 3,
        "block_size_bytes": 65536,
        "threads": 2,
        "direct": False,
        "phases": ["block_write", "random_write"],
        "final_sync": False,
        "sync_every": 2,
        "sync_kind": "fsync",
        "seeks": 4000,
        "seek_rewrite_share": 0.1,
        "seek_threads": 3,
        "random_operations": 9,
        "seed": 7,
        "time_limit_ns": 60_000_000_000,
        "drop_cache": False,
        "check_every": 0,
        "keep": False,
        "series_interval_ns": 100_000_000,
        "part": None,
        "shared": False,
    }
    assert [phase["phase"] for phase in result["phases"]] == config["phases"]
    assert all(phase["cpu_ns"] > 0 for phase in result["phases"])


def test_kept_files_are_where_the_last_line_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "files", tmp_path, "--size", "1M", "--phases", "block_write", "--keep")
    kept = Path(said.out.splitlines()[-1].removeprefix("files kept in "))
    assert [path.stat().st_size for path in kept.iterdir()] == [1 << 20]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--size", "12x"], 2, "is not a size"),
        (["--size", "10000"], 2, "8192 or 16384"),
        (["--size", "1M", "--phases", "block_wrte"], 2, "'block_write'"),
        (["--size", "1M", "--phases", "char_read", "--direct"], 2, "direct = false"),
        (["--size", "1M", "--sync-every", "-1"], 2, "--sync-every is negative"),
        (["--size", "1M", "--time-limit", "soon"], 2, "is not a duration"),
        ([], 2, "--size"),
        (["--size", "4096T", "--block", "64M"], 1, "too little room"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    said = nfslab(capsys, "files", tmp_path, *arguments)
    assert (said.code, said.out) == (code, "")
    assert words in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_a_failed_run(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "files", "/nonexistent", "--size", "1M")
    assert said.code == 1
    assert "directory" in said.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_with_130_and_no_files(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "nfslab", "files", str(tmp_path), "--size", "1M"]
    command += ["--phases", "random_read", "--random-operations", str(1 << 40)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stderr
        # Without a terminal a phase is announced when it has run for a second. So is making its
        # files, where the disk is slow.
        assert "1/1 random read\n" in iter(process.stderr.readline, "")
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []
