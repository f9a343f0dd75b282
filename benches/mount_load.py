"""A load for `capture_cost.py`: READs of 4 KiB through our mount on our server, at a fixed rate.

    python benches/mount_load.py RATE SECONDS THREADS

Prints the server's port, waits for a line on standard input, reads, and prints as
crates/trace/examples/rpc_load.rs does: calls, seconds, CPU seconds of this process (mount, server,
load, and what the kernel does for them), and how many reads began more than a period late. Each
thread has one read outstanding; one that is late catches up. Needs root and /dev/fuse.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nfslab._core import Mount, Server

NS_PER_S = 1_000_000_000
BLOCK_BYTES = 4096
FILE_BLOCKS = 4096


@contextmanager
def mounted_file() -> Iterator[tuple[Server, Path]]:
    """16 MiB of random bytes on our mount of our server's memory store, both in this process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(json.dumps({"store": "memory", "memory_bytes": 1 << 30})) as server,
    ):
        ports = f"port={server.port},mountport={server.port}"
        mount = Mount("127.0.0.1:/export", folder, ports)
        try:
            path = Path(folder) / "file"
            path.write_bytes(os.urandom(BLOCK_BYTES * FILE_BLOCKS))
            yield server, path
        finally:
            mount.unmount("force")


def one_thread(path: Path, period_ns: int, reads: int, seed: int, late: list[int]) -> None:
    order = random.Random(seed)
    room = [mmap.mmap(-1, BLOCK_BYTES)]  # O_DIRECT wants aligned memory
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    began = time.monotonic_ns()
    for number in range(reads):
        due = began + number * period_ns
        ahead = due - time.monotonic_ns()
        if ahead > 0:
            time.sleep(ahead / NS_PER_S)
        elif -ahead > period_ns:
            late[0] += 1
        os.preadv(descriptor, room, order.randrange(FILE_BLOCKS) * BLOCK_BYTES)
    os.close(descriptor)


def main() -> None:
    rate, seconds, count = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    with mounted_file() as (server, path):
        print(server.port, flush=True)
        sys.stdin.readline()
        late = [[0] for _ in range(count)]
        reads = round(rate * seconds / count)
        arguments = (path, round(NS_PER_S * count / rate), reads)
        threads = [
            threading.Thread(target=one_thread, args=(*arguments, seed, late[seed]))
            for seed in range(count)
        ]
        began, cpu_ns = time.monotonic_ns(), time.process_time_ns()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cpu_ns, took_ns = time.process_time_ns() - cpu_ns, time.monotonic_ns() - began
    print(reads * count, took_ns / NS_PER_S, cpu_ns / NS_PER_S, sum(one[0] for one in late))


if __name__ == "__main__":
    main()
