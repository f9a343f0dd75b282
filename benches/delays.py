"""How exact planted delays are, and what they cost calls that are not delayed.

    python benches/delays.py [--operations 2000] [--rounds 15]

The mount: random reads of 4 KiB with O_DIRECT (one READ each) on the embedded server's memory
store, all in this process. With `call_delay=READ:D` each record of a call has its error: the
instant at which it was sent, less the one at which it was made, less D. Then CPU of a read, in
turns through one mount without the option and one whose option delays COMMITs alone. The library:
a program that syncs a file in memory with and without a delay of its syncs, in turns; the error
is the difference of a sync's medians, less D.
Aim: within 20 us on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from mounted_file import mounted_file
from nfslab._core import build_info, shim_path
from rpc_cost import reads

DELAYS_US: Final = (200, 1000, 5000)
AIM_US: Final = 20.0
SYNCS: Final = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for _ in range(int(sys.argv[2])):
    begun = time.monotonic_ns()
    os.fsync(fd)
    print(time.monotonic_ns() - begun)
"""


def errors_of_mount_us(delay_us: int, operations: int) -> np.ndarray:
    """Of each READ."""
    with mounted_file(f"call_delay=READ:{delay_us}us") as (_, mount, path):
        recorder = mount.recorder()
        recorder.start(every_call=True)
        reads(path, operations, seed=1)
        recorder.stop()
        calls = pa.RecordBatchReader.from_stream(recorder.calls()).read_all()
    own = np.array(calls["operation"].to_pylist()) == "READ"
    waited = (calls["sent_first_ns"].to_numpy() - calls["enqueued_ns"].to_numpy()).astype(float)
    errors: np.ndarray = waited[own] / 1e3 - delay_us
    return errors


def cpu_us(path: Path, operations: int, seed: int) -> float:
    """Of a read, client, mount and server together."""
    before = time.process_time_ns()
    reads(path, operations, seed)
    return (time.process_time_ns() - before) / 1e3 / operations


def sync_us(library: str, folder: str, operations: int, delay_us: int) -> float:
    """Median of a sync through the library."""
    environment = {"LD_PRELOAD": library}
    if delay_us:
        environment["NFSLAB_SHIM_DELAY"] = f"sync:{delay_us * 1000}:{folder}/"
    command = [sys.executable, "-c", SYNCS, f"{folder}/file", str(operations)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return statistics.median(map(int, done.stdout.split())) / 1e3


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if asked.small:
        asked.operations, asked.rounds = 50, 3
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        return
    print(f"core built {build_info()['profile']}; errors in us: median, quartiles, 99 %\n")
    print("| delay | error of the mount | error of the library |\n|---|---:|---:|")
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="nfslab-delays-", dir=shared) as folder:
        library = shim_path(folder)
        for delay_us in DELAYS_US:
            late = np.percentile(errors_of_mount_us(delay_us, asked.operations), [50, 25, 75, 99])
            own = statistics.median(
                sync_us(library, folder, asked.operations // 10, delay_us)
                - sync_us(library, folder, asked.operations // 10, 0)
                - delay_us
                for _ in range(min(asked.rounds, 5))
            )
            shown = f"{late[0]:.1f} ({late[1]:.1f} to {late[2]:.1f}; {late[3]:.0f})"
            print(f"| {delay_us} us | {shown} | {own:.1f} |")
    ratios, costs = [], []
    order = random.Random(1)
    with mounted_file() as (_, _, plain), mounted_file("call_delay=COMMIT:1ms") as (_, _, other):
        for seed in range(asked.rounds):
            found = {}
            for path in order.sample([plain, other], 2):
                found[path] = cpu_us(path, asked.operations, seed)
            ratios.append(found[other] / found[plain])
            costs.append(found[plain])
    ends = np.percentile(ratios, [25, 50, 75])
    print(
        f"\nCPU of a call that is not delayed: {statistics.median(costs):.1f} us; with the option "
        f"{ends[1]:.3f} of it (quartiles {ends[0]:.3f} to {ends[2]:.3f}). Aim for errors: "
        f"{AIM_US:.0f} us."
    )


if __name__ == "__main__":
    main()
