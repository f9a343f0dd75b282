"""What the collector `capture` costs the load it watches, and what the kernel drops meanwhile.

    python benches/capture_cost.py --seconds 8 --repetitions 9

A client and a server exchange small NFSv3 GETATTRs over loopback TCP at a fixed rate, each call
and each reply in a segment of its own. Runs with and without the collector alternate in random
order within blocks; compared is the CPU time of the load's two processes per call (the
kernel's copying for the capture is in it, since that happens in the sender's time). CPU of the
tool and the decoder is shown beside. The aim is less than 3 % at 20,000 calls a second.

The load does nothing but send and receive, so that its own CPU per call is small and the
collector's share of it large: a real file server's call costs several times as much.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WINDOW = 8
"""Calls outstanding: sent one by one, then their replies are awaited."""
SETTLE_S = 0.5
LAST_FRAGMENT = 0x8000_0000
# RFC 5531: xid, CALL, RPC 2, program, version, procedure (NFSv3 GETATTR, RFC 1813); AUTH_SYS of
# 32 bytes; no verifier; then the file handle.
CALL = (
    struct.pack(">6I", 0, 0, 2, 100003, 3, 1)
    + struct.pack(">II", 1, 28)
    + struct.pack(">II8s3I", 0, 8, b"loopback", 0, 0, 0)
    + struct.pack(">II", 0, 0)
    + struct.pack(">I32s", 32, b"file-handle-of-the-one-file-here")
)
# xid, REPLY, accepted, no verifier, SUCCESS; NFS3_OK and the attributes (fattr3, 84 bytes).
REPLY = struct.pack(">7I", 0, 1, 0, 0, 0, 0, 0) + struct.pack(
    ">5I2Q2I2Q6I", 1, 0o644, 1, 0, 0, 4096, 4096, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0
)


def record(message: bytes) -> bytearray:
    return bytearray(struct.pack(">I", LAST_FRAGMENT | len(message)) + message)


def serve() -> None:
    """Answer every call on one connection until it closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reply, size = record(REPLY), len(record(CALL))
    waiting = bytearray()
    while data := connection.recv(65536):
        waiting += data
        whole = len(waiting) // size
        for number in range(whole):
            at = number * size
            reply[4:8] = waiting[at + 4 : at + 8]
            connection.sendall(reply)
        del waiting[: whole * size]
    usage()


def call(port: int, rate: float, seconds: float) -> None:
    """Send calls at the rate; print how many were sent, and in what time."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message, size = record(CALL), len(record(REPLY))
    step_s, calls = WINDOW / rate, 0
    began = due = time.monotonic()
    while due < began + seconds:
        for _ in range(WINDOW):
            calls += 1
            struct.pack_into(">I", message, 4, calls & 0xFFFF_FFFF)
            connection.sendall(message)
        left = size * WINDOW
        while left:
            left -= len(connection.recv(left))
        due += step_s
        if (pause := due - time.monotonic()) > 0:
            time.sleep(pause)
    print(calls, time.monotonic() - began, end=" ")
    connection.close()
    usage()


def usage() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, flush=True)


@dataclass
class Run:
    """One run of the load."""

    calls: int
    seconds: float
    cpu_s: float
    summary: dict[str, Any]
    tool_cpu_s: float = 0.0

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.calls * 1e6


def load(rate: float, seconds: float, collector: Any) -> Run:
    here = [sys.executable, __file__]
    server = subprocess.Popen([*here, "--serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    with collector(port) as evidence:
        arguments = ["--call", str(port), "--rate", str(rate), "--seconds", str(seconds)]
        said = subprocess.run([*here, *arguments], capture_output=True, text=True, check=True)
        calls, took, client_s = said.stdout.split()
        server_s = server.communicate()[0]
    seen = evidence[0] if evidence else None
    return Run(
        int(calls),
        float(took),
        float(client_s) + float(server_s),
        seen.summary if seen else {},
        (seen.cpu_s or 0.0) if seen else 0.0,
    )


@contextmanager
def captured(port: int) -> Any:
    """The collector, as a run starts and stops it."""
    from nfslab.collectors.capture import CaptureCollector, CaptureCollectorParameters
    from nfslab.machine.host import local_host
    from nfslab.machine.resources import Resources
    from nfslab.workloads.base import RunContext

    with tempfile.TemporaryDirectory(prefix="nfslab-capture-cost-") as name:
        folder = Path(name)
        for part in ("logs", "evidence", "state"):
            (folder / part).mkdir()
        host, resources = local_host(), Resources("bench", state=folder / "state")
        context = RunContext(
            folder, folder, {}, host, host, resources, 0, lambda _: nullcontext(), lambda: 60.0
        )
        parameters = CaptureCollectorParameters(interface="lo", filter=f"tcp port {port}")
        collector = CaptureCollector(parameters)
        seen: list[Any] = []
        collector.start(context)
        try:
            yield seen
        finally:
            seen.append(collector.stop())
            resources.close()


@contextmanager
def alone(_port: int) -> Any:
    yield []


def measure(rate: float, seconds: float, repetitions: int, seed: int) -> dict[str, list[Run]]:
    """Both kinds of run, in random order within each block."""
    order = random.Random(seed)
    kinds = {"alone": alone, "captured": captured}
    found: dict[str, list[Run]] = {name: [] for name in kinds}
    for _ in range(repetitions):
        for name in order.sample(list(kinds), k=len(kinds)):
            found[name].append(load(rate, seconds, kinds[name]))
            time.sleep(SETTLE_S)
    return found


def show(found: dict[str, list[Run]]) -> None:
    print("| load | runs | calls/s | CPU us/call, median (quartiles) | tool and decoder, us/call "
          "| calls decoded | dropped by the kernel |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, runs in found.items():
        values = [run.cpu_us for run in runs]
        low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
        rate = statistics.median(run.calls / run.seconds for run in runs)
        calls = sum(run.calls for run in runs)
        decoded = sum(run.summary.get("calls", 0) for run in runs)
        dropped = sum(run.summary.get("kernel_dropped_packets") or 0 for run in runs)
        beside = statistics.median(run.tool_cpu_s / run.calls * 1e6 for run in runs)
        watched = name == "captured"
        print(
            f"| {name} | {len(runs)} | {rate:,.0f} | {middle:.2f} ({low:.2f}-{high:.2f}) "
            f"| {f'{beside:.2f}' if watched else '-'} "
            f"| {f'{decoded:,} of {calls:,}' if watched else '-'} "
            f"| {f'{dropped:,}' if watched else '-'} |"
        )


def ratio(found: dict[str, list[Run]]) -> None:
    from nfslab.statistics.comparison import compare_blocked

    blocks = list(range(len(found["alone"])))
    sides = [[run.cpu_us for run in found[name]] for name in ("alone", "captured")]
    result = compare_blocked(blocks, sides[0], blocks, sides[1], better="lower")
    interval = result.interval
    told = f" ({interval.low:.3f} to {interval.high:.3f})" if interval else ""
    print(f"\nCPU per call, captured / alone: {result.ratio:.3f}{told}; {result.verdict}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, default=20_000, help="calls a second")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="half a second: does it still run?")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--call", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    if options.call:
        call(options.call, options.rate, options.seconds)
        return 0
    from nfslab._core import build_info
    from nfslab.captures.tool import available

    answer = available("auto")
    if not answer.ok:
        print(f"skipped: {answer.reason} ({answer.fix})")
        return 0
    if options.small:
        options.seconds, options.repetitions, options.rate = 0.5, 2, 2000.0
    print(
        f"{platform.node() or 'machine'}: Linux {platform.release()}, {os.cpu_count()} CPUs, "
        f"core {build_info()['profile']} build, {options.rate:,.0f} calls a second asked for\n"
    )
    found = measure(options.rate, options.seconds, options.repetitions, options.seed)
    show(found)
    ratio(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
