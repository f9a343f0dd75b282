"""Hosts over ssh: started for an experiment or left running, and everything that ssh refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster.commands import check
from nfslab.cluster.settings import ClusterSection, connect
from nfslab.errors import RunFailed

from tests.cli.invocation import nfslab
from tests.cluster.clusters import PART, Watched, ended
from tests.cluster.hearing import heard
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


def test_an_experiments_own_cluster_comes_and_goes(
    server: SshServer, tmp_path: Path, state: Path
) -> None:
    cluster = connect(ClusterSection(hosts=["beta", "alpha"]))
    assert [member.name for member in cluster.members] == ["beta", "alpha"]
    agents = [member.begin(PART) for member in cluster.members]
    for agent in agents:
        agent.tell("plan", plan={})
        assert heard(agent, "error")["kind"] == "config"
    there = tmp_path / "state-there"
    workers = [Watched(pid) for pid in workers_of(there)]
    assert len(workers) == 2
    # No key of theirs is on a disk.
    assert list(there.rglob("*.key")) == []
    cluster.close()
    assert all(worker.ends() for worker in workers)
    assert list(state.rglob("*.key")) == []
    assert list((state / "journals").glob("*.jsonl")) == []


PRIME = """
import signal
from nfslab.cluster.settings import ClusterSection, connect
cluster = connect(ClusterSection(hosts=["alpha", "beta"]))
print("up", flush=True)
signal.pause()
"""


def test_a_killed_prime_leaves_no_cluster(server: SshServer, tmp_path: Path, state: Path) -> None:
    argv = [sys.executable, "-c", PRIME]
    with ended(subprocess.Popen(argv, stdout=subprocess.PIPE)) as prime:
        assert prime.stdout is not None
        assert prime.stdout.readline() == b"up\n"
        workers = [Watched(pid) for pid in workers_of(tmp_path / "state-there")]
        prime.send_signal(signal.SIGKILL)
    assert len(workers) == 2
    assert all(worker.ends() for worker in workers)
    # Its keys go with the next start.
    assert list(state.rglob("*.key")) != []
    from nfslab.machine.resources import recover

    recover()
    assert list(state.rglob("*.key")) == []


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


def test_check_in_words(server: SshServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a host that is fit and one that is not there."""
    said = nfslab(capsys, "cluster", "check", "alpha", "nowhere.invalid")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[0] == "alpha (127.0.0.1)"
    assert lines[1] == "  yes reachable"
    assert lines[2].startswith("  yes same nfslab: ")
    assert lines[3].startswith("  yes same core: ")
    assert lines[4].startswith("      monotonic clock: ")
    assert any(line.startswith("      can mount: ") for line in lines)
    assert any(line.startswith("      can watch: ") for line in lines)
    assert lines[-1] == "1 of 2 hosts are fit"
    lost = lines.index("nowhere.invalid")
    assert lines[lost + 1] == "  no  reachable"
    assert "nobody knows a host 'nowhere.invalid'" in lines[lost + 2]


def refused(hosts: list[str], python: str = "") -> RunFailed:
    with pytest.raises(RunFailed) as raised:
        connect(ClusterSection(hosts=hosts, python=python))
    return raised.value


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


@pytest.mark.parametrize("cause", REFUSALS, ids=lambda cause: cause.__name__)
def test_what_ssh_refuses_is_said_with_its_fix(
    server: SshServer, state: Path, cause: Callable[[SshServer], None]
) -> None:
    cause(server)
    error = refused(["alpha"])
    what, fix = REFUSALS[cause]
    assert error.what == what
    assert fix in error.fix
    # Nothing was started.
    assert list(state.rglob("*.key")) == []


def test_a_host_without_nfslab_and_one_with_another(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = refused(["alpha"], python="/nowhere/python")
    assert missing.what == "no nfslab as ours on alpha"
    assert "[cluster] python" in missing.fix
    other = tmp_path / "python"
    other.write_text('#!/bin/sh\necho \'{"nfslab": "0.0.1", "core": "none"}\'\n')
    other.chmod(0o755)
    differs = refused(["alpha"], python=str(other))
    assert differs.what == "alpha has another nfslab"
    assert "nfslab '0.0.1' there" in differs.why
    # It was reached: `check` says in what it differs, not that nobody is there.
    (report,) = check(["alpha"], None, None, str(other))
    assert not report.ok
    assert report.as_json()["reachable"]
    assert report.as_json()["same"] == {"nfslab": False, "core": False}


FAILS_ON_BETA = """#!/bin/sh
if [ "$4" = detached ]; then
  order=$(cat)
  case $order in *'"name": "beta"'*) echo "no room" >&2; exit 1 ;; esac
  printf '%s\\n' "$order" | {python} "$@"
else
  exec {python} "$@"
fi
"""


def test_when_one_host_fails_none_stays(server: SshServer, tmp_path: Path, state: Path) -> None:
    there = tmp_path / "state-there"
    assert "nobody knows a host" in refused(["alpha", "nowhere.invalid"]).what
    assert workers_of(there) == []
    # Also when its worker is the one that does not begin, beside one that has begun.
    failing = tmp_path / "python"
    failing.write_text(FAILS_ON_BETA.format(python=sys.executable))
    failing.chmod(0o755)
    error = refused(NAMES, python=str(failing))
    assert error.what == "nfslab on beta does not answer"
    assert "no room" in error.why
    assert all(Watched(pid).ends() for pid in workers_of(there))
    assert list(state.rglob("*.key")) == []
