"""The engine for several machines: agents there, their ends, and every way to lose each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster import link
from nfslab.cluster.attended import BEAT_S, GRACE_S
from nfslab.cluster.base import SILENCE_S, Patience
from nfslab.cluster.identity import facts_here, limits_here
from nfslab.cluster.loop import Loop
from nfslab.cluster.remote import AgentThere, ClusterThere
from nfslab.cluster.settings import joined
from nfslab.errors import RunFailed
from nfslab.machine.journal import boot_id

from tests.cluster.clusters import (
    PART,
    QUIET_S,
    Cluster,
    Watched,
    children_of,
    ended,
    folder_of,
    lasting,
    patient,
)
from tests.cluster.hearing import PATIENCE_S, heard
from tests.stopping import stop


@pytest.fixture
def cluster(tmp_path: Path, state: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, silence_s=QUIET_S)
    made.worker("one")
    yield made
    made.close()


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For tests that leave it as it was."""
    with lasting(tmp_path_factory.mktemp("calm")) as made:
        yield made


def only_child(cluster: Cluster, name: str = "one") -> Watched:
    (pid,) = children_of(cluster.workers[name].pid)
    return Watched(pid)


def begun(cluster: Cluster, there: link.Loop | None = None) -> AgentThere:
    (member,) = cluster.joined(there or Loop())
    member.connect()
    return member.begin(PART)


def test_bounds_keep_the_promise_of_three_seconds() -> None:
    assert SILENCE_S + GRACE_S < 3
    assert 4 * BEAT_S < SILENCE_S
    # Tests that are patient change these, so what a user has is said here.
    assert Patience() == Patience(ready_s=60.0, busy_s=4.0, load_s=2.0, start_s=0.5)
    assert SILENCE_S == 2.0


def test_orders_reach_it_and_its_events_come_back_with_its_end(calm: Cluster) -> None:
    with calm.connected() as connected:
        (member,) = connected.members
        assert (member.name, member.address) == ("one", "127.0.0.1")
        agent = member.begin(PART)
        agent.tell("plan", plan={"no": "plan"})
        assert heard(agent, "error")["kind"] == "config"
        assert heard(agent, "ended")["why"] == "exit code 1"
        agent.end()


def test_what_it_left_comes_home_and_its_folder_goes(calm: Cluster, tmp_path: Path) -> None:
    with calm.connected() as connected:
        agent = connected.members[0].begin(PART)
        folder = folder_of(only_child(calm).pid)
        (folder / "samples" / "deep").mkdir(parents=True)
        content = os.urandom(3 << 20)
        (folder / "samples" / "one").write_bytes(content)
        (folder / "samples" / "deep" / "empty").touch()
        (folder / "link").symlink_to("/etc/passwd")
        agent.fetch(tmp_path / "home")
        found = sorted(
            str(p.relative_to(tmp_path / "home")) for p in (tmp_path / "home").rglob("*")
        )
        assert found == ["samples", "samples/deep", "samples/deep/empty", "samples/one"]
        assert (tmp_path / "home" / "samples" / "one").read_bytes() == content
        agent.end()
        assert not folder.exists()


def test_a_killed_agent_is_told_of(calm: Cluster) -> None:
    with calm.connected() as connected:
        agent = connected.members[0].begin(PART)
        os.kill(only_child(calm).pid, signal.SIGKILL)
        assert heard(agent, "ended")["why"] == "killed by SIGKILL"
        agent.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may hurry")
def test_workers_hurry_and_their_agents_do_not(calm: Cluster) -> None:
    """What is measured runs as everything else does."""
    with calm.connected() as connected:
        connected.members[0].begin(PART)
        worker = calm.workers["one"].pid
        assert os.getpriority(os.PRIO_PROCESS, worker) == -10
        assert os.getpriority(os.PRIO_PROCESS, only_child(calm).pid) == 0
        threads = {one.name: one.native_id for one in threading.enumerate()}
        assert os.getpriority(os.PRIO_PROCESS, threads["cluster"] or 0) == -10
        assert os.getpriority(os.PRIO_PROCESS, 0) == 0


def test_words_by_the_megabyte_all_arrive_in_order(tmp_path: Path, state: Path) -> None:
    program = tmp_path / "talks.py"
    program.write_text(
        "import json, sys\n"
        "for n in range(300):\n"
        "    print(json.dumps({'event': 'n', 'n': n, 'pad': 'x' * 100_000}))\n"
        "print(json.dumps({'event': 'heard', 'words': len(sys.stdin.readline())}), flush=True)\n"
    )
    made = Cluster(tmp_path)
    try:
        made.worker("one", env={"ODD_AGENT": str(program)})
        with made.connected() as connected:
            agent = connected.members[0].begin(PART)
            agent.tell("listen", pad="y" * 5_000_000)
            seen: list[dict[str, Any]] = []
            while "ended" not in [event["event"] for event in seen[-1:]]:
                events = agent.events(PATIENCE_S)
                assert events
                seen += events
            assert [event["event"] for event in seen] == [*["n"] * 300, "heard", "ended"]
            assert [event["n"] for event in seen[:300]] == [*range(300)]
            assert seen[300]["words"] == (
                len(json.dumps({"do": "listen", "pad": "y" * 5_000_000})) + 1
            )
            agent.end()
    finally:
        made.close()


def test_a_frozen_worker_is_lost_and_ends_its_agents_when_it_wakes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient(monkeypatch, QUIET_S)
    with cluster.connected() as connected:
        agent = connected.members[0].begin(PART)
        child = only_child(cluster)
        worker = cluster.workers["one"]
        stop(worker.pid)
        why = heard(agent, "lost")["why"]
        assert why.startswith(f"one gave no sign of life for {QUIET_S:g} s")
        worker.send_signal(signal.SIGCONT)
        assert child.ends()
        with pytest.raises(RunFailed, match="no process can be started on one"):
            agent.member.begin(PART)
    # It is there for the next prime.
    agent = begun(cluster)
    assert only_child(cluster).lives()
    agent.member.link._loop.close()


def test_a_killed_worker_is_lost_and_the_next_one_cleans_up(
    cluster: Cluster, tmp_path: Path
) -> None:
    with cluster.connected() as connected:
        agent = connected.members[0].begin(PART)
        child = only_child(cluster)
        folder = folder_of(child.pid)
        # So that it does not see its input close.
        stop(child.pid)
        cluster.workers["one"].kill()
        assert "one ended its connection" in heard(agent, "lost")["why"]
        with pytest.raises(RunFailed, match="one is lost, and with it what it measured"):
            agent.fetch(tmp_path / "home")
        assert not (tmp_path / "home").exists()
    assert child.lives()
    said = cluster.worker("one")
    assert child.ends()
    assert not folder.exists()
    assert any("cluster worker one" in sentence for sentence in said["cleaned"])


PRIME = """
import signal, sys
from pathlib import Path
from nfslab.cluster.certificates import papers_in
from nfslab.cluster import link
from nfslab.cluster.link import Link, members_at
from nfslab.cluster.loop import Loop
from nfslab.cluster.remote import MemberThere
link.SILENCE_S = link.CONNECT_S = 60.0
folder, address = sys.argv[1:]
papers, loop = papers_in(Path(folder), "prime"), Loop()
((name, where),) = loop.call(members_at(address, papers))
member = MemberThere(Link(name, where, papers, loop), loop)
member.connect()
agent = member.begin("nfslab.offered.part")
print("begun", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_without_its_prime_no_agent_goes_on(cluster: Cluster, how: signal.Signals) -> None:
    argv = [sys.executable, "-c", PRIME, str(cluster.folder), cluster.address]
    with ended(subprocess.Popen(argv, stdout=subprocess.PIPE)) as prime:
        assert prime.stdout is not None
        assert prime.stdout.readline() == b"begun\n"
        child = only_child(cluster)
        # A child that does not look at its input is killed.
        stop(child.pid)
        prime.send_signal(how)
        assert child.ends()
    agent = begun(cluster)
    agent.member.link._loop.close()


def test_workers_end_with_their_scheduler(cluster: Cluster) -> None:
    worker = cluster.workers["one"]
    cluster.scheduler.kill()
    assert worker.wait(PATIENCE_S) == 0


def test_who_leaves_leaves_it_free(calm: Cluster) -> None:
    """Also with an agent that has to be killed: the next prime need not try again."""
    for _ in range(3):
        with calm.connected() as connected:
            connected.members[0].begin(PART)
            child = only_child(calm)
            stop(child.pid)
        assert not child.lives()


def test_one_that_cannot_be_had_frees_the_others(cluster: Cluster) -> None:
    cluster.worker("two")
    loop = Loop()
    (two,) = cluster.joined(loop, "two")
    two.connect()
    with pytest.raises(RunFailed, match="two is taken"):
        joined(cluster.address, cluster.folder)
    # The first was greeted before that, and is free again.
    (one,) = cluster.joined(loop, "one")
    one.connect()
    ClusterThere([one, two], loop).close()


def test_one_prime_at_a_time(calm: Cluster) -> None:
    with calm.connected():
        loop = Loop()
        (member,) = calm.joined(loop)
        with pytest.raises(RunFailed, match="one is taken"):
            member.connect()
        loop.close()


def test_another_state_of_nfslab_is_refused_by_both_sides(
    calm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = facts_here() | {"core": "another"}
    monkeypatch.setattr(link, "facts_here", lambda: here)
    loop = Loop()
    (member,) = calm.joined(loop)
    with pytest.raises(RunFailed, match="one has another nfslab") as raised:
        member.connect()
    assert "'another' here" in raised.value.why
    # The worker itself does nothing for it, even if the prime would.
    monkeypatch.setattr(link, "difference", lambda _here, _there: "")
    (member,) = calm.joined(loop)
    with pytest.raises(RunFailed, match="one has another nfslab"):
        member.connect()
    loop.close()


def test_a_name_is_joined_once(calm: Cluster) -> None:
    said = calm.worker("one")
    assert said["event"] == "error"
    assert "name taken, one" in said["why"]
    assert "name each host once" in said["fix"]


def test_what_cannot_be_begun_says_why(calm: Cluster) -> None:
    with calm.connected() as connected:
        (member,) = connected.members
        with pytest.raises(RunFailed, match="no process can be started on one"):
            member.begin("os")
        # As where the disk is full: the worker has no place for an agent's folder.
        (folder,) = calm.temporary.glob("nfslab-*")
        folder.rename(folder.with_name(f"{folder.name}-away"))
        try:
            with pytest.raises(RunFailed, match="No such file or directory"):
                member.begin(PART)
        finally:
            folder.with_name(f"{folder.name}-away").rename(folder)


def test_facts_are_those_of_the_machine(calm: Cluster) -> None:
    with calm.connected() as connected:
        own = facts_here() | limits_here() | {"boot_id": boot_id()}
        assert connected.members[0].facts() == own


def test_the_doctor_there_is_asked(calm: Cluster) -> None:
    with calm.connected() as connected:
        (member,) = connected.members
        groups = {probe["group"] for probe in member.doctor()["probes"]}
        assert {"targets", "collectors"} <= groups
