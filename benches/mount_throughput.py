"""Sequential write and read through the mount, beside a local folder and a FUSE passthrough.

    python benches/mount_throughput.py [--size 1G] [--repetitions 5] [--small]

The server is the embedded one with its memory store, in this process as the mount is: CPUs are
shared, as they are on one machine. A file is written, removed, written again and read: the first
time the server's memory is new to it, and half of the time goes to the kernel's clearing of pages;
what the mount can do is shown by the second time. Writes are of 1 MiB and end with fsync inside the
time; reads begin without the file's pages in the cache. Cases are interleaved; medians are shown.

What FUSE itself costs on this kernel is shown by file systems that hand a folder in memory
(/dev/shm) through: bindfs (apt install bindfs), in requests of 128 KiB when it writes, and the
example passthrough_ll of libfuse, in requests of 1 MiB, with the kernel's write-back cache and
without. Debian does not package that: build it from libfuse's sources of the version installed,

    gcc -O2 example/passthrough_ll.c $(pkg-config fuse3 --cflags --libs) -o passthrough_ll

and name it with --passthrough-ll. Aim: 1 GB/s, or 0.7 of the passthrough if that is less.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from nfslab._core import Mount, Server, build_info
from nfslab.quantities import format_size, parse_size_bytes

BLOCK_BYTES = 1 << 20
LOCAL = "local folder"
BINDFS = "FUSE passthrough (bindfs)"
FIRST_WRITE, WRITE, READ = WAYS = ("first write", "write", "read")
AIM_BYTES_PER_S = 1e9
AIM_SHARE = 0.7
"""Of the passthrough, where that is slower than the aim asks."""


def write(path: Path, size_bytes: int) -> float:
    """Seconds."""
    block = os.urandom(BLOCK_BYTES)
    begun = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for _ in range(size_bytes // BLOCK_BYTES):
        os.write(descriptor, block)
    os.fsync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - begun


def read(path: Path) -> float:
    """Seconds; the pages are dropped before."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    begun = time.perf_counter()
    while os.read(descriptor, BLOCK_BYTES):
        pass
    os.close(descriptor)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="1G")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="of the local file")
    parser.add_argument("--memory", default="/dev/shm", help="of the passthrough's file")
    parser.add_argument("--passthrough-ll", metavar="PROGRAM", help="libfuse's example, built")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        return
    size_bytes = parse_size_bytes("64M" if asked.small else asked.size)
    repetitions = 2 if asked.small else asked.repetitions
    rates: dict[tuple[str, str], list[float]] = {}
    cases = ("", "rsize=64k,wsize=64k", "rsize=4k,wsize=4k", "nconnect=4")
    through = passthroughs(asked.passthrough_ll)
    places = [LOCAL, *through, *cases]
    order = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(dir=asked.directory) as folder:
        local, place = Path(folder) / "local", Path(folder) / "mnt"
        local.mkdir()
        place.mkdir()
        for _ in range(repetitions):
            for options in order.sample(places, len(places)):
                if options == LOCAL:
                    measure(rates, LOCAL, local, size_bytes)
                    continue
                if options in through:
                    with passthrough(through[options], place, asked.memory):
                        measure(rates, options, place, size_bytes)
                    continue
                with Server(json.dumps({"store": "memory", "memory_bytes": 2 << 30})) as server:
                    ports = f"port={server.port},mountport={server.port}"
                    mount = Mount("127.0.0.1:/export", place, f"{ports},{options}")
                    try:
                        measure(rates, f"mount {options}".strip(), place, size_bytes)
                    finally:
                        mount.unmount("force")
    show(rates, size_bytes, repetitions, through)


def passthroughs(passthrough_ll: str | None) -> dict[str, list[str]]:
    """What hands a folder through: name -> command; SOURCE and PLACE stand for the folders."""
    found = {}
    if shutil.which("bindfs") is None:
        print("bindfs is not installed: left out\n")
    else:
        found[BINDFS] = ["bindfs", "SOURCE", "PLACE"]
    if passthrough_ll is not None:
        for cache, option in (("", "no_writeback"), (", write-back", "writeback")):
            options = f"source=SOURCE,cache=auto,{option}"
            name = f"FUSE passthrough (passthrough_ll{cache})"
            found[name] = [passthrough_ll, "-o", options, "PLACE"]
    return found


@contextlib.contextmanager
def passthrough(command: list[str], place: Path, memory: str) -> Iterator[None]:
    """A folder in memory, handed through by FUSE."""
    with tempfile.TemporaryDirectory(dir=memory) as source:
        argv = [part.replace("SOURCE", source).replace("PLACE", str(place)) for part in command]
        # It goes on by itself once it is mounted.
        subprocess.run(argv, check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", str(place)], check=True)


def measure(
    rates: dict[tuple[str, str], list[float]], name: str, folder: Path, size_bytes: int
) -> None:
    path = folder / "file"
    for way in WAYS:
        took_s = read(path) if way == READ else write(path, size_bytes)
        rates.setdefault((name, way), []).append(size_bytes / took_s)
        if way == FIRST_WRITE:
            path.unlink()
    path.unlink()


def show(
    rates: dict[tuple[str, str], list[float]],
    size_bytes: int,
    repetitions: int,
    through: Iterable[str],
) -> None:
    info = build_info()
    print(f"{format_size(size_bytes)}, {repetitions} repetitions, core built {info['profile']}\n")
    print("| place |", " | ".join(f"{way} MB/s" for way in WAYS), "|\n|---|---:|---:|---:|")
    for name in dict.fromkeys(name for name, _ in rates):
        shown = [statistics.median(rates[name, way]) / 1e6 for way in WAYS]
        print(f"| {name} |", " | ".join(f"{rate:,.0f}" for rate in shown), "|")
    print("\n| aim | least MB/s | found MB/s | |\n|---|---:|---:|---|")
    for way in (WRITE, READ):
        fastest = [AIM_SHARE * statistics.median(rates[name, way]) for name in through]
        least = min([AIM_BYTES_PER_S, max(fastest, default=AIM_BYTES_PER_S)])
        found = statistics.median(rates["mount", way])
        verdict = "kept" if found >= least else "missed"
        aim = f"mount, {way}: 1 GB/s, or {AIM_SHARE:g} of the fastest passthrough"
        print(f"| {aim} | {least / 1e6:,.0f} | {found / 1e6:,.0f} | {verdict} |")


if __name__ == "__main__":
    main()
