"""`nfslab sfs --hosts`: points of several hosts are those of as many processes of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nfslab.experiment.host_checks import SKEW_MAX_NS
from nfslab.experiment.load_hosts import LoadHosts, asked_hosts
from nfslab.offered.measuring import measure_point
from nfslab.offered.mixes import read_mix
from nfslab.offered.plans import Load, Mounted, Point

from tests.cli.serving import serving

pytestmark = pytest.mark.system


@pytest.mark.long
def test_hosts_make_points_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two points of one connection; then a host is lost, and why is said of each further one."""
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    asked = asked_hosts("2", namespaces=False, scheduler=None, certificates=None)
    shown: list[dict[str, Any]] = []

    def show(state: dict[str, Any]) -> bool:
        if state["stage"] == "run":
            shown.append(state)
        return True

    with serving("--memory") as served, LoadHosts.up(asked, 2) as hosts:
        mounted = Mounted("127.0.0.1:/export", f"port={served.port},mountport={served.port}")

        def point(rate: float) -> dict[str, Any]:
            one = Point([mounted], read_mix("laddis"), Load(rate), 0.1, 1.0, files=60)
            return measure_point(one, None, show, hosts.measured)

        points = [point(200)]
        shown.clear()
        points.append(point(400))
        hosts._clients.hosts[1].agent.end()
        for rate in (200, 300):
            lost = point(rate)
            assert lost["failed"] == "hosts"
            assert lost["reasons"][0]["text"].startswith("client host host2 was lost")
    for report in points:
        assert len({process["pid"] for process in report["processes"]}) == 4
        of_hosts = report["hosts"]
        assert [host["host"] for host in of_hosts] == ["host1", "host2"]
        answered = sum(row["answered"] for row in report["operations"])
        assert sum(host["answered"] for host in of_hosts) == answered > 0
        assert sum(host["planned_share"] for host in of_hosts) == pytest.approx(1)
        assert report["little"]["residual_ns"] == 0
        # One clock, no error: none begins before its time, and what it can have done is said.
        assert all(host["skew_ns"] >= 0 for host in of_hosts)
        assert [host["error_ns"] for host in of_hosts] == [0, 0]
        most_ns = max(host["skew_ns"] for host in of_hosts)
        window_ns = report["window_end_ns"] - report["window_start_ns"]
        assert report["start_skew"] == {
            "effect_share": pytest.approx(most_ns / window_ns),
            "limit_ns": SKEW_MAX_NS,
        }
    made = [report["mounts"][0]["files_made"] for report in points]
    assert made == [60, 0], "once for all"
    for name in ("elapsed_ns", "answered"):
        values = [state[name] for state in shown]
        assert values == sorted(values)
    # Of the whole load, ramps included: more than the window has.
    assert shown[-1]["answered"] > 0
