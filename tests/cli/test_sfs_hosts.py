"""`nfslab sfs --hosts`: points of several hosts are those of as many processes of one."""

from __future__ import annotations

import os
import signal
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from nfslab.cluster.base import Member, Patience
from nfslab.cluster.here import AgentHere
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.errors import UsageError
from nfslab.experiment.host_checks import SKEW_MAX_NS
from nfslab.experiment.load_hosts import LoadHosts, _judge, asked_hosts
from nfslab.offered import measuring
from nfslab.offered.hosts import Handed
from nfslab.offered.measuring import measure_point
from nfslab.offered.mixes import read_mix
from nfslab.offered.plans import Load, Mounted, Point
from nfslab.results.records import ClockRecord

from tests.cli.invocation import nfslab
from tests.cli.serving import PATIENCE_S, serving
from tests.cli.test_sfs import SMALL, told
from tests.cli.test_sfs_generators import at, calls_of, point_of

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
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
        require_start(point)
    made = [point["mounts"][0]["files_made"] for point in found["points"]]
    assert made == [60, 0], "once for all"


def require_start(point: dict[str, Any]) -> None:
    """How far from the common start each host began is in every point, and what it can have done.

    The hosts are on this machine: one clock, no error.
    """
    hosts = point["hosts"]
    assert all(host["skew_ns"] >= 0 for host in hosts), "none may begin before its time"
    assert [host["error_ns"] for host in hosts] == [0] * len(hosts)
    most_ns = max(host["skew_ns"] for host in hosts)
    window_ns = point["window_end_ns"] - point["window_start_ns"]
    assert point["start_skew"] == {
        "effect_share": pytest.approx(most_ns / window_ns), "limit_ns": SKEW_MAX_NS,
    }  # fmt: skip
    late = [reason["kind"] for reason in point["reasons"] if reason["kind"] == "start_skew"]
    assert len(late) == (most_ns > SKEW_MAX_NS)


def test_a_search_is_made_by_all_hosts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One worker, 100 ms for each READ, 22 % of the mix: 45 operations a second, and 80 are no good.
    monkeypatch.setattr(measuring, "SEARCH_START", 160.0)
    with serving("--memory", "--threads", "1", "--service-time", "READ=100ms") as served:
        asked = ["--find", "mean<2s", "--precision", "100%", "--outstanding", "10"]
        asked += [*SMALL, "--time", "1s", "--mix", "laddis", "--hosts", "2"]
        found = told(nfslab(capsys, "sfs", *at(served), *asked, "--json"))
    search, points = found["search"], found["points"]
    assert search["goal"] == "mean < 2000 ms"
    assert search["points"] == len(points)
    assert [point["offered_ops_per_s"] for point in points[:2]] == [160, 80]
    assert (search["found_ops_per_s"] or 0) <= 40
    for point in points:
        assert [host["host"] for host in point["hosts"]] == ["host1", "host2"]
        assert len({process["pid"] for process in point["processes"]}) == 2
        assert sum(host["answered"] for host in point["hosts"]) == point["answered"]
        require_start(point)


@pytest.mark.parametrize(
    ("late_ns", "error_ns", "is_valid"),
    [(2 * MS, 0, True), (2 * MS, 4 * MS, False), (6 * MS, 0, False), (-6 * MS, 0, False)],
)
def test_a_start_counts_with_the_clocks_error(late_ns: int, error_ns: int, is_valid: bool) -> None:
    begin_ns, there_ns = 1000 * MS, 7_000_000 * MS
    clocks = {"a": ClockRecord(), "b": ClockRecord(offset_ns=there_ns, error_ns=error_ns)}
    hosts: list[Any] = [
        SimpleNamespace(name=name, before=clock, is_emulated=False)
        for name, clock in clocks.items()
    ]
    begins = {
        "a": [begin_ns, begin_ns + 1],
        "b": [begin_ns + there_ns + late_ns, begin_ns + there_ns],
    }
    handed = {
        name: [Handed(index=0, sums=None, began_ns=one, lost="") for one in some]
        for name, some in begins.items()
    }
    report: dict[str, Any] = {
        "hosts": [{"host": name} for name in clocks], "reasons": [], "valid": True,
        "window_start_ns": begin_ns, "window_end_ns": begin_ns + 1000 * MS,
    }  # fmt: skip
    _judge(hosts, handed, begin_ns, report)
    assert report["hosts"] == [
        {"host": "a", "skew_ns": 1, "error_ns": 0},
        {"host": "b", "skew_ns": late_ns, "error_ns": error_ns},
    ]
    assert report["start_skew"]["effect_share"] == (abs(late_ns) + error_ns) / (1000 * MS)
    assert report["valid"] is is_valid
    assert [reason["kind"] for reason in report["reasons"]] == ["start_skew"] * (not is_valid)
    assert all(reason["text"].startswith("b began") for reason in report["reasons"])


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


def test_progress_counts_what_all_hosts_do() -> None:
    asked = asked_hosts("2", namespaces=False, scheduler=None, certificates=None)
    shown: list[dict[str, Any]] = []

    def show(state: dict[str, Any]) -> bool:
        if state["stage"] == "run":
            shown.append(state)
        return True

    with serving("--memory") as served, LoadHosts.up(asked, 1) as hosts:
        mounted = Mounted("127.0.0.1:/export", f"port={served.port},mountport={served.port}")
        point = Point([mounted], read_mix("laddis"), Load(200), 0.1, 4, files=60)
        report = measure_point(point, None, show, hosts.measured)
    # A busy machine may keep the first host's progress back for a while, but not until the end.
    assert any(state["elapsed_ns"] < state["total_ns"] for state in shown)
    for name in ("elapsed_ns", "answered"):
        values = [state[name] for state in shown]
        assert values == sorted(values)
    # Each makes half of the load.
    assert shown[-1]["answered"] > 0.75 * sum(host["answered"] for host in report["hosts"])


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
