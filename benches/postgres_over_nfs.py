"""PostgreSQL on a local folder and over NFS: what our mount and server cost, beside fuse-nfs.

    python benches/postgres_over_nfs.py [--repetitions 5] [--fuse-nfs PROGRAM]
                                        [--passthrough-ll PROGRAM]

Per repetition, in random order, on each place: initdb, `pgbench -i`, then TPC-B with fsync off
(the storage's own sync would hide what the path to it costs). Places, all on the same disk:

    local                     a folder
    mount + embedded          our mount on `nfslab serve FOLDER`, a process of its own
    the same, async names     with `unsafe_async_names`: names are not synced at their reply
    the same, writeback       with the mount option `writeback`
    mount + Ganesha           our mount on NFS-Ganesha (FSAL VFS)
    fuse-nfs + Ganesha        libnfs' FUSE client on the same; its defaults but the ports
    passthrough_ll            libfuse's example on a folder (built as benches/mount_throughput.py
                              says): what FUSE alone costs, a request for each write(2)
    passthrough_ll, writeback the same with the kernel's write-back cache

Aims: our mount at least 0.85 of local and 1.3 times fuse-nfs + Ganesha in tps, its initdb within
3 times local. fuse-nfs (https://github.com/sahlberg/fuse-nfs) is not packaged: build it, or
have it in PATH; without it, or without NFS-Ganesha, those places are left out and it is said.
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
from nfslab.hosts.base import Hosts, Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.machine.users import as_user, primary_group, unprivileged_user
from nfslab.servers.ganesha import EXPORT, GaneshaParameters, GaneshaServer
from nfslab.targets.nfs import NfsTarget

HERE = Hosts(files=LocalHost(), servers=LocalHost())

PATIENCE_S = 300
SETTINGS = ("fsync=off", "listen_addresses=", "shared_buffers=128MB", "max_wal_size=4GB")
LOCAL, OURS, ON_GANESHA = "local", "mount + embedded", "mount + Ganesha"
ASYNC = "the same, async names"
FUSE_NFS, THROUGH = "fuse-nfs + Ganesha", "passthrough_ll"
OURS_BACK, THROUGH_BACK = "the same, writeback", "passthrough_ll, writeback"
COLUMNS = ("initdb s", "pgbench -i s", "tps")


class Bench:
    """One PostgreSQL, one unprivileged user, one folder for everything."""

    def __init__(self, asked: argparse.Namespace, folder: Path, resources: Resources) -> None:
        self.asked, self.folder, self.resources = asked, folder, resources
        self.installation: Installation = find_installation()
        user = unprivileged_user()
        if user is None:
            raise SystemExit("PostgreSQL needs a user that is not root, and there is none here")
        self.user = user

    def measure(self, place: Path) -> dict[str, float]:
        """One round on an empty folder that PostgreSQL's user owns."""
        data, sockets = place / "pgdata", self.folder / "sockets"
        began = time.perf_counter()
        self.run("initdb", "-D", data, "-U", "bench", "--auth=trust", "--no-locale")
        took = {"initdb s": time.perf_counter() - began}
        settings = " ".join(f"-c {setting}" for setting in SETTINGS)
        log = place / "postgres.log"
        control = ("-D", data, "-w", "-t", PATIENCE_S, "-s")
        self.run("pg_ctl", *control, "-l", log, "-o", f"-k {sockets} {settings}", "start")
        try:
            where = ("-h", sockets, "-U", "bench")
            scale = str(self.asked.scale)
            began = time.perf_counter()
            self.run("pgbench", "-i", "-q", "-s", scale, *where, "postgres")
            took["pgbench -i s"] = time.perf_counter() - began
            clients, seconds = str(self.asked.clients), str(self.asked.seconds)
            said = self.run("pgbench", "-c", clients, "-T", seconds, *where, "postgres")
            found = re.search(r"^tps = ([\d.]+)", said, re.MULTILINE)
            if found is None:
                raise SystemExit(f"pgbench said no tps:\n{said}")
            took["tps"] = float(found[1])
        finally:
            self.run("pg_ctl", *control, "-m", "fast", "stop")
        return took

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

    def mounted(
        self, server: str, **options: object
    ) -> Callable[[], contextlib.AbstractContextManager[Path]]:
        """A target `nfs` of an experiment, as it is."""

        @contextlib.contextmanager
        def up() -> Iterator[Path]:
            directory = str(self.folder)
            parameters = NfsTarget.Parameters(server=server, directory=directory, **options)
            target = NfsTarget("bench", parameters)
            place = target.up(self.resources, HERE, owner=self.user)
            try:
                yield place.path
            finally:
                target.down(place)

        return up

    @contextlib.contextmanager
    def passthrough(self, more: str = "") -> Iterator[Path]:
        source, point = (self.own(self.folder / name) for name in ("source", "point"))
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

    @contextlib.contextmanager
    def fuse_nfs(self) -> Iterator[Path]:
        base = self.folder / "peer"
        export, point = base / "export", base / "mount"
        for folder in (base, export, point):
            folder.mkdir(mode=0o755)
        server = GaneshaServer(GaneshaParameters(), "ganesha")
        server.start(base, self.resources, host=LocalHost(), link=Link())
        ports = f"nfsport={server.port()}&mountport={server.port('mountport')}"
        url = f"nfs://127.0.0.1{EXPORT}?version=3&{ports}"
        # PostgreSQL's user is told apart from root by the calls' own credentials.
        argv = [self.asked.fuse_nfs, "-n", url, "-m", str(point), "-o", "-a"]
        try:
            # It goes on by itself once it is mounted, and ends when it is unmounted.
            done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
            if done.returncode != 0 or not os.path.ismount(point):
                raise SystemExit(f"fuse-nfs did not mount:\n{done.stdout}{done.stderr}")
            yield self.own(point / "data")
        finally:
            if os.path.ismount(point):
                subprocess.run(["umount", str(point)], check=True)
            server.stop()
            shutil.rmtree(base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="of TPC-B")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--directory", default="/var/tmp", help="where all places are")
    parser.add_argument("--fuse-nfs", default=shutil.which("fuse-nfs"), metavar="PROGRAM")
    parser.add_argument("--passthrough-ll", metavar="PROGRAM", help="libfuse's example, built")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if asked.small:
        asked.repetitions, asked.seconds, asked.scale = 1, 3, 1
    usable = NfsTarget.available()
    if not usable.ok:
        print(f"skipped: {usable.reason}")
        return
    with tempfile.TemporaryDirectory(dir=asked.directory) as name, Resources("bench") as resources:
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(asked, folder, resources)
        bench.own(folder / "sockets")
        places = {LOCAL: bench.local, OURS: bench.mounted("embedded")}
        places[ASYNC] = bench.mounted("embedded", unsafe_async_names=True)
        places[OURS_BACK] = bench.mounted("embedded", mount_options=["writeback"])
        if asked.passthrough_ll:
            places[THROUGH] = bench.passthrough
            places[THROUGH_BACK] = lambda: bench.passthrough(",writeback")
        there = GaneshaServer.available()
        if there.ok:
            places[ON_GANESHA] = bench.mounted("ganesha")
            if asked.fuse_nfs:
                places[FUSE_NFS] = bench.fuse_nfs
        show(bench, rounds(bench, places))
        if not there.ok:
            print(f"\nNFS-Ganesha left out: {there.reason}")
        elif not asked.fuse_nfs:
            print("\nfuse-nfs left out: not in PATH, and no --fuse-nfs")


def rounds(
    bench: Bench, places: dict[str, Callable[[], contextlib.AbstractContextManager[Path]]]
) -> dict[str, list[dict[str, float]]]:
    """All places in a new random order per repetition."""
    order = random.Random(bench.asked.seed)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in places}
    for _ in range(bench.asked.repetitions):
        for name in order.sample(list(places), len(places)):
            with places[name]() as place:
                found[name].append(bench.measure(place))
    return found


def show(bench: Bench, found: dict[str, list[dict[str, float]]]) -> None:
    """Medians with least and greatest, ratios of each repetition's figures, and the aims."""
    asked, installation = bench.asked, bench.installation
    print(
        f"PostgreSQL {installation.version}, scale {asked.scale}, {asked.clients} clients, "
        f"{asked.seconds} s, fsync off; {asked.repetitions} repetitions\n"
    )
    print("| place |", " | ".join(COLUMNS), "| tps of local | initdb of local |")
    print("|---|" + "---:|" * (len(COLUMNS) + 2))
    for name, rows in found.items():
        cells = []
        for column in COLUMNS:
            values = [row[column] for row in rows]
            digits = 0 if column == "tps" else 2
            middle, least, most = statistics.median(values), min(values), max(values)
            cells.append(f"{middle:.{digits}f} ({least:.{digits}f}-{most:.{digits}f})")
        cells += [f"{ratio(found, name, LOCAL, column):.2f}" for column in ("tps", "initdb s")]
        print(f"| {name} |", " | ".join(cells), "|")
    print("\n| aim | measured | |\n|---|---:|---|")
    aims = [
        (OURS, LOCAL, "tps", 0.85),
        (OURS_BACK, LOCAL, "tps", 0.85),
        (OURS, FUSE_NFS, "tps", 1.3),
        (OURS, LOCAL, "initdb s", 3.0),
        (OURS_BACK, LOCAL, "initdb s", 3.0),
    ]
    for name, other, column, aim in aims:
        if other in found:
            measured = ratio(found, name, other, column)
            kept = measured >= aim if column == "tps" else measured <= aim
            word = "at least" if column == "tps" else "at most"
            verdict = "kept" if kept else "missed"
            print(f"| {column}: {name} / {other} {word} {aim} | {measured:.2f} | {verdict} |")


def ratio(found: dict[str, list[dict[str, float]]], name: str, other: str, column: str) -> float:
    """Median of the repetitions' ratios."""
    pairs = zip(found[name], found[other], strict=True)
    return statistics.median(one[column] / two[column] for one, two in pairs)


if __name__ == "__main__":
    main()
