"""The embedded server as a process: recordings asked for from here, and when it does not obey."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from nfslab.errors import RunFailed
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.servers import embedded_process as embedded_server

from tests.cli.serving import null
from tests.stopping import stop


def test_recordings_one_after_the_other(resources: Resources, tmp_path: Path) -> None:
    server = embedded_server.start(["--memory"], tmp_path, resources, host=LocalHost(), link=Link())
    for number in (1, 2):
        file = tmp_path / f"{number}.parquet"
        before_ns = time.monotonic_ns()
        at_ns = server.record(file, rows_max=5)
        assert before_ns <= at_ns <= time.monotonic_ns()
        for xid in range(number * 100, number * 100 + 7):
            assert null(server.port, xid) == 0
        ended = server.end_recording()
        assert [ended[name] for name in ("rows", "left_out", "lost")] == [5, 2, 0]
        xids = pq.read_table(file)["xid"].to_pylist()
        assert xids == list(range(number * 100, number * 100 + 5))
    counters = server.stop()
    assert counters["calls"] == 14
    assert resources.close() == []


def test_what_it_refuses_is_told_in_its_words(resources: Resources, tmp_path: Path) -> None:
    server = embedded_server.start(["--memory"], tmp_path, resources, host=LocalHost(), link=Link())
    with pytest.raises(RunFailed, match="end_recording") as told:
        server.end_recording()
    assert "no calls are recorded now" in told.value.why
    with pytest.raises(RunFailed, match="'record'") as told:
        server.record(tmp_path / "none" / "calls.parquet")
    assert str(tmp_path / "none") in told.value.why
    assert told.value.fix
    server.record(tmp_path / "calls.parquet")
    assert server.end_recording()["rows"] == 0
    server.stop()


def test_a_dead_server_says_how_it_ended(resources: Resources, tmp_path: Path) -> None:
    server = embedded_server.start(["--memory"], tmp_path, resources, host=LocalHost(), link=Link())
    server.record(tmp_path / "calls.parquet")
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.ended_within(120)
    with pytest.raises(RunFailed, match="'end_recording'") as told:
        server.end_recording()
    assert told.value.why.split()[-2:] == ["signal", "9"]
    assert server.stop() == {}
    assert resources.close() == []


def test_an_answer_that_came_late_is_not_the_next_ones(
    resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = embedded_server.start(["--memory"], tmp_path, resources, host=LocalHost(), link=Link())
    stop(server.process.pid)
    monkeypatch.setattr(embedded_server, "BEGIN_LIMIT_S", 0.05)
    with pytest.raises(RunFailed) as told:
        server.record(tmp_path / "calls.parquet")
    assert told.value.why.endswith(" 0.05 s")
    os.kill(server.process.pid, signal.SIGCONT)
    assert server.end_recording()["event"] == "recorded"
    events = [json.loads(line)["event"] for line in server.said.read_text().splitlines()]
    assert events == ["ready", "recording", "recorded"]
    server.stop()
