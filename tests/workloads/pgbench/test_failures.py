"""What goes wrong is said in PostgreSQL's own words, with the target and the way out."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from nfslab.databases.postgres import server as servers
from nfslab.databases.postgres.failures import explained
from nfslab.databases.shared.last_words import log_tail
from nfslab.errors import Interrupted, RunFailed
from nfslab.machine.processes import all_statuses, find_ours
from nfslab.machine.resources import recover
from nfslab.workloads.pgbench import execution
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.workloads.run_context import make_place, run_of

pytestmark = pytest.mark.skipif(
    not PgbenchWorkload.available().ok, reason=PgbenchWorkload.available().reason
)


def workload(**values: Any) -> PgbenchWorkload:
    return PgbenchWorkload(PgbenchParameters(**({"data": "disk", "transactions": 20} | values)))


def name() -> str:
    return f"failure-{uuid.uuid4().hex[:8]}"


def one_place(scratch: Path) -> dict[str, Path]:
    return {"data": scratch / name()}


def test_a_server_that_does_not_start_shows_its_log(scratch: Path) -> None:
    # Passes every check of names and ranges; only a starting server finds out.
    work = workload(settings={"shared_preload_libraries": "no_such_library"})
    with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
        with pytest.raises(RunFailed) as caught:
            work.prepare(run.context)
        folders = list(Path("/tmp").glob(f"{run.context.resources.name}*"))
    assert caught.value.what == "PostgreSQL did not start"
    assert 'could not access file "no_such_library"' in caught.value.why
    assert folders == [], "the socket's folder went with the server"


def test_a_bad_setting_that_slips_through_names_itself(scratch: Path) -> None:
    work = workload(settings={"work_mem": "many"})
    with (
        run_of(work, scratch, name=name(), places=one_place(scratch)) as run,
        pytest.raises(RunFailed) as caught,
    ):
        work.prepare(run.context)
    assert 'invalid value for parameter "work_mem": "many"' in caught.value.why
    assert "correct work_mem in [workload.settings]" in caught.value.fix


@pytest.mark.parametrize("victim", ["backend", "postmaster"])
def test_a_server_that_dies_in_the_middle(
    scratch: Path, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL, as the out-of-memory killer sends it, while pgbench runs."""
    for limit in ("DEATH_WAIT_S", "LOST_WAIT_S"):  # its processes need a processor to end
        monkeypatch.setattr(execution, limit, 120.0)
    work = workload(transactions=None, duration=3600)
    ended = threading.Event()

    def kill() -> None:
        # Until it is seen: what was killed may be pgbench's first connection, which has asked its
        # questions and is gone by then, but was not waited for yet.
        postmaster = run.context.services.postgres.pid
        while not ended.wait(0.01):
            clients = [
                status.identity.pid
                for status in all_statuses()
                if status.parent == postmaster and b"nfslab pgbench" in command(status.identity.pid)
            ]
            with contextlib.suppress(ProcessLookupError):
                if clients:
                    os.kill(postmaster if victim == "postmaster" else clients[0], signal.SIGKILL)

    def command(pid: int) -> bytes:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""

    with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
        work.prepare(run.context)
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            with pytest.raises(RunFailed) as caught:
                work.measure(run.context)  # an hour was asked for
        finally:
            ended.set()
            killer.join()
    assert caught.value.what == "PostgreSQL died in the middle of the run"
    if victim == "backend":
        assert "was terminated by signal 9" in caught.value.why
        assert "limits.memory" in caught.value.fix


def test_a_script_with_an_error_shows_pgbenchs_words(scratch: Path, tmp_path: Path) -> None:
    script = tmp_path / "wrong.sql"
    script.write_text("SELECT no_such_column FROM pgbench_accounts;\n")
    work = workload(scripts=[str(script)])
    with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
        work.prepare(run.context)
        with pytest.raises(RunFailed) as caught:
            work.measure(run.context)
    assert caught.value.what.startswith("pgbench failed")
    assert 'column "no_such_column" does not exist' in caught.value.why


def test_a_port_that_was_taken_meanwhile(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program gets the port between our look and the server's start."""
    free_port, told = servers._free_port, []

    def first_taken(address: str) -> int:
        # A port that was free before may be another test's by the second start.
        told.append(free_port(address) if told else taken.getsockname()[1])
        return int(told[-1])

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(servers, "_free_port", first_taken)
        work = workload(socket="tcp")
        with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
            work.prepare(run.context)
            assert len(told) > 1
            assert f"port={told[-1]}" in run.context.services.postgres.conninfo
            log = (run.context.folder / "logs" / "postgres.log").read_text()
            assert os.strerror(errno.EADDRINUSE) in log
            work.finish(run.context)
        # Always taken: an error in PostgreSQL's words, not an endless loop.
        monkeypatch.setattr(servers, "_free_port", lambda _address: taken.getsockname()[1])
        with (
            run_of(work, scratch, name=name(), places=one_place(scratch)) as run,
            pytest.raises(RunFailed) as caught,
        ):
            work.prepare(run.context)
        assert os.strerror(errno.EADDRINUSE) in caught.value.why


@pytest.fixture
def small(scratch: Path) -> Iterator[Path]:
    """A file system of 60 MB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root and mount: it mounts a small file system")
    point = scratch / f"small-{uuid.uuid4().hex[:8]}"
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "nfslab-test", str(point)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    point.chmod(0o755)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def test_a_full_log_target_is_named(scratch: Path, small: Path) -> None:
    """The log needs a new segment where there is no room: PostgreSQL panics, we say where."""
    work = workload(
        wal="small",
        transactions=None,
        duration=60,
        clients=4,
        threads=2,
        wal_segment_size="1M",
        settings={"max_wal_size": "1GB", "synchronous_commit": False},
    )
    places = {"data": scratch / name(), "wal": small / "wal"}
    with run_of(work, scratch, name=name(), places=places) as run:
        work.prepare(run.context)
        room = os.statvfs(small)
        (small / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - (2 << 20)))
        with pytest.raises(RunFailed) as caught:
            work.measure(run.context)
    assert caught.value.what == f"the target 'the-wal' (role wal) is full: {small / 'wal'}"
    assert os.strerror(errno.ENOSPC) in caught.value.why
    assert "pg_wal" in caught.value.why


def test_a_target_too_small_for_the_database_is_named(scratch: Path, small: Path) -> None:
    work = workload(scale=5)
    with (
        run_of(work, scratch, name=name(), places={"data": small / "data"}) as run,
        pytest.raises(RunFailed) as caught,
    ):
        work.prepare(run.context)
    assert caught.value.what == f"the target 'the-data' (role data) is full: {small / 'data'}"


def test_time_over_or_interrupted_ends_pgbench_and_server(scratch: Path) -> None:
    work = workload(transactions=None, duration=3600)
    with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
        work.prepare(run.context)
        deployment = work.server().deployment
        calls = iter(range(1000))

        def remaining() -> float:
            if next(calls) > 3:
                raise Interrupted("interrupted")
            return 10.0

        deployment.remaining_s = remaining
        with pytest.raises(Interrupted):
            work.measure(run.context)  # an hour was asked for
        work.finish(run.context)
        postmaster = run.context.services.postgres.pid
        mine = {postmaster, *(s.identity.pid for s in all_statuses() if s.parent == postmaster)}
        assert not mine & {s.identity.pid for s in all_statuses() if s.alive}


KILLED_RUNNER = """
import sys
from pathlib import Path
from nfslab.workloads.pgbench import execution
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from tests.workloads.run_context import run_of

root = Path(sys.argv[1])
work = PgbenchWorkload(PgbenchParameters(data="disk", wal="log", duration=3600))
with run_of(work, root, name="killed") as run:
    work.prepare(run.context)
    check = execution.LogRoom.check
    def tell(room):
        check(room)
        if room.files():
            print(run.context.resources.token, run.context.services.postgres.pid, flush=True)
    execution.LogRoom.check = tell
    work.measure(run.context)
"""


def shared_memory_of(postmaster: int) -> int:
    """System V segments that a process made (PostgreSQL keeps one a server)."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    column = lines[0].split().index("cpid")
    return sum(int(line.split()[column]) == postmaster for line in lines[1:])


def test_a_killed_runner_leaves_nothing_that_the_next_start_does_not_find(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = scratch / name()
    root.mkdir()
    runner = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUNNER, str(root)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout is not None
    token, pid = runner.stdout.readline().split()
    postmaster = int(pid)
    assert shared_memory_of(postmaster) == 1
    runner.kill()
    runner.wait()
    runner.stdout.close()
    monkeypatch.setenv("NFSLAB_STATE", str(root / "state"))
    told = recover()
    assert told
    assert find_ours(token) == []
    assert all(s.identity.pid != postmaster or not s.alive for s in all_statuses())
    left = [p for parent in ("/tmp", "/dev/shm", "/var/tmp") for p in Path(parent).iterdir()]
    assert [p for p in left if token in p.name] == []
    assert shared_memory_of(postmaster) == 0, "a server that is asked to quit cleans up"
    assert recover() == [], "the second start finds nothing"


def test_a_log_that_outgrows_its_room_fails_the_run(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "MEMORY_LOG_BYTES_MAX", 4096)
    monkeypatch.setattr(execution, "LOG_BYTES_MAX", 4096)
    work = workload(transactions=None, duration=3600)
    with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
        work.prepare(run.context)
        with pytest.raises(RunFailed, match="needs too much room") as caught:
            work.measure(run.context)
    assert "sampling_rate" in caught.value.fix


def test_a_log_that_cannot_fit_is_refused_before(scratch: Path) -> None:
    work = workload(transactions=2_000_000_000, clients=1000)
    with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
        work.prepare(run.context)
        with pytest.raises(RunFailed, match="no room for pgbench's transaction log"):
            work.measure(run.context)


def test_finish_without_prepare_is_harmless(scratch: Path) -> None:
    work = workload()
    with run_of(work, scratch, name=name(), places=one_place(scratch)):
        pass


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "postgres.log"
    log.write_text("early\n" + "x" * 100_000 + "\nlast words\n")
    assert log_tail(log)[-1] == "last words"
    assert "early" not in log_tail(log)
    assert log_tail(tmp_path / "none") == []


def test_words_of_other_versions(tmp_path: Path) -> None:
    """Messages as PostgreSQL's sources have them (fd.c, md.c, xlog.c)."""
    place = make_place(tmp_path / "d", "disk", None)
    log_place = make_place(tmp_path / "w", "log", None)
    places = {"data": place, "wal": log_place}
    for line, role in [
        ('ERROR:  could not extend file "base/5/16384": No space left on device', "data"),
        ('PANIC:  could not write to file "pg_wal/xlogtemp.12": No space left on device', "wal"),
        ('ERROR:  could not fallocate file "base/5/2": No space left on device', "data"),
        (
            'FATAL:  could not write to file "pg_wal/000000010000000000000002": '
            "Disk quota exceeded",
            "wal",
        ),
    ]:
        error = explained("it died", [f"2026-11-21 08:05:25 UTC [1] client {line}"], places)
        assert f"role {role}" in error.what, line
    other = explained("it died", ["FATAL:  out of patience"], places)
    assert (other.what, other.why) == ("it died", "FATAL:  out of patience")


def test_the_invariant_needs_a_living_server(scratch: Path) -> None:
    work = workload()
    with run_of(work, scratch, name=name(), places=one_place(scratch)) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        work.server().stop(hurry=True)
        with pytest.raises(RunFailed, match="cannot be reached"):
            work.verify(run.context, outcome)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(run.context.services.postgres.conninfo)
