"""What goes wrong is said in PostgreSQL's own words, with the target and the way out."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from nfslab.databases.postgres import server as servers
from nfslab.databases.postgres.failures import explained
from nfslab.databases.shared.last_words import log_tail
from nfslab.errors import RunFailed
from nfslab.machine.processes import all_statuses
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.workloads.postgres import needs_postgres
from tests.workloads.run_context import make_place, run_of

pytestmark = needs_postgres


def workload(**values: Any) -> PgbenchWorkload:
    return PgbenchWorkload(PgbenchParameters(**({"data": "disk", "transactions": 20} | values)))


def name() -> str:
    return f"failure-{uuid.uuid4().hex[:8]}"


def one_place(scratch: Path) -> dict[str, Path]:
    return {"data": scratch / name()}


@pytest.mark.system
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


@pytest.mark.system
def test_a_server_that_dies_in_the_middle(scratch: Path) -> None:
    """SIGKILL of a backend, as the out-of-memory killer sends it, while pgbench runs."""
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
                    os.kill(clients[0], signal.SIGKILL)

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
    assert "was terminated by signal 9" in caught.value.why
    assert "limits.memory" in caught.value.fix


@pytest.mark.system
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
    setting = 'FATAL:  invalid value for parameter "work_mem": "many"'
    wrong = explained("it did not start", [setting], places)
    assert (wrong.why, wrong.fix) == (setting, "correct work_mem in [workload.settings]")
