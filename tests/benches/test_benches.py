"""Benchmarks still work: each is imported, and in CI run small. No figure is judged."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
from nfslab.captures import tool as capture_tool
from nfslab.evidence.profile import perf_tool
from nfslab.findings.registry import FINDINGS
from nfslab.machine.users import unprivileged_user
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.sysbench import client

from tests.machine import needs
from tests.trace.reading import read

BENCHES: Final = Path(__file__).resolve().parents[2] / "benches"
PROGRAMS: Final = sorted(
    path.stem for path in BENCHES.glob("*.py") if '__name__ == "__main__"' in path.read_text()
)
TOOLS: Final = {"capture_generator", "mount_load"}
"""What a benchmark uses: it measures nothing by itself."""

_postgres = PgbenchWorkload.available()
_captures, _perf = capture_tool.available("auto"), perf_tool.available()
cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
captures = pytest.mark.skipif(not _captures.ok, reason=_captures.reason or "-")
perf = pytest.mark.skipif(not _perf.ok, reason=_perf.reason or "-")
pgsql = pytest.mark.skipif(not client.available("pgsql").ok, reason="no client of PostgreSQL")
postgres = pytest.mark.skipif(
    unprivileged_user() is None or not _postgres.ok,
    reason=_postgres.reason or "PostgreSQL needs a user besides root",
)
NEEDS: Final = {
    "capture_cost": [captures, cargo],
    "captures": [cargo],
    "confirm": [needs.fuse],
    "files_vs_fio": [fio],
    "findings": [needs.fuse],
    "mount_throughput": [needs.fuse],
    "names": [needs.fuse],
    "nfs_ends": [cargo],
    "postgres_over_nfs": [needs.fuse, postgres],
    "profile_cost": [perf],
    "sfs_generator": [cargo],
    "syscall_cost": [postgres, needs.ebpf],
    "tpcb_clients": [postgres, pgsql],
}
OPTIONS: Final[dict[str, tuple[object, ...]]] = {
    "capture_cost": ("--profile", "dev"),
    "captures": ("--profile", "dev"),
    "findings": ("--seed", 1),
    "nfs_ends": ("--profile", "dev"),
    "sfs_generator": ("--profile", "dev"),
}
PLACED: Final = {"captures": "--dir", "files_vs_fio": "--directory"}
"""Where its files go, which are gone at its end."""


def program(name: str, *arguments: object) -> str:
    """What `benches/NAME.py ARGUMENTS` printed; it has to succeed."""
    command = [sys.executable, BENCHES / f"{name}.py", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tables(printed: str) -> list[list[list[str]]]:
    """The cells of each table, row by row, headings and rules among them."""
    lines = groupby(printed.splitlines(), lambda line: line.startswith("|"))
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
        for is_table, table in lines
        if is_table
    ]


def test_each_is_run_by_benches_run() -> None:
    listed = re.search(r"for bench in ((?:[\w\s]|\\\n)+); do", (BENCHES / "run").read_text())
    assert listed is not None
    assert set(listed[1].replace("\\\n", " ").split()) == {*PROGRAMS} - TOOLS


@pytest.mark.system
@pytest.mark.parametrize("kind", ["small", "large"])
def test_generated_captures_hold_what_they_say(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "made.pcap"
    made = json.loads(program("capture_generator", kind, "3M", "--out", path, "--json"))
    assert made["bytes"] == path.stat().st_size >= 3_000_000
    found = read(path)
    assert found.summary["packets"] == made["packets"]
    assert found.anomalies == {}
    rows = found.summary["operations"]
    assert sum(row["answered"] for row in rows) == sum(row["calls"] for row in rows)
    assert sum(row["calls"] for row in rows) == made["calls"]
    if kind == "large":
        assert sum(row["bytes"] for row in found.rows) == 65536 * made["calls"]


@pytest.mark.system
def test_each_can_be_imported_and_every_cause_is_planted_or_it_is_said_why_not() -> None:
    code = f"import importlib, sys\nfor name in {PROGRAMS}: importlib.import_module(name)\n"
    code += "sys.argv[1:] = ['--list']\nimport findings\nfindings.main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=BENCHES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split(": ", 1) for line in done.stdout.splitlines()]
    said = [name.removeprefix("not here, ") for name, _ in lines if name.startswith("not here")]
    planted = [
        cause
        for name, causes in lines
        for cause in causes.split(", ")
        if name not in said and not name.startswith("not here")
    ]
    assert {*planted, *said} == {*FINDINGS}
    assert not {*planted} & {*said}
    assert all(planted.count(cause) >= 2 for cause in planted), "at two sizes"


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=NEEDS.get(name, ())) for name in PROGRAMS if name not in TOOLS],
)
def test_small_it_prints_whole_tables(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As wide in each row as in its heading, with figures where it is not of words."""
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    files = tmp_path / "files"
    files.mkdir()
    there = (PLACED[name], files) if name in PLACED else ()
    printed = program(name, "--small", *OPTIONS.get(name, ()), *there)
    found = tables(printed)
    assert found, printed
    for heading, _rule, *rows in found:
        assert {len(row) for row in rows} == {len(heading)}, printed
        assert rows, printed
        # What is decided in so little time is luck: "found: nothing" is a whole row of it.
        figures = any(re.search(r"\d", cell) for row in rows for cell in row[1:])
        assert figures or name == "confirm", printed
    assert list(files.iterdir()) == []
