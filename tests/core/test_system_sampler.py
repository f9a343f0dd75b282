"""The sampler against /proc read by hand before and after, and against getrusage."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from nfslab._core import CoreError, SystemSampler

from tests.waiting import until

NS_PER_S = 1_000_000_000
pytestmark = pytest.mark.system


def column(result: dict, name: str) -> npt.NDArray[np.int64]:  # type: ignore[type-arg]
    entry = result["columns"][name]
    assert entry["dtype"] == "<i8"
    return np.frombuffer(entry["data"], dtype=entry["dtype"])


def stat(key: str) -> int:
    """First number behind a key of /proc/stat."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.split()[0] == key:
            return int(line.split()[1])
    raise KeyError(key)


def read_by_hand() -> tuple[int, int, int]:
    return stat("ctxt"), stat("processes"), time.monotonic_ns()


def test_counters_lie_between_readings_by_hand() -> None:
    before = read_by_hand()
    sampler = SystemSampler(10_000_000)
    sampler.start()
    for _ in range(5):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    result = sampler.stop()
    after = read_by_hand()
    for index, name in enumerate(("cpu.context_switches_count", "cpu.forks_count", "t_ns")):
        values = column(dict(result), name)
        assert before[index] <= values[0] <= values[-1] <= after[index], name
        assert (np.diff(values) >= 0).all(), name
    forks = column(dict(result), "cpu.forks_count")
    assert forks[-1] - forks[0] >= 5
    assert result["samples"] == len(forks) >= 2
    assert (result["clock"], result["schema"]) == ("CLOCK_MONOTONIC", 1)


def test_memory_is_what_meminfo_says() -> None:
    sampler = SystemSampler(NS_PER_S)
    sampler.start()
    result = dict(sampler.stop())
    total = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )  # fmt: skip
    assert set(column(result, "memory.total_bytes")) == {total * 1024}
    assert result["columns"]["memory.total_bytes"]["unit"] == "bytes"
    assert result["columns"]["memory.total_bytes"]["kind"] == "gauge"
    assert result["columns"]["cpu.user_ns"]["kind"] == "counter"
    assert column(result, "cpu.online_count")[0] == os.cpu_count()


def test_absent_sources_are_named_and_have_no_columns(tmp_path: Path) -> None:
    sampler = SystemSampler(NS_PER_S, str(tmp_path))
    sampler.start()
    result = sampler.stop()
    absent = {entry["source"]: entry["why"] for entry in result["absent"]}
    assert absent[str(tmp_path)]
    assert not any(name.startswith("cgroup.") for name in result["columns"])
    for resource_name in ("cpu", "io", "memory"):
        path = f"/proc/pressure/{resource_name}"
        has = any(name.startswith(f"pressure.{resource_name}.") for name in result["columns"])
        assert has != (path in absent)


def test_misuse_is_an_error_with_its_fix() -> None:
    with pytest.raises(CoreError) as caught:
        SystemSampler(1).start()
    assert caught.value.kind == "config"
    sampler = SystemSampler(NS_PER_S)
    with pytest.raises(CoreError, match="does not run"):
        sampler.stop()
    sampler.start()
    with pytest.raises(CoreError, match="started before"):
        sampler.start()
    sampler.stop()
    with pytest.raises(CoreError) as caught:
        sampler.stop()
    assert caught.value.kind == "sampler"
    with pytest.raises(CoreError):
        sampler.start()


def test_a_forgotten_sampler_ends_its_thread() -> None:
    def threads() -> set[str]:
        names = set()
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # it has ended
                names.add((task / "comm").read_text().strip())
        return names

    sampler = SystemSampler(NS_PER_S)
    sampler.start()
    assert "system-sampler" in threads()
    del sampler
    # Whoever waits for a thread goes on before the kernel has taken it off its list.
    until(lambda: "system-sampler" not in threads())
