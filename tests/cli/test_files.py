"""`nfslab files`: its table, its JSON, its exit codes; results of the core are planted or real."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nfslab import _core
from nfslab.cli import files
from nfslab.cli.files import PHASES
from nfslab.machine.emulation import SENTENCE

from tests.cli.invocation import nfslab

Capture = pytest.CaptureFixture[str]


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


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the core answers; its configuration is the one that was asked."""
    result: dict[str, Any] = {
        "phases": [phase("block_write")], "skipped": [], "flags": [], "kept": False,
        "directory": "/kept/here",
    }  # fmt: skip

    def run_files(config: str, _progress: Any) -> str:
        given = json.loads(config)
        given["files"] = given["files"] or 1
        return json.dumps({"config": given} | result)

    monkeypatch.setattr(_core, "run_files", run_files)
    return result


def test_the_table(planted: dict[str, Any], capsys: Capture) -> None:
    syncs = {"operations": 9, "latency": {"p50_ns": 1000, "p99_ns": 2000, "max_ns": 3000}}
    cache = {"resident_bytes": 1 << 18, "size_bytes": 1 << 20}
    planted["phases"] += [
        phase("random_write", sync=syncs, cache=cache, stopped_by="time_limit", final_sync=False)
    ]
    planted["skipped"] = [{"phase": "char_read", "why": "no room"}]
    planted |= {"flags": ["debug_build", "odd"], "kept": True}
    said = nfslab(capsys, "files", "/srv", "--size", "1M", "--threads", 2)
    lines = said.out.splitlines()
    assert (said.code, lines[0]) == (
        0, "/srv: 1 MiB in 1 file, blocks of 8 KiB, 2 threads, through the page cache, seed 1",
    )  # fmt: skip
    assert lines[2].split() == ["KiB/s", "%CPU", "op/s", "median", "p99", "p99.9", "max", "sync"]
    figures = ["4,096", "10.0", "512", "3 µs", "40 µs", "500 µs", "6 ms"]
    rows = [re.split(r"  +", line) for line in lines[3:5]]
    assert rows == [["write by block", *figures, "50%"], ["random write *", *figures, "-"]]
    assert lines[-7:] == [
        "random write: 9 syncs, median 1 µs, p99 2 µs, max 3 µs",
        "random write: 25% of the files was in the page cache before",
        "* random write: stopped by the time limit",
        "read by character: left out, no room",
        "DEBUG BUILD: these figures mean nothing; build with maturin develop --release",
        "note: odd",
        "files kept in /kept/here",
    ]


def test_what_is_asked_is_the_cores_configuration(planted: dict[str, Any], capsys: Capture) -> None:
    said = nfslab(
        capsys, "files", "/srv", "--size", "1M", "--block", "64k", "--threads", 2, "--files", 3,
        "--phases", "block-write,random_write", "--random-operations", 9, "--sync-every", 2,
        "--sync-kind", "fsync", "--no-final-sync", "--keep-cache", "--time-limit", "1m",
        "--seed", 7, "--check-every", 0, "--seek-threads", 3, "--json",
    )  # fmt: skip
    assert json.loads(said.out)["config"] == {
        "directory": "/srv", "size_bytes": 1 << 20, "files": 3, "block_size_bytes": 65536,
        "threads": 2, "direct": False, "phases": ["block_write", "random_write"],
        "final_sync": False, "sync_every": 2, "sync_kind": "fsync", "seeks": 4000,
        "seek_rewrite_share": 0.1, "seek_threads": 3, "random_operations": 9, "seed": 7,
        "time_limit_ns": 60_000_000_000, "drop_cache": False, "check_every": 0, "keep": False,
    }  # fmt: skip


@pytest.mark.parametrize("here", [True, False])
def test_an_emulated_processor_is_told(
    here: bool, planted: dict[str, Any], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "is_emulated", lambda: here)
    asked = ("files", "/srv", "--size", "64k")
    assert (SENTENCE in nfslab(capsys, *asked).out) is here
    assert (SENTENCE in json.loads(nfslab(capsys, *asked, "--json").out)["flags"]) is here


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ({"content_mismatches": 2, "short_reads": 0}, "2 of 5 checked blocks differ, first 8192"),
        ({"content_mismatches": 0, "short_reads": 3}, "3 reads gave less than asked"),
    ],
)
def test_data_that_came_back_wrong_is_exit_code_1_behind_the_table(
    errors: dict[str, int], words: str, planted: dict[str, Any], capsys: Capture
) -> None:
    wrong = phase("block_read", errors=errors, checked_blocks=5, first_mismatch=8192)
    planted["phases"] = [phase("block_write"), wrong]
    said = nfslab(capsys, "files", "/srv", "--size", "1M")
    assert (said.code, words in said.err, "fix: " in said.err) == (1, True, True)
    assert "write by block" in said.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--size", "12x"],
        ["--size", "1M", "--phases", "block_wrte"],
        ["--size", "1M", "--sync-every", "-1"],
        ["--size", "1M", "--time-limit", "soon"],
        [],
    ],
)
def test_bad_usage(tmp_path: Path, capsys: Capture, arguments: list[str]) -> None:
    said = nfslab(capsys, "files", tmp_path, *arguments)
    assert (said.code, said.out) == (2, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_a_real_run_has_a_row_for_each_phase_and_leaves_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    said = nfslab(capsys, "files", tmp_path, "--size", "1M", "--seeks", 50, "--json")
    assert said.code == 0
    result = json.loads(said.out)
    usual = [name for name in PHASES if name != "log_write"]
    assert [one["phase"] for one in result["phases"]] == usual
    assert all(one["cpu_ns"] > 0 for one in result["phases"])
    assert list(tmp_path.iterdir()) == []
    said = nfslab(capsys, "files", tmp_path, "--size", "1M", "--phases", "block_write", "--keep")
    kept = Path(said.out.splitlines()[-1].removeprefix("files kept in "))
    assert [path.stat().st_size for path in kept.iterdir()] == [1 << 20]


@pytest.mark.system
def test_what_the_core_refuses_is_said(tmp_path: Path, capsys: Capture) -> None:
    for code, words, arguments in (
        (2, "8192 or 16384", (tmp_path, "--size", "10000")),
        (2, "direct = false", (tmp_path, "--size", "1M", "--phases", "char_read", "--direct")),
        (1, "too little room", (tmp_path, "--size", "4096T", "--block", "64M")),
        (2, "does not exist", ("/nonexistent", "--size", "1M")),
    ):
        said = nfslab(capsys, "files", *arguments)
        assert (said.code, said.out) == (code, ""), arguments
        assert words in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_signal_ends_it_with_130_and_no_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nfslab", "files", str(tmp_path), "--size", "1M"]
    command += ["--phases", "random_read", "--random-operations", str(1 << 40)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        # Without a terminal a phase is announced when it has run for a second.
        assert "1/1 random read\n" in iter(process.stderr.readline, "")
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert list(tmp_path.iterdir()) == []
