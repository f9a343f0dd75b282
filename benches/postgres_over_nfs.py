"""PostgreSQL on a local folder and on our mount of our server, with fsync on and off.

    python benches/postgres_over_nfs.py [--repetitions 3] [--turns 5] [--passthrough-ll PROGRAM]

Per repetition each place gets a database (initdb, `pgbench -i`). Then all have short turns of
TPC-B, one place at a time in random order, with fsync on, then with it off (what the path costs
without the storage's own sync). Places, all on the same disk:

    local                     a folder
    mount                     our mount on `nfslab serve FOLDER`, a process of its own
    mount, writeback          the same with the mount option `writeback`
    passthrough_ll            libfuse's example on a folder (built as benches/mount_throughput.py
                              says): what FUSE alone costs, a request for each write(2)
    passthrough_ll, io_uring  the same with FUSE over io_uring, if `enable_uring` of the module
                              `fuse` is on (Linux 6.14, libfuse 3.18)

Aims: the mount at least 0.8 of local in tps with fsync on, 0.85 with it off.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nfslab.databases.postgres.installation import Installation, find_installation
from nfslab.hosts.base import Hosts
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.machine.users import as_user, primary_group, unprivileged_user
from nfslab.targets.nfs import NfsTarget

HERE = Hosts(files=LocalHost(), servers=LocalHost())

PATIENCE_S = 300
SETTINGS = (
    "listen_addresses=",
    "shared_buffers=128MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=1h",
)
URING = Path("/sys/module/fuse/parameters/enable_uring")
LOCAL, OURS, OURS_BACK = "local", "mount", "mount, writeback"
THROUGH, THROUGH_URING = "passthrough_ll", "passthrough_ll, io_uring"
SYNCING, NOT_SYNCING = "tps, fsync on", "tps, fsync off"
# CPU of the whole machine beside: its other work is in it.
CPU = {SYNCING: "CPU us a transaction, on", NOT_SYNCING: "CPU us a transaction, off"}
COLUMNS = ("initdb s", "pgbench -i s", SYNCING, CPU[SYNCING], NOT_SYNCING, CPU[NOT_SYNCING])


class Bench:
    """One PostgreSQL, one unprivileged user, one folder for everything."""

    def __init__(self, asked: argparse.Namespace, folder: Path, resources: Resources) -> None:
        self.asked, self.folder, self.resources = asked, folder, resources
        self.installation: Installation = find_installation()
        user = unprivileged_user()
        if user is None:
            raise SystemExit("PostgreSQL needs a user that is not root, and there is none here")
        self.user = user

    @contextlib.contextmanager
    def database(self, place: Path, took: dict[str, float]) -> Iterator[Path]:
        """A running one on an empty folder that PostgreSQL's user owns: where its socket is."""
        data = place / "pgdata"
        sockets = Path(tempfile.mkdtemp(prefix="s", dir=self.folder))
        os.chown(sockets, self.user, primary_group(self.user))
        began = time.perf_counter()
        self.run("initdb", "-D", data, "-U", "bench", "--auth=trust", "--no-locale")
        took["initdb s"] = time.perf_counter() - began
        settings = " ".join(f"-c {setting}" for setting in SETTINGS)
        log = place / "postgres.log"
        control = ("-D", data, "-w", "-t", PATIENCE_S)
        self.run("pg_ctl", *control, "-l", log, "-o", f"-k {sockets} {settings}", "start")
        try:
            began = time.perf_counter()
            self.run("pgbench", "-i", "-q", "-s", self.asked.scale, *where(sockets))
            took["pgbench -i s"] = time.perf_counter() - began
            yield sockets
        finally:
            self.run("pg_ctl", *control, "-m", "fast", "stop")

    def set_fsync(self, sockets: Path, how: str) -> None:
        """All that was written before is on the disk, too."""
        for statement in (
            f"ALTER SYSTEM SET fsync = {how}",
            "SELECT pg_reload_conf()",
            "CHECKPOINT",
        ):
            self.run("psql", "-q", "-c", statement, *where(sockets))
        os.sync()

    def turn(self, sockets: Path) -> tuple[float, float]:
        """Transactions a second of a short load; the machine's CPU time for one, microseconds."""
        clients, seconds = self.asked.clients, self.asked.seconds
        before = busy_s()
        said = self.run("pgbench", "-c", clients, "-T", seconds, *where(sockets))
        spent = busy_s() - before
        tps = re.search(r"^tps = ([\d.]+)", said, re.MULTILINE)
        done = re.search(r"actually processed: (\d+)", said)
        if tps is None or done is None:
            raise SystemExit(f"pgbench said no tps:\n{said}")
        return float(tps[1]), spent / int(done[1]) * 1e6

    def argv(self, program: str, *arguments: object) -> list[str]:
        become = as_user(self.user) if os.geteuid() == 0 else []
        return [*become, self.installation.program(program), *map(str, arguments)]

    def run(self, program: str, *arguments: object) -> str:
        argv = self.argv(program, *arguments)
        # A file, not a pipe: the server that pg_ctl starts would hold the pipe open.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(argv, stdout=said, stderr=said, timeout=PATIENCE_S, cwd="/")
            said.seek(0)
            text = said.read()
        if done.returncode != 0:
            raise SystemExit(f"{program}:\n{text}")
        return text

    def own(self, folder: Path) -> Path:
        """The folder, made for PostgreSQL's user."""
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(folder, self.user, primary_group(self.user))
        return folder

    @contextlib.contextmanager
    def local(self) -> Iterator[Path]:
        folder = self.own(self.folder / "local")
        yield folder
        shutil.rmtree(folder)

    def mounted(self, **options: object) -> Callable[[], contextlib.AbstractContextManager[Path]]:
        """A target `nfs` of an experiment, as it is."""

        @contextlib.contextmanager
        def up() -> Iterator[Path]:
            directory = str(self.folder)
            parameters = NfsTarget.Parameters(server="embedded", directory=directory, **options)
            target = NfsTarget("bench", parameters)
            place = target.up(self.resources, HERE, owner=self.user)
            try:
                yield place.path
            finally:
                target.down(place)

        return up

    @contextlib.contextmanager
    def passthrough(self, more: str = "") -> Iterator[Path]:
        source, point = (
            self.own(self.folder / f"{name}{len(more)}") for name in ("source", "point")
        )
        options = f"source={source},cache=always,default_permissions{more}"
        # As PostgreSQL's user, whose files they are to be; nobody else may look in.
        become = as_user(self.user) if os.geteuid() == 0 else []
        argv = [*become, self.asked.passthrough_ll, "-f", "-o", options, str(point)]
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        try:
            while f" {point} " not in Path("/proc/self/mountinfo").read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{self.asked.passthrough_ll} did not mount")
                time.sleep(0.01)
            yield point
        finally:
            ends = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
            subprocess.run([*ends, str(point)], check=False)
            process.wait(PATIENCE_S)
            shutil.rmtree(source)
            point.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5, help="of each place in a repetition")
    parser.add_argument("--seconds", type=int, default=3, help="of TPC-B in a turn")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--directory", default="/var/tmp", help="where all places are")
    parser.add_argument("--passthrough-ll", metavar="PROGRAM", help="libfuse's example, built")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if asked.small:
        asked.repetitions, asked.turns, asked.seconds, asked.scale = 1, 1, 2, 1
    usable = NfsTarget.available()
    if not usable.ok:
        print(f"skipped: {usable.reason}")
        return
    with tempfile.TemporaryDirectory(dir=asked.directory) as name, Resources("bench") as resources:
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(asked, folder, resources)
        places: Places = {LOCAL: bench.local, OURS: bench.mounted()}
        places[OURS_BACK] = bench.mounted(mount_options=["writeback"])
        if asked.passthrough_ll:
            places[THROUGH] = bench.passthrough
            if URING.exists() and URING.read_text().startswith("Y"):
                places[THROUGH_URING] = lambda: bench.passthrough(",io_uring")
        show(bench, rounds(bench, places))


def where(sockets: Path) -> tuple[object, ...]:
    return ("-h", sockets, "-U", "bench", "postgres")


def busy_s() -> float:
    """CPU time of all programs and the kernel since the start (proc_stat(5))."""
    user, nice, system, _, _, irq, softirq = map(
        int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


Places = dict[str, Callable[[], contextlib.AbstractContextManager[Path]]]


def rounds(bench: Bench, places: Places) -> dict[str, list[dict[str, float]]]:
    """All places in a new random order per repetition and per turn; a repetition's medians."""
    order = random.Random(bench.asked.seed)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in places}
    for _ in range(bench.asked.repetitions):
        with contextlib.ExitStack() as stack:
            sockets = {}
            for name in order.sample(list(places), len(places)):
                took: dict[str, float] = {}
                found[name].append(took)
                place = stack.enter_context(places[name]())
                sockets[name] = stack.enter_context(bench.database(place, took))
            for column, how in ((SYNCING, "on"), (NOT_SYNCING, "off")):
                for one in sockets.values():
                    bench.set_fsync(one, how)
                turns: dict[str, list[tuple[float, float]]] = {name: [] for name in places}
                for _ in range(bench.asked.turns):
                    for name in order.sample(list(places), len(places)):
                        turns[name].append(bench.turn(sockets[name]))
                for name, all_turns in turns.items():
                    tps, cpu = zip(*all_turns, strict=True)
                    found[name][-1][column] = statistics.median(tps)
                    found[name][-1][CPU[column]] = statistics.median(cpu)
    return found


def show(bench: Bench, found: dict[str, list[dict[str, float]]]) -> None:
    """Medians with least and greatest, ratios of each repetition's figures, and the aims."""
    asked, installation = bench.asked, bench.installation
    print(
        f"PostgreSQL {installation.version}, scale {asked.scale}, {asked.clients} clients, "
        f"{asked.repetitions} repetitions of {asked.turns} turns of {asked.seconds} s\n"
    )
    ratios = (SYNCING, NOT_SYNCING, "initdb s")
    print("| place |", " | ".join([*COLUMNS, *(f"{name} of local" for name in ratios)]), "|")
    print("|---|" + "---:|" * (len(COLUMNS) + len(ratios)))
    for name, rows in found.items():
        cells = []
        for column in COLUMNS:
            values = [row[column] for row in rows]
            digits = 2 if column.endswith(" s") else 0
            middle, least, most = statistics.median(values), min(values), max(values)
            cells.append(f"{middle:.{digits}f} ({least:.{digits}f}-{most:.{digits}f})")
        cells += [f"{ratio(found, name, column):.2f}" for column in ratios]
        print(f"| {name} |", " | ".join(cells), "|")
    print("\n| aim | measured | |\n|---|---:|---|")
    for column, aim in ((SYNCING, 0.8), (NOT_SYNCING, 0.85)):
        measured = ratio(found, OURS, column)
        verdict = "kept" if measured >= aim else "missed"
        print(f"| {column}: {OURS} / {LOCAL} at least {aim} | {measured:.2f} | {verdict} |")


def ratio(found: dict[str, list[dict[str, float]]], name: str, column: str) -> float:
    """Median of the repetitions' ratios to local."""
    pairs = zip(found[name], found[LOCAL], strict=True)
    return statistics.median(one[column] / two[column] for one, two in pairs)


if __name__ == "__main__":
    main()
