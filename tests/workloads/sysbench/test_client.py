"""The client sysbench, played: its command, its rows, and whose fault it is when it fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nfslab.databases.sqlite.settings import SqliteSettings
from nfslab.errors import RunFailed
from nfslab.workloads.sysbench import client

from tests.workloads.run_context import command_run
from tests.workloads.scripted_host import Played, ScriptedHost


class FakeDatabase:
    """One that lives until a test says so."""

    title = "MariaDB"

    def __init__(self) -> None:
        self.lives = True

    def alive(self) -> bool:
        return self.lives

    def ends_within(self, limit_s: float) -> bool:
        assert limit_s == client.DEATH_WAIT_S
        return not self.lives

    def death(self, what: str, also: str = "") -> RunFailed:
        return RunFailed(what, why=also)


def run(played: Played, database: FakeDatabase, clients: int = 2) -> client.ClientRun:
    """Each of its clients has one transaction."""
    with command_run() as context:
        for number in range(clients):
            rows = np.array([(10 + number, 5, 0, 0, 0)], np.int64)
            (context.logs / f"load.rows.{number}").write_bytes(rows.tobytes())
        host = ScriptedHost(lambda _argv: played)
        context.client_host = host
        asked: Any = database
        try:
            return client.run(context, asked, ["sysbench", "run"], "load", clients)
        finally:
            assert host.started[0].poll() is not None
            assert context.commands == [["sysbench", "run"]]
            left = list(context.logs.glob("load.rows.*"))
            assert (left == []) == (played.code == 0 and played.runs_s < 100)


def test_rows_of_each_client_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(Played(out="said", runs_s=2), FakeDatabase())
    assert (len(done.rows), done.printed, done.cpu_s) == (2, "said", 0.375)
    assert done.rows.client.tolist() == [0, 1]


def test_it_fails_in_its_own_words_or_with_its_database() -> None:
    words = "some\nFATAL: `thread_run' function failed: no such table\nmore\n"
    database = FakeDatabase()
    with pytest.raises(RunFailed, match=r"exit code 1") as caught:
        run(Played(err=words, code=1), database)
    assert caught.value.why == "FATAL: `thread_run' function failed: no such table"

    def dies() -> None:
        database.lives = False

    with pytest.raises(RunFailed, match="MariaDB died"):
        run(Played(err=words, code=1, each=dies), database)
    database.lives = True
    with pytest.raises(RunFailed, match="MariaDB died"):
        run(Played(runs_s=3600, each=dies), database)


def test_its_command() -> None:
    server: Any = SimpleNamespace(
        host="/s", port=5432, socket="/s/m", deployment=SimpleNamespace(database="tpcb")
    )
    load = client.Load(Path("/x.lua"), 3, 10, client.at_postgres(server), {"scale": 2}, "mine")
    assert load.command(seed=2**31 - 2, seconds=5.0, log=Path("/l")) == [
        "env", "PGAPPNAME=mine", "sysbench", "--db-driver=pgsql", "--pgsql-host=/s",
        "--pgsql-port=5432", "--pgsql-user=nfslab", "--pgsql-db=tpcb", "--threads=3", "--time=5",
        "--events=0", "--rand-seed=2147483647", "--max_tries=10", "--log=/l", "--scale=2",
        "/x.lua", "run",
    ]  # fmt: skip
    assert "--mysql-db=x" in client.at_mariadb(server, "x")
    reached = client.at_sqlite(Path("/f"), SqliteSettings(busy_timeout_ms=7))
    assert (reached[0], reached[-1]) == ("--sqlite=/f", "--busy_timeout=7")
    with pytest.raises(ValueError, match="whole seconds"):
        client.whole_seconds(1.5)
