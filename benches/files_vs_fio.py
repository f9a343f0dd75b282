"""The file workload beside fio's psync engine: throughput and CPU for the same accesses.

    python benches/files_vs_fio.py --directory /mnt/target --size 1G --repetitions 7

For each case both programs do the same number of operations of the same size on a file of
the same size in the same directory, through pread/pwrite, one thread. Repetitions are
interleaved in random order; the table shows medians and the median of the ratios within a
repetition (nfslab / fio) with its range. Aim: throughput at least 0.95, CPU at most 1.

CPU is user and system time of the thread that does the I/O: `cpu_ns` of ours; `usr_cpu` and
`sys_cpu` of fio, which has them in milliseconds. Writes end with fsync inside the time in
both. fio 3.x runs with its defaults but for what makes the accesses equal: no preallocation,
no advice to the kernel, no map of random blocks (repeats allowed, as ours), the cache dropped
before its time runs.
Contents: fio scrambles its one buffer for each write, nfslab stamps blocks of a pool that
neither compresses nor repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfslab._core import build_info, run_files
from nfslab.quantities import format_size, parse_size_bytes

SEED = 20011116


@dataclass(frozen=True)
class Case:
    """One access pattern in the words of both programs."""

    name: str
    phase: str
    fio_rw: str
    cached: bool = False
    sync: bool = False
    random: bool = False


CASES = (
    Case("write, then fsync", "block_write", "write"),
    Case("read, not cached", "block_read", "read"),
    Case("read, cached", "block_read", "read", cached=True),
    Case("random read, cached", "random_read", "randread", cached=True, random=True),
    Case("random read, not cached", "random_read", "randread", random=True),
    Case("random write, fdatasync each", "random_write", "randwrite", sync=True, random=True),
)


@dataclass(frozen=True)
class Setting:
    """What all cases share."""

    directory: Path
    size_bytes: int
    block_bytes: int
    operations: int
    """Of random reads of cached blocks; fewer of those that wait for the storage."""

    def count(self, case: Case) -> int:
        """Operations of a case."""
        if not case.random:
            return self.size_bytes // self.block_bytes
        if case.cached:
            return self.operations
        return max(1, self.operations // (20 if case.sync else 10))


@dataclass(frozen=True)
class Measured:
    """One run of one program."""

    rate_ops_per_s: float
    cpu_us_per_op: float
    median_us: float


def measure_nfslab(case: Case, setting: Setting, number: int) -> Measured:
    config = {
        "directory": str(setting.directory),
        "size_bytes": setting.size_bytes,
        "block_size_bytes": setting.block_bytes,
        "phases": [case.phase],
        "random_operations": setting.count(case),
        "sync_every": 1 if case.sync else 0,
        "sync_kind": "fdatasync",
        "drop_cache": not case.cached,
        "seed": SEED + number,
    }
    phase = json.loads(run_files(json.dumps(config)))["phases"][0]
    operations = phase["operations"]
    assert operations == setting.count(case), phase
    assert not any(phase["errors"].values()), phase["errors"]
    return Measured(
        rate_ops_per_s=operations / phase["wall_ns"] * 1e9,
        cpu_us_per_op=phase["cpu_ns"] / operations / 1e3,
        median_us=phase["latency"]["p50_ns"] / 1e3,
    )


def measure_fio(case: Case, setting: Setting, number: int) -> Measured:
    path = setting.directory / "fio.data"
    common = [
        "fio",
        "--name=case",
        "--ioengine=psync",
        "--thread",
        f"--filename={path}",
        f"--size={setting.size_bytes}",
        f"--bs={setting.block_bytes}",
        "--fallocate=none",
        # fio would double the kernel's read-ahead (POSIX_FADV_SEQUENTIAL), or end it.
        "--fadvise_hint=0",
        "--output-format=json",
    ]
    try:
        if case.phase != "block_write":
            # As nfslab fills its file: sequentially, synced, not timed.
            _fio([*common, "--rw=write", "--end_fsync=1"])
            if not case.cached:
                drop_cache(path)
        arguments = [*common, f"--rw={case.fio_rw}", "--invalidate=0"]
        if case.random:
            arguments += [
                "--norandommap",
                "--random_generator=tausworthe64",
                f"--randseed={SEED + number}",
                f"--number_ios={setting.count(case)}",
                # number_ios is bounded by one pass over the file unless the amount is, too.
                f"--io_size={setting.count(case) * setting.block_bytes}",
            ]
        if case.sync:
            arguments.append("--fdatasync=1")
        if case.phase in ("block_write", "random_write"):
            arguments.append("--end_fsync=1")
        job = _fio(arguments)
    finally:
        path.unlink(missing_ok=True)
    side = job["write" if case.fio_rw.endswith("write") else "read"]
    operations = side["total_ios"]
    assert operations == setting.count(case), (operations, setting.count(case))
    cpu_ms = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"]
    return Measured(
        # bw and iops leave the final fsync out in some versions: the job's time has it.
        rate_ops_per_s=operations / max(job["job_runtime"], 1) * 1e3,
        cpu_us_per_op=cpu_ms / operations * 1e3,
        median_us=side["clat_ns"].get("percentile", {}).get("50.000000", 0) / 1e3,
    )


def drop_cache(path: Path) -> None:
    """What fio's --invalidate does, but before its time runs: fio opens files within it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _fio(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"fio failed ({done.returncode}): {done.stderr.strip()}")
    job: dict[str, Any] = json.loads(done.stdout)["jobs"][0]
    return job


def run_case(case: Case, setting: Setting, repetitions: int) -> dict[str, list[Measured]]:
    order = random.Random(SEED)
    measured: dict[str, list[Measured]] = {"nfslab": [], "fio": []}
    for number in range(repetitions):
        programs = [("nfslab", measure_nfslab), ("fio", measure_fio)]
        order.shuffle(programs)
        for name, measure in programs:
            measured[name].append(measure(case, setting, number))
    return measured


def ratios(measured: dict[str, list[Measured]], field: str) -> list[float]:
    """nfslab / fio within each repetition; fio's zero (below its millisecond) counts as none."""
    pairs = zip(measured["nfslab"], measured["fio"], strict=True)
    values = [(getattr(ours, field), getattr(theirs, field)) for ours, theirs in pairs]
    return [ours / theirs for ours, theirs in values if theirs]


def table(setting: Setting, repetitions: int) -> Iterator[str]:
    yield (
        "| case | operations | nfslab op/s | fio op/s | throughput ratio | "
        "nfslab us CPU/op | fio us CPU/op | CPU ratio |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for case in CASES:
        measured = run_case(case, setting, repetitions)

        def median(name: str, field: str, of: dict[str, list[Measured]] = measured) -> float:
            return float(statistics.median(getattr(run, field) for run in of[name]))

        cells = [
            case.name,
            f"{setting.count(case):,}",
            f"{median('nfslab', 'rate_ops_per_s'):,.0f}",
            f"{median('fio', 'rate_ops_per_s'):,.0f}",
            _ratio(ratios(measured, "rate_ops_per_s")),
            f"{median('nfslab', 'cpu_us_per_op'):.2f}",
            f"{median('fio', 'cpu_us_per_op'):.2f}",
            _ratio(ratios(measured, "cpu_us_per_op")),
        ]
        yield f"| {' | '.join(cells)} |"


def _ratio(values: list[float]) -> str:
    if not values:
        return "too short to tell"
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def conditions(setting: Setting, repetitions: int) -> str:
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=False)
    build = build_info()
    source = subprocess.run(
        ["findmnt", "-n", "-o", "FSTYPE,OPTIONS", "-T", str(setting.directory)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return (
        f"nfslab {build['version']} ({build['profile']}, {build['rustc']}), "
        f"{version.stdout.strip()}, Linux {platform.release()}, {os.cpu_count()} x {cpu}; "
        f"{source or 'unknown file system'}; file {format_size(setting.size_bytes)}, blocks "
        f"{format_size(setting.block_bytes)}, {repetitions} interleaved repetitions, medians "
        f"(range of the ratios)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--size", type=parse_size_bytes, default=parse_size_bytes("512M"))
    parser.add_argument("--block", type=parse_size_bytes, default=parse_size_bytes("8k"))
    parser.add_argument("--operations", type=int, default=400_000)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="a few MiB once: does it still run?")
    options = parser.parse_args()
    if shutil.which("fio") is None:
        print("skipped: fio is not installed (Debian: apt-get install fio)")
        return
    if options.small:
        options.size, options.operations, options.repetitions = 4 << 20, 1000, 1
    with tempfile.TemporaryDirectory(prefix="nfslab-bench-", dir=options.directory) as directory:
        setting = Setting(Path(directory), options.size, options.block, options.operations)
        print(conditions(setting, options.repetitions), end="\n\n")
        for line in table(setting, options.repetitions):
            print(line, flush=True)


if __name__ == "__main__":
    main()
