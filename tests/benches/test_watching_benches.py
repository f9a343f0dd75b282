"""Benchmarks of what watching costs: the collectors `system`, `profile`, `fsync` and `syscalls`."""

from __future__ import annotations

import re

import pytest
from nfslab.evidence.profile import perf_tool

from tests.benches.small_run import by_first_cell, postgres, program, small
from tests.machine import needs

pytestmark = pytest.mark.long


def test_the_collector_system() -> None:
    pattern = r"^\| (idle|one core busy) \| (\d+) \| \d+ \| ([\d.]+) \| ([\d.]+) \|$"
    rows = re.findall(pattern, small("collector_cost"), flags=re.MULTILINE)
    assert [row[0] for row in rows] == ["idle", "one core busy"]
    assert all(int(row[1]) >= 2 for row in rows)
    assert all(0 < float(row[2]) < 100 for row in rows)


def test_the_collector_profile() -> None:
    if not perf_tool.available().ok:
        pytest.skip(f"perf: {perf_tool.available().reason}")
    pattern = r"^\| (\d+ Hz, \w+) \| ([\d.]+) \| ([\d.]+) to"
    rows = re.findall(pattern, small("profile_cost"), re.MULTILINE)
    assert [row[0] for row in rows] == ["99 Hz, fp", "999 Hz, fp", "99 Hz, dwarf"]
    assert all(float(row[1]) > 0 for row in rows)


LEVELS = ("sync", "counts", "counts and lseek", "events")
LAUNCHED = ("preloaded library, sync", "strace --seccomp-bpf, sync")


@postgres
@needs.ebpf
def test_watching_system_calls() -> None:
    rows = by_first_cell(small("syscall_cost"))
    assert rows["unwatched"][1] == "1.000"
    for level in LEVELS:
        assert all(float(cell) > 0 for cell in rows[level][:3])
    assert set(LAUNCHED) <= rows.keys()


@postgres
@needs.ebpf
@pytest.mark.parametrize("left_out", ["--launches", "--rounds"])
def test_one_half_of_the_ways_alone(left_out: str) -> None:
    few = ["--rounds", 1, "--launches", 1, "--seconds", 4, "--scale", 1]
    printed = program("syscall_cost", *few, left_out, 0)
    rows = by_first_cell(printed)
    assert (rows.keys() & set(LEVELS) == set()) is (left_out == "--rounds")
    assert (rows.keys() & set(LAUNCHED) == set()) is (left_out == "--launches")
