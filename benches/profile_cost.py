"""What the collector `profile` costs the work it watches, as CPU time of the same work.

    python benches/profile_cost.py

A process does a fixed amount of work again and again, and perf's event is switched on for every
other time (as the collector does it: whole machine, commands by a FIFO). Compared is the CPU time
of the work itself (CLOCK_THREAD_CPUTIME_ID), in pairs, first one then the other way round, so that
a busy machine and a clock that drifts hit both. The kernel books the timer's interrupts and the
walk of the stack on the work, so they are in it. perf's own CPU time is beside it.

Deep stacks cost more, and so do calls into the kernel: the work here recurses 30 frames deep.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nfslab.evidence.profile import perf_tool
from nfslab.evidence.profile.perf_tool import CallGraph, Control, Wanted
from nfslab.machine.cpu_times import process_cpu_ns

DEPTH = 30
CASES: list[tuple[int, CallGraph]] = [(99, "fp"), (999, "fp"), (99, "dwarf")]


class Recording:
    """perf record, as `nfslab.machine.started.Process` where `Control` asks it."""

    def __init__(self, wanted: Wanted, folder: Path) -> None:
        self.control = Control(folder)
        command = perf_tool.record_command(wanted, folder / "perf.data", self.control)
        self._process = subprocess.Popen(
            command,
            env=os.environ | perf_tool.ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def switch(self, on: bool) -> None:
        assert self.control.ask("enable" if on else "disable", self, 30.0), "perf ended"  # type: ignore[arg-type]

    def end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        self.control.close()


def work(rounds: int) -> int:
    """Some, 30 calls deep."""

    def down(depth: int) -> int:
        return down(depth - 1) if depth else sum(sum(range(500)) for _ in range(rounds))

    return down(DEPTH)


def cpu_s(rounds: int) -> float:
    before = time.thread_time_ns()
    work(rounds)
    return (time.thread_time_ns() - before) / 1e9


def measure(frequency_hz: int, call_graph: CallGraph, pairs: int, rounds: int) -> list[str]:
    grant = perf_tool.granted()
    assert grant is not None, "looked at before"
    wanted = Wanted(grant.scope, grant.event, frequency_hz, call_graph, 4 << 30, pids=[os.getpid()])
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording(wanted, Path(folder))
        try:
            recording.switch(True)
            recording.switch(False)
            own_ns, on_s = process_cpu_ns(recording.pid) or 0, 0.0
            for pair in range(pairs):
                found = {}
                for on in (True, False) if pair % 2 else (False, True):
                    if on:
                        recording.switch(True)
                    begin = time.monotonic()
                    found[on] = cpu_s(rounds)
                    if on:
                        on_s += time.monotonic() - begin
                        recording.switch(False)
                ratios.append(found[True] / found[False])
            own_s = ((process_cpu_ns(recording.pid) or 0) - own_ns) / 1e9
            size = (Path(folder) / "perf.data").stat().st_size
        finally:
            recording.end()
    low, middle, high = statistics.quantiles(ratios, n=4)
    return [
        f"{frequency_hz} Hz, {call_graph}", f"{middle:.4f}", f"{low:.4f} to {high:.4f}",
        f"{100 * own_s / on_s:.2f}", f"{size / on_s / 1024:.0f}",
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--small", action="store_true", help="a few pairs: does it still run?")
    options = parser.parse_args()
    if not perf_tool.available().ok:
        print(f"skipped: {perf_tool.available().reason}")
        return 0
    pairs, rounds = (4, 500) if options.small else (options.pairs, 5_000)
    print(f"Linux {os.uname().release}, perf {'.'.join(map(str, perf_tool.version() or ()))}\n")
    print("| recorded | CPU time of the work, on / off | quartiles | perf, % of a core | KiB/s |")
    print("|---|---|---|---|---|")
    for frequency_hz, call_graph in CASES:
        print(f"| {' | '.join(measure(frequency_hz, call_graph, pairs, rounds))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
