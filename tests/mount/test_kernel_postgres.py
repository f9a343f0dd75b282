"""PostgreSQL with checksums on the kernel's client of our server, which is killed under load.

And on our mount of the kernel's server, which ends and begins anew under load.

test_in_guests.py runs this where this kernel has no NFS.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab._core import Mount
from nfslab.machine.processes import all_statuses

from tests.disk import DISK
from tests.machine import needs
from tests.mount.test_kernel_client import missing as no_kernel_client
from tests.mount.test_kernel_nfs import Nfsd, kernel, kernel_server
from tests.mount.test_postgres import (
    BINARIES,
    USER,
    Killed,
    Postgres,
    Served,
    check_invariant,
    load_with_kills,
)

PATIENCE_S = 120
LOAD_S = 8
KILL_EVERY_S = 2
KILLS = 2
no_postgres = "" if BINARIES else "PostgreSQL is not installed (Debian: postgresql)"
unable = no_kernel_client() or no_postgres
pytestmark = pytest.mark.skipif(bool(unable), reason=unable or "it can")


@contextmanager
def mounted(port: int, place: Path) -> Iterator[None]:
    """By the kernel: hard, so that nobody hears of a server that is away."""
    options = f"vers=3,proto=tcp,mountproto=tcp,nolock,addr=127.0.0.1,port={port},mountport={port}"
    mount = ["mount", "-i", "-t", "nfs", "-o", options, "127.0.0.1:/export", str(place)]
    subprocess.run(mount, check=True, timeout=PATIENCE_S)
    try:
        yield
    finally:
        subprocess.run(["umount", "-f", str(place)], check=True, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def initialized() -> Iterator[Path]:
    """A cluster with checksums: made once, here, and copied through each mount."""
    with tempfile.TemporaryDirectory(dir=DISK) as folder:
        os.chmod(folder, 0o755)
        made = Path(folder) / "data"
        made.mkdir(mode=0o700)
        os.chown(made, USER, USER)
        arguments = ["-D", made, "-U", "postgres", "-A", "trust", "--data-checksums", "--no-sync"]
        Postgres(made, made).run("initdb", *arguments)
        yield made


@pytest.fixture
def folders() -> Iterator[tuple[Path, Path, Path]]:
    """For the store, the mount and the sockets."""
    # Not pytest's own folder: each session takes it from other users again.
    with tempfile.TemporaryDirectory(dir=DISK) as folder:
        os.chmod(folder, 0o755)
        store, place, sockets = (Path(folder) / name for name in ("store", "mnt", "run"))
        for made in store, place, sockets:
            made.mkdir()
        os.chown(sockets, USER, USER)
        yield store, place, sockets


def test_a_server_killed_under_the_kernels_client_loses_nothing(
    folders: tuple[Path, Path, Path], initialized: Path
) -> None:
    """Confirmed transactions are there, TPC-B's sums agree, every page's checksum is right."""
    store, place, sockets = folders
    served = Served(store)
    try:
        with mounted(served.port, place):
            loaded(served, initialized, place, sockets)
    finally:
        served.end()


class Restarted:
    """The kernel's server, all of whose threads and connections end and begin anew."""

    def __init__(self, nfsd: Nfsd) -> None:
        self.nfsd = nfsd
        self.kills = 0

    def kill_and_start(self) -> None:
        # Where the kernel finds the portmapper of the run: it registers there.
        [mountd] = [one.identity.pid for one in all_statuses() if one.name == "rpc.mountd"]
        inside = ["nsenter", f"--target={mountd}", "--mount"]
        for arguments in ["0"], ["-H", "127.0.0.1", "-p", str(self.nfsd.port), "-U", "8"]:
            argv = [*inside, "rpc.nfsd", *arguments]
            subprocess.run(argv, check=True, timeout=PATIENCE_S)
        self.kills += 1


@kernel
@needs.fuse
def test_the_kernels_server_restarted_under_our_mount_loses_nothing(
    folders: tuple[Path, Path, Path], initialized: Path
) -> None:
    _, place, sockets = folders
    with kernel_server() as nfsd:
        options = f"port={nfsd.port},mountport={nfsd.mount_port},timeo=10"
        mount = Mount("127.0.0.1:/", place, options)
        try:
            loaded(Restarted(nfsd), initialized, place, sockets)
        finally:
            mount.unmount("force")


def loaded(served: Killed, initialized: Path, place: Path, sockets: Path) -> None:
    postgres = Postgres(place / "data", sockets)
    subprocess.run(["cp", "-a", str(initialized), str(place)], check=True, timeout=PATIENCE_S)
    where = ["-h", sockets, "-U", "postgres"]
    postgres.start()
    try:
        postgres.run("pgbench", *where, "-i", "-q", "-s", 1, "postgres")
        done = load_with_kills(served, postgres, load_s=LOAD_S, every_s=KILL_EVERY_S, kills=KILLS)
        assert int(postgres.ask("select count(*) from pgbench_history")) == done > 0
        check_invariant(postgres)
        postgres.end(signal.SIGINT)
    finally:
        if postgres.process is not None:
            postgres.end(signal.SIGKILL)
    told = postgres.run("pg_checksums", "--check", "-D", postgres.data).stdout
    assert "Bad checksums:  0" in told, told


def test_top_watches_the_kernels_mounts_live(tmp_path: Path) -> None:
    """Its rates are of the writes that go on meanwhile."""
    store, place = tmp_path / "store", tmp_path / "mnt"
    for made in store, place:
        made.mkdir()
    served = Served(store)
    try:
        with mounted(served.port, place):
            watched(place)
    finally:
        served.end()


def watched(place: Path) -> None:
    over = threading.Event()

    def write() -> None:
        (place / "pg_wal").mkdir()
        log = place / "pg_wal" / "000000010000000000000001"
        with log.open("wb", buffering=0) as file:
            while not over.is_set():
                file.write(bytes(8192))
                os.fsync(file.fileno())

    writing = threading.Thread(target=write)
    writing.start()
    try:
        done = subprocess.run(
            # Far longer than a write takes where the disk or the processors are others'.
            [sys.executable, "-m", "nfslab", "top", str(place), "--json", "--count", "3",
             "--interval", "5s"],
            capture_output=True, text=True, check=True, timeout=PATIENCE_S,
        )  # fmt: skip
    finally:
        over.set()
        writing.join()
    (first, _, last) = (json.loads(line)["mounts"][0] for line in done.stdout.splitlines())
    assert (first["name"], first["kind"]) == (str(place), "kernel")
    assert (first["state"], last["state"]) == ("", "")
    (write,) = [one for one in last["operations"] if one["operation"] == "WRITE"]
    assert write["calls_per_s"] > 0
    (log,) = [one for one in last["files"] if one["class"] == "PostgreSQL WAL"]
    assert log["written_bytes_per_s"] == pytest.approx(8192 * log["writes_per_s"])
    assert log["writes_per_s"] > 0
    assert last["sent_bytes_per_s"] >= 8192 * write["calls_per_s"]
