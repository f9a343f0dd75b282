"""The machine's evidence: rates by exact arithmetic, and against what was planted."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab import clock
from nfslab.evidence.collector import Evidence
from nfslab.evidence.system.collector import SystemCollector, SystemCollectorParameters
from nfslab.evidence.system.recording import Recording
from nfslab.machine.cpu_times import KINDS
from nfslab.workloads.base import RunContext
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.waiting import until
from tests.workloads.run_context import run_of, scratch_folder

MISSING = -(2**63)
S = 10**9
START = 7 * S


def recording(columns: dict[str, list[int]], times: list[int], **options: Any) -> Recording:
    """A sampler's result as the core hands it over (see _core.pyi), made by hand."""
    made = {"t_ns": times, "read_ns": [1] * len(times)} | columns

    def column(name: str, values: list[int]) -> dict[str, Any]:
        gauge = name.startswith("memory.") or name in ("cpu.running_count", "cpu.blocked_count")
        return {
            "dtype": "<i8",
            "data": np.asarray(values, "<i8").tobytes(),
            "unit": name.rpartition("_")[2],
            "kind": "gauge" if gauge or name.endswith(("t_ns", "read_ns")) else "counter",
        }

    result = {
        "columns": {name: column(name, values) for name, values in made.items()},
        "missing_value": MISSING,
        "interval_ns": S,
        "effective_interval_ns": S,
        "samples": len(times),
        "absent": [],
        "idle": [],
        "read_errors": 0,
        "late_ticks": 0,
        "missed_ticks": 0,
        "cost": {"cpu_ns": 5, "wall_ns": 10, "cpu_share": 0.5, "max_read_ns": 1},
    }
    return Recording(
        result,
        start_ns=options.get("start_ns", START),
        end_ns=options.get("end_ns"),
        roles=options.get("roles", {}),
    )


def test_rates_are_differences_over_the_true_time() -> None:
    """Uneven samples: 1 s, then 2.5 s."""
    times = [START, START + S, START + S + 5 * S // 2]
    made = recording(
        {
            "disk.vda.read_count": [100, 110, 110],
            "disk.vda.read_bytes": [0, 4096, 4096],
            "disk.vda.read_time_ns": [0, 30_000_000, 30_000_000],
            "disk.vda.write_count": [5, 5, 15],
            "disk.vda.write_time_ns": [0, 0, 20_000_000],
            "disk.vda.write_bytes": [0, 0, 10_000],
            "disk.vda.busy_ns": [0, S // 2, S // 2],
            "disk.vda.queue_time_ns": [0, 3 * S, 3 * S],
        },
        times,
    )
    rows = made.tables()["system_devices"].to_pylist()
    assert [row["t_ns"] for row in rows] == [S, S + 5 * S // 2]
    first, second = rows
    assert (first["reads_per_s"], second["reads_per_s"]) == (10.0, 0.0)
    assert (first["read_bytes_per_s"], second["write_bytes_per_s"]) == (4096.0, 4000.0)
    assert (first["writes_per_s"], second["writes_per_s"]) == (0.0, 4.0)
    # 30 ms for 10 requests; no request, no mean.
    assert (first["read_await_ms"], second["read_await_ms"]) == (3.0, None)
    assert (first["write_await_ms"], second["write_await_ms"]) == (None, 2.0)
    assert (first["utilisation"], first["queue_depth"]) == (0.5, 3.0)
    # This kernel does not count flushes: unknown, not zero.
    assert first["flushes_per_s"] is None
    mean = made.summary()["devices"][0]
    assert mean["reads_per_s"] == pytest.approx(10 / 3.5)
    assert mean["queue_depth"] == pytest.approx(3 / 3.5)
    assert mean["flushes_per_s"] is None


def test_big_counters_lose_nothing() -> None:
    """Beyond 2^53 a float cannot tell neighbours apart; the difference still has to be exact."""
    base = 2**62 + 1
    made = recording({"disk.vda.read_bytes": [base, base + 3]}, [START, START + S])
    assert made.tables()["system_devices"]["read_bytes_per_s"].to_pylist() == [3.0]


def test_a_counter_that_goes_down_gives_no_rate_and_is_counted() -> None:
    made = recording({"disk.sda.read_count": [50, 60, 3, 5]}, [START + i * S for i in range(4)])
    rates = made.tables()["system_devices"]["reads_per_s"].to_pylist()
    assert rates == [10.0, None, 2.0]
    summary = made.summary()
    assert summary["counters_that_went_down"] == {"disk.sda.read_count": 1}
    # The mean is over the time that is known: 12 reads in 2 seconds.
    assert summary["devices"][0]["reads_per_s"] == 6.0


def test_a_value_that_was_not_known_gives_no_rate() -> None:
    made = recording(
        {"disk.sda.read_count": [MISSING, 60, MISSING, 80]}, [START + i * S for i in range(4)]
    )
    assert made.tables()["system_devices"]["reads_per_s"].to_pylist() == [None, None, None]
    assert made.summary()["counters_that_went_down"] == {}


def test_cpu_shares_are_of_all_cpus_and_sum_to_one() -> None:
    counters = {f"cpu.{kind}_ns": [0, 0] for kind in KINDS}
    counters |= {"cpu.user_ns": [5, 5 + S], "cpu.idle_ns": [0, 2 * S], "cpu.steal_ns": [0, S]}
    counters["cpu.guest_ns"] = [0, S]  # part of user already
    counters["cpu.context_switches_count"] = [1000, 1500]
    counters["cpu.running_count"] = [1, 4]
    made = recording(counters, [START, START + S])
    row = made.tables()["system_cpu"].to_pylist()[0]
    assert (row["user"], row["idle"], row["steal"], row["iowait"]) == (0.25, 0.5, 0.25, 0.0)
    assert sum(row[kind] for kind in KINDS) == 1.0
    assert (row["context_switches_per_s"], row["running"]) == (500.0, 4)
    assert "blocked" not in row, "this kernel does not say"
    assert made.summary()["cpu"]["steal"] == 0.25


def test_absent_sources_are_absent_tables() -> None:
    made = recording({"cpu.user_ns": [0, 1], "cpu.idle_ns": [0, 1]}, [START, START + S])
    assert set(made.tables()) == {"system_cpu"}
    assert made.summary()["pressure"] == {}
    assert made.summary()["peak_dirty_bytes"] is None


def test_the_places_devices_come_first_and_all_are_kept() -> None:
    counters = {f"disk.{name}.read_count": [0, 1] for name in ("sda", "vdb", "loop1.x")}
    made = recording(counters, [START, START + S], roles={"vdb": "data,wal"})
    table = made.tables()["system_devices"]
    assert table["device"].to_pylist() == ["vdb", "loop1.x", "sda"]
    assert table["roles"].to_pylist() == ["data,wal", "", ""]
    assert [d["device"] for d in made.summary()["devices"]] == ["vdb", "loop1.x", "sda"]


def test_the_summary_covers_the_timed_part_only() -> None:
    times = [START + i * S for i in range(-2, 4)]
    made = recording(
        {
            "disk.vda.write_bytes": [0, 1000, 2000, 2100, 2300, 9000],
            "memory.dirty_bytes": [900, 800, 10, 30, 20, 700],
            "pressure.io.some_ns": [0, 0, 0, S // 2, S, S],
            "pressure.io.full_ns": [0, 0, 0, 0, S // 4, S // 4],
        },
        times,
        end_ns=START + 2 * S,
    )
    summary = made.summary()
    assert summary["devices"][0]["write_bytes_per_s"] == 150.0
    assert summary["peak_dirty_bytes"] == 30
    assert summary["pressure"] == {"io": {"some_share": 0.5, "full_share": 0.125}}
    assert made.tables()["system_memory"]["t_ns"].to_pylist()[0] == -2 * S


def test_a_timed_part_shorter_than_a_sample_has_a_mean() -> None:
    made = recording(
        {"disk.vda.write_bytes": [0, 500, 700]},
        [START - S // 2, START + S // 2, START + 3 * S // 2],
        end_ns=START + 1000,
    )
    assert made.summary()["devices"][0]["write_bytes_per_s"] == 500.0


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


class Session:
    """A context to watch in, and what was seen."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.collector = SystemCollector(SystemCollectorParameters(interval=0.02))

    def start(self) -> None:
        self.collector.start(self.context)
        self.context.timed.start_ns = clock.monotonic_ns()

    def stop(self) -> Evidence:
        self.context.timed.end_ns = clock.monotonic_ns()
        return self.collector.stop()


@pytest.fixture
def session(root: Path) -> Iterator[Session]:
    if not SystemCollector.available().ok:
        pytest.skip(SystemCollector.available().reason)
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    name = f"system-{uuid.uuid4().hex[:8]}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        yield Session(run.context)


@pytest.fixture
def loop(root: Path) -> Iterator[str]:
    if os.geteuid() != 0:
        pytest.skip("needs root: it attaches a loop device")
    if shutil.which("losetup") is None:
        pytest.skip("losetup is not installed")
    backing = root / f"loop-{uuid.uuid4().hex[:8]}"
    backing.write_bytes(bytes(8 << 20))
    done = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"no loop device here: {done.stderr.strip()}")
    device = done.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def _writes(name: str) -> int:
    """Completed ones of a device (Documentation/block/stat.rst)."""
    return int(Path("/sys/block", name, "stat").read_text().split()[4])


def _write(loop: str, count: int) -> None:
    """So many direct writes, all counted: the kernel's thread wakes who waits for the last one
    before it counts it (blk_mq_end_request), and may have no processor in between."""
    counted = _writes(Path(loop).name)
    argv = ["dd", "if=/dev/zero", f"of={loop}", "bs=16k", "oflag=direct", "conv=notrunc"]
    subprocess.run([*argv, f"count={count}"], check=True, capture_output=True)
    until(lambda: _writes(Path(loop).name) >= counted + count)


@pytest.mark.system
def test_bytes_written_to_a_device_are_exactly_those(session: Session, loop: str) -> None:
    """256 direct writes of 16 KiB: 4 MiB, 256 requests, no more and no less."""
    name = Path(loop).name
    session.context.places["data"].devices = [name]
    # Traffic before, so that the device is known from the first sample on.
    _write(loop, 1)
    session.start()
    _write(loop, 256)
    evidence = session.stop()
    device = evidence.summary["devices"][0]
    assert (device["device"], device["roles"]) == (name, "data")
    table = evidence.tables["system_devices"].to_pylist()
    mine = [row for row in table if row["device"] == name]
    times = [row["t_ns"] for row in mine]
    first = evidence.tables["system_memory"]["t_ns"].to_pylist()[0]
    spans = np.diff([first, *times]) / S
    moved = sum(row["write_bytes_per_s"] * span for row, span in zip(mine, spans, strict=True))
    requests = sum(row["writes_per_s"] * span for row, span in zip(mine, spans, strict=True))
    assert moved == pytest.approx(256 * 16384, rel=1e-9)
    assert requests == pytest.approx(256, rel=1e-9)


@pytest.mark.system
def test_a_group_is_watched_when_there_is_one(session: Session) -> None:
    from nfslab.machine.cgroup import memory_cgroup, memory_cgroup_available

    answer = memory_cgroup_available()
    if not answer.ok:
        pytest.skip(answer.reason)
    group = memory_cgroup(64 << 20, session.context.resources)
    try:
        session.context.services.memory_cgroup = group
        session.start()
        evidence = session.stop()
    finally:
        group.remove()
    assert "memory_bytes" in evidence.tables["system_cgroup"].column_names
