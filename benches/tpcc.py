"""The workload `tpcc` beside go-tpc: loading, running, and each one's checks on the other's tables.

    python benches/tpcc.py [--go-tpc PROGRAM] [--warehouses 4] [--rounds 5] [--seconds 20]

One PostgreSQL, its files in memory, for both programs, each with a database of its own; both
connect over the Unix socket. Rounds are interleaved in random order; medians with least and most.

Loading: the same rows and keys; as many connections as there are processors. Ours makes the keys
last and ends with ANALYZE and its twelve conditions; go-tpc makes them first, with two more on
`history`, and is given --no-check. Ours once more with client and server on one core. Aim: 4 s a
warehouse there.

Running: no keying and think times, a random warehouse for each transaction, read committed, the
same mix. go-tpc sends each statement of a transaction by itself, some 20 for a new order, after a
ping; with pgbench a transaction is one call of a procedure: the work between its statements is the
server's, so its CPU stands beside. Both programs' CPU is that of the whole mix and of their start,
for each new order that is in the database (D_NEXT_O_ID). Aim: our client's CPU at most a third of
go-tpc's.

Checks: after loading and after running, our conditions and `go-tpc tpcc check` on the tables of
both. For go-tpc's, `history` gets an index meanwhile: it reads it once for each customer.

go-tpc: go install github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12; without it, our half alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from nfslab.databases.postgres import cluster
from nfslab.databases.postgres.database import PostgresSession
from nfslab.databases.postgres.deployment import ROLE_NAME, PostgresDeployment
from nfslab.databases.postgres.server import Server, start_server
from nfslab.databases.shared.deployment import without_client_variables
from nfslab.hosts.local import LocalHost
from nfslab.machine.processes import all_statuses
from nfslab.machine.resources import Resources
from nfslab.machine.users import primary_group
from nfslab.workloads.pgbench.execution import server_cpu_s
from nfslab.workloads.pgbench.invocation import pgbench_arguments
from nfslab.workloads.pgbench.printed import read_printed_report
from nfslab.workloads.tpcc import conditions
from nfslab.workloads.tpcc.parameters import MIX, TpccParameters
from nfslab.workloads.tpcc.postgres.scripts import write_scripts
from nfslab.workloads.tpcc.postgres.tables import TpccTables
from nfslab.workloads.tpcc.postgres.workload import LOAD_S_PER_WAREHOUSE, TpccOnPostgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab.databases.shared.settings import SettingValue

SEED: Final = 20031008
PATIENCE_S: Final = 1800
CPU_SHARE: Final = 1 / 3
SETTINGS: Final[dict[str, SettingValue]] = {
    # Vacuumed before each turn: it would fall into the other one's.
    "autovacuum": False, "shared_buffers": "512MB", "max_wal_size": "4GB",
}  # fmt: skip
OURS, ONE_CORE, PEER = "nfslab", "nfslab, client and server on one core", "go-tpc"
DATABASES: Final = {OURS: "ours", ONE_CORE: "one_core", PEER: "peer"}
FAILED: Final = re.compile(r"failed|panic|error", re.IGNORECASE)
ERRORS: Final = re.compile(r"^\[Summary\] \w+_ERR .*? Count: (\d+)", re.MULTILINE)
VERSION: Final = re.compile(rb"mod\tgithub\.com/pingcap/go-tpc\t(v[\w.-]+)")
CHECKED: Final = re.compile(r"^begin to check warehouse (\d+) at condition (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Cost:
    """One turn of one program."""

    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    new_orders: int = 0
    errors: int = 0


class Bench:
    """A server, and what is asked."""

    def __init__(self, asked: argparse.Namespace, folder: Path, resources: Resources) -> None:
        self.asked, self.folder = asked, folder
        self.cores = os.sched_getaffinity(0)
        values = {"data": "disk", "warehouses": asked.warehouses, "terminals": asked.terminals,
                  "threads": len(self.cores), "homes": "random",
                  "duration": asked.seconds}  # fmt: skip
        self.parameters = TpccParameters.model_validate(values)
        work = TpccOnPostgres(self.parameters)
        if not (usable := work.check()).ok:
            raise SystemExit(usable.reason)
        self.installation = work.database.installation
        deadline = time.monotonic() + PATIENCE_S
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.deployment = PostgresDeployment(
            installation=work.database.installation, host=LocalHost(), resources=resources,
            user=work.owner(), logs=self.logs, remaining_s=lambda: deadline - time.monotonic(),
            commands=[], database="postgres",
        )  # fmt: skip
        self.server = self._server()

    def _server(self) -> Server:
        place = cluster.ClusterPlace(self.folder / "data" / "pgdata", None)
        place.data.parent.mkdir()
        if (user := self.deployment.user) is not None:
            os.chown(place.data.parent, user, primary_group(user))
        shape = cluster.Shape("", TpccTables(1), data_checksums=None, wal_segment_bytes=None)
        cluster.initialise(self.deployment, place, shape)
        return start_server(self.deployment, place.data, SETTINGS, places={})

    def of(self, name: str) -> Server:
        """The server, for the database of that name."""
        named = replace(self.deployment, database=DATABASES[name])
        return replace(self.server, deployment=named)

    def run(self, *statements: str, name: str | None = None) -> None:
        with (self.of(name) if name else self.server).connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def metered(self, work: Callable[[], float]) -> Cost:
        """Time and CPU of `work`, which answers with the CPU seconds of its own process."""
        before = server_cpu_s(self.server.process.pid)
        began = time.perf_counter()
        client = work()
        wall = time.perf_counter() - began
        after = server_cpu_s(self.server.process.pid)
        assert before is not None
        assert after is not None
        return Cost(wall, client, after - before)

    def program(self, argv: Sequence[str], log: Path) -> float:
        """Run it to its end; its CPU seconds."""
        with log.open("w") as stream:
            process = subprocess.Popen(
                without_client_variables(argv), stdout=stream, stderr=subprocess.STDOUT
            )
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(argv)}:\n{log.read_text()[-3000:]}")
        return used.ru_utime + used.ru_stime

    def peer(self, name: str, action: str, *more: str, threads: int) -> list[str]:
        """go-tpc's command, on the tables of `name`."""
        where = urlencode({"host": self.server.host, "sslmode": "disable"})
        return [
            self.asked.go_tpc, "tpcc", action, "--driver", "postgres", "--conn-params", where,
            # A host named there would come before the socket's folder.
            "--targets", f":{self.server.port}", "--user", ROLE_NAME, "--db", DATABASES[name],
            "--warehouses", str(self.asked.warehouses), "--threads", str(threads), *more,
        ]  # fmt: skip

    def load(self, name: str) -> Cost:
        """Into a new database."""
        database = DATABASES[name]
        self.run(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", "CHECKPOINT")
        if name == PEER:
            argv = self.peer(name, "prepare", "--no-check", threads=len(self.cores))
            log = self.logs / "prepare.out"
            cost = self.metered(lambda: self.program(argv, log))
            if FAILED.search(log.read_text()):
                raise SystemExit(log.read_text())
            return cost

        def ours() -> float:
            began = time.process_time()
            TpccTables(self.asked.warehouses).load(self.of(name))
            return time.process_time() - began

        if name == ONE_CORE:
            with self.on_one_core():
                return self.metered(ours)
        return self.metered(ours)

    @contextmanager
    def on_one_core(self) -> Iterator[None]:
        """The server's processes and our threads."""
        postmaster = self.server.process.pid
        children = [one.identity.pid for one in all_statuses() if one.parent == postmaster]
        threads = [int(path.name) for path in Path("/proc/self/task").iterdir()]
        pinned = [postmaster, *children, *threads]

        def pin(cores: set[int]) -> None:
            for pid in pinned:
                # A connection's process that was just ending.
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(pid, cores)

        try:
            pin({min(self.cores)})
            yield
        finally:
            pin(self.cores)

    def orders(self, name: str) -> int:
        with self.of(name).connect() as connection:
            row = connection.execute("SELECT sum(d_next_o_id) FROM district").fetchone()
        assert row is not None
        return int(row[0])

    def drive(self, name: str, seed: int) -> Cost:
        """A turn of the load."""
        self.run("VACUUM (ANALYZE)", "CHECKPOINT", name=name)
        before = self.orders(name)
        log = self.logs / "run.out"
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            if name == PEER:
                errors_too = ("--ignore-error", "--silence", "--time", f"{self.asked.seconds}s")
                argv = self.peer(name, "run", *errors_too, threads=self.asked.terminals)
            else:
                prefix = Path(folder) / "log"
                driver = self.parameters.driver(
                    write_scripts(Path(folder), MIX, self.parameters.calls)
                )
                argv = pgbench_arguments(driver, self.of(name), seed=seed, log_prefix=prefix)
            cost = self.metered(lambda: self.program(argv, log))
        said = log.read_text()
        if name == PEER:
            errors = sum(map(int, ERRORS.findall(said)))
        else:
            errors = read_printed_report(said).failed
        return replace(cost, new_orders=self.orders(name) - before, errors=errors)

    def our_check(self, name: str, *, loaded: bool) -> str:
        with self.of(name).connect() as connection:
            session = PostgresSession(self.of(name), connection)
            found = conditions.violations(session, "postgres", loaded=loaded)
        return conditions.told(found) or f"{len(found)} hold"

    def peer_check(self, name: str, *, loaded: bool) -> str:
        """go-tpc's; it leaves with 0 whatever it finds."""
        if not self.asked.go_tpc:
            return "-"
        index = "bench_history ON history (h_c_w_id, h_c_d_id, h_c_id)"
        self.run(f"CREATE INDEX {index}", "ANALYZE", name=name)
        log = self.logs / "check.out"
        # go-tpc stops a thread at its first fault.
        more = ["--check-all"] if loaded else []
        self.program(self.peer(name, "check", *more, threads=len(self.cores)), log)
        self.run("DROP INDEX bench_history", name=name)
        said = log.read_text()
        faults = [line for line in said.splitlines() if FAILED.search(line)]
        done = set(CHECKED.findall(said))
        numbers = {condition for _, condition in done}
        if len(done) != self.asked.warehouses * len(numbers) or not numbers:
            faults.append(f"only {len(done)} checks were made")
        return "; ".join(faults) or f"{len(numbers)} hold"


def shown(values: Sequence[float], form: str) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def turns(
    names: Sequence[str], rounds: int, turn: Callable[[str, int], Cost]
) -> dict[str, list[Cost]]:
    order = random.Random(SEED)
    found: dict[str, list[Cost]] = {name: [] for name in names}
    for number in range(rounds):
        for name in order.sample(names, len(names)):
            found[name].append(turn(name, number))
    return found


def loading(bench: Bench, names: Sequence[str], rounds: int) -> None:
    found = turns(names, rounds, lambda name, _: bench.load(name))
    warehouses = bench.asked.warehouses
    print("| loading, a warehouse | s | client's CPU s | server's CPU s |")
    print("|---|---:|---:|---:|")
    for name, costs in found.items():
        cells = [
            shown([getattr(cost, field) / warehouses for cost in costs], ".2f")
            for field in ("wall_s", "client_cpu_s", "server_cpu_s")
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    alone = found[ONE_CORE]
    took = statistics.median(cost.wall_s for cost in alone) / warehouses
    busy = statistics.median(cost.client_cpu_s + cost.server_cpu_s for cost in alone) / warehouses
    print(f"\naim: {LOAD_S_PER_WAREHOUSE:g} s a warehouse on one core: {took:.2f} s, "
          f"{verdict(took <= LOAD_S_PER_WAREHOUSE)} ({busy:.2f} s of CPU: the rest is waiting, "
          f"also for a core that others use)\n")  # fmt: skip


def running(bench: Bench, names: Sequence[str], rounds: int) -> None:
    found = turns(names, rounds, lambda name, number: bench.drive(name, SEED + number))
    print("| running | new orders a minute | client's CPU us a new order | "
          "server's CPU us a new order | errors |")  # fmt: skip
    print("|---|---:|---:|---:|---:|")
    for name, costs in found.items():
        cells = [
            shown([cost.new_orders / cost.wall_s * 60 for cost in costs], ",.0f"),
            shown([cost.client_cpu_s / cost.new_orders * 1e6 for cost in costs], ".0f"),
            shown([cost.server_cpu_s / cost.new_orders * 1e6 for cost in costs], ",.0f"),
            str(sum(cost.errors for cost in costs)),
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    if PEER in found:
        shares = [
            (ours.client_cpu_s / ours.new_orders) / (peer.client_cpu_s / peer.new_orders)
            for ours, peer in zip(found[OURS], found[PEER], strict=True)
        ]
        kept = verdict(statistics.median(shares) <= CPU_SHARE)
        print(f"\naim: our client's CPU at most {CPU_SHARE:.2f} of go-tpc's: "
              f"{shown(shares, '.2f')}, {kept}")  # fmt: skip
    print()


def verdict(kept: bool) -> str:
    return "kept" if kept else "missed"


def checks(bench: Bench, names: Sequence[str], *, loaded: bool) -> bool:
    """A row for each one's tables."""
    good = True
    for name in names:
        found = [bench.our_check(name, loaded=loaded), bench.peer_check(name, loaded=loaded)]
        when = "loaded" if loaded else "after running"
        print(f"| {name}'s tables, {when} | {' | '.join(found)} |")
        good &= all(one == "-" or one.endswith(" hold") for one in found)
    return good


def measure(bench: Bench) -> bool:
    asked = bench.asked
    peer = [PEER] if asked.go_tpc else []
    version = ""
    if asked.go_tpc:
        # It does not know its version; what Go wrote into the program does.
        built = VERSION.search(Path(asked.go_tpc).read_bytes())
        version = f"go-tpc {built[1].decode() if built else 'of unknown version'}, "
    print(f"{version}PostgreSQL {bench.installation.version}, Linux {platform.release()}, "
          f"{len(bench.cores)} processors; {asked.warehouses} warehouses, {asked.terminals} "
          f"terminals, {asked.seconds} s; load average {os.getloadavg()[0]:.1f}\n")  # fmt: skip
    loading(bench, [OURS, ONE_CORE, *peer], asked.rounds)
    head = "| | our conditions | go-tpc's check |\n|---|---|---|"
    bench.run(f"DROP DATABASE {DATABASES[ONE_CORE]}")
    print(head)
    good = checks(bench, [OURS, *peer], loaded=True)
    print()
    running(bench, [OURS, *peer], asked.rounds)
    print(head)
    return checks(bench, [OURS, *peer], loaded=False) and good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--go-tpc", metavar="PROGRAM", default=shutil.which("go-tpc"))
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument("--terminals", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=20, help="of a turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="a moment: does it still run?")
    asked = parser.parse_args()
    if asked.small:
        # Longer than a machine may stand still: CPU is divided by new orders.
        asked.warehouses, asked.terminals, asked.seconds, asked.rounds = 1, 2, 6, 1
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name,
        Resources("bench") as resources,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(asked, folder, resources)
        try:
            good = measure(bench)
        finally:
            bench.server.stop()
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
