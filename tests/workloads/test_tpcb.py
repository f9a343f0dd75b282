"""tpcb: the same transaction on three engines, what each holds afterwards, and who is asked."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.postgres.collector import PostgresCollector
from nfslab.machine.processes import find_ours
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.sysbench import client
from nfslab.workloads.tpcb.parameters import TpcbParameters
from nfslab.workloads.tpcb.workload import TpcbWorkload
from pydantic import ValidationError

from tests.workloads.run_context import Run, run_of

ENGINES = ("postgres", "mariadb", "sqlite")
every_engine = pytest.mark.parametrize("engine", ENGINES)


def tpcb(engine: str, **more: Any) -> TpcbWorkload:
    given = {"data": "disk", "engine": engine, "duration": 1, "clients": 2, "scale": 1}
    work = TpcbWorkload(TpcbParameters(**given | more))
    if not (answer := work.check()).ok:
        pytest.skip(answer.reason)
    return work


@contextmanager
def prepared(work: TpcbWorkload | PgbenchWorkload, scratch: Path) -> Iterator[Run]:
    name = f"tpcb-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run:
        work.prepare(run.context)
        yield run


HARM = (
    ("accounts", "SET abalance = abalance {} 1 WHERE aid = 7"),
    ("branches", "SET bbalance = bbalance {} 1 WHERE bid = 1"),
)


@pytest.mark.system
@every_engine
def test_each_transaction_is_a_row_and_is_in_the_database(engine: str, scratch: Path) -> None:
    """A planted change of the database is a violation."""
    more: dict[str, Any] = {"warm_up": 1} if engine == "sqlite" else {}
    work = tpcb(engine, **more)
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        (check,) = work.verify(run.context, outcome)
        with work.database.session() as session:
            for table, change in HARM:
                session.rows(f"UPDATE pgbench_{table} {change.format('+')}")
                (harmed,) = work.verify(run.context, outcome)
                session.rows(f"UPDATE pgbench_{table} {change.format('-')}")
                assert harmed.verdict == "violation", table
                assert "should be equal" in harmed.message
            assert work.verify(run.context, outcome)[0].verdict == "ok"
            session.rows("DELETE FROM pgbench_history WHERE mtime IS NOT NULL")
            assert work.verify(run.context, outcome)[0].verdict == "violation"
        token = run.context.resources.token
        work.finish(run.context)
        assert find_ours(token) == []
    rows = outcome.samples["transactions"]
    t_ns, latency_ns = (rows[name].to_numpy() for name in ("t_ns", "latency_ns"))
    assert outcome.operations == "transactions"
    assert len(rows) == outcome.metrics["transactions"].value > 0
    assert (latency_ns > 0).all()
    assert (t_ns - latency_ns >= 0).all(), "t = 0 is the first one's begin"
    assert (np.diff(t_ns) >= 0).all()
    # A client has one transaction at a time.
    for number in (0, 1):
        mine = rows["client"].to_numpy() == number
        assert (t_ns[mine][1:] - latency_ns[mine][1:] >= t_ns[mine][:-1]).all()
    assert rows["lag_ns"].null_count == len(rows)
    assert check.verdict == "ok", check.message
    # Those of the warm-up are in the database, too.
    assert (check.values["committed"] > len(rows)) == ("warm_up" in more)
    assert check.values["committed"] >= len(rows)
    (log,) = outcome.checks
    assert (log.name, log.verdict) == ("tpcb_log", "ok")
    parts = {"client_cpu_s_per_transaction", "server_cpu_s_per_transaction"}
    assert ("server_cpu_s_per_transaction" in outcome.metrics) == (engine != "sqlite")
    assert all(outcome.metrics[name].value > 0 for name in parts & set(outcome.metrics))


@pytest.mark.system
def test_a_pragma_that_is_not_in_effect_ends_the_run(scratch: Path) -> None:
    work = tpcb("sqlite")
    with prepared(work, scratch) as run:
        with work.database.session() as session:
            session.rows("PRAGMA page_size = 8192")
            session.rows("VACUUM")
        with pytest.raises(RunFailed) as caught:
            work.measure(run.context)
    assert "PRAGMA page_size is 8192, not 4096, as was asked for" in caught.value.why


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engine": "sqlite", "wal": "other"}, "beside the database, in one folder"),
        ({"engine": "postgres", "clients": 50, "postgres": {"max_connections": 20}}, "no room"),
        ({"engine": "mariadb", "clients": 50, "mariadb": {"max_connections": 20}}, "no room"),
        ({"mariadb": {"datadir": "/x"}}, "the roles `data` and `wal`"),
        ({"postgres": {"port": 1}}, "private socket"),
        ({"sqlite": {"journal_mode": "memory"}}, "'delete', 'truncate', 'persist' or 'wal'"),
        ({"duration": 1.5}, "whole seconds"),
        ({"engine": "oracle"}, "'postgres', 'mariadb' or 'sqlite'"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TpcbParameters(**{"data": "disk", "duration": 1} | given)
    assert said in str(caught.value)


def test_the_log_of_sqlite_may_be_named_where_it_is() -> None:
    assert TpcbParameters(data="disk", wal="disk", engine="sqlite", duration=1).wal == "disk"


def test_a_missing_sysbench_is_said_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.shutil, "which", lambda name: None)
    answer = TpcbWorkload(TpcbParameters(data="disk", duration=1)).check()
    assert not answer.ok
    assert "apt-get install sysbench" in answer.fix


@pytest.mark.system
def test_other_scripts_are_another_experiment() -> None:
    made = TpcbParameters(data="disk", duration=1, definition="earlier")
    assert made.definition == "earlier"
    assert "others than those" in TpcbWorkload(made).check().reason


@pytest.mark.system
def test_the_log_of_mariadb_lies_on_its_own_target(scratch: Path) -> None:
    work = tpcb("mariadb", wal="log")
    name = f"tpcb-{uuid.uuid4().hex[:8]}"
    places = {role: scratch / f"{name}-{role}" for role in ("data", "wal")}
    with run_of(work, scratch, name=name, places=places) as run:
        work.prepare(run.context)
        assert (places["wal"] / "redo" / "ib_logfile0").stat().st_size > 0
        assert not (places["data"] / "mariadb" / "ib_logfile0").exists()
        assert run.context.places["data"].facts["mariadb"]["settings"]["innodb_doublewrite"] == "ON"
        service = run.context.services.database
        assert service is not None
        assert (service.kind, service.has_views) == ("mariadb", False)
        assert run.context.services.postgres is None
        answer = PostgresCollector(PostgresCollector.Parameters()).applies(run.context)
        assert not answer.ok
        assert answer.moot, "another engine's point: nothing is missing"


@pytest.mark.system
def test_a_template_is_made_once(scratch: Path) -> None:
    """Runs of other settings share it; another page size has its own."""
    made = []
    for page_size, mode in ((2048, "wal"), (2048, "delete"), (1024, "delete")):
        work = tpcb("sqlite", scale=1, sqlite={"page_size": page_size, "journal_mode": mode})
        with prepared(work, scratch) as run, work.database.session() as session:
            assert session.rows("PRAGMA page_size") == [(page_size,)]
            made.append(any("loaded for this run" in note for note in run.context.notes))
    assert made == [True, False, True]
