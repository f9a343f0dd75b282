"""`[server]` of `web`: the web server on a host beside those that load it."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.errors import RunFailed
from nfslab.experiment import run_hosts, spread_run
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.workload import WebWorkload

from tests.experiment.session_support import PATIENCE_S, left_behind
from tests.experiment.spread_support import Meddling, check, made, pid_of
from tests.experiment.test_web_on_hosts import (
    CLOSED,
    ENDLESS,
    FAST_LINES,
    MEET_S,
    SERVERS,
    begun_by,
    failed,
    on_hosts,
    reports_of,
    require_measured,
    whole_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.experiment.run_hosts import RunHosts

usable = NamespacesHere.available()
needs_namespaces = pytest.mark.skipif(not usable.ok, reason=usable.reason or "usable")
SEARCH = (
    'load = "connections"\nconnections = 4\nconnections_max = 8\nstep = "0.5s"\nduration = "0.5s"\n'
    + FAST_LINES
)


@pytest.fixture
def tmp_path(scratch: Path) -> Path:
    """nginx's user has to get there."""
    return scratch


def apart(tmp_path: Path, more: str) -> Path:
    """Two hosts with two processes each, the web server on a third host."""
    path = on_hosts(tmp_path, more, "namespace")
    text = path.read_text().replace("collectors = []", 'collectors = ["system"]')
    server = '[server]\nhost = "namespace"\nname = "filer"\n'
    path.write_text(text.replace("[workload]", f"{server}[workload]"))
    return path


@needs_namespaces
@pytest.mark.parametrize("load", [CLOSED, SEARCH], ids=["closed", "search"])
@pytest.mark.parametrize("server", SERVERS)
def test_what_all_hosts_asked_is_what_the_server_on_its_own_host_counted(
    server: str, load: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hosts, "MEET_S", MEET_S)
    record, sealed = made(apart(tmp_path, f'{load}server = "{server}"\n'))
    require_measured(record)
    there = record.server_host
    assert there is not None
    assert (there.name, record.hosts["server"].name) == ("filer", "filer")
    counters = json.loads((sealed / there.folder / "logs" / "server-counters.json").read_text())
    posts = check(record, "posts")
    assert (posts.verdict, posts.values["lines"]) == ("ok", counters["posts_written"])
    # Of all loads of all hosts; what was under way at a load's end may have arrived.
    arrived = posts.values["acknowledged"] + posts.values["unacknowledged"]
    assert arrived == counters["posts_written"] >= counters["post"] > 0
    if load == CLOSED:
        own = sum(one["requests"]["done"] for one in reports_of(record, sealed))
        assert whole_of(sealed)["requests"]["done"] == own
    # In ticks of 10 ms, of which the few requests of a search's last 0.5 s may have taken none.
    cpu_us = record.metrics["server_cpu_us_per_request"].value
    assert cpu_us > 0 or (load == SEARCH and cpu_us == 0)
    cpu = pq.read_table(sealed / "evidence" / "system_cpu.parquet")
    assert set(cpu["host"].to_pylist()) == {"filer"}
    assert left_behind(tmp_path) == []


@needs_namespaces
def test_a_web_server_that_dies_there_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(clients: RunHosts) -> None:
        assert clients.serving is not None
        (server,) = begun_by(pid_of(clients.serving.agent), "web.serving")
        os.kill(server, signal.SIGKILL)

    monkeypatch.setattr(spread_run, "DEATH_WAIT_S", PATIENCE_S)
    meddling = Meddling(monkeypatch, kill)
    record = failed(apart(tmp_path, ENDLESS))
    assert "server host filer: the web server was ended by SIGKILL" in record.reason
    meddling.assert_none_is_left()
    assert left_behind(tmp_path) == []


def test_a_server_that_runs_already_is_on_no_host_of_the_run() -> None:
    workload = WebWorkload(
        WebParameters(data="disk", server="http://192.0.2.1:80", load="closed", connections=8)
    )
    answer = workload.check_server(has_our_files=True)
    assert not answer.ok
    assert "runs already" in answer.reason
    with pytest.raises(RunFailed, match="cannot be read"):
        workload.take_counted({"posts": 3})
