"""The engine for several machines: agents there, their ends, and every way to lose each other."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster import link
from nfslab.cluster.attended import BEAT_S, GRACE_S
from nfslab.cluster.base import SILENCE_S, Patience
from nfslab.cluster.identity import facts_here
from nfslab.cluster.loop import Loop
from nfslab.cluster.remote import AgentThere
from nfslab.errors import RunFailed

from tests.cluster.clusters import (
    PART,
    QUIET_S,
    Cluster,
    Watched,
    children_of,
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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
