"""Sequential write and read through the mount, beside a local folder.

    python benches/mount_throughput.py [--size 1G] [--repetitions 5] [--small]

The server is the embedded one with its memory store, in this process as the mount is: CPUs are
shared, as they are on one machine. Writes are of 1 MiB and end with fsync inside the time; reads
begin without the file's pages in the cache. Cases are interleaved; the table shows medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from nfslab._core import Mount, Server, build_info
from nfslab.quantities import format_size, parse_size_bytes

BLOCK_BYTES = 1 << 20


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
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        return
    size_bytes = parse_size_bytes("64M" if asked.small else asked.size)
    repetitions = 2 if asked.small else asked.repetitions
    rates: dict[tuple[str, str], list[float]] = {}
    cases = ("", "rsize=64k,wsize=64k", "nconnect=4")
    with tempfile.TemporaryDirectory(dir=asked.directory) as folder:
        local, place = Path(folder) / "local", Path(folder) / "mnt"
        local.mkdir()
        place.mkdir()
        for _ in range(repetitions):
            for options in ("local", *cases):
                if options == "local":
                    measure(rates, "local folder", local, size_bytes)
                    continue
                with Server(json.dumps({"store": "memory", "memory_bytes": 2 << 30})) as server:
                    ports = f"port={server.port},mountport={server.port}"
                    mount = Mount("127.0.0.1:/export", place, f"{ports},{options}")
                    try:
                        measure(rates, f"mount {options}".strip(), place, size_bytes)
                    finally:
                        mount.unmount("force")
    show(rates, size_bytes, repetitions)


def measure(
    rates: dict[tuple[str, str], list[float]], name: str, folder: Path, size_bytes: int
) -> None:
    path = folder / "file"
    rates.setdefault((name, "write"), []).append(size_bytes / write(path, size_bytes))
    rates.setdefault((name, "read"), []).append(size_bytes / read(path))
    path.unlink()


def show(rates: dict[tuple[str, str], list[float]], size_bytes: int, repetitions: int) -> None:
    info = build_info()
    print(f"{format_size(size_bytes)}, {repetitions} repetitions, core built {info['profile']}\n")
    print("| place | write MB/s | read MB/s |\n|---|---|---|")
    for name in dict.fromkeys(name for name, _ in rates):
        shown = [statistics.median(rates[name, way]) / 1e6 for way in ("write", "read")]
        print(f"| {name} | {shown[0]:,.0f} | {shown[1]:,.0f} |")


if __name__ == "__main__":
    main()
