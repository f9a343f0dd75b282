"""Experiments whose load several client hosts make together: files of them, and what they left."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from nfslab.cluster.base import SILENCE_S, Clocks
from nfslab.cluster.here import AgentHere, MemberHere
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.experiment.run_hosts import RunHosts
from nfslab.results.records import ClockRecord

from tests.experiment.fakes import PATIENT
from tests.experiment.session_support import only_folder, records, run
from tests.stopping import stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nfslab.cluster.base import Agent
    from nfslab.experiment.run_hosts import RunHost
    from nfslab.results.records import CheckRecord, RunRecord

FILE = """\
[experiment]
name = "spread"
repetitions = 1
seed = 7
collectors = ["nfs_server"]
[limits]
drop_page_cache = false
[targets.server]
kind = "nfs"
client = "none"
directory = "{folder}"
store = "memory"
delay = "100ms"
[client]
host = "{host}"
hosts = {hosts}
processes = {processes}
[workload]
kind = "sfs"
data = "server"
mix = "laddis"
load = 200
files = 300
outstanding = 64
warm_up = "0.5s"
duration = "2s"
"""
"""100 ms for a reply: how late a generator on a busy machine is, is little beside that."""
OF_A_BUSY_MACHINE = {"offered_load", "start_skew"}
"""Checks that a machine with other work may break: what was counted is the same."""


usable = NamespacesHere.available()
KINDS = [
    pytest.param("local"),
    pytest.param(
        "namespace", marks=pytest.mark.skipif(not usable.ok, reason=usable.reason or "no reason")
    ),
]


def written(
    tmp_path: Path,
    *changes: tuple[str, str],
    host: str = "local",
    hosts: object = 2,
    processes: int = 2,
) -> Path:
    """The file, with texts replaced."""
    folder = tmp_path / "places"
    folder.mkdir(exist_ok=True)
    text = FILE.format(folder=folder, host=host, hosts=hosts, processes=processes)
    for old, new in changes:
        assert old in text, f"{old!r} is not in the file"
        text = text.replace(old, new)
    path = tmp_path / "spread.toml"
    path.write_text(text, "utf-8")
    return path


def require_measured(record: RunRecord) -> None:
    """It went to its end; what is against it is at most that this machine has other work."""
    violated = {one.name for one in record.checks if one.verdict == "violation"}
    assert record.status == "ok" or violated, record.reason
    assert violated <= OF_A_BUSY_MACHINE, record.reason
    if "offered_load" in violated:
        assert "Give it an idle core" in check(record, "offered_load").message


def check(record: RunRecord, name: str) -> CheckRecord:
    """The one check of that name."""
    (found,) = [one for one in record.checks if one.name == name]
    return found


def made(path: Path) -> tuple[RunRecord, Path]:
    """The record of the only run, and its folder."""
    run(path)
    folder = only_folder(path)
    (record,) = records(folder)
    return record, folder.runs_path / record.run_id


def clocks_told(
    monkeypatch: pytest.MonkeyPatch, ahead_ns: dict[str, int], error_ns: int = 7
) -> None:
    """Hosts here whose clocks are said to be so far ahead of ours; those not named agree."""

    def clocks(member: MemberHere) -> Clocks:
        clock = ClockRecord(offset_ns=ahead_ns.get(member.name, 0), error_ns=error_ns)
        return Clocks(clock, clock)

    monkeypatch.setattr(MemberHere, "clocks", clocks)


def calls_sent(sealed: Path) -> dict[str, int]:
    """Of a run of sfs: calls by operation, as its clients counted them."""
    rows = pq.read_table(sealed / "samples" / "operations.parquet").to_pylist()
    return {row["operation"]: row["calls"] for row in rows if row["calls"]}


SILENT = r"it gave no sign of life for ([2-9]|\d{2,})\.\d s"
"""What is said of a host that was stopped, however late it is noticed."""


def lose(host: RunHost, number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """End its agent, or stop it: it alone is lost after the silence that the product allows."""
    pid = pid_of(host.agent)
    if number == signal.SIGSTOP:
        stop(pid)
        monkeypatch.setattr(host.member, "patience", replace(PATIENT, load_s=SILENCE_S))
    else:
        os.kill(pid, number)


class Meddling:
    """Does something to a host while all measure, or before they are told when to begin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[RunHosts], None]) -> None:
        self.pids: list[int] = []
        waits = RunHosts.await_all

        def meddled(clients: RunHosts, event: str, wait: Any = "busy_s", of: Any = None) -> None:
            if event == "measured":
                self.pids = [pid_of(host.agent) for host in clients.hosts]
                act(clients)
            waits(clients, event, wait, of)

        monkeypatch.setattr(RunHosts, "await_all", meddled)

    def assert_none_is_left(self) -> None:
        assert self.pids
        for pid in self.pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def pid_of(agent: Agent) -> int:
    assert isinstance(agent, AgentHere)
    return agent._child.process.pid
