"""What it costs that a load is made by an agent on a client host, and not by this process.

    python benches/distributed_cost.py [--load sfs] [--rounds 9] [--seconds 5]

`sfs`: the same four generator processes in turns: of `nfslab sfs` (workload.generators = 4), of one
client host on this machine (client.hosts = 1, client.processes = 4), whose agent is spoken to over
pipes, and of one that is a worker of a cluster ([cluster]), spoken to over TLS. A closed load of 32
processes that think 3 ms on a server that answers after 5 ms (without thinking they would go in
step, and how many replies come at once would decide): what they achieve, and the CPU of the
generators' threads for an operation, without what they spend waiting awake. `files`: random reads
of one thread from a file in memory, by the command and by a client host's process. `pgbench`:
queries of two clients on a database in memory, over TCP in all ways. Ratios within rounds, whose
order turns. Aim: at most 1 % less, and at most 1 % more.

A run that the guard refuses, since the machine was busy, has its figures all the same; it is said.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cluster_here
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """\
[experiment]
name = "cost"
repetitions = 1
collectors = []
[limits]
drop_page_cache = false
"""
SFS = """\
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
FILES = """\
[targets.memory]
kind = "local"
path = "/dev/shm"
{client}
[workload]
kind = "files"
data = "memory"
file_size = "64M"
files = 1
phases = "random_read"
random_operations = 1_000_000_000
time_limit = "{seconds}s"
"""
PGBENCH = """\
[targets.memory]
kind = "local"
path = "/dev/shm"
{client}
[workload]
kind = "pgbench"
data = "memory"
socket = "tcp"
builtin = "select-only"
clients = 2
duration = "{whole_seconds}s"
"""
ALONE = "one process"
CLIENTS = {
    ALONE: "",
    "a client host": '[client]\nhost = "local"\nhosts = 1\n',
    "a worker of a cluster": "{cluster}[client]\nhosts = 1\n",
}
"""The ways: by whom the load is made -> its sections."""


def of_sfs(run: Path) -> tuple[float, float, bool]:
    """Of the generators' threads."""
    point = json.loads((run / "logs" / "sfs.json").read_text("utf-8"))
    cpu_ns = sum(thread["cpu_ns"] - thread["spin_ns"] for thread in point["threads"])
    return point["achieved_ops_per_s"], cpu_ns / 1e3 / point["answered"], point["valid"]


def of_files(run: Path) -> tuple[float, float, bool]:
    """Of the working threads."""
    (phase,) = pq.read_table(run / "samples" / "phases.parquet").to_pylist()
    rate = phase["operations"] / phase["wall_ns"] * 1e9
    return rate, phase["cpu_ns"] / 1e3 / phase["operations"], _is_ok(run)


def of_pgbench(run: Path) -> tuple[float, float, bool]:
    """Of pgbench."""
    metrics = json.loads((run / "run.json").read_text("utf-8"))["metrics"]
    cpu_us = metrics["client_cpu_s_per_transaction"]["value"] * 1e6
    return metrics["tps"]["value"], cpu_us, _is_ok(run)


def _is_ok(run: Path) -> bool:
    return bool(json.loads((run / "run.json").read_text("utf-8"))["status"] == "ok")


@dataclass(frozen=True, slots=True)
class Load:
    """What is made in all ways."""

    text: str
    figures: Callable[[Path], tuple[float, float, bool]]
    """Of a sealed run: operations a second, CPU microseconds an operation, whether it counts."""
    processes: int = 1


LOADS = {
    "sfs": Load(SFS, of_sfs, processes=4),
    "files": Load(FILES, of_files),
    "pgbench": Load(PGBENCH, of_pgbench),
}
AIM = 0.01


def measured(
    load: Load, way: str, section: str, folder: Path, seconds: float
) -> tuple[tuple[float, float, bool], str]:
    """(figures of one run, kind of the client host that its record has)."""
    client, several = CLIENTS[way].format(cluster=section), load.processes > 1
    if client and several:
        client += f"processes = {load.processes}\n"
    file = folder / "cost.toml"
    text = HEAD + load.text.format(
        client=client, generators="" if client or not several else f"generators = {load.processes}",
        seconds=seconds, whole_seconds=max(1, round(seconds)), warm_up=f"{min(seconds / 2, 1):g}s",
    )  # fmt: skip
    file.write_text(text, "utf-8")
    command = cluster_here.nfslab("run", str(file), "--new", "--anyway")
    with tempfile.TemporaryDirectory(dir=folder) as results:
        done = subprocess.run(
            [*command, "--results", results], capture_output=True, text=True, check=False
        )
        runs = list(Path(results).glob("*/runs/*"))
        try:
            record = json.loads((runs[0] / "run.json").read_text("utf-8"))
            hosts = [one["kind"] for one in record["client_hosts"]] or ["none"]
            return load.figures(runs[0]), ", ".join(hosts)
        except (OSError, LookupError) as error:
            raise SystemExit(done.stdout + done.stderr) from error


def compared(found: dict[str, list[tuple[float, float, bool]]]) -> None:
    """Each way beside that of one process, round by round."""
    print("\n| beside one process | | median | least | greatest | aim | |")
    print("|---|---|---:|---:|---:|---|---|")
    for way, runs in found.items():
        for index, name in enumerate(("operations a second", "CPU for an operation")):
            if way == ALONE:
                continue
            aim = ("at most 1 % less", "at most 1 % more")[index]
            ratios = [b[index] / a[index] for a, b in zip(found[ALONE], runs, strict=True)]
            median = statistics.median(ratios)
            cost = 1 - median if index == 0 else median - 1
            verdict = "kept" if cost <= AIM else "missed"
            print(
                f"| {way} | {name} | {median:.3f} | {min(ratios):.3f} | {max(ratios):.3f} "
                f"| {aim} | {verdict} |"
            )


def main() -> None:
    example = "distributed_cost.py --load sfs --rounds 9 --seconds 5"
    parser = cluster_here.parser(__doc__, example)
    parser.add_argument("--load", choices=LOADS, default="sfs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = cluster_here.asked(parser)
    rounds, seconds = (2, 2.0) if asked.small else (asked.rounds, asked.seconds)
    ways = list(CLIENTS)
    found: dict[str, list[tuple[float, float, bool]]] = {way: [] for way in ways}
    hosts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "cluster").mkdir()
        with cluster_here.up(folder / "cluster", ["worker"]) as cluster:
            for number in range(rounds):
                turned = ways[number % len(ways) :] + ways[: number % len(ways)]
                for way in turned if number % 2 else reversed(turned):
                    one, hosts[way] = measured(
                        LOADS[asked.load], way, cluster.section, folder, seconds
                    )
                    found[way].append(one)
    print(f"{os.cpu_count()} processors, {rounds} rounds of {seconds:g} s\n")
    print("| load made by | client host | operations a second | CPU, us/op | runs that count |")
    print("|---|---|---:|---:|---:|")
    for way, runs in found.items():
        rate, cpu_us = (statistics.median(run[index] for run in runs) for index in (0, 1))
        passed = sum(run[2] for run in runs)
        print(f"| {way} | {hosts[way]} | {rate:,.0f} | {cpu_us:.2f} | {passed} of {rounds} |")
    compared(found)


if __name__ == "__main__":
    main()
