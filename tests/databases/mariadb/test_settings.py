"""Settings of MariaDB: what is refused here, what mariadbd refuses, what is not durable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from nfslab.databases.mariadb import installation
from nfslab.databases.mariadb.database import MariadbDatabase, MariadbOptions
from nfslab.databases.mariadb.installation import find_installation
from nfslab.databases.mariadb.settings import (
    connections_problem,
    durability_reasons,
    setting_problem,
    with_defaults,
)
from nfslab.errors import Unavailable


def missing() -> str:
    try:
        find_installation()
    except Unavailable as error:
        return error.why
    return ""


needs_mariadb = pytest.mark.skipif(bool(missing()), reason=missing() or "usable")


def test_a_missing_server_is_said_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation.shutil, "which", lambda name, path=None: None)
    with pytest.raises(Unavailable) as caught:
        find_installation()
    assert "mariadbd" in caught.value.why
    assert "mariadb-server-core" in caught.value.fix


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("datadir", "/elsewhere", "the roles `data` and `wal`"),
        ("socket", "/tmp/mine", "private socket"),
        ("Innodb-io", 1, "no name of a server setting"),
        ("loose_innodb_io_capacity", 1, "write the variable itself"),
        ("init_connect", "a\nb", "control character"),
    ],
)
def test_what_nfslab_decides_is_refused(name: str, value: object, said: str) -> None:
    assert said in setting_problem(name, value)
    assert not setting_problem("innodb_io_capacity", 400)


@pytest.mark.system
@needs_mariadb
@pytest.mark.parametrize(
    ("name", "value", "reason", "fix"),
    [
        ("innodb_flush_metod", "fsync", "unknown variable", "innodb_flush_method"),
        ("innodb_flush_method", "never", "Error while setting value 'never'", "workload.mariadb"),
        ("innodb_io_capacity", 1, "adjusted to 100", "workload.mariadb"),
        # mariadbd takes the beginning of a name: this one would be innodb_flush_method.
        ("innodb_flush_meth", "fsync", "has no variable", "innodb_flush_method"),
    ],
)
def test_mariadb_is_asked(name: str, value: str | int, reason: str, fix: str) -> None:
    answer = MariadbDatabase(MariadbOptions(1, "pgbench", settings={name: value})).check()
    assert not answer.ok
    assert reason in answer.reason
    assert fix in answer.fix


@pytest.mark.system
@needs_mariadb
def test_good_settings_are_taken() -> None:
    settings = {"innodb_flush_method": "fsync", "sync_binlog": 1, "innodb_doublewrite": False}
    assert MariadbDatabase(MariadbOptions(1, "pgbench", settings=settings)).check().ok


def test_there_is_room_for_the_clients() -> None:
    assert "max_connections" not in with_defaults({}, 100)
    assert with_defaults({}, 300)["max_connections"] == 305
    assert "no room for 20 clients" in connections_problem({"max_connections": 10}, 20)
    assert not connections_problem({"max_connections": 30}, 20)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"innodb_flush_log_at_trx_commit": "2"}, "does not wait"),
        ({"log_bin": "ON", "sync_binlog": "0"}, "binary log"),
        ({"innodb_flush_method": "nosync"}, "syncs"),
        ({"innodb_doublewrite": "OFF"}, "torn"),
    ],
)
def test_what_does_not_wait_is_not_durable(settings: dict[str, str], said: str) -> None:
    (reason,) = durability_reasons(settings)
    assert said in reason
    good = {"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF", "sync_binlog": "0"}
    assert durability_reasons(good) == []


def test_a_server_whose_work_failed_is_not_shut_down_in_peace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it would purge and merge first, for minutes, is thrown away."""
    stopped: list[dict[str, bool]] = []
    server = SimpleNamespace(stop=lambda **how: stopped.append(how))
    database: Any = MariadbDatabase(MariadbOptions(clients=1, database="bench"))
    monkeypatch.setattr(database, "_start", lambda *place, **log: server)

    def interrupted(server: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database._at_rest(None, None, {}, None, "load.log", interrupted)
    assert stopped == [{"hurry": True}]
