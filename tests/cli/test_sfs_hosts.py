"""`nfslab sfs --hosts`: points of several hosts are those of as many processes of one."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from nfslab.cluster.base import Member, Patience
from nfslab.cluster.here import AgentHere
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.errors import UsageError
from nfslab.experiment.load_hosts import LoadHosts, asked_hosts
from nfslab.offered.measuring import measure_point
from nfslab.offered.mixes import read_mix
from nfslab.offered.plans import Load, Mounted, Point

from tests.cli.invocation import nfslab
from tests.cli.serving import PATIENCE_S, serving
from tests.cli.test_sfs import SMALL, told
from tests.cli.test_sfs_generators import at, calls_of, point_of

if TYPE_CHECKING:
    from pathlib import Path

usable = NamespacesHere.available()
KINDS = [
    pytest.param(()),
    pytest.param(
        ("--namespaces",),
        marks=pytest.mark.skipif(not usable.ok, reason=usable.reason or "no reason"),
    ),
]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    # A host that hears of the start when it is over takes no part, one without a sign of life is
    # lost: a busy machine may keep them from running for seconds.
    patient = Patience(busy_s=PATIENCE_S, load_s=PATIENCE_S, start_s=3.0)
    monkeypatch.setattr(Member, "patience", patient)


@pytest.mark.parametrize("more", KINDS)
def test_hosts_make_points_together(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("memory", "--load", "400,800", "--json", *SMALL, "--mix", "laddis")
    found = told(nfslab(capsys, "sfs", *arguments, "--hosts", "2", "--generators", "2", *more))
    for point in found["points"]:
        assert len({process["pid"] for process in point["processes"]}) == 4
        assert [host["host"] for host in point["hosts"]] == ["host1", "host2"]
        answered = sum(row["answered"] for row in point["operations"])
        assert sum(host["answered"] for host in point["hosts"]) == answered
        assert sum(host["planned_share"] for host in point["hosts"]) == pytest.approx(1)
        assert point["little"]["residual_ns"] == 0
    made = [point["mounts"][0]["files_made"] for point in found["points"]]
    assert made == [60, 0], "once for all"


def test_what_all_hosts_sent_is_what_the_server_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "calls.parquet"
    with serving("--memory", "--records", file) as served:
        load = ["--load", "300", "--files", "300", "--mix", "laddis", "--hosts", "3"]
        point = point_of(capsys, *at(served), *load)
        served.end()
    calls = calls_of(file, point)
    ours = {row["operation"]: row["calls"] for row in point["operations"] if row["calls"]}
    assert Counter(row["operation"] for row in calls) == ours
    seen = Counter(row["client"] for row in calls)
    # One that had no processor in all of the load made no call.
    sent = [one["calls"] for one in point["processes"]]
    assert sorted(seen.values()) == sorted(calls for calls in sent if calls)
    assert len(sent) == 3


def test_a_lost_host_is_why_points_are_missing() -> None:
    asked = asked_hosts("2", namespaces=False, scheduler=None, certificates=None)
    with serving("--memory") as served, LoadHosts.up(asked, 1) as hosts:
        mounted = Mounted("127.0.0.1:/export", f"port={served.port},mountport={served.port}")
        point = Point([mounted], read_mix("laddis"), Load(200), 0.1, 600, files=60)
        agents = [host.agent for host in hosts._clients.hosts]

        def show(state: dict[str, Any]) -> bool:
            second = agents[1]
            assert isinstance(second, AgentHere)
            if state["stage"] == "run" and second._child.process.poll() is None:
                os.kill(second._child.process.pid, signal.SIGKILL)
            return True

        for _ in range(2):
            report = measure_point(point, None, show, hosts.measured)
            assert report["failed"] == "hosts"
            assert report["reasons"][0]["text"].startswith("client host host2 was lost")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--namespaces",), "--namespaces says what hosts are"),
        (("--cluster", "tls://x:1"), "--cluster says what hosts are"),
        (("--hosts", "2", "--namespaces", "--cluster", "tls://x:1"), "exclude each other"),
        (("--hosts", "2", "--prepare-only"), "are of this process"),
        (("--hosts", "0"), "--hosts 0 cannot be"),
        (("--hosts", "a,b"), "named hosts are machines of a section [cluster]"),
        (("--hosts", "2", "--outstanding", "1"), "outstanding"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "sfs", "memory", "--load", "100", *SMALL, *arguments)
    assert said.code == UsageError.exit_code
    assert says in said.err


def test_hosts_are_a_number_or_names() -> None:
    def client(text: str, scheduler: str | None) -> Any:
        asked = asked_hosts(text, namespaces=False, scheduler=scheduler, certificates=None)
        return asked.client

    assert client("3", None).host_names == ["host1", "host2", "host3"]
    there = client("load1, load2", "tls://prime:8786")
    assert (there.host, there.hosts) == ("cluster", ["load1", "load2"])
