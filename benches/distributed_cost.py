"""What it costs that a load is made by an agent on a client host, and not by this process.

    python benches/distributed_cost.py [--rounds 9] [--seconds 5]

The same four generator processes in turns: of `nfslab sfs` (workload.generators = 4), and of one
client host on this machine (client.hosts = 1, client.processes = 4). A closed load of 32 processes
that think 3 ms on a server that answers after 5 ms (without thinking they would go in step, and how
many replies come at once would decide): what they achieve, and the CPU of the generators'
threads for an operation, without what they spend waiting awake. Ratios within rounds, whose order
turns. Aim: at most 1 % less, and at most 1 % more.

A run that the guard refuses, since the machine was busy, has its figures all the same; it is said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FILE = """\
[experiment]
name = "{name}"
repetitions = 1
collectors = []
[limits]
drop_page_cache = false
[targets.server]
kind = "nfs"
client = "none"
directory = "/var/tmp"
store = "memory"
delay = "5ms"
{client}
[workload]
kind = "sfs"
data = "server"
mix_table.mix = {{ GETATTR = 1, LOOKUP = 1 }}
mix_table.file_set.file_sizes_bytes = {{ 4096 = 1 }}
load = 4000
files = 1000
mode = "closed"
think = "exponential"
clients = 4
processes = 8
warm_up = "{warm_up}"
duration = "{seconds}s"
{generators}
"""
WAYS = {
    "one process": ("", "generators = 4"),
    "a client host": ('[client]\nhost = "local"\nhosts = 1\nprocesses = 4', ""),
}
AIM = 0.01


def measured(way: str, folder: Path, seconds: float) -> tuple[float, float, bool]:
    """(operations a second, CPU microseconds an operation, whether the guard let it pass)."""
    client, generators = WAYS[way]
    name = way.replace(" ", "-")
    file = folder / f"{name}.toml"
    text = FILE.format(
        name=name, client=client, generators=generators, seconds=seconds,
        warm_up=f"{min(seconds / 2, 1):g}s",
    )  # fmt: skip
    file.write_text(text, "utf-8")
    command = [sys.executable, "-m", "nfslab", "run", str(file), "--new", "--anyway"]
    with tempfile.TemporaryDirectory(dir=folder) as results:
        done = subprocess.run(
            [*command, "--results", results], capture_output=True, text=True, check=False
        )
        points = list(Path(results).glob("*/runs/*/logs/sfs.json"))
        if not points:
            raise SystemExit(done.stdout + done.stderr)
        point = json.loads(points[0].read_text("utf-8"))
    cpu_ns = sum(thread["cpu_ns"] - thread["spin_ns"] for thread in point["threads"])
    return point["achieved_ops_per_s"], cpu_ns / 1e3 / point["answered"], point["valid"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="does it still work?")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    rounds, seconds = (2, 0.4) if asked.small else (asked.rounds, asked.seconds)
    found: dict[str, list[tuple[float, float, bool]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for way in WAYS if number % 2 else reversed(WAYS):
                found[way].append(measured(way, Path(folder), seconds))
    print(f"{os.cpu_count()} processors, {rounds} rounds of {seconds:g} s\n")
    print("| load made by | operations a second | CPU, us/op | runs that the guard let pass |")
    print("|---|---:|---:|---:|")
    for way, runs in found.items():
        rate, cpu_us = (statistics.median(run[index] for run in runs) for index in (0, 1))
        passed = sum(run[2] for run in runs)
        print(f"| {way} | {rate:,.0f} | {cpu_us:.2f} | {passed} of {rounds} |")
    print("\n| a client host / one process | median | least | greatest | aim | |")
    print("|---|---:|---:|---:|---:|---|")
    one, host = found.values()
    for index, name in enumerate(("operations a second", "CPU for an operation")):
        aim = ("at most 1 % less", "at most 1 % more")[index]
        ratios = [b[index] / a[index] for a, b in zip(one, host, strict=True)]
        median = statistics.median(ratios)
        cost = 1 - median if index == 0 else median - 1
        verdict = "kept" if cost <= AIM else "missed"
        print(
            f"| {name} | {median:.3f} | {min(ratios):.3f} | {max(ratios):.3f} | {aim} | {verdict} |"
        )


if __name__ == "__main__":
    main()
