"""The engine for one machine: an agent's lines, folder and end."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster.base import Agent
from nfslab.cluster.here import ClusterHere, MemberHere
from nfslab.machine import children
from nfslab.machine.resources import Resources, recover

from tests.waiting import NO_LIMIT_S

pytestmark = pytest.mark.system
PART = "nfslab.offered.part"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def agent(resources: Resources, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Agent:
    # One that is still busy with its imports is killed after that: it has to end by itself.
    monkeypatch.setattr(children, "LEAVE_S", NO_LIMIT_S)
    (member,) = ClusterHere([MemberHere("here", resources)]).members
    return member.begin(PART, heard.put)


def folder_of(pid: int) -> Path:
    return Path(os.readlink(f"/proc/{pid}/cwd"))


def test_orders_reach_it_and_what_it_left_comes_home(
    agent: Agent, heard: Heard, tmp_path: Path
) -> None:
    pid = agent._child.process.pid  # type: ignore[attr-defined]
    folder = folder_of(pid)
    (folder / "samples").mkdir()
    (folder / "samples" / "one").write_bytes(b"\0" * 4096)
    agent.tell("plan", plan={"no": "plan"})
    assert heard.next("error")["kind"] == "config"
    assert heard.next("ended")["why"] == "exit code 1"
    agent.fetch(tmp_path / "home")
    assert (tmp_path / "home" / "samples" / "one").read_bytes() == b"\0" * 4096
    agent.end()
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_a_kill_is_told(agent: Agent, heard: Heard) -> None:
    os.kill(agent._child.process.pid, 9)  # type: ignore[attr-defined]
    assert heard.next("ended")["why"] == "killed by SIGKILL"
    agent.end()


def test_what_a_killed_owner_left_goes_with_the_next_start(state: Path) -> None:
    """Its folder is in the journal; the agent ends by itself."""
    begin = (
        "import os, sys\nfrom nfslab.cluster.here import MemberHere\n"
        "from nfslab.machine.resources import Resources\n"
        f"agent = MemberHere('here', Resources('killed')).begin({PART!r}, id)\n"
        "print(agent._folder.path, flush=True)\nsys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", begin]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert folder.is_dir()
        owner.kill()
    assert recover() != []
    assert not folder.exists()


class Heard:
    """What an agent says: it is begun with `put`."""

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.put = self._said.put

    def next(self, name: str) -> dict[str, Any]:
        """The next event of that name; what comes before it is of no interest."""
        while True:
            event = self._said.get(timeout=NO_LIMIT_S)
            if event["event"] == name:
                return event
