"""What the collector `capture` costs the load it watches, and what the kernel drops meanwhile.

    python benches/capture_cost.py --seconds 8 --repetitions 11

The load (crates/trace/examples/rpc_load.rs) exchanges small NFSv3 GETATTRs over loopback at a
fixed rate, each call and each reply in a packet of its own, both ends in one process. Runs with
and without the collector alternate in random order within blocks. Compared is the CPU time of
the load's process per call: on loopback the kernel does all of the network's work in the time
of the program that sends, the copying for the capture included (where the kernel accounts for
interrupts apart, CONFIG_IRQ_TIME_ACCOUNTING, a part would be missing; it is told). CPU time of
the tool and the decoder is shown beside. The aim is less than 3 % at 20,000 calls a second.

Other programs on the machine disturb (caches, context switches): their share of the CPUs is
measured in every run, and a block with a run in which it was above --others is made again.

On a machine that does not get quiet, perf tells what is left of it (--perf): the share of samples
of the load's CPU time that lie within the kernel's copying for the capture. It knows nothing of
caches and context switches, but other programs do not disturb it.

Three shapes of load. `apart` (4 clients with one call outstanding each: every call is paid with
four context switches, as a database's is) and `together` (one client sends 8 calls at once: the
least CPU a call can cost, so that the collector's share is the largest) do nothing but send and
receive. `mount` is the whole of a client and a server: 4 threads read 4 KiB each time past the
page cache, through our mount on our server (benches/mount_load.py; root and /dev/fuse).
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SETTLE_S = 0.5
SAMPLES_PER_S = 5000
COPYING = ("tpacket_rcv", "dev_queue_xmit_nit")
"""Functions of the kernel that hand packets to captures."""
ATTEMPTS = 20
"""So many times the repetitions' number of disturbed blocks is too much."""
SHAPES = {"apart": (4, 1), "together": (1, 8), "mount": (4, 1)}
"""Clients, and the calls that each has outstanding."""


@dataclass(frozen=True)
class Load:
    """The load, as asked for."""

    program: Path
    transport: str
    shape: str
    rate: float
    seconds: float

    def command(self) -> list[str]:
        clients, outstanding = SHAPES[self.shape]
        if self.shape == "mount":
            asked = (ROOT / "benches" / "mount_load.py", self.rate, self.seconds, clients)
            return [sys.executable, *map(str, asked)]
        plan = (self.transport, self.rate, self.seconds, clients, outstanding)
        return [str(self.program), *map(str, plan)]


@dataclass(frozen=True)
class Machine:
    """All CPUs' time so far, in ticks."""

    busy: int
    all: int

    @classmethod
    def now(cls) -> Machine:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        return cls(sum(ticks) - ticks[3] - ticks[4], sum(ticks))

    def since(self, earlier: Machine) -> float:
        """Share of the time that was not idle."""
        return (self.busy - earlier.busy) / max(1, self.all - earlier.all)


@dataclass
class Run:
    """One run of the load."""

    calls: int
    seconds: float
    cpu_s: float
    late: int
    """Calls sent more than a period late: the machine was too busy."""
    others: float
    """Share of the machine's CPUs that other programs took."""
    summary: dict[str, Any]
    tool_cpu_s: float = 0.0

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.calls * 1e6


def carried_out(load: Load, collector: Any, watcher: Any = nullcontext) -> Run:
    with subprocess.Popen(
        load.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with collector(load.transport, port) as evidence:
            began = Machine.now()
            with watcher(process.pid):
                process.stdin.write("\n")
                process.stdin.flush()
                calls, took, cpu_s, late = process.stdout.readline().split()
            busy = Machine.now().since(began)
    seen = evidence[0] if evidence else None
    tool_cpu_s = (seen.cpu_s or 0.0) if seen else 0.0
    return Run(
        int(calls),
        float(took),
        float(cpu_s),
        int(late),
        max(0.0, busy - (float(cpu_s) + tool_cpu_s) / float(took) / (os.cpu_count() or 1)),
        seen.summary if seen else {},
        tool_cpu_s,
    )


@contextmanager
def captured(transport: str, port: int) -> Any:
    """The collector, as a run starts and stops it."""
    from nfslab.context import TimedPart
    from nfslab.evidence.capture.collector import CaptureCollector, CaptureCollectorParameters
    from nfslab.hosts.local import LocalHost
    from nfslab.machine.resources import Resources
    from nfslab.workloads.base import RunContext

    with tempfile.TemporaryDirectory(prefix="nfslab-capture-cost-") as name:
        folder = Path(name)
        for part in ("logs", "evidence", "state"):
            (folder / part).mkdir()
        host, resources = LocalHost(), Resources("bench", state=folder / "state")
        context = RunContext(
            folder=folder,
            cache=folder,
            places={},
            server_host=host,
            client_host=host,
            resources=resources,
            seed=0,
            phase=lambda _: nullcontext(),
            say=lambda _: None,
            remaining_s=lambda: 60.0,
            timed=TimedPart(host.monotonic_ns),
        )
        parameters = CaptureCollectorParameters(interface="lo", filter=f"{transport} port {port}")
        collector = CaptureCollector(parameters)
        seen: list[Any] = []
        collector.start(context)
        try:
            yield seen
        finally:
            seen.append(collector.stop())
            resources.close()


@contextmanager
def alone(_transport: str, _port: int) -> Any:
    yield []


def measure(
    load: Load, repetitions: int, seed: int, others: float
) -> tuple[dict[str, list[Run]], int]:
    """Both kinds of run, in random order within each block; and how many blocks were disturbed."""
    order = random.Random(seed)
    kinds = {"alone": alone, "captured": captured}
    found: dict[str, list[Run]] = {name: [] for name in kinds}
    disturbed = 0
    while len(found["alone"]) < repetitions:
        block = {}
        for name in order.sample(list(kinds), k=len(kinds)):
            block[name] = carried_out(load, kinds[name])
            time.sleep(SETTLE_S)
        if max(run.others for run in block.values()) > others:
            disturbed += 1
            if disturbed > ATTEMPTS * repetitions:
                raise SystemExit(f"{disturbed} blocks were disturbed by other programs: give up")
            continue
        for name, run in block.items():
            found[name].append(run)
    return found, disturbed


HEADER = """\
| load | runs | calls/s | late | CPU us/call, median (quartiles) | tool and decoder, us/call \
| calls decoded | dropped by the kernel | captured / alone |
|---|---:|---:|---:|---:|---:|---:|---:|---:|"""


def show(load: Load, found: dict[str, list[Run]]) -> None:
    for name, runs in found.items():
        values = [run.cpu_us for run in runs]
        low, middle, high = statistics.quantiles(values, n=4)
        rate = statistics.median(run.calls / run.seconds for run in runs)
        calls, late = sum(run.calls for run in runs), sum(run.late for run in runs)
        decoded = sum(run.summary.get("calls", 0) for run in runs)
        dropped = sum(run.summary.get("kernel_dropped_packets") or 0 for run in runs)
        beside = statistics.median(run.tool_cpu_s / run.calls * 1e6 for run in runs)
        watched = name == "captured"
        print(
            f"| {load.transport} {load.shape}, {name} | {len(runs)} | {rate:,.0f} "
            f"| {late / calls:.1%} | {middle:.2f} ({low:.2f}-{high:.2f}) "
            f"| {f'{beside:.2f}' if watched else '-'} "
            f"| {f'{decoded:,} of {calls:,}' if watched else '-'} "
            f"| {f'{dropped:,}' if watched else '-'} | {ratio(found) if watched else '-'} |"
        )


def ratio(found: dict[str, list[Run]]) -> str:
    from nfslab.statistics.comparison import compare_many
    from nfslab.statistics.observations import Observations

    blocks = list(range(len(found["alone"])))
    base, new = (
        Observations.of([run.cpu_us for run in found[name]], blocks=blocks)
        for name in ("alone", "captured")
    )
    (result,) = compare_many(base, new, n_groups=1, better="lower")
    interval = result.interval
    told = f" ({interval.low:.3f} to {interval.high:.3f})" if interval else ""
    return f"{result.ratio:.3f}{told}"


def copying_share(load: Load) -> float:
    """Of the load's CPU samples: those within the capture's part of the kernel."""
    with tempfile.TemporaryDirectory(prefix="nfslab-capture-cost-") as name:
        data = Path(name) / "perf.data"

        @contextmanager
        def recorded(pid: int) -> Any:
            command = ["perf", "record", "-e", "cpu-clock", "-F", str(SAMPLES_PER_S), "-g"]
            with subprocess.Popen(
                [*command, "-o", str(data), "-p", str(pid)], stderr=subprocess.DEVNULL
            ):
                time.sleep(SETTLE_S)
                yield

        carried_out(load, captured, recorded)
        stacks = subprocess.run(
            ["perf", "script", "-i", str(data), "-F", "comm,ip,sym"],
            capture_output=True, text=True, check=True,
        ).stdout.split("\n\n")  # fmt: skip
    samples = [stack for stack in stacks if stack.strip()]
    return sum(any(name in stack for name in COPYING) for stack in samples) / len(samples)


def program(profile: str) -> Path:
    """Builds the load's program."""
    command = ["cargo", "build", "--quiet", "--profile", profile]
    command += ["--workspace", "--example", "rpc_load"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / ("debug" if profile == "dev" else profile) / "examples" / "rpc_load"


def can_mount() -> bool:
    return os.geteuid() == 0 and os.path.exists("/dev/fuse")


def accounted_apart() -> bool:
    """Does the kernel take interrupts out of the programs' CPU time?"""
    try:
        with gzip.open("/proc/config.gz", "rt") as file:
            return "CONFIG_IRQ_TIME_ACCOUNTING=y\n" in file.read()
    except OSError:
        return False


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, default=20_000, help="calls a second")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run")
    parser.add_argument("--repetitions", type=int, default=11)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transport", choices=("tcp", "udp"), action="append")
    parser.add_argument("--shape", choices=tuple(SHAPES), action="append")
    parser.add_argument(
        "--others", type=float, default=0.05, help="share of the CPUs that others may take"
    )
    parser.add_argument("--profile", default="release", help="Cargo's: release, quick, dev")
    parser.add_argument("--perf", action="store_true", help="sample the load's CPU, too")
    parser.add_argument("--small", action="store_true", help="a moment: does it still run?")
    return parser.parse_args()


def main() -> int:
    options = asked()
    from nfslab._core import build_info
    from nfslab.captures.tool import available

    answer = available("auto")
    if not answer.ok:
        print(f"skipped: {answer.reason} ({answer.fix})")
        return 0
    if options.small:
        options.seconds, options.repetitions, options.rate = 0.2, 2, 2000.0
        options.others, options.shape = 1.0, options.shape or ["together", "mount"]
    apart = "; interrupts are accounted apart" if accounted_apart() else ""
    print(
        f"{platform.node() or 'machine'}: Linux {platform.release()}, {os.cpu_count()} CPUs, "
        f"core {build_info()['profile']} build, {options.rate:,.0f} calls a second asked for{apart}"
        f"\n\n{HEADER}"
    )
    built, disturbed = program(options.profile), 0
    shares: list[float] = []
    told: list[str] = []
    notes: list[str] = []
    for transport in options.transport or ("tcp",):
        for shape in options.shape or SHAPES:
            if shape == "mount" and (transport != "tcp" or not can_mount()):
                notes.append(
                    f"{transport} mount: skipped (over TCP only; needs root and /dev/fuse)"
                )
                continue
            load = Load(built, transport, shape, options.rate, options.seconds)
            found, more = measure(load, options.repetitions, options.seed, options.others)
            show(load, found)
            disturbed += more
            shares += [run.others for runs in found.values() for run in runs]
            if options.perf:
                told.append(f"{load.transport} {shape} {copying_share(load):.1%}")
    if notes:
        print("\n" + "\n".join(notes))
    if told:
        print(f"\nCPU samples of the load within the kernel's copying (perf): {', '.join(told)}")
    print(
        f"\nOther programs took {statistics.median(shares):.0%} of the CPUs in the middle; "
        f"{disturbed} blocks with more than {options.others:.0%} were made again"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
