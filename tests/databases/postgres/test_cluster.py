"""Loading under a memory limit."""

from __future__ import annotations

import pytest
from nfslab.databases.postgres.cluster import within
from nfslab.databases.postgres.database import PostgresDatabase
from nfslab.machine.cgroup import memory_cgroup, memory_cgroup_available
from nfslab.workloads.sql.parameters import SqlParameters
from nfslab.workloads.sql.workload import SqlWorkload

from tests.machine.test_cgroup import FORCED_BYTES
from tests.workloads.run_context import run_of, scratch_folder, unique_name

MIB = 1 << 20


def test_buffers_are_a_part_of_a_limit_and_never_more_than_without_one() -> None:
    assert within(64 * MIB) == {"shared_buffers": "8192kB", "maintenance_work_mem": "8192kB"}
    assert within(64 << 30)["shared_buffers"] == "131072kB"
    assert within(4 * MIB) == {"shared_buffers": "512kB", "maintenance_work_mem": "1024kB"}


@pytest.mark.long
@pytest.mark.skipif(not memory_cgroup_available().ok, reason="no memory limit can be set here")
@pytest.mark.skipif(not PostgresDatabase.available().ok, reason="no PostgreSQL")
def test_more_than_the_limit_is_loaded_and_read_under_it() -> None:
    work = SqlWorkload(
        SqlParameters(
            data="disk", query="full_scan", size=96 * MIB, settings={"shared_buffers": "4MB"}
        )
    )
    # Nothing of it in memory, not even what was loaded once.
    with (
        scratch_folder(in_memory=False) as root,
        run_of(
            work, root, name=unique_name(), places={"data": root / "data"}, cache=root / "cache"
        ) as run,
    ):
        context = run.context
        context.cache.mkdir()
        group = memory_cgroup(48 * MIB, context.resources)
        context.services.memory_cgroup = group
        context.server_host = context.server_host.limited(group)
        work.prepare(context)
        outcome = work.measure(context)
        assert outcome.metrics["read_bytes"].value >= 96 * MIB
        assert [check.verdict for check in outcome.checks] == ["ok"]
        assert any("2 times" in note for note in context.notes), context.notes
        peak = group.peak_bytes()
        assert peak is None or peak <= 48 * MIB + FORCED_BYTES
        work.finish(context)
        group.remove()
