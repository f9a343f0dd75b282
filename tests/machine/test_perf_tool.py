"""perf's grants, refusals and commands: what it printed on real machines, and made-up perfs."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from nfslab.evidence.profile import perf_tool
from nfslab.evidence.profile.perf_tool import Control, Grant, Wanted, grant_of
from nfslab.machine.cpu_times import parse_cpu_times, process_cpu_ns, read_cpu_times

# What `perf stat -x, -e cycles,cpu-clock -- true` of perf 6.1 printed: as root on a virtual machine
# without counters, and as another user with perf_event_paranoid = 2.
WITHOUT_COUNTERS = (
    "<not supported>,,cycles,0,100.00,,\n1.84,msec,cpu-clock,1843654,100.00,2.011,CPUs\n"
)
USER_ONLY = "<not supported>,,cycles:u,0,100.00,,\n0.49,msec,cpu-clock:u,490857,100.00,0.477,CPUs\n"
WITH_COUNTERS = "1234567,,cycles,100000,100.00,,\n1.84,msec,cpu-clock,1843654,100.00,2.011,CPUs\n"
REFUSED = "Error:\nAccess to performance monitoring and observability operations is limited.\n"


@pytest.mark.parametrize(
    ("printed", "grant"),
    [
        (WITHOUT_COUNTERS, Grant("machine", True, "cpu-clock")),
        (WITH_COUNTERS, Grant("machine", True, "cycles")),
        (USER_ONLY, Grant("machine", False, "cpu-clock")),
        (REFUSED, None),
        ("", None),
        (",,,\n<not counted>,,cpu-clock,0,,,\nx", None),
    ],
)
def test_what_is_granted_is_read_from_what_was_tried(printed: str, grant: Grant | None) -> None:
    assert grant_of(printed, "machine") == grant


def made_up(folder: Path, script: str) -> None:
    path = folder / "perf"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("script", "reason", "fix"),
    [
        (None, "perf not found", "apt install linux-perf"),
        ('echo "WARNING: perf not found for 6.5" >&2; exit 2', "WARNING: perf not found", "apt"),
        ("echo perf version 4.19.1", "perf 4.19 is too old", "apt install linux-perf"),
        (
            f'[ "$1" = --version ] && echo perf version 6.1.0 || {{ printf "%s" "{REFUSED}" >&2; '
            "exit 255; }",
            "Access to performance monitoring",
            "run as root, or: sysctl kernel.perf_event_paranoid",
        ),
        ("exit 0", "it says nothing", "apt"),
    ],
)  # fmt: skip
@pytest.mark.system
def test_a_missing_wrong_or_refused_perf_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str | None,
    reason: str,
    fix: str,
) -> None:
    if script is not None:
        made_up(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = perf_tool.available()
    assert not answer.ok
    assert reason in answer.reason
    assert fix in answer.fix


needs_perf = pytest.mark.skipif(
    not perf_tool.available().ok, reason=f"perf: {perf_tool.available().reason}"
)


def test_the_command_says_all_that_was_asked_for(tmp_path: Path) -> None:
    control = Control(tmp_path)
    try:
        wanted = Wanted("processes", "cycles", 49, "dwarf", 5 << 20, pids=(3, 4))
        argv = perf_tool.record_command(wanted, tmp_path / "data", control)
        assert os.stat(control.commands).st_mode & 0o777 == 0o600
    finally:
        control.close()
    assert list(tmp_path.iterdir()) == []
    text = " ".join(argv)
    for part in (
        "perf record -p 3,4 -e cycles -F 49 --call-graph dwarf -k CLOCK_MONOTONIC",
        "--max-size 5120K",
        f"--control fifo:{tmp_path}/commands,{tmp_path}/answers",
        f"-o {tmp_path}/data",
    ):
        assert part in text
    assert "-a" not in argv
    machine = perf_tool.record_command(
        Wanted("machine", "cpu-clock", 99, "fp", 1), tmp_path / "data", None
    )
    assert "-a" in machine
    assert "1K" in machine, "never a limit of nothing"


def test_kinds_of_records_are_counted() -> None:
    """Printed by perf report --stats 6.1 of a record with losses: the sums are first."""
    printed = (
        "\nAggregated stats:\n           TOTAL events:      11300\n"
        "            LOST events:          2  ( 0.0%)\n        THROTTLE events:          5\n"
        "    LOST_SAMPLES events:          2  ( 0.0%)\n cpu-clock stats:\n"
        "          SAMPLE events:      10061\n    LOST_SAMPLES events:         32\n"
    )
    found = perf_tool.record_counts(printed)
    assert (found["TOTAL"], found["LOST"], found["THROTTLE"]) == (11300, 2, 5)
    assert found["LOST_SAMPLES"] == 32


def test_proc_stat_is_read_as_the_kernel_writes_it() -> None:
    text = (
        "cpu  7413447 1347372 1229897 4479352 192425 1 82044 225907 7 0\n"
        "cpu0 3508311 527898 572319 2678050 50001 0 36913 110706 0 0\n"
        "cpu1 3905136 819474 657577 1801301 142424 0 45130 115201 0 0\nintr 5\n"
    )
    found = parse_cpu_times(text)
    assert found is not None
    assert found.cpus == 2
    assert found.busy_ticks == 7413447 + 1347372 + 1229897 + 1 + 82044 + 225907
    later = parse_cpu_times(text.replace("4479352 192425", "4479452 192325"))
    assert later is not None
    spent = later.since(found)
    assert spent["idle"] == 100 / os.sysconf("SC_CLK_TCK")
    assert spent["iowait"] == 0, "the kernel takes waiting back at times"
    assert parse_cpu_times("") is None
    assert parse_cpu_times("cpu 1 2\n") is None


@pytest.mark.system
def test_a_process_clock_runs_with_its_work() -> None:
    before = process_cpu_ns(os.getpid())
    sum(range(200_000))
    after = process_cpu_ns(os.getpid())
    assert before is not None
    assert after is not None
    assert after > before
    done = subprocess.Popen(["true"])
    done.wait()
    assert process_cpu_ns(done.pid) is None
    now = read_cpu_times()
    assert now is not None
    assert now.cpus == len([p for p in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")
                            if (p / "topology").exists()])  # fmt: skip


def test_hidden_kernel_symbols_are_noticed() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if Path("/proc/sys/kernel/kptr_restrict").read_text().strip() != "0":
        pytest.skip("kernel.kptr_restrict is set")
    assert perf_tool.kernel_symbols_hidden() is False
