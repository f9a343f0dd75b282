"""What it costs to record every RPC call of a mount.

    python benches/rpc_cost.py [--operations 20000] [--rounds 15]

Random reads of 4 KiB with O_DIRECT (one READ each) through a mount on the embedded server's memory
store, all in this process, whose CPU is read before and after. Each round does the same reads with
three ways of recording, in random order: counters only, every call (and a table of them taken
twenty times a second, as the collector `rpc` does with `calls = true`), and counters with samples
(the collector's default). Shown: medians, and of the rounds' ratios to counters only. The aim is
that recording every call costs at most 2 % of an operation's CPU.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import statistics
import threading
import time
from pathlib import Path

from mounted_file import BLOCK_BYTES, FILE_BLOCKS, mounted_file
from nfslab._core import RpcRecorder, build_info

INTERVAL_S = 0.05
AIM = 1.02
COUNTERS, SAMPLES, EVERY_CALL = "counters only", "counters and samples", "every call"


def reads(path: Path, operations: int, seed: int) -> None:
    """Random blocks, past the page cache."""
    order = random.Random(seed)
    places = [order.randrange(FILE_BLOCKS) * BLOCK_BYTES for _ in range(operations)]
    room = [mmap.mmap(-1, BLOCK_BYTES)]  # O_DIRECT wants aligned memory
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    for place in places:
        os.preadv(descriptor, room, place)
    os.close(descriptor)


def round_of(way: str, recorder: RpcRecorder, path: Path, operations: int, seed: int) -> float:
    """CPU microseconds of an operation."""
    over = threading.Event()
    taken = [0]

    def take() -> None:
        while not over.wait(INTERVAL_S):
            recorder.samples()
            if way == EVERY_CALL:
                taken[0] += len(recorder.calls())

    taker = threading.Thread(target=take)
    if way != COUNTERS:
        recorder.start(every_call=way == EVERY_CALL)
        taker.start()
    before = time.process_time_ns()
    reads(path, operations, seed)
    used_ns = time.process_time_ns() - before
    if way != COUNTERS:
        over.set()
        taker.join()
        recorder.stop()
    if way == EVERY_CALL:
        taken[0] += len(recorder.calls())
        lost = recorder.lost()["calls"]
        if taken[0] < operations or lost:
            raise SystemExit(f"{taken[0]} of {operations} calls were recorded, {lost} lost")
    return used_ns / 1e3 / operations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=20_000, help="of a round and way")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if asked.small:
        asked.operations, asked.rounds = 500, 3
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        return
    found: dict[str, list[float]] = {COUNTERS: [], SAMPLES: [], EVERY_CALL: []}
    order = random.Random(1)
    with mounted_file() as (_, mount, path):
        recorder = mount.recorder()
        for seed in range(asked.rounds):
            for way in order.sample(list(found), len(found)):
                cost = round_of(way, recorder, path, asked.operations, seed)
                found[way].append(cost)
    print(
        f"{asked.operations} reads, {asked.rounds} rounds, core built {build_info()['profile']}\n"
    )
    print("| recorded | CPU us/op (least-most) | of counters only |\n|---|---:|---:|")
    for way, costs in found.items():
        ratio = statistics.median(a / b for a, b in zip(costs, found[COUNTERS], strict=True))
        middle = statistics.median(costs)
        print(f"| {way} | {middle:.1f} ({min(costs):.1f}-{max(costs):.1f}) | {ratio:.3f} |")
    ratio = statistics.median(
        a / b for a, b in zip(found[EVERY_CALL], found[COUNTERS], strict=True)
    )
    print(f"\nEvery call: {ratio:.3f}, aim at most {AIM}: {'kept' if ratio <= AIM else 'missed'}")


if __name__ == "__main__":
    main()
