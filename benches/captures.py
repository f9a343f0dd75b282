"""Reading large captures: nfslab beside a bare header walk, capinfos, nfstrace and tshark.

    python benches/captures.py --dir /var/tmp --repetitions 5
    python benches/captures.py --pipe 1G,4G,16G        memory through a pipe
    python benches/captures.py --with-tshark           takes minutes and gigabytes more

Two captures are generated (see capture_generator.py) and removed afterwards: `small` (6 million
small packets, 3 million calls) and `large` (1.1 GB of segments of 1448 bytes). All programs read
the same files from the page cache, in a new random order in each repetition; the table shows
medians. CPU is user and system time, memory the largest resident set, both of the whole process as
the kernel counts them for wait4 (the interpreter's start and all imports included). The number of
calls that nfslab finds is compared with the generator's; a difference ends the benchmark.

* The header walk (crates/trace/examples/header_walk.rs) maps the file and looks at all headers: the
  floor.
* nfslab, table: calls, errors, bytes, latencies per operation and no more, as nfstrace and tshark
  give them; the same with all calls as Parquet.
* nfslab trace: the command with all tables (clients, files, load over time, gaps, access patterns,
  network or server); the same with --calls.
* nfstrace: its breakdown plug-in. tshark: `-z rpc,srt` on a smaller capture of the same kind
  (`--tshark-share`), since its memory grows with the capture; its row is compared per packet, which
  favours it if its time grows faster than the capture does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
GENERATOR = ROOT / "benches" / "capture_generator.py"
PLUGIN = Path("/usr/lib/nfstrace/libbreakdown.so")
SEED = 20011116
GB = 10**9
#: Bytes of the captures: 6 million packets, and 1.1 GB.
SIZES = {"small": 1_620_000_000, "large": 1_100_000_000}
SMALL_SIZES = {"small": 4_000_000, "large": 4_000_000}
MEMORY_AIM_MB = 200
#: The table alone: what `nfslab trace --json` prints, of the one lens that makes it.
TABLE = """
import json, sys
from pathlib import Path
from nfslab.captures.analysis import Asked, read_captures
calls = Path(sys.argv[2]) if len(sys.argv) > 2 else None
found = read_captures([sys.argv[1]], Asked(lenses=("operations",), calls=calls))
print(json.dumps(found.content))
"""
FLOOR, TABLE_ALONE, TABLE_CALLS = "header walk", "nfslab, table", "nfslab, table and calls"


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    wall_s: float
    cpu_s: float
    rss_mb: float
    output: str


@dataclass(frozen=True)
class Program:
    """A program to be measured: name and command, with {} for the capture."""

    name: str
    command: tuple[str, ...]

    def on(self, path: Path, folder: Path) -> list[str]:
        places = {"{capture}": str(path)}
        return [places.get(part, part.replace("{folder}", str(folder))) for part in self.command]


@dataclass
class Row:
    """A program's repetitions on one capture."""

    program: str
    capture: str
    packets: int
    costs: list[Cost] = field(default_factory=list)

    def median(self, name: str) -> float:
        return float(statistics.median(getattr(cost, name) for cost in self.costs))

    @property
    def packet_cpu_ns(self) -> float:
        return self.median("cpu_s") * 1e9 / self.packets


def run(command: Sequence[str], folder: Path, stdin: IO[bytes] | None = None) -> Cost:
    """Runs a program to its end; the kernel's account of it."""
    with tempfile.TemporaryFile(dir=folder) as out, tempfile.TemporaryFile(dir=folder) as err:
        began = time.monotonic()
        child = subprocess.Popen(command, cwd=folder, stdin=stdin, stdout=out, stderr=err)
        _pid, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text, complaint = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {child.returncode}\n{complaint[-2000:]}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def header_walk(profile: str) -> Path:
    """Builds the floor's program."""
    command = ["cargo", "build", "--quiet", "--profile", profile]
    command += ["--workspace", "--example", "header_walk"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / ("debug" if profile == "dev" else profile) / "examples" / "header_walk"


def programs(options: argparse.Namespace) -> tuple[list[Program], list[str]]:
    """What can be run here, and why the rest cannot."""
    ours = (sys.executable, "-m", "nfslab", "trace")
    found = [
        Program(FLOOR, (str(header_walk(options.profile)), "{capture}")),
        Program(TABLE_ALONE, (sys.executable, "-c", TABLE, "{capture}")),
        Program(TABLE_CALLS, (sys.executable, "-c", TABLE, "{capture}", "{folder}/table.parquet")),
        Program("nfslab trace", (*ours, "--json", "{capture}")),
        Program("nfslab trace --calls", (*ours, "--calls", "{folder}/calls.parquet", "{capture}")),
    ]
    missing = []
    if shutil.which("capinfos"):
        found.append(Program("capinfos -cdu", ("capinfos", "-cdu", "{capture}")))
    else:
        missing.append("capinfos is not installed (Debian: wireshark-common)")
    if shutil.which("nfstrace") and PLUGIN.exists():
        command = ("nfstrace", "-m", "stat", "-v", "0", "-a", str(PLUGIN), "-I", "{capture}",
                   "--log={folder}/nfstrace.log")  # fmt: skip
        found.append(Program("nfstrace", command))
    else:
        missing.append("nfstrace is not installed (Debian: nfstrace)")
    return found, missing


def generate(kind: str, size_bytes: int, path: Path) -> dict[str, int]:
    """Writes a capture in a process of its own; what is in it."""
    command = [sys.executable, str(GENERATOR), kind, str(size_bytes), "--out", str(path), "--json"]
    began = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    made: dict[str, int] = json.loads(done.stdout)
    seconds = time.monotonic() - began
    print(f"{kind}: {made['bytes'] / GB:.2f} GB, {made['packets']:,} packets, "
          f"{made['calls']:,} calls, written in {seconds:.0f} s", file=sys.stderr)  # fmt: skip
    return made


def found_calls(output: str) -> int:
    """Calls in nfslab's JSON."""
    return sum(row["calls"] for row in json.loads(output)["operations"])


def measure(
    listed: list[Program], options: argparse.Namespace, folder: Path
) -> tuple[list[Row], dict[str, dict[str, int]]]:
    """All programs on both captures, one capture on the disk at a time."""
    order = random.Random(SEED)
    rows: list[Row] = []
    contents: dict[str, dict[str, int]] = {}
    sizes = SMALL_SIZES if options.small else SIZES
    for kind in options.captures:
        path = folder / f"{kind}.pcap"
        need = int(sizes[kind] * 1.5)
        if shutil.disk_usage(folder).free < need:
            raise SystemExit(f"{folder}: {need / GB:.1f} GB are needed; give another --dir")
        contents[kind] = generate(kind, sizes[kind], path)
        packets = contents[kind]["packets"]
        block = {program.name: Row(program.name, kind, packets) for program in listed}
        for program in listed:  # reads the file into the page cache, checks, is not counted
            cost = run(program.on(path, folder), folder)
            if (
                program.name in (TABLE_ALONE, "nfslab trace")
                and found_calls(cost.output) != contents[kind]["calls"]
            ):
                raise SystemExit(f"{kind}: {found_calls(cost.output)} calls found, not "
                                 f"{contents[kind]['calls']}")  # fmt: skip
        for repetition in range(options.repetitions):
            for program in order.sample(listed, len(listed)):
                block[program.name].costs.append(run(program.on(path, folder), folder))
            print(f"{kind}: repetition {repetition + 1}", file=sys.stderr)
        rows += block.values()
        path.unlink()
        if options.with_tshark:
            rows.append(tshark(kind, int(sizes[kind] * options.tshark_share), folder))
    return rows, contents


def tshark(kind: str, size_bytes: int, folder: Path) -> Row:
    """One run of tshark on a capture of this size, made for it."""
    path = folder / f"{kind}.part.pcap"
    made = generate(kind, size_bytes, path)
    command = ["tshark", "-q", "-n", "-r", str(path), "-z", "rpc,srt,100003,3"]
    packets = made["packets"]
    row = Row(f"tshark, {packets:,} packets", kind, packets, [run(command, folder)])
    path.unlink()
    return row


def pipe_series(sizes: Sequence[int], folder: Path) -> list[tuple[int, Cost]]:
    """nfslab on captures of these sizes that never lie on a disk."""
    series = []
    for size_bytes in sizes:
        command = [sys.executable, str(GENERATOR), "small", str(size_bytes)]
        source = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            reader = [sys.executable, "-m", "nfslab", "trace", "--json", "-"]
            series.append((size_bytes, run(reader, folder, source.stdout)))
        finally:
            if source.stdout is not None:
                source.stdout.close()
            source.wait()
    return series


def table(rows: list[Row]) -> list[str]:
    """The rows, with ratios of CPU per packet to the floor and to nfslab's own table."""
    lines = [
        "| capture | program | wall s | CPU s | CPU ns/packet | max RSS MB "
        "| x header walk | x table |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    base = {(row.capture, row.program): row.packet_cpu_ns for row in rows}
    for row in rows:
        cpu_ns = row.packet_cpu_ns
        floors = (base[row.capture, FLOOR], base[row.capture, TABLE_ALONE])
        ratios = [f"{cpu_ns / floor:.1f}" if floor else "" for floor in floors]
        lines.append(
            f"| {row.capture} | {row.program} | {row.median('wall_s'):.2f} "
            f"| {row.median('cpu_s'):.2f} | {cpu_ns:.0f} | {row.median('rss_mb'):.0f} "
            f"| {ratios[0]} | {ratios[1]} |"
        )
    return lines


def aims(rows: list[Row], series: list[tuple[int, Cost]]) -> list[str]:
    """Each aim with what was measured: kept or missed."""
    cost = {(row.capture, row.program): row.median("cpu_s") for row in rows}
    rss = [row.median("rss_mb") for row in rows if row.program.startswith("nfslab")]
    rss += [cost.rss_mb for _size, cost in series]

    def ratio(of: tuple[str, str], to: tuple[str, str]) -> float | None:
        return cost[of] / cost[to] if of in cost and cost.get(to) else None

    ours, walk = ("small", TABLE_ALONE), ("small", FLOOR)
    checks = [
        ("small: table within 2.5 header walks", ratio(ours, walk), 2.5),
        ("small: --calls within twice that", ratio(("small", TABLE_CALLS), walk), 5.0),
        ("small: --calls within 2 tables", ratio(("small", TABLE_CALLS), ours), 2.0),
        ("small: table within 1/8 of nfstrace", ratio(ours, ("small", "nfstrace")), 1 / 8),
        ("most memory of nfslab, MB", max(rss, default=None), MEMORY_AIM_MB),
    ]
    large, floor = cost.get(("large", TABLE_ALONE)), cost.get(("large", FLOOR))
    if large is not None and floor is not None:
        checks.append(("large: table less 2 header walks, s", large - 2 * floor, 0.1))
    return [
        f"- {name}: {value:.2f} (aim {aim:.3g}): {'kept' if value <= aim else 'MISSED'}"
        for name, value, aim in checks
        if value is not None
    ]


def as_json(
    rows: list[Row], series: list[tuple[int, Cost]], contents: dict[str, dict[str, int]]
) -> str:
    def numbers(cost: Cost) -> dict[str, float]:
        return {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "max_rss_mb": cost.rss_mb}

    return json.dumps(
        {
            "machine": {"system": platform.release(), "cpus": os.cpu_count()},
            "captures": contents,
            "rows": [
                {"program": row.program, "capture": row.capture,
                 "repetitions": [numbers(cost) for cost in row.costs]}
                for row in rows
            ],
            "pipe": [{"bytes": size, **numbers(cost)} for size, cost in series],
        },
        indent=1,
    )  # fmt: skip


def size(text: str) -> int:
    units = {"M": 10**6, "G": GB}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dir", type=Path, help="where the captures go; default: a temp folder")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--captures", type=lambda text: text.split(","), default=list(SIZES))
    parser.add_argument("--pipe", type=lambda text: [size(part) for part in text.split(",")],
                        default=[], metavar="SIZES")  # fmt: skip
    parser.add_argument("--only-pipe", action="store_true", help="no captures on the disk")
    parser.add_argument("--with-tshark", action="store_true")
    parser.add_argument("--tshark-share", type=float, default=0.1, help="of the capture's size")
    parser.add_argument("--profile", default="release", help="Cargo's: release, quick, dev")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--small", action="store_true", help="tiny captures: does it still run?")
    options = parser.parse_args()
    if options.small:
        options.repetitions, options.pipe = 1, [2_000_000, 4_000_000]
    return options


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="nfslab-captures-", dir=options.dir) as made:
        folder = Path(made)
        rows: list[Row] = []
        contents: dict[str, dict[str, int]] = {}
        missing: list[str] = []
        if not options.only_pipe:
            listed, missing = programs(options)
            rows, contents = measure(listed, options, folder)
        series = pipe_series(options.pipe, folder)
    for kind, content in contents.items():
        print(f"`{kind}`: {content['bytes'] / GB:.2f} GB, {content['packets']:,} packets, "
              f"{content['calls']:,} calls.")  # fmt: skip
    if rows:
        print("", *table(rows), sep="\n")
    if series:
        print("\n| through a pipe, GB | wall s | CPU s | max RSS MB |\n|---:|---:|---:|---:|")
        for size_bytes, cost in series:
            print(f"| {size_bytes / GB:.3g} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} "
                  f"| {cost.rss_mb:.0f} |")  # fmt: skip
    print("", *aims(rows, series), *(f"- left out: {reason}" for reason in missing), sep="\n")
    if options.json is not None:
        options.json.write_text(as_json(rows, series, contents) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
