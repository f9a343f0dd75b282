"""Runs on a cluster of this machine: how far apart workers begin, how soon a lost one ends a run.

    python benches/cluster_runs.py [--runs 15] [--losses 5] [--small]

Start skew: a small load of `sfs` by three workers, again and again; what the runs' own records say
of each worker. Loss: two workers write random blocks to files, until one is killed, or stopped
(SIGSTOP). The signal is sent when the load has been at work for two seconds: both files were seen
whole, and have been written for so long since. The time runs from the signal to the sealed record
of the run, which has to be failed and to name that worker.

Aims: workers begin within 1 ms of each other in the median, and a run ends within 5 s.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import cluster_here

HEAD = """\
[experiment]
name = "cluster"
repetitions = {runs}
collectors = []
[limits]
drop_page_cache = false
"""
SKEW = """\
[targets.server]
kind = "nfs"
client = "none"
directory = "/var/tmp"
store = "memory"
delay = "5ms"
[client]
hosts = 3
processes = 1
[workload]
kind = "sfs"
data = "server"
mix = "laddis"
load = 300
files = 300
warm_up = "0.5s"
duration = "1s"
"""
FILE_BYTES = 4 << 20
LOSS = f"""\
[targets.files]
kind = "local"
path = "{{place}}"
[client]
hosts = 2
processes = 1
[workload]
kind = "files"
data = "files"
file_size = {2 * FILE_BYTES}
files = 2
phases = "random_write"
random_operations = 1_000_000_000
time_limit = "600s"
"""
AT_WORK_NS = 2_000_000_000
SKEW_MOST_NS = 1e6
ENDED_MOST_S = 5.0
LOOK_S = 0.002
"""How exactly an end is seen."""


def experiment(place: Path, text: str, section: str, runs: int) -> list[str]:
    """The command that makes it; results are in `place`/results."""
    file = place / "cluster.toml"
    file.write_text(HEAD.format(runs=runs) + text + section, "utf-8")
    words = ("run", str(file), "--anyway", "--results", str(place / "results"))
    return cluster_here.nfslab(*words)


def sealed(place: Path) -> list[Path]:
    """Folders of the runs that are over."""
    return list(place.glob("results/*/runs/[!.]*"))


def looked_for(found: Iterable[bool], run: subprocess.Popen[str]) -> None:
    """Until one of these looks finds it; SystemExit: the run ends before."""
    for one in found:
        if one:
            return
        if run.poll() is not None:
            raise SystemExit(f"it ended too soon: {run.communicate()}")
        time.sleep(LOOK_S)


def at_work(files: Path) -> Iterator[bool]:
    """Whether both files have been written for so long since they were seen whole."""
    first: dict[Path, int] = {}
    began: dict[Path, int] = {}
    while True:
        last = {}
        for path in files.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and (status := path.stat()).st_size == FILE_BYTES:
                    last[path] = status.st_mtime_ns
        for path, written_ns in last.items():
            if written_ns > first.setdefault(path, written_ns):
                began.setdefault(path, written_ns)
        worked = [last[path] - began_ns for path, began_ns in began.items() if path in last]
        yield len(worked) == 2 and min(worked) >= AT_WORK_NS


def below(pid: int) -> list[int]:
    """Processes that it started, and theirs."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *below(child)]
    return found


def require_ended(descriptors: Iterable[int]) -> None:
    """Processes by their pidfds."""
    for one in descriptors:
        if not select.select([one], [], [], cluster_here.PATIENCE_S)[0]:
            raise SystemExit("a process of the load outlives the loss of its worker")
        os.close(one)


def skews(place: Path, runs: int) -> list[list[dict[str, Any]]]:
    """Of each run: what its record says of its workers."""
    with cluster_here.up(place, ["one", "two", "three"]) as cluster:
        command = experiment(place, SKEW, cluster.section, runs)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    records = [json.loads((one / "run.json").read_text("utf-8")) for one in sealed(place)]
    found = [record["client_hosts"] for record in records]
    if len(found) != runs or not all(found):
        raise SystemExit(done.stdout + done.stderr)
    return found


def lost(place: Path, number: signal.Signals) -> tuple[float, float, int]:
    """Seconds from the signal to the sealed record, and to the end of the command; how many
    processes of the other worker's load there still were then."""
    files = place / "files"
    files.mkdir()
    with cluster_here.up(place, ["stays", "lost"]) as cluster:
        command = experiment(place, LOSS.format(place=files), cluster.section, 1)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True) as run:
            looked_for(at_work(files), run)
            worker = cluster.workers["lost"]
            load = [os.pidfd_open(pid) for pid in below(worker.pid)]
            worker.send_signal(number)
            signalled = time.monotonic()
            while not (records := sealed(place)) and run.poll() is None:
                time.sleep(LOOK_S)
            sealed_s = time.monotonic() - signalled
            left = len(below(cluster.workers["stays"].pid))
            said, _ = run.communicate()
            ended_s = time.monotonic() - signalled
        worker.send_signal(signal.SIGCONT)
        require_ended(load)
        records = sealed(place)
        if not records:
            raise SystemExit(said)
    record = json.loads((records[0] / "run.json").read_text("utf-8"))
    if record["status"] != "failed" or "client host lost was lost" not in record["reason"]:
        raise SystemExit(f"the run is {record['status']}: {record['reason']}\n{said}")
    return sealed_s, ended_s, left


def tell_skews(found: list[list[dict[str, Any]]]) -> None:
    rows = {
        "the last worker behind the first": [
            max(one["skew_ns"] for one in hosts) - min(one["skew_ns"] for one in hosts)
            for hosts in found
        ],
        "each worker from the common start": [
            abs(one["skew_ns"]) for hosts in found for one in hosts
        ],
        "error of the clocks' comparison": [
            one["clock"]["error_ns"] for hosts in found for one in hosts
        ],
    }
    print("| start skew | values | median, ms | most, ms | aim: median below 1 ms |")
    print("|---|---:|---:|---:|---|")
    for number, (name, values) in enumerate(rows.items()):
        median = statistics.median(values)
        verdict = "" if number else "kept" if median < SKEW_MOST_NS else "missed"
        shown = f"{median / 1e6:.3f} | {max(values) / 1e6:.3f}"
        print(f"| {name} | {len(values)} | {shown} | {verdict} |")


def tell_losses(found: dict[str, list[tuple[float, float, int]]]) -> None:
    print("\n| a worker is | runs | record sealed, s: median | most | command ended, s: most "
          "| of the other's load left | aim: within 5 s |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---|")
    for how, runs in found.items():
        sealed_s, ended_s, left = zip(*runs, strict=True)
        verdict = "kept" if max(sealed_s) <= ENDED_MOST_S else "missed"
        print(
            f"| {how} | {len(runs)} | {statistics.median(sealed_s):.2f} | {max(sealed_s):.2f} "
            f"| {max(ended_s):.2f} | {max(left)} | {verdict} |"
        )


def main() -> None:
    parser = cluster_here.parser(__doc__, "cluster_runs.py --runs 15 --losses 5")
    parser.add_argument("--runs", type=int, default=15, help="for the start skew")
    parser.add_argument("--losses", type=int, default=5, help="for each signal")
    asked = cluster_here.asked(parser)
    runs, losses = (2, 1) if asked.small else (asked.runs, asked.losses)
    signals = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
    found: dict[str, list[tuple[float, float, int]]] = {how: [] for how in signals}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ["NFSLAB_STATE"] = str(place / "state")

        def folder(what: str) -> Path:
            made = place / what
            made.mkdir()
            return made

        begun = skews(folder("skew"), runs)
        for number in range(losses):
            for how, one in signals.items():
                found[how].append(lost(folder(f"{how}-{number}"), one))
    print(f"{os.cpu_count()} processors\n")
    tell_skews(begun)
    tell_losses(found)


if __name__ == "__main__":
    main()
