"""PostgreSQL counts and times its own fdatasyncs: programs in the kernel see the same.

`pg_stat_wal.wal_sync` and `wal_sync_time` (track_wal_io_timing) of PostgreSQL 14 to 17 are the
truth; a second server beside the first must not be mixed in.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab._core import SyscallWatch

from tests.core.watched_program import Seen, needs_ebpf
from tests.mount.test_postgres import BINARIES, USER, Postgres, missing
from tests.waiting import until

TRANSACTIONS = 400
CLIENTS = 3
SETTINGS = """
# Nothing is synced but for a commit: no record of what runs every 15 s, which is made for standbys
# and may come between a reading of the counter and the watch's begin or end.
autovacuum = off
wal_level = minimal
max_wal_senders = 0
checkpoint_timeout = 1d
max_wal_size = 4GB
track_wal_io_timing = on
fsync = on
synchronous_commit = on
wal_sync_method = fdatasync
"""

pytestmark = [
    pytest.mark.long,
    needs_ebpf,
    pytest.mark.skipif(bool(missing()), reason=missing() or "usable"),
]


@contextmanager
def cluster(root: Path) -> Iterator[Postgres]:
    """A server with pgbench's tables."""
    root.parent.chmod(0o755)
    root.mkdir(mode=0o755)
    (root / "run").mkdir()
    os.chown(root, USER, USER)
    os.chown(root / "run", USER, USER)
    postgres = Postgres(root / "data", root / "run")
    postgres.run("initdb", "-N", "-D", postgres.data, "-U", "postgres", "-A", "trust")
    with (postgres.data / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS)
    postgres.start()
    try:
        postgres.run("pgbench", *where(postgres), "-q", "-i", "-s", "1")
        yield postgres
    finally:
        if postgres.process is not None:
            postgres.end(signal.SIGINT)


def where(postgres: Postgres) -> list[object]:
    return ["-h", postgres.sockets, "-U", "postgres", "postgres"]


def load(postgres: Postgres) -> list[object]:
    asked = ["-n", "-c", CLIENTS, "-j", 1, "-t", TRANSACTIONS // CLIENTS]
    return ["pgbench", *asked, *where(postgres)]


def wal_syncs(postgres: Postgres) -> tuple[int, float]:
    """So many, and how long they took together, ns."""
    number, milliseconds = postgres.ask("select wal_sync, wal_sync_time from pg_stat_wal").split(
        "|"
    )
    return int(number), float(milliseconds) * 1e6


@pytest.mark.skipif(
    bool(BINARIES) and not 14 <= int(BINARIES[-1].parent.name) <= 17,
    reason="pg_stat_wal of this version has no wal_sync",
)
def test_every_sync_of_the_log_is_seen_and_within_what_postgresql_timed() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder, "one")) as postgres,
        cluster(Path(folder, "two")) as other,
    ):
        one_load(postgres, other)


def one_load(postgres: Postgres, other: Postgres) -> None:
    """A load on the one while the other has one, too; the one is watched."""
    # Whoever made the tables tells its last syncs when its process ends, behind its client.
    clients = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    until(lambda: postgres.ask(clients) == "1")  # who asks
    before, before_ns = wal_syncs(postgres)
    assert postgres.process is not None
    watch = SyscallWatch([postgres.process.pid], "events", lseek=True)
    beside = other.spawn(*load(other))  # type: ignore[arg-type]
    postgres.run(*load(postgres))  # type: ignore[arg-type]
    beside.communicate()
    seen = Seen(watch)
    watch.stop()
    paths = {row["file_id"]: row["path"] for row in seen.files}
    of_log = [
        row for row in seen.syncs
        if row["call"] == "fdatasync" and "/pg_wal/" in paths[row["file_id"]]
    ]  # fmt: skip
    # The log writer tells what it counted in its own time.
    until(lambda: wal_syncs(postgres)[0] - before >= len(of_log))
    counted = wal_syncs(postgres)
    syncs, time_ns = counted[0] - before, counted[1] - before_ns
    assert syncs == len(of_log) > TRANSACTIONS / CLIENTS / 2
    # Each lies within what the server timed, in whole microseconds. That it is no shorter than the
    # call is, test_syscall_watch.py asks call by call.
    assert sum(row["latency_ns"] for row in of_log) <= time_ns + 1000 * syncs
    assert not [path for path in paths.values() if path.startswith(f"{other.data.parent}/")]
    lost = {k: n for k, n in seen.figures.items() if k.startswith(("lost", "uncounted"))}
    assert set(lost.values()) == {0}, lost
    relations = [path for path in paths.values() if "/base/" in path]
    assert relations
    assert all(path.startswith(f"{postgres.data}/") for path in relations)
