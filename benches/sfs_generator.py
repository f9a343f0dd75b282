"""What the NFS load generator can do on one core, beside a bare epoll exchange.

    python benches/sfs_generator.py [--window-ms 1000]

Two Rust benchmarks do the work. crates/load/benches/generator.rs: one generator thread with 64
closed processes against the embedded server's null store in a thread of its own, every reply
checked; then the lateness of an open load of 50,000 operations a second. And
crates/client/benches/getattr.rs in the same run, for the floor: a bare exchange of RPC NULLs over
epoll. Medians of 7 rounds. Aims: 150,000 GETATTR and LOOKUP a second at 2 us of CPU, 80,000 READs
of 4 KiB at 3 us; lateness p99 within 100 us; recording every call within 5 % of CPU.

--recording ROUNDS: only what recording every call costs the generator's thread, as the ratio of CPU
for an operation within each round of four windows (crates/load/benches/generator.rs): many rounds
of short windows tell a few per cent apart.

--memory: the program of `nfslab sfs` (`nfslab.offered.measuring`) against `nfslab serve --null`:
its resident memory in the course of --operations operations (10 million), and with 1,000 to
1,000,000 files.

--fio PROGRAM: fio with its engine `nfs` (libnfs) in turns with that program, both against the same
`nfslab serve --null`: READs of 4 KiB, 64 at once, CPU of either generator. The engine knows no
GETATTR: it reads and writes. A fio with it: configure and make of fio's public source where
libnfs-dev is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfs_ends import CLIENT_ROW, SMALL_CALLS, benchmark
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.offered.plans import Mounted
from nfslab.servers import embedded_process as embedded_server
from nfslab.workloads.sfs import PROGRAM, SfsParameters

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEED_ROW = re.compile(r"(.+?)  +(\d+) ops/s \((\d+) to (\d+)\) +CPU ([\d.]+) us/op \((.+?)\)")
PACED_ROW = re.compile(r"paced (\d+): (.+?) +([\d.]+) \((.+?)\)")
RECORDING_ROW = re.compile(r"recording every call: ([\d.]+) \(([\d.]+) to ([\d.]+)\)")
RECORDED = "the same, every call recorded"
AIMS = {"GETATTR and LOOKUP": (150_000, 2.0), "READ of 4 KiB": (80_000, 3.0)}
LATE_P99_US = 100.0
RECORDING_SHARE = 0.05
SMALL_WINDOW_MS = 60
DEPTH = 64
FIO_ROUNDS = 7
FILE_BYTES = 64 << 20
FILES = (1_000, 100_000, 1_000_000)
SMALL_FILES = (100, 1_000)
OPERATIONS = 10_000_000
SMALL_S = 1.0
SAMPLE_S = 0.1
READS = {"mix": {"READ": 100}, "read_sizes_bytes": {"4096": 1}}
NAMES = {"mix": {"GETATTR": 50, "LOOKUP": 50}}


def verdict(kept: bool) -> str:
    return "kept" if kept else "missed"


def speed_rows(text: str, floor_us: float) -> list[str]:
    rows = []
    plain_us = 0.0
    for name, rate, least, most, cpu, spread in SPEED_ROW.findall(text):
        aim = "-"
        if name in AIMS:
            rate_aim, cpu_aim = AIMS[name]
            aim = verdict(int(rate) >= rate_aim and float(cpu) <= cpu_aim)
        if name == RECORDED:
            cost = float(cpu) / plain_us - 1
            aim = f"{verdict(cost <= RECORDING_SHARE)} ({cost:+.1%})"
        plain_us = plain_us or float(cpu)
        rows.append(
            f"| {name} | {int(rate):,} ({int(least):,} to {int(most):,}) | {float(cpu):.2f} "
            f"({spread}) | {float(cpu) / floor_us:.1f} | {aim} |"
        )
    return rows


def paced_rows(text: str) -> list[str]:
    rows = []
    for rate, name, value, spread in PACED_ROW.findall(text):
        aim = verdict(float(value) <= LATE_P99_US) if name == "late p99 us" else "-"
        rows.append(f"| {int(rate):,}/s open: {name} | {value} ({spread}) | - | - | {aim} |")
    return rows


def recording(text: str) -> int:
    """What records cost, beside the aim."""
    found = RECORDING_ROW.search(text)
    if found is None:
        raise SystemExit(f"the benchmark said:\n{text}")
    ratio, least, most = map(float, found.groups())
    kept = verdict(ratio <= 1 + RECORDING_SHARE)
    print(f"recording every call: {ratio:.3f} of the CPU without (quartiles {least:.3f} to "
          f"{most:.3f}); aim 1.05: {kept}")  # fmt: skip
    return 0


class Bench:
    """The program of `nfslab sfs` against one `nfslab serve --null`, each a process of its own."""

    def __init__(self, folder: Path, server: embedded_server.EmbeddedServer) -> None:
        self.folder = folder
        self.server = server

    def command(self, mix: dict[str, Any], time_s: float, files: int) -> list[str]:
        """64 processes without think time; `files` worked on, all of them."""
        parameters = SfsParameters(
            data="server", load=1000, mode="closed", processes=DEPTH, think="saturated",
            mix_table=mix | {"file_set": {"file_sizes_bytes": {"65536": 1}}}, files=files,
            warm_up=0.2, duration=time_s,
        )  # fmt: skip
        ports = f"port={self.server.port},mountport={self.server.mount_port}"
        point = parameters.point([Mounted(self.server.source, ports)], 0, calibration=True)
        path = self.folder / "asked.json"
        alone = {"generators": 1, "calls": None, "prepare_only": False}
        path.write_text(json.dumps({"plan": point.plan()} | alone))
        return [sys.executable, "-m", PROGRAM, str(path)]

    def point(self, mix: dict[str, Any], time_s: float, files: int = 1000) -> dict[str, Any]:
        return self.watched(mix, time_s, files)[0]

    def watched(
        self, mix: dict[str, Any], time_s: float, files: int
    ) -> tuple[dict[str, Any], list[int]]:
        """The point, and the process's resident memory all the while."""
        seen = []
        out = self.folder / "point.json"
        with out.open("w") as stream:
            process = subprocess.Popen(
                self.command(mix, time_s, files), stdout=stream, stderr=subprocess.DEVNULL
            )
            while process.poll() is None:
                seen.append(resident_bytes(process.pid))
                time.sleep(SAMPLE_S)
        point = json.loads(out.read_text())
        if point["unexpected"]:
            raise SystemExit(f"{point['reasons']}")
        return point, [value for value in seen if value]

    def fio(self, program: str, time_s: float) -> dict[str, Any]:
        """One job of fio; its own account."""
        ports = f"nfsport={self.server.port}&mountport={self.server.mount_port}"
        host, _, export = self.server.source.partition(":")
        argv = [
            program,
            "--name=reads",
            "--ioengine=nfs",
            f"--nfs_url=nfs://{host}{export}?{ports}",
        ]
        argv += ["--rw=randread", "--bs=4k", f"--iodepth={DEPTH}", f"--size={FILE_BYTES}"]
        argv += ["--filename=f00000000", "--norandommap", "--time_based", f"--runtime={time_s:g}"]
        argv += ["--output-format=json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(argv)}:\n{done.stdout}{done.stderr}")
        job: dict[str, Any] = json.loads(done.stdout)["jobs"][0]
        # What is under way when its time ends, it lets fail.
        failed = done.stderr.count("Failed NFS operation")
        read = job["read"]["io_bytes"] // 4096
        if failed > DEPTH or read + failed < job["read"]["total_ios"] or not read:
            raise SystemExit(f"fio did not read what it was to: {done.stderr}")
        return job


def resident_bytes(pid: int) -> int:
    """VmRSS of a process; 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_us(point: dict[str, Any]) -> float:
    """Of the generator's threads, for each operation of the window."""
    return float(sum(thread["cpu_ns"] for thread in point["threads"]) / point["answered"] / 1e3)


def shown(values: Sequence[float], form: str) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def beside_fio(bench: Bench, program: str, *, small: bool) -> int:
    """READs of 4 KiB: fio and we take turns."""
    time_s = 1 if small else 3
    ours: list[tuple[float, float]] = []
    fios: list[tuple[float, float]] = []
    names: list[float] = []
    for number in range(3 if small else FIO_ROUNDS):
        for way in ("ours", "fio") if number % 2 else ("fio", "ours"):
            if way == "ours":
                point = bench.point(READS, time_s)
                ours.append((point["achieved_ops_per_s"], cpu_us(point)))
                names.append(cpu_us(bench.point(NAMES, time_s)))
                continue
            job = bench.fio(program, time_s)
            busy_us = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] * 1e3
            reads = job["read"]["total_ios"]
            fios.append((reads / job["job_runtime"] * 1e3, busy_us / reads))
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    build = point["build"]["profile"]
    print(f"{version.stdout.strip()} with libnfs beside a {build} build of nfslab, in turns;")
    print(f"load average {os.getloadavg()[0]:.1f}\n")
    print(f"| READ of 4 KiB, {DEPTH} at once | ops/s | CPU us/op |")
    print("|---|---:|---:|")
    for name, taken in (("fio, engine nfs", fios), ("nfslab sfs", ours)):
        rates, cpus = zip(*taken, strict=True)
        print(f"| {name} | {shown(rates, ',.0f')} | {shown(cpus, '.2f')} |")
    print(f"| nfslab sfs, GETATTR and LOOKUP (fio has none) | - | {shown(names, '.2f')} |")
    ratio = statistics.median(cpu for _, cpu in fios) / statistics.median(cpu for _, cpu in ours)
    print(f"\nfio takes {ratio:.1f} times our CPU for a READ")
    return 0


def memory(bench: Bench, operations: int, *, small: bool) -> int:
    """Resident memory in the course of a run, and by files."""
    # A machine that stands still for the look at the rate has none: not asked with --small.
    time_s = SMALL_S if small else operations / bench.point(NAMES, 0.2)["achieved_ops_per_s"]
    point, seen = bench.watched(NAMES, time_s, 1000)
    calls = sum(row["calls"] for row in point["operations"])
    # The load's own part of the process's life: from its first tenth on.
    print(f"{calls:,} operations; resident at parts of the run:\n")
    print("| part | MiB |\n|---|---:|")
    for part in (0.2, 0.4, 0.6, 0.8, 0.95):
        print(f"| {part:.0%} | {seen[int(part * (len(seen) - 1))] / 2**20:.2f} |")
    print("\n| files worked on | MiB at most | bytes a file more |\n|---|---:|---:|")
    before: tuple[int, int] | None = None
    for files in SMALL_FILES if small else FILES:
        most = max(bench.watched(NAMES, 0.5, files)[1])
        more = "-" if before is None else f"{(most - before[1]) / (files - before[0]):.0f}"
        print(f"| {files:,} | {most / 2**20:.1f} | {more} |")
        before = (files, most)
    return 0


def with_server(options: argparse.Namespace) -> int:
    """The parts for which client and server are processes of their own."""
    with tempfile.TemporaryDirectory() as name, Resources("bench") as resources:
        folder = Path(name)
        arguments = ["--null", "--size", str(FILE_BYTES)]
        server = embedded_server.start(arguments, folder, resources, host=LocalHost(), link=Link())
        try:
            bench = Bench(folder, server)
            if options.memory:
                return memory(bench, options.operations, small=options.small)
            return beside_fio(bench, options.fio, small=options.small)
        finally:
            server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--window-ms", type=int, default=1000, help="of one measurement")
    parser.add_argument("--profile", default="release", help="Cargo's: release, quick, dev")
    parser.add_argument("--small", action="store_true", help="a moment: does it still run?")
    parser.add_argument(
        "--recording", type=int, metavar="ROUNDS", help="what records cost, instead"
    )
    parser.add_argument("--memory", action="store_true", help="resident memory instead")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help="with --memory")
    parser.add_argument("--fio", metavar="PROGRAM", help="a fio with engine nfs, instead")
    options = parser.parse_args()
    if options.memory or options.fio:
        return with_server(options)
    window_ms = SMALL_WINDOW_MS if options.small else options.window_ms
    if options.recording:
        rounds = f"recording={options.recording}"
        return recording(benchmark("generator", options.profile, window_ms, rounds))
    client = benchmark("getattr", options.profile, *([SMALL_CALLS] if options.small else []))
    bare = [row for row in CLIENT_ROW.findall(client) if row[1].startswith("bare")]
    floor_us = next(float(row[2]) for row in bare if row[0] == "64")
    text = benchmark("generator", options.profile, window_ms)
    print(f"Linux {platform.release()}, profile {options.profile}, windows of {window_ms} ms")
    print(f"bare exchange at depth 64: {floor_us:.2f} us/op\n")
    print("| load | ops/s | CPU us/op | times bare | aim |")
    print("|---|---:|---:|---:|---|")
    rows = speed_rows(text, floor_us) + paced_rows(text)
    print("\n".join(rows))
    return 0 if len(rows) == 4 + 4 else 1


if __name__ == "__main__":
    raise SystemExit(main())
