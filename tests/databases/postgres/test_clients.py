"""A session that outlives its client is waited for, and its work is counted then."""

from __future__ import annotations

import os
import signal

import psycopg
import pytest
from nfslab.databases.base import LATE_SESSIONS
from nfslab.databases.postgres import clients
from nfslab.databases.postgres.database import PostgresDatabase
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.tpcb.parameters import TpcbParameters
from nfslab.workloads.tpcb.workload import TpcbWorkload
from psycopg import sql

from tests.stopping import stop
from tests.workloads.run_context import run_of, scratch_folder
from tests.workloads.test_pgbench import name

PATIENCE_S = 60
ROWS = 1000
COUNTED = "SELECT tup_inserted FROM pg_stat_database WHERE datname = current_database()"


@pytest.mark.skipif(not PostgresDatabase.available().ok, reason="no PostgreSQL")
def test_a_session_that_outlives_its_client_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=1))
    with (
        scratch_folder() as root,
        run_of(work, root, name=name(), places={"data": root / "data"}) as run,
    ):
        work.prepare(run.context)
        database, server = work.database, work.server()
        with server.connect() as session:
            ((before,),) = session.execute(COUNTED).fetchall()
            session.execute("SET application_name = 'pgbench'")
            insert = "INSERT INTO pgbench_history (tid) SELECT generate_series(1, %s)"
            session.execute(insert, (ROWS,))
            pid = session.info.backend_pid
            stop(pid)
        monkeypatch.setattr(clients, "GONE_LIMIT_S", 0)
        assert not database.clients_are_gone()
        monkeypatch.setattr(clients, "GONE_LIMIT_S", PATIENCE_S)
        os.kill(pid, signal.SIGCONT)
        assert database.clients_are_gone()
        with server.connect() as session:
            assert session.execute(COUNTED).fetchall() == [(before + ROWS,)]


@pytest.mark.skipif(not PostgresDatabase.available().ok, reason="no PostgreSQL")
@pytest.mark.parametrize("outlives", [True, False])
@pytest.mark.parametrize("kind", ["pgbench", "tpcb"])
def test_a_warm_up_whose_sessions_outlive_it_is_said(
    kind: str, outlives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work: PgbenchWorkload | TpcbWorkload
    if kind == "pgbench":
        work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=1, warm_up="1s"))
    else:
        work = TpcbWorkload(
            TpcbParameters(data="disk", engine="postgres", duration=1, warm_up="1s")
        )
    if not (usable := work.check()).ok:
        pytest.skip(usable.reason)
    monkeypatch.setattr(clients, "GONE_LIMIT_S", 0 if outlives else PATIENCE_S)
    with (
        scratch_folder() as root,
        run_of(work, root, name=name(), places={"data": root / "data"}) as run,
    ):
        work.prepare(run.context)
        with psycopg.connect(work.database.server().conninfo(), autocommit=True) as session:
            if outlives:
                own = sql.Literal(work.database.load.client_name)
                session.execute(sql.SQL("SET application_name = {}").format(own))
            work.measure(run.context)
        assert (LATE_SESSIONS in run.context.notes) is outlives
