"""PostgreSQL on the mount, over the directory store: load, the TPC-B invariant, a kill, recovery.

`NFSLAB_KILLS_S` is the length of the load under which the server is killed and started again every
`NFSLAB_KILL_EVERY_S` (6 and 2 s).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from nfslab._core import Mount, Server

from tests.machine import needs

USER = 65534
"""PostgreSQL refuses to run as root."""
KILLS_S = int(os.environ.get("NFSLAB_KILLS_S", "6"))
KILL_EVERY_S = int(os.environ.get("NFSLAB_KILL_EVERY_S", "2"))
ROOM_S = 600
"""Of a load beyond its length, for all that is done beside it."""
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def missing() -> str:
    """Why this cannot run here; empty where it can."""
    if refused := needs.mounting_refused():
        return refused
    if not BINARIES:
        return "PostgreSQL is not installed (Debian: postgresql)"
    return "" if shutil.which("setpriv") else "setpriv is not there (util-linux)"


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "usable")


class Postgres:
    """A cluster in a folder of the mount, asked over a socket beside it."""

    def __init__(self, data: Path, sockets: Path) -> None:
        self.data, self.sockets = data, sockets
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(program, *arguments),
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        assert done.returncode == 0, f"{program}: {done.stdout}\n{done.stderr}"
        return done

    def spawn(self, program: str, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(program, *arguments),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/",
        )  # fmt: skip

    def argv(self, program: str, *arguments: object) -> list[str]:
        become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        return [*become, str(BINARIES[-1] / program), *map(str, arguments)]

    def start(self) -> None:
        arguments = ["-D", self.data, "-k", self.sockets, "-c", "listen_addresses="]
        with (self.sockets / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.argv("postgres", *arguments), stdout=log, stderr=log, cwd="/"
            )
        asked = self.argv("pg_isready", "-q", "-h", self.sockets)
        while subprocess.run(asked, check=False, cwd="/").returncode != 0:
            assert self.process.poll() is None, (self.sockets / "log").read_text()

    def end(self, number: int) -> None:
        assert self.process is not None
        if number == signal.SIGKILL:
            # All of its processes: the children of a killed postmaster go on for a moment.
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            dying = []
            for child in children.read_text().split():
                with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                    dying.append(os.pidfd_open(int(child)))
                    signal.pidfd_send_signal(dying[-1], signal.SIGKILL)
            self.process.send_signal(number)
            # What still has the shared memory keeps a new server from it.
            for descriptor in dying:
                select.select([descriptor], [], [])
                os.close(descriptor)
        self.process.send_signal(number)
        self.process.wait()
        self.process = None

    def ask(self, sql: str) -> str:
        where = ["-h", self.sockets, "-d", "postgres", "-U", "postgres"]
        return self.run("psql", *where, "-XAtc", sql).stdout.strip()


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    # Not pytest's own folder: each session takes it from other users again.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield from cluster_in(Path(folder))


def cluster_in(root: Path) -> Iterator[Postgres]:
    """A server, a mount of it, and a cluster on that."""
    store, place, sockets = root / "store", root / "mnt", root / "run"
    for folder in store, place, sockets:
        folder.mkdir()
    os.chown(sockets, USER, USER)
    with Server(json.dumps({"store": "directory", "path": str(store)})) as server:
        yield from cluster_on(server.port, place, sockets)


def cluster_on(port: int, place: Path, sockets: Path, more: str = "") -> Iterator[Postgres]:
    """A mount of the server on this port, and a cluster on that."""
    mount = Mount("127.0.0.1:/export", place, f"port={port},mountport={port},{more}")
    cluster = Postgres(place / "data", sockets)
    try:
        cluster.data.mkdir(mode=0o700)
        os.chown(cluster.data, USER, USER)
        yield cluster
    finally:
        if cluster.process is not None:
            cluster.end(signal.SIGKILL)
        mount.unmount("force")


class Served:
    """`nfslab serve` on a folder, killed and started again on the same port."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.port = 0
        self.kills = 0
        self.start()

    def start(self) -> None:
        argv = [sys.executable, "-m", "nfslab", "serve", str(self.store), "--json"]
        argv += ["--squash", "none"]  # root makes the server's folders
        self.process = subprocess.Popen(
            [*argv, "--port", str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = json.loads(self.process.stdout.readline())["port"]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def kill_and_start(self) -> None:
        self.end()
        self.kills += 1
        with socket.socket() as held:
            # No connection of another test is given the port before it is there again.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", self.port))
            self.start()


@pytest.fixture
def killed() -> Iterator[tuple[Served, Postgres]]:
    """A server in a process of its own, and a cluster on a mount of it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        store, place, sockets = (Path(folder) / name for name in ("store", "mnt", "run"))
        for made in store, place, sockets:
            made.mkdir()
        os.chown(sockets, USER, USER)
        served = Served(store)
        try:
            for cluster in cluster_on(served.port, place, sockets, "timeo=10,writeback"):
                yield served, cluster
        finally:
            served.end()


@pytest.mark.system
@pytest.mark.long
def test_load_kill_and_recovery(postgres: Postgres) -> None:
    postgres.run("initdb", "-D", postgres.data, "-U", "postgres", "-A", "trust", "--no-sync")
    postgres.start()
    where = ["-h", postgres.sockets, "-U", "postgres"]
    postgres.run("pgbench", *where, "-i", "-q", "-s", 1, "postgres")
    load = postgres.run("pgbench", *where, "-n", "-c", 4, "-t", 10, "postgres").stdout
    assert "number of failed transactions: 0" in load
    check_invariant(postgres)
    count = int(postgres.ask("select count(*) from pgbench_history"))
    assert count == 4 * 10
    postgres.end(signal.SIGKILL)
    postgres.start()
    check_invariant(postgres)
    # Each transaction that was confirmed before the kill is there.
    assert int(postgres.ask("select count(*) from pgbench_history")) == count
    postgres.end(signal.SIGINT)


@pytest.mark.long
@pytest.mark.timeout(4 * KILLS_S + ROOM_S)
def test_a_server_killed_again_and_again_loses_nothing(killed: tuple[Served, Postgres]) -> None:
    served, postgres = killed
    postgres.run("initdb", "-D", postgres.data, "-U", "postgres", "-A", "trust")
    postgres.start()
    where = ["-h", postgres.sockets, "-U", "postgres"]
    postgres.run("pgbench", *where, "-i", "-q", "-s", 2, "postgres")
    kills = max(1, KILLS_S // KILL_EVERY_S - 1)
    done = load_with_kills(served, postgres, load_s=KILLS_S, every_s=KILL_EVERY_S, kills=kills)
    assert int(postgres.ask("select count(*) from pgbench_history")) == done
    check_invariant(postgres)
    if (BINARIES[-1] / "pg_amcheck").exists():
        postgres.ask("create extension if not exists amcheck")
        postgres.run("pg_amcheck", *where, "-d", "postgres", "--heapallindexed")
    postgres.end(signal.SIGINT)


class Killed(Protocol):
    """A server that can be taken away and brought back on the same port."""

    kills: int

    def kill_and_start(self) -> None: ...


def load_with_kills(
    served: Killed, postgres: Postgres, *, load_s: int, every_s: int, kills: int
) -> int:
    """Transactions that were confirmed, none failed, while the server was killed so often."""
    done = 0
    # Where a start takes long, one load is over before all of the kills were.
    while served.kills < kills:
        where = ["-h", postgres.sockets, "-U", "postgres"]
        load = postgres.spawn("pgbench", *where, "-n", "-c", 4, "-T", load_s, "postgres")
        while True:
            # No more than that: a server that is killed as soon as it is there answers nobody.
            more = served.kills < kills
            try:
                said, _ = load.communicate(timeout=every_s if more else load_s + ROOM_S)
                break
            except subprocess.TimeoutExpired:
                assert more, "the load does not end"
                served.kill_and_start()
        assert load.returncode == 0, said
        assert "number of failed transactions: 0" in said, said
        done += int(said.split("number of transactions actually processed: ")[1].split()[0])
    return done


def check_invariant(postgres: Postgres) -> None:
    """TPC-B: tellers, branches, accounts and history agree."""
    sums = postgres.ask(
        "select (select sum(abalance) from pgbench_accounts),"
        " (select sum(tbalance) from pgbench_tellers),"
        " (select sum(bbalance) from pgbench_branches),"
        " (select coalesce(sum(delta), 0) from pgbench_history)"
    )
    assert len(set(sums.split("|"))) == 1, sums
