"""Hosts over ssh: started for an experiment or left running, and everything that ssh refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster.settings import ClusterSection, connect

from tests.cli.invocation import nfslab
from tests.cluster.clusters import Watched
from tests.cluster.ssh_server import WHY_NOT, SshServer, usable

pytestmark = [pytest.mark.long, pytest.mark.skipif(not usable, reason=WHY_NOT)]
NAMES = ["alpha", "beta"]


@pytest.fixture
def server(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    made = SshServer(tmp_path, tmp_path / "state-there")
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    made.configure(*NAMES)
    made.knows(*NAMES)
    yield made
    made.close()


def workers_of(state: Path) -> list[int]:
    """Process ids of living workers, by their journals."""
    found = []
    for path in (state / "journals").glob("*.jsonl"):
        header = json.loads(path.read_text().splitlines()[0])
        if header["purpose"].startswith("cluster worker"):
            found.append(header["pid"])
    return found


def said_by_check(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    said = nfslab(capsys, "cluster", "check", "--json", *words)
    assert said.code in (0, 1)
    return {one["host"]: one for one in json.loads(said.out)["hosts"]}


def test_start_check_stop(
    server: SshServer, tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = nfslab(capsys, "cluster", "start", *NAMES, "--json")
    assert (started.code, started.err) == (0, "")
    address = json.loads(started.out)["address"]
    folder = state / "cluster"
    assert json.loads(started.out)["dir"] == str(folder)
    try:
        assert all(path.stat().st_mode & 0o77 == 0 for path in folder.glob("*.key"))
        again = nfslab(capsys, "cluster", "start", "alpha")
        assert again.code == 2
        assert f"a cluster is running already, at {address}" in again.err
        found = said_by_check(capsys)
        assert sorted(found) == NAMES
        for one in found.values():
            assert one["problem"] is None
            assert one["same"] == {"nfslab": True, "core": True}
            clock = one["clocks"]["realtime"]
            assert abs(clock["offset_ns"]) <= clock["error_ns"]
            assert {"targets", "collectors"} <= {probe["group"] for probe in one["probes"]}
        # As an experiment finds it.
        cluster = connect(ClusterSection(scheduler=address, certificates=str(folder)))
        assert [member.name for member in cluster.members] == NAMES
        cluster.close()
        workers = [Watched(pid) for pid in workers_of(tmp_path / "state-there")]
        unknown = nfslab(capsys, "cluster", "stop", "gamma")
        assert unknown.code == 2
        assert "gamma is not in the cluster" in unknown.err
        one = nfslab(capsys, "cluster", "stop", "beta")
        assert (one.code, one.out) == (0, "beta: ended\n")
        assert sorted(said_by_check(capsys)) == ["alpha"]
    finally:
        stopped = nfslab(capsys, "cluster", "stop")
    assert (stopped.code, stopped.out) == (0, "alpha: ended\nscheduler: ended\n")
    assert len(workers) == 2
    assert all(worker.ends() for worker in workers)
    assert not folder.exists()
    missing = nfslab(capsys, "cluster", "stop")
    assert missing.code == 2
    assert "no cluster is running that was started here" in missing.err


def unknown_key(server: SshServer) -> None:
    server.knows()


def changed_key(server: SshServer) -> None:
    server.another_key("other_key")
    server.knows(*NAMES, key="other_key")


def denied(server: SshServer) -> None:
    server.deny()


def closed(server: SshServer) -> None:
    server.close()


REFUSALS: dict[Callable[[SshServer], None], tuple[str, str]] = {
    unknown_key: ("the host key of alpha is not known", "ssh alpha once"),
    changed_key: ("the host key of alpha has changed", "ssh-keygen -R alpha"),
    denied: ("alpha refuses our ssh key", "ssh-copy-id alpha"),
    closed: ("alpha cannot be reached over ssh", "ssh alpha true"),
}
