"""Benchmarks run small here, so that they cannot rot."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.machine import ganesha

BENCH = Path(__file__).resolve().parents[2] / "benches" / "files_vs_fio.py"


def test_files_vs_fio_prints_a_whole_table(tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    done = subprocess.run(
        [sys.executable, str(BENCH), "--small", "--directory", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 6
    assert {row.count("|") for row in rows} == {9}
    assert "fio-" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_nfs_ends_prints_a_whole_table() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    bench = BENCH.with_name("nfs_ends.py")
    done = subprocess.run(
        [sys.executable, str(bench), "--small", "--profile", "dev"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    others = 4 if ganesha.available().ok else 0
    assert len(rows) == 2 + 4 + 8 + others
    assert sum("NFS-Ganesha" in row for row in rows) == others
    assert {row.count("|") for row in rows} == {9}


def test_sfs_generator_prints_a_whole_table() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    done = subprocess.run(
        [sys.executable, str(BENCH.with_name("sfs_generator.py")), "--small", "--profile", "dev"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 4 + 4
    assert {row.count("|") for row in rows} == {6}


def test_server_records_cost_prints_a_whole_table() -> None:
    bench = BENCH.with_name("server_records_cost.py")
    done = subprocess.run(
        [sys.executable, str(bench), "--small"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 4
    assert {row.count("|") for row in rows} == {6}
