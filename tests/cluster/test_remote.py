"""Hosts of a cluster: their agents, who holds them, and what becomes of those that are gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from nfslab.cluster import remote
from nfslab.cluster.record import write_record
from nfslab.cluster.settings import ClusterSection, connect
from nfslab.errors import RunFailed

from tests.cli.invocation import nfslab
from tests.cluster.clusters import Cluster, Watched, ended
from tests.cluster.test_here import PART, Heard
from tests.waiting import NO_LIMIT_S, until

pytestmark = [pytest.mark.long, pytest.mark.system]


@pytest.fixture
def cluster(tmp_path: Path, state: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    made.worker("one")
    yield made
    made.close()


def section(cluster: Cluster) -> ClusterSection:
    return ClusterSection(scheduler=cluster.address, certificates=str(cluster.folder))


def agents_of(worker: subprocess.Popen[bytes]) -> list[int]:
    """Process ids of a worker's children."""
    found: list[int] = []
    for task in Path(f"/proc/{worker.pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def test_orders_reach_an_agent_and_what_it_left_comes_home(
    cluster: Cluster, tmp_path: Path
) -> None:
    there = connect(section(cluster))
    (member,) = there.members
    heard = Heard()
    agent = member.begin(PART, heard.put)
    (pid,) = agents_of(cluster.workers["one"])
    folder = Path(os.readlink(f"/proc/{pid}/cwd"))
    (folder / "samples").mkdir()
    content = os.urandom(remote.PIECE_BYTES + 7)
    (folder / "samples" / "one").write_bytes(content)
    (folder / "link").symlink_to("/etc/passwd")
    agent.tell("plan", plan={"no": "plan"})
    assert heard.next("error")["kind"] == "config"
    assert heard.next("ended")["why"] == "exit code 1"
    agent.fetch(tmp_path / "home")
    assert [path.name for path in sorted((tmp_path / "home").iterdir())] == ["samples"]
    assert (tmp_path / "home" / "samples" / "one").read_bytes() == content
    agent.end()
    assert not folder.exists()
    clocks = member.clocks()
    assert abs(clocks.realtime.offset_ns) <= clocks.realtime.error_ns, "it is our own clock"
    there.close()


def test_one_prime_at_a_time_holds_a_host(cluster: Cluster) -> None:
    there = connect(section(cluster))
    with pytest.raises(RunFailed, match="one is taken") as raised:
        connect(section(cluster))
    assert raised.value.why == "another nfslab holds this host"
    there.close()
    connect(section(cluster)).close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_host_that_is_gone_or_stands_still_is_lost(
    cluster: Cluster, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SILENCE_S", 3.0)
    there = connect(section(cluster))
    (member,) = there.members
    heard = Heard()
    member.begin(PART, heard.put)
    cluster.workers["one"].send_signal(number)
    assert heard.next("lost")["why"].startswith("one ")
    with pytest.raises(RunFailed, match="one did not answer"):
        member.clocks()
    there.close()


PRIME = """
import sys
from nfslab.cluster.settings import ClusterSection, connect
there = connect(ClusterSection(scheduler=sys.argv[1], certificates=sys.argv[2]))
there.members[0].begin("nfslab.offered.part", id)
print("begun", flush=True)
sys.stdin.read()
"""


def test_agents_end_with_a_prime_that_is_killed(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path, silence_s=2.0)
    try:
        cluster.worker("one")
        pipe = subprocess.PIPE
        argv = [sys.executable, "-c", PRIME, cluster.address, str(cluster.folder)]
        with ended(subprocess.Popen(argv, stdin=pipe, stdout=pipe)) as prime:
            assert prime.stdout is not None
            assert prime.stdout.readline() == b"begun\n"
            agents = [Watched(pid) for pid in agents_of(cluster.workers["one"])]
            prime.kill()
            assert len(agents) == 1
            assert all(agent.ends() for agent in agents)
        until(lambda: not agents_of(cluster.workers["one"]))
        # The host is free.
        until(lambda: is_free(cluster))
    finally:
        cluster.close()


def is_free(cluster: Cluster) -> bool:
    try:
        connect(section(cluster)).close()
    except RunFailed:
        return False
    return True


def test_a_host_that_the_record_names_is_missed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of three fit is what it says, and not two of two."""
    write_record(cluster.folder, cluster.address, ["one", "two"])
    said = nfslab(capsys, "cluster", "check", "--dir", str(cluster.folder), "--json")
    assert said.code == 1
    one, two = json.loads(said.out)["hosts"]
    assert (one["host"], one["problem"]) == ("one", None)
    assert (two["host"], two["reachable"]) == ("two", False)
    assert two["problem"]["what"] == "two is not in the cluster any more"
    cluster.workers["one"].kill()
    cluster.workers["one"].wait(NO_LIMIT_S)
    said = nfslab(capsys, "cluster", "check", "--dir", str(cluster.folder))
    assert said.code == 1
    assert "0 of 2 hosts are fit" in said.out
