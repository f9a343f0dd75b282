"""Order entry on MariaDB for tests: a workload, prepared; a session of its database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nfslab.databases.mariadb.database import MariadbSession
from nfslab.workloads.base import Workload
from nfslab.workloads.tpcc.mariadb.workload import TpccOnMariadb
from nfslab.workloads.tpcc.parameters import TpccParameters

from tests.workloads.run_context import Run, run_of


def parameters(**more: Any) -> TpccParameters:
    given = {"data": "disk", "engine": "mariadb", "terminals": 3, "duration": 1}
    return TpccParameters(**given | more)


def workload(**more: Any) -> TpccOnMariadb:
    work = TpccOnMariadb(parameters(**more))
    if not (answer := work.check()).ok:
        pytest.skip(answer.reason)
    return work


@contextmanager
def prepared(work: Workload, scratch: Path) -> Iterator[Run]:
    name = f"tpcc-{uuid.uuid4().hex[:8]}"
    roles = [role for role in work.roles if getattr(work.parameters, role) is not None]
    places = {role: scratch / f"{name}-{role}" for role in roles}
    with run_of(work, scratch, name=name, places=places) as run:
        work.prepare(run.context)
        yield run


@contextmanager
def session_of(work: TpccOnMariadb) -> Iterator[MariadbSession]:
    with work.database.session() as session:
        yield session


def row(session: MariadbSession, query: str) -> tuple[Any, ...]:
    (found,) = session.rows(query)
    return found
