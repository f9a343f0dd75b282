"""A session that outlives its client is waited for, and its work is counted then."""

from __future__ import annotations

import os
import signal

import pytest
from nfslab.databases.base import LATE_SESSIONS
from nfslab.databases.postgres import clients
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.stopping import stop
from tests.workloads.postgres import needs_postgres
from tests.workloads.run_context import run_of, scratch_folder, unique_name

ROWS = 1000
COUNTED = "SELECT tup_inserted FROM pg_stat_database WHERE datname = current_database()"


@needs_postgres
@pytest.mark.system
@pytest.mark.long
def test_a_session_that_outlives_its_client_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So is one of a warm-up, and where it is not waited for, that is said."""
    work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=1, warm_up="1s"))
    with (
        scratch_folder() as root,
        run_of(work, root, name=unique_name(), places={"data": root / "data"}) as run,
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
        with monkeypatch.context() as short:
            short.setattr(clients, "GONE_LIMIT_S", 0)
            assert not database.clients_are_gone()
        os.kill(pid, signal.SIGCONT)
        assert database.clients_are_gone()
        with server.connect() as session:
            assert session.execute(COUNTED).fetchall() == [(before + ROWS,)]
        with server.connect() as session:
            session.execute("SET application_name = 'pgbench'")
            monkeypatch.setattr(clients, "GONE_LIMIT_S", 0)
            work.measure(run.context)
        assert LATE_SESSIONS in run.context.notes
