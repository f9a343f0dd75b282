"""The engine for one machine: an agent's lines, folder and end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nfslab.cluster.base import Agent
from nfslab.cluster.here import ClusterHere, MemberHere

from tests.cluster.hearing import heard

PART = "nfslab.offered.part"


@pytest.fixture
def agent() -> Agent:
    (member,) = ClusterHere([MemberHere("here")]).members
    return member.begin(PART)


def folder_of(pid: int) -> Path:
    return Path(os.readlink(f"/proc/{pid}/cwd"))


def test_orders_reach_it_and_its_events_come_back_with_its_end(agent: Agent) -> None:
    agent.tell("plan", plan={"no": "plan"})
    assert heard(agent, "error")["kind"] == "config"
    assert heard(agent, "ended")["why"] == "exit code 1"
    agent.end()


def test_left_alone_it_ends_and_its_folder_goes(agent: Agent) -> None:
    pid = agent._child.process.pid  # type: ignore[attr-defined]
    folder = folder_of(pid)
    assert folder.is_dir()
    agent.end()
    assert heard(agent, "ended")["why"] == "exit code 3"
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_what_it_left_comes_home(agent: Agent, tmp_path: Path) -> None:
    folder = folder_of(agent._child.process.pid)  # type: ignore[attr-defined]
    (folder / "samples").mkdir()
    (folder / "samples" / "one").write_bytes(b"\0" * 4096)
    agent.fetch(tmp_path / "home")
    assert (tmp_path / "home" / "samples" / "one").read_bytes() == b"\0" * 4096
    agent.end()


def test_a_kill_is_told(agent: Agent) -> None:
    os.kill(agent._child.process.pid, 9)  # type: ignore[attr-defined]
    assert heard(agent, "ended")["why"] == "killed by SIGKILL"
    agent.end()
