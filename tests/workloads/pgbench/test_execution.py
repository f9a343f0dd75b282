"""Watching over a pgbench that is played: its end, the server's, the time's, its log's room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab import clock
from nfslab.databases.postgres.deployment import PostgresDeployment
from nfslab.databases.postgres.installation import Installation
from nfslab.databases.postgres.server import ServerElsewhere
from nfslab.errors import Interrupted, RunFailed
from nfslab.machine.processes import CLOCK_TICKS_PER_S, Identity, Status
from nfslab.workloads.pgbench import execution
from nfslab.workloads.pgbench.execution import LogRoom, PgbenchRun, log_room, run_pgbench
from nfslab.workloads.pgbench.parameters import PgbenchParameters

from tests.workloads.run_context import command_run
from tests.workloads.scripted_host import Played, ScriptedHost

PRINTED = """\
number of transactions actually processed: 40/40
latency average = 1.5 ms
initial connection time = 3.250 ms
tps = 26.500000 (without initial connection time)
"""
WORDS = """\
pgbench: error: client 0 script 0 aborted in command 0 query 0: ERROR:  no such column
pgbench: error: Run was aborted; the above results are incomplete.
"""


class FakeServer(ServerElsewhere):
    """One that lives until a test says so."""

    lives = True
    waited_s: float | None = None

    def alive(self) -> bool:
        return self.lives

    def ends_within(self, limit_s: float) -> bool:
        self.waited_s = limit_s
        return not self.lives


class Loaded:
    """A pgbench on a server, both of a test."""

    def __init__(self, context: Any) -> None:
        self.context = context
        installation = Installation("path", Path("/x"), "15.4", 15)
        self.deployment = PostgresDeployment.of(
            context, None, installation=installation, database="pgbench"
        )
        self.server = FakeServer(self.deployment, "/socket", 5432, "")
        self.host = ScriptedHost(lambda _argv: Played())

    def run(self, played: Played, room: LogRoom | None = None) -> PgbenchRun:
        self.host = ScriptedHost(lambda _argv: played)
        return run_pgbench(
            self.server, ["pgbench"], name="pgbench", client=self.host, room=room,
            places=self.context.places,
        )  # fmt: skip

    def room(self, *, memory_limited: bool = False, **values: Any) -> LogRoom:
        given = {"data": "disk", "transactions": 10} | values
        folders = [place.path for place in self.context.places.values()]
        parameters = PgbenchParameters(**given)
        return log_room(self.server, parameters, folders, memory_limited=memory_limited)


@pytest.fixture
def pgbench() -> Iterator[Loaded]:
    with command_run() as context:
        yield Loaded(context)


def test_one_that_ends_well(pgbench: Loaded) -> None:
    run = pgbench.run(Played(out=PRINTED, runs_s=1.5, cpu_s=(0.5, 0.25)))
    assert (run.printed.processed, run.printed.tps, run.client_cpu_s) == (40, 26.5, 0.75)
    assert run.server_cpu_s is None, "another machine's"
    before_ns, after_ns = run.realtime_offset_ns
    assert abs(after_ns - before_ns) < 1e6
    assert clock.monotonic_ns() - run.started_ns >= 1.5e9


def test_its_own_words_are_shown(pgbench: Loaded) -> None:
    with pytest.raises(RunFailed) as caught:
        pgbench.run(Played(err=WORDS, code=2))
    assert "exit code 2" in caught.value.what
    assert "no such column" in caught.value.why
    assert caught.value.fix
    assert pgbench.server.waited_s == execution.DEATH_WAIT_S


def test_a_server_that_ends_first_is_the_cause(pgbench: Loaded) -> None:
    def dies() -> None:
        pgbench.server.lives = False

    with pytest.raises(RunFailed, match="PostgreSQL died"):
        pgbench.run(Played(runs_s=3600, each=dies))
    assert pgbench.host.started[0].stopped
    pgbench.server.lives = True
    lost = f"pgbench: error: {execution.LOST} unexpectedly\n"

    def with_the_server() -> None:
        pgbench.server.lives = False

    with pytest.raises(RunFailed, match="PostgreSQL died") as caught:
        pgbench.run(Played(err=lost, code=2, each=with_the_server))
    assert execution.LOST in caught.value.why
    assert pgbench.server.waited_s == execution.LOST_WAIT_S


def test_a_full_target_is_the_cause(pgbench: Loaded) -> None:
    full = 'ERROR:  could not extend file "base/5/1": No space left on device\n'
    with pytest.raises(RunFailed, match=r"role data\) is full"):
        pgbench.run(Played(err=full, code=2))


def test_an_interrupt_ends_it(pgbench: Loaded) -> None:
    looks = iter([10.0, 10.0])

    def remaining_s() -> float:
        try:
            return next(looks)
        except StopIteration:
            raise Interrupted("interrupted") from None

    pgbench.deployment.remaining_s = remaining_s
    with pytest.raises(Interrupted):
        pgbench.run(Played(runs_s=3600))
    assert pgbench.host.started[0].stopped


def test_a_log_that_outgrows_its_room(pgbench: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MEMORY_LOG_BYTES_MAX", "LOG_BYTES_MAX"):
        monkeypatch.setattr(execution, limit, 4096)
    room = pgbench.room()
    file = Path(f"{room.prefix}.77")

    def grows() -> None:
        with file.open("a") as stream:
            stream.write("x" * 1000)

    with pytest.raises(RunFailed, match="needs too much room") as caught:
        pgbench.run(Played(runs_s=3600, each=grows), room)
    assert "sampling_rate" in caught.value.fix
    assert 4096 < file.stat().st_size <= 6000, "at once"
    for number in ("77.10", "77.2"):
        Path(f"{room.prefix}.{number}").touch()
    assert [path.name.partition(".")[2] for path in room.files()] == ["77", "77.2", "77.10"]
    room.entry.undo()


def test_a_log_goes_to_memory_where_it_fits(
    pgbench: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results' folder is on the device under test."""
    with pytest.raises(RunFailed, match="no room for pgbench's transaction log"):
        pgbench.room(transactions=2_000_000_000, clients=1000)
    memory = pgbench.context.folder / "memory"
    memory.mkdir()
    monkeypatch.setattr(execution, "MEMORY_FOLDER", memory)
    for given, parent in (
        ({}, memory),
        ({"memory_limited": True}, pgbench.deployment.logs),
        # 600 s at 20,000 a second are more than memory is asked for; with a rate they are few.
        ({"transactions": None, "duration": 600}, pgbench.deployment.logs),
        ({"transactions": None, "duration": 600, "rate": 100}, memory),
        ({"transactions": None, "duration": 600, "sampling_rate": 0.01}, memory),
    ):
        room = pgbench.room(**given)
        assert room.folder.parent == parent, given
        assert (room.note == "") == (parent == memory)
        room.entry.undo()


POSTMASTER = 100


def status(pid: int, ticks: int, *, parent: int = POSTMASTER, waited: int = 0) -> Status:
    return Status(Identity(pid, 1), "postgres", "S", parent, 1, 1, ticks, 0, waited, 0)


class Kernel:
    """Answers of /proc, one reading after the other."""

    def __init__(self, waited: list[int], children: list[list[Status]]) -> None:
        self._waited: Iterator[int] = iter(waited)
        self._children = iter(children)

    def status_of(self, pid: int) -> Status | None:
        waited = next(self._waited, None)
        return None if waited is None else status(pid, 3, parent=1, waited=waited)

    def all_statuses(self) -> list[Status]:
        return [status(1, 99, parent=0), *next(self._children)]


def reading(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> float | None:
    monkeypatch.setattr(execution, "status_of", kernel.status_of)
    monkeypatch.setattr(execution, "all_statuses", kernel.all_statuses)
    return execution.server_cpu_s(POSTMASTER)


def test_a_backend_that_ends_between_two_readings_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its 450 ticks are gone from the list before they are in the postmaster's account."""
    writer = status(102, 27)
    kernel = Kernel([0, 450, 450], [[writer], [writer]])
    assert reading(monkeypatch, kernel) == (3 + 27 + 450) / CLOCK_TICKS_PER_S


def test_living_backends_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel([8, 8], [[status(101, 450), status(102, 27)]])
    assert reading(monkeypatch, kernel) == (3 + 8 + 450 + 27) / CLOCK_TICKS_PER_S


def test_without_an_instant_between_ends_there_is_no_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = execution.READINGS_MOST
    kernel = Kernel(list(range(most + 1)), [[]] * most)
    assert reading(monkeypatch, kernel) is None
    assert reading(monkeypatch, Kernel([], [[]])) is None
