"""`nfslab sfs --hosts`: points of several hosts are those of as many processes of one."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from nfslab.cluster.here import AgentHere
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.errors import UsageError
from nfslab.experiment.load_hosts import LoadHosts, asked_hosts
from nfslab.offered.measuring import measure_point
from nfslab.offered.mixes import read_mix
from nfslab.offered.plans import Load, Mounted, Point

from tests.cli.invocation import nfslab
from tests.cli.serving import serving
from tests.cli.test_sfs import SMALL, source, told

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


def calls(point: dict[str, Any]) -> dict[str, int]:
    return {row["operation"]: row["calls"] for row in point["operations"]}


@pytest.mark.parametrize("more", KINDS)
def test_a_ladder_of_hosts_draws_what_one_hosts_processes_draw(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("memory", "--load", "400,800", "--json", *SMALL, "--mix", "laddis")
    together = told(nfslab(capsys, "sfs", *arguments, "--hosts", "2", "--generators", "2", *more))
    alone = told(nfslab(capsys, "sfs", *arguments, "--generators", "4"))
    for ours, one in zip(together["points"], alone["points"], strict=True):
        assert calls(ours) == calls(one), "the same operations, dealt out"
        assert len({process["pid"] for process in ours["processes"]}) == 4
        assert [host["host"] for host in ours["hosts"]] == ["host1", "host2"]
        answered = sum(row["answered"] for row in ours["operations"])
        assert sum(host["answered"] for host in ours["hosts"]) == answered
        assert sum(host["planned_share"] for host in ours["hosts"]) == pytest.approx(1)
        assert ours["little"]["residual_ns"] == 0
    made = [point["mounts"][0]["files_made"] for point in together["points"]]
    assert made == [60, 0], "once for all"


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


def test_an_export_that_is_there_is_loaded_by_all(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--memory") as served:
        said = nfslab(
            capsys, "sfs", *source(served.port), "--load", "300", "--hosts", "3", "--json", *SMALL
        )
    (point,) = told(said)["points"]
    assert len(point["processes"]) == 3
