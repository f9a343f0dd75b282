"""`nfslab trace --workers N` beside one process: one capture in several files.

    python benches/trace_workers.py --dir /var/tmp --repetitions 5
    python benches/trace_workers.py --workers 2 --files 4 --size 6G
    python benches/trace_workers.py --by client
    python benches/trace_workers.py --all --calls

A capture (`small` of capture_generator.py) is cut into files of one size, plain and compressed
with gzip -1. One process on one processor, one process, and N processes take turns on the same
files from the page cache, in a new random order in each repetition. That all print the same JSON is
checked. One process has threads (reading and decompressing, finding calls, lenses): with a second
processor it is faster already. The aim is that `--workers 2` on two free processors takes at most
1 / 1.7 of what one process takes on one of them, by the shortest of the repetitions.

Without options the table per operation is made (--quick), of parts. With --all all tables are made,
with --calls the rows of the calls as well, for which there is no aim. With few processors one
process makes these, whatever --workers says; with --journals they are also made of files that are
read side by side, and the journals on --dir are a part of what is measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import mmap
import os
import random
import struct
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from captures import GB, SEED, Cost, generate, run

HEADER_BYTES, RECORD_BYTES = 24, 16
CHAIN = 200
"""Packets in a row that have to be right where a file is cut."""
AIM = 1.7
HOWEVER_MANY = """
from nfslab.captures import followed
from nfslab.__main__ import main
followed.LEAST_PROCESSORS = 1
main()
"""
"""`nfslab`, side by side with two processors, too."""


def is_packet(capture: mmap.mmap, at: int) -> bool:
    """Whether many packets follow each other from here."""
    begun: int | None = None
    for _ in range(CHAIN):
        if at + RECORD_BYTES > len(capture):
            return False
        seconds, part, captured, wire = struct.unpack_from("<IIII", capture, at)
        begun = seconds if begun is None else begun
        if captured != wire or not 0 < captured < 1 << 17 or abs(seconds - begun) > 1 or part >= GB:
            return False
        at += RECORD_BYTES + captured
    return True


def cut(path: Path, files: int) -> list[Path]:
    """The capture in so many files; it is gone afterwards."""
    found = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as capture:
        places = [HEADER_BYTES]
        for number in range(1, files):
            at = len(capture) * number // files
            places.append(next(place for place in range(at, at + GB) if is_packet(capture, place)))
        places.append(len(capture))
        for number, begin in enumerate(places[:-1]):
            part = path.with_name(f"{number:03d}.pcap")
            part.write_bytes(capture[:HEADER_BYTES] + capture[begin : places[number + 1]])
            found.append(part)
    path.unlink()
    return found


def compressed(path: Path) -> Path:
    """The same with gzip -1."""
    packed = path.with_suffix(".pcap.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    return packed


def told(cost: Cost) -> str:
    """The JSON, but for the processors' time."""
    content = json.loads(cost.output)
    del content["analysis_cpu_ns"]
    return json.dumps(content)


def measure(paths: list[Path], options: argparse.Namespace, folder: Path) -> dict[str, list[Cost]]:
    """Costs by who read."""
    by = [f"--by={what}" for what in options.by]
    what = [] if options.all else ["--quick", *by]
    rows = ["--calls", str(folder / "calls.parquet")] if options.calls else []
    tail = ("trace", *what, *rows, "--json", "--spool", str(folder), "--workers")
    ours = (sys.executable, "-m", "nfslab", *tail)
    ways = {
        "1 on 1 processor": (*ours, "1"),
        "1": (*ours, "1"),
        f"{options.workers}": (*ours, f"{options.workers}"),
    }
    if options.journals:
        even_so = (sys.executable, "-c", HOWEVER_MANY, *tail, f"{options.workers}")
        ways[f"{options.workers}, journals"] = even_so
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    order = random.Random(SEED)
    all_processors = os.sched_getaffinity(0)
    for _ in range(options.repetitions):
        for way in order.sample(list(ways), len(ways)):
            few = {min(all_processors)} if way == "1 on 1 processor" else all_processors
            os.sched_setaffinity(0, few)
            costs[way].append(run([*ways[way], *map(str, paths)], folder))
    os.sched_setaffinity(0, all_processors)
    if len({told(cost) for some in costs.values() for cost in some}) != 1:
        raise SystemExit("one process and several do not print the same")
    return costs


def main() -> int:
    """Prints a table; exit code 1 where the aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--size", type=lambda text: int(float(text.rstrip("G")) * GB))
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--by", action="append", default=[], help="as nfslab trace --by")
    parser.add_argument("--all", action="store_true", help="all tables")
    parser.add_argument("--journals", action="store_true", help="side by side even so")
    parser.add_argument("--calls", action="store_true", help="with --all: rows of calls, too")
    parser.add_argument("--small", action="store_true", help="does it work: no figure is judged")
    options = parser.parse_args()
    if options.small:
        options.repetitions, options.files = 1, 2
    size = options.size or (120_000_000 if options.small else 6 * GB)
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        folder = Path(name)
        generate("small", size, folder / "whole.pcap")
        plain = cut(folder / "whole.pcap", options.files)
        with ProcessPoolExecutor(2) as pool:
            kinds = {"plain": plain, "gzip": list(pool.map(compressed, plain))}
        print("| files | processes | wall s, shortest | CPU s, least | times one on one processor "
              "| times one |")  # fmt: skip
        print("|---|---:|---:|---:|---:|---:|")
        for kind, paths in kinds.items():
            costs = measure(paths, options, folder)
            alone, one = (
                min(cost.wall_s for cost in costs[it]) for it in ("1 on 1 processor", "1")
            )
            for workers, some in costs.items():
                wall_s, cpu_s = (min(getattr(it, n) for it in some) for n in ("wall_s", "cpu_s"))
                times[f"{kind}, {workers}"] = alone / wall_s
                print(f"| {len(paths)} {kind} | {workers} | {wall_s:.2f} | {cpu_s:.2f} "
                      f"| {alone / wall_s:.2f} | {one / wall_s:.2f} |", flush=True)  # fmt: skip
    if options.small or options.calls or options.workers != 2:
        return 0
    reached = [times[f"{kind}, 2"] for kind in ("plain", "gzip")]
    print(f"\nplain {reached[0]:.2f}, gzip {reached[1]:.2f} times one on one processor; aim: {AIM}")
    return int(min(reached) < AIM)


if __name__ == "__main__":
    sys.exit(main())
