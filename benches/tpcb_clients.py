"""sysbench with our transaction beside pgbench's tpcb-like, on the same PostgreSQL settings.

    python benches/tpcb_clients.py [--seconds 10] [--rounds 5] [--clients 4] [--path /var/tmp]

In each round one run of each, in turns the other way round. tps and the client's CPU of a
transaction are medians of the rounds, the ratio is the median of each round's. Aim: the same order
of tps, so that what `tpcb` says of PostgreSQL is what pgbench says. pgbench's client is C, ours is
sysbench's LuaJIT: its CPU is what that costs on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import nfslab

EXPERIMENT = """
[experiment]
name = "{kind}"
repetitions = 1
seed = {seed}
collectors = []

[targets.place]
kind = "local"
path = "{path}"

[workload]
kind = "{kind}"
data = "place"
scale = {clients}
clients = {clients}
duration = {seconds}
"""
PROTOCOL = 'protocol = "prepared"\n'
METRICS = ("tps", "client_cpu_s_per_transaction", "latency_p50_ms")


def one_run(folder: Path, kind: str, options: argparse.Namespace, seed: int) -> dict[str, float]:
    text = EXPERIMENT.format(kind=kind, seed=seed, **vars(options))
    file, results = folder / f"{kind}-{seed}.toml", folder / f"{kind}-{seed}"
    file.write_text(text + PROTOCOL * (kind == "pgbench"))
    argv = [sys.executable, "-m", "nfslab", "run", file, "--anyway", "--results", results]
    subprocess.run(list(map(str, argv)), check=True, stdout=subprocess.DEVNULL)
    (row,) = nfslab.open(results).runs.to_dict("records")
    return {name: float(row[name]) for name in METRICS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--path", default="/var/tmp")
    parser.add_argument("--small", action="store_true", help="some seconds: does it still run?")
    options = parser.parse_args()
    if options.small:
        options.seconds, options.rounds, options.path = 1, 1, "/dev/shm"
    found: dict[str, list[dict[str, float]]] = {"pgbench": [], "tpcb": []}
    with tempfile.TemporaryDirectory(prefix="nfslab-bench-") as folder:
        for number in range(options.rounds):
            for kind in sorted(found, reverse=bool(number % 2)):
                found[kind].append(one_run(Path(folder), kind, options, number))
    print("| client | tps | p50, ms | client's CPU of a transaction, us |\n|---|---|---|---|")
    for kind, rows in found.items():
        tps, cpu_s, p50 = (statistics.median(row[name] for row in rows) for name in METRICS)
        print(f"| {kind} | {tps:.0f} | {p50:.2f} | {1e6 * cpu_s:.0f} |")
    ratios = [
        [ours[name] / theirs[name] for name in METRICS]
        for ours, theirs in zip(found["tpcb"], found["pgbench"], strict=True)
    ]
    tps, cpu_s, p50 = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"| tpcb / pgbench | {tps:.2f} | {p50:.2f} | {cpu_s:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
