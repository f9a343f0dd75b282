"""What watching system calls costs PostgreSQL: CPU time of the backends a transaction.

    python benches/syscall_cost.py [--rounds 10] [--seconds 3]

One pgbench run (TPC-B, local disk, data in memory); within it windows in random order: unwatched,
and watched by eBPF at each level. CPU is what the backends' threads ran by
/proc/PID/schedstat (nanoseconds, brought up to date at each switch and tick: some ms of a window's
seconds), their system calls included; transactions are those in pgbench's log that ended in the
window. A ratio is of a watched window to the unwatched one of its round; medians and quartiles over
the rounds, and where the median of all such ratios lies (95 %, by the order of the values alone).
`--levels sync` has two windows a round: many rounds in little time. `--directory /dev/shm` takes
the disk's noise out of it: nothing waits, and a transaction has less CPU time of its own, so that
the same cost is a larger share of it.

The preloaded library needs a launch: a server of its own, on the same data in turn, a run of
pgbench beside one of an unwatched server in the same round.

Aims: sync at most 1.02 of unwatched, counts 1.10 (without lseek), events 1.15; attach within 0.3 s.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfslab._core import ShimRecords, SyscallWatch, build_info
from nfslab.databases.postgres.installation import find_installation
from nfslab.evidence.syscalls.ways import ebpf_grants, shim_missing
from nfslab.machine.processes import all_statuses
from nfslab.machine.users import as_user, primary_group, unprivileged_user
from scipy.stats import binom

PATIENCE_S = 300
# No checkpoint within a run: after one, first changes of pages take their images to the log, which
# costs more than what is measured.
SETTINGS = (
    "listen_addresses=", "shared_buffers=128MB", "autovacuum=off",
    "max_wal_size=64GB", "checkpoint_timeout=1d",
)  # fmt: skip
CLIENTS = 2
DETACH_S = 6
"""Linux waits for each probe that is taken away: seconds (docs/decisions/ebpf.md)."""
WATCHED: dict[str, dict[str, Any]] = {
    "sync": {"level": "sync"},
    "counts": {"level": "counts"},
    "counts and lseek": {"level": "counts", "lseek": True},
    "events": {"level": "events"},
}
LAUNCHED = ("sync", "counts")
UNWATCHED = "unwatched"
AIMS = {"sync": 1.02, "counts": 1.10, "events": 1.15}


@dataclass(frozen=True)
class Window:
    """One stretch of a load."""

    cpu_ns: int
    begin_s: float
    end_s: float

    def cpu_a_transaction_us(self, ends_s: list[float]) -> tuple[float, float]:
        """CPU time a transaction, and transactions a second."""
        done = sum(self.begin_s <= at < self.end_s for at in ends_s)
        if not done:
            raise SystemExit("no transaction ended in a window: give more --seconds")
        return self.cpu_ns / done / 1e3, done / (self.end_s - self.begin_s)


class Bench:
    """One cluster, servers on it one at a time."""

    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        self.asked, self.folder = asked, folder
        self.installation = find_installation()
        self.user = unprivileged_user()
        self.data, self.sockets = self.own("data"), self.own("sockets")

    def own(self, name: str, below: Path | None = None) -> Path:
        folder = (below or self.folder) / name
        folder.mkdir(mode=0o700)
        if self.user is not None:
            os.chown(folder, self.user, primary_group(self.user))
        return folder

    def argv(self, program: str, *arguments: object) -> list[str]:
        become = [] if self.user is None else as_user(self.user)
        return [*become, self.installation.program(program), *map(str, arguments)]

    def run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            self.argv(program, *arguments), capture_output=True, text=True, cwd="/",
            timeout=PATIENCE_S,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"{program}:\n{done.stderr}")

    def make(self) -> None:
        self.run("initdb", "-D", self.data, "-U", "bench", "--auth=trust", "--no-locale")
        with self.server():
            scale = str(self.asked.scale)
            self.run("pgbench", "-i", "-q", "-s", scale, *self.where, "postgres")

    @property
    def where(self) -> tuple[str, ...]:
        return ("-h", str(self.sockets), "-U", "bench")

    @contextlib.contextmanager
    def server(self, env: dict[str, str] | None = None) -> Iterator[int]:
        """A server that answers: its pid."""
        options = [word for setting in SETTINGS for word in ("-c", setting)]
        argv = self.argv("postgres", "-D", self.data, "-k", self.sockets, *options)
        with (self.folder / "postgres.log").open("ab") as log:
            program = subprocess.Popen(
                argv, stdout=log, stderr=log, cwd="/", env={**os.environ, **(env or {})}
            )
        try:
            deadline = time.monotonic() + PATIENCE_S
            ready = self.argv("pg_isready", *self.where, "-q")
            while subprocess.run(ready, cwd="/").returncode != 0:
                if program.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit((self.folder / "postgres.log").read_text("utf-8"))
                time.sleep(0.05)
            yield int((self.data / "postmaster.pid").read_text("utf-8").split()[0])
        finally:
            self.run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")
            program.wait(PATIENCE_S)

    @contextlib.contextmanager
    def load(self, postmaster: int, seconds: float) -> Iterator[tuple[list[int], list[float]]]:
        """pgbench while the context lasts: backends, and (afterwards) ends of transactions."""
        logs = self.own(f"logs-{time.monotonic_ns()}")
        program = subprocess.Popen(
            self.argv("pgbench", "-n", "-c", CLIENTS, "-T", round(seconds + 60), "-l",
                      "--log-prefix", logs / "log", *self.where, "postgres"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        ends: list[float] = []
        try:
            # pgbench asks for the scale first, by a connection that ends again.
            time.sleep(1.0)
            while len(backends := clients_of(postmaster)) != CLIENTS:
                time.sleep(0.05)
            yield sorted(backends), ends
        finally:
            # On a signal pgbench loses what it has not written: its end is asked of the server.
            self.run("psql", *self.where, "-d", "postgres", "-qc",
                     "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE application_name = 'pgbench'")  # fmt: skip
            program.wait(PATIENCE_S)
        for file in sorted(logs.iterdir()):
            for line in file.read_text("ascii").splitlines():
                fields = line.split()
                ends.append(int(fields[4]) + int(fields[5]) / 1e6)


def clients_of(postmaster: int) -> set[int]:
    """Backends that serve a client, by their titles."""
    found = set()
    for status in all_statuses():
        if status.parent == postmaster:
            with contextlib.suppress(OSError):
                title = Path(f"/proc/{status.identity.pid}/cmdline").read_bytes()
                if b"bench postgres [local]" in title:
                    found.add(status.identity.pid)
    return found


def cpu_ns(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def window(backends: list[int], seconds: float) -> Window:
    before, began = cpu_ns(backends), time.time()
    time.sleep(seconds)
    return Window(cpu_ns(backends) - before, began, time.time())


def by_ebpf(
    bench: Bench, levels: list[str], rounds: int, seconds: float
) -> tuple[list[dict[str, tuple[float, float]]], list[float], int]:
    """Windows of each round; how long attaching took; records lost."""
    found: list[dict[str, Window]] = []
    attach_s, lost = [], 0
    total_s = rounds * (len(levels) + 1) * (seconds + DETACH_S)
    with bench.server() as postmaster, bench.load(postmaster, total_s) as (backends, ends):
        for _ in range(rounds):
            names = [UNWATCHED, *levels]
            random.shuffle(names)
            windows = {}
            for name in names:
                if name == UNWATCHED:
                    windows[name] = window(backends, seconds)
                    continue
                options = dict(WATCHED[name])
                began = time.monotonic()
                watch = SyscallWatch([postmaster], options.pop("level"), **options)
                attach_s.append(time.monotonic() - began)
                windows[name] = window(backends, seconds)
                watch.take()
                lost += sum(n for key, n in watch.figures().items() if key.startswith("lost"))
                watch.stop()
            found.append(windows)
    rows = [{name: one.cpu_a_transaction_us(ends) for name, one in w.items()} for w in found]
    return rows, attach_s, lost


def launched(bench: Bench, level: str, seconds: float) -> tuple[float, float]:
    """CPU a transaction and transactions a second of a server with the library; "": without."""
    with contextlib.ExitStack() as stack:
        env: dict[str, str] = {}
        if level:
            memory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
            memory.chmod(0o711)
            records = ShimRecords(bench.own("shim", memory), level)
            stack.callback(records.stop)
            env = dict(records.environment())
        with bench.server(env) as postmaster:
            with bench.load(postmaster, seconds) as (backends, ends):
                one = window(backends, seconds)
            return one.cpu_a_transaction_us(ends)


def quartiles(values: list[float], digits: int = 3) -> str:
    if len(values) < 3:
        return f"{statistics.median(values):.{digits}f}"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def median_lies(values: list[float]) -> str:
    """95 % interval of the median by order statistics: the k-th least and k-th greatest value, k
    the greatest with P(Binomial(n, 1/2) < k) <= 2.5 % (Conover, Practical Nonparametric Statistics)
    """
    k = int(binom.ppf(0.025, len(values), 0.5))
    if k < 1:
        return ""
    ordered = sorted(values)
    return f"{ordered[k - 1]:.3f} to {ordered[-k]:.3f}"


def row(name: str, pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> str:
    """Median and quartiles of the ratios; pairs of (watched, unwatched)."""
    cpu = [own[0] / base[0] for own, base in pairs]
    tps = [own[1] / base[1] for own, base in pairs]
    aim = AIMS.get(name)
    return (
        f"| {name} | {quartiles([own[0] for own, _ in pairs], 1)} | {quartiles(cpu)} "
        f"| {quartiles(tps)} | {median_lies(cpu)} | {f'<= {aim:.2f}' if aim else ''} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="of eBPF's windows; 0: none")
    parser.add_argument(
        "--levels",
        nargs="+",
        choices=list(WATCHED),
        default=list(WATCHED),
        help="eBPF's; all if left out",
    )
    parser.add_argument("--launches", type=int, default=5, help="of servers of their own; 0: none")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a window")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--directory", default="/var/tmp", help="where the cluster is made")
    parser.add_argument("--small", action="store_true", help="a few seconds: does it still run?")
    asked = parser.parse_args()
    if asked.small:
        asked.rounds, asked.launches, asked.seconds, asked.scale = 1, 1, 0.5, 1
        asked.directory, asked.levels = "/dev/shm", ["events"]
    print(f"Linux {platform.release()}, core {build_info()['profile']} build, pgbench scale "
          f"{asked.scale}, {CLIENTS} clients, windows of {asked.seconds:g} s\n")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="nfslab-bench-", dir=asked.directory) as name:
        os.chmod(name, 0o755)
        bench = Bench(asked, Path(name))
        bench.make()
        print(
            "| watched by | CPU a transaction, us | to unwatched | tps to unwatched "
            "| median CPU ratio, 95 % | aim |"
        )
        print("|---|---|---|---|---|---|")
        if asked.rounds and ebpf_grants()["ok"]:
            rounds, attach_s, lost = by_ebpf(bench, asked.levels, asked.rounds, asked.seconds)
            for level in (UNWATCHED, *asked.levels):
                print(row(level, [(one[level], one[UNWATCHED]) for one in rounds]), flush=True)
        if asked.launches and (missing := shim_missing()):
            print(f"| preloaded library | left out: {missing} |")
            asked.launches = 0
        levels = LAUNCHED[:1] if asked.small else LAUNCHED
        for level in levels if asked.launches else ():
            pairs = []
            for _ in range(asked.launches):
                base = launched(bench, "", asked.seconds)
                pairs.append((launched(bench, level, asked.seconds), base))
            print(row(f"preloaded library, {level}", pairs), flush=True)
        if asked.rounds and ebpf_grants()["ok"]:
            print(f"\nAttached in {quartiles(attach_s)} s (aim: 0.3 s); {lost:,} records lost.")


if __name__ == "__main__":
    main()
