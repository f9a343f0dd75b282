"""Hosts whose agents are threads of this process, joined to the prime by lines in memory.

Each runs the whole program of a host's agent (`in_part.part`): its orders, signs of life, start and
sealed run are those of a process elsewhere. Time is simulated (`one_at_a_time`). A test says what
is wrong with a host: its clocks, the way to it, when it is killed or hangs.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster.base import Agent, Clocks, Cluster, Member, Patience, Said
from nfslab.experiment import in_part, members
from nfslab.experiment.host_facts import SERVER_HERE, facts
from nfslab.experiment.in_part import Prime, part
from nfslab.experiment.members import Kind
from nfslab.hosts.base import Link
from nfslab.machine.agent import Lines, order
from nfslab.machine.availability import Availability
from nfslab.results.records import ClockRecord

from tests.experiment.one_at_a_time import HostClock, OneAtATime

LINE_BYTES_MAX = 1 << 24


class Way:
    """Things on their way in one direction, some seconds long."""

    def __init__(self, clock: OneAtATime) -> None:
        self.seconds = 0.0
        self.is_closed = False
        self._turns = clock
        self._under_way: deque[tuple[int, Any]] = deque()

    def put(self, thing: Any) -> None:
        """Sends it."""
        at_ns = self._turns._now_ns() + round(self.seconds * 1e9)
        self._under_way.append((at_ns, thing))

    def get(self, seconds: float | None = None) -> Any:
        """Returns what comes next; None when it is closed, or after this many seconds."""

        def due() -> int | None:
            if self._under_way:
                return self._under_way[0][0]
            return 0 if self.is_closed else None

        self._turns.until(due, seconds)
        if self._under_way and self._under_way[0][0] <= self._turns._now_ns():
            return self._under_way.popleft()[1]
        return None


class MemberInMemory(Member):
    """One host, and what is wrong with it."""

    patience = Patience()  # type: ignore[assignment]

    def __init__(self, name: str, hosts: HostsInMemory, address: str) -> None:
        self.name = name
        self.hosts = hosts
        self.address = address
        self.clock = HostClock()
        self.error_ns = 0
        """Of a comparison of clocks."""
        self.orders_take_s = 0.0
        self.facts_told: dict[str, Any] = {}
        """Beside those of this machine, or instead."""

    def facts(self) -> dict[str, Any]:
        """See `Member.facts`."""
        return facts() | self.facts_told

    def clocks(self) -> Clocks:
        """See `Member.clocks`."""
        ours_ns = self.hosts.clock._now_ns()
        offset_ns = self.clock.shown(ours_ns) - ours_ns
        record = ClockRecord(offset_ns=offset_ns, error_ns=self.error_ns)
        return Clocks(record, record)

    def begin(self, module: str, said: Said) -> Agent:
        """See `Member.begin`."""
        assert module == "nfslab.experiment.in_part"
        agent = AgentInMemory(self, said)
        self.hosts.agents.append(agent)
        return agent


class AgentInMemory(Agent):
    """The agent's program in threads of this process."""

    def __init__(self, member: MemberInMemory, said: Said) -> None:
        super().__init__(said)
        self.member = member
        self._turns = turns = member.hosts.clock
        self._orders = Way(turns)
        self._lines = Lines(LINE_BYTES_MAX)
        number = len(member.hosts.agents)
        self.folder = member.hosts.folder / f"agent-{member.name}-{number}"
        self.folder.mkdir(parents=True)
        # One host, one clock; but each agent has threads of its own.
        self.clock = HostClock(member.clock.ahead_ns, member.clock.drift_ppm)
        thread = threading.Thread(target=self._run, name=f"agent on {member.name}")
        self._thread = turns.on_host(self.clock, thread)

    def _run(self) -> None:
        code = part(Prime(self._read, self._write), self.folder)
        self._said({"event": "ended", "why": f"exit code {code}"})
        own = [one for one in self._turns.of_host(self.clock) if one is not self._thread]
        self._turns.end(own)

    def _read(self) -> bytes:
        return self._orders.get() or b""

    def _write(self, text: bytes) -> int:
        if self._orders.is_closed:
            raise BrokenPipeError
        for line in self._lines.feed(text):
            assert line is not None
            self._said(json.loads(line))
        return len(text)

    def tell(self, name: str, **content: Any) -> None:
        """See `Agent.tell`."""
        member = self.member
        assert isinstance(member, MemberInMemory)
        self._orders.seconds = member.orders_take_s
        self._orders.put(order(name, **content))

    def fetch(self, destination: Path) -> None:
        """See `Agent.fetch`."""
        shutil.copytree(self.folder, destination, symlinks=True)

    def end(self) -> None:
        """See `Agent.end`."""
        self._orders.is_closed = True
        self._thread.join(10.0)
        if self._thread.is_alive():
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """Ends it where it is, without its teardown."""
        self.hang()
        self._said({"event": "ended", "why": "killed by SIGKILL"})

    def hang(self) -> None:
        """Stops it where it is: it says nothing more."""
        self._turns.hold(self._turns.of_host(self.clock))


class ClusterInMemory(Cluster):
    """All of them."""

    def __init__(self, members: list[MemberInMemory]) -> None:
        self._members = members
        self.is_closed = False

    @property
    def members(self) -> list[MemberInMemory]:
        """See `Cluster.members`."""
        return self._members

    def close(self) -> None:
        """See `Cluster.close`."""
        self.is_closed = True


class HostsInMemory:
    """Stands for each kind of client hosts and of a server's host."""

    def __init__(self, clock: OneAtATime, folder: Path) -> None:
        self.clock = clock
        self.folder = folder
        self.agents: list[AgentInMemory] = []
        """All that were begun, of all runs."""
        self.away: list[Exception] = []
        """Why hosts cannot be had, for the next times that they are asked for."""
        self._members: dict[str, MemberInMemory] = {}
        self.clusters: list[ClusterInMemory] = []

    def __getitem__(self, name: str) -> MemberInMemory:
        """Returns the host of that name, which need not be asked for yet."""
        if name not in self._members:
            address = f"127.0.1.{len(self._members) + 1}"
            self._members[name] = MemberInMemory(name, self, address)
        return self._members[name]

    def agent(self, name: str) -> AgentInMemory:
        """Returns the newest agent on a host."""
        return next(one for one in reversed(self.agents) if one.member.name == name)

    def connect(self, asked: members.Asked, *_: object) -> tuple[Cluster, Link]:
        """See `Kind.connect`."""
        if self.away:
            raise self.away.pop(0)
        names = list(asked.client.host_names)
        names += [asked.server.host_name] if asked.server.is_elsewhere else []
        self.clusters.append(ClusterInMemory([self[name] for name in names]))
        return self.clusters[-1], Link()

    def facts_here(self) -> dict[str, Any]:
        """Returns the facts of the host that the calling thread is of."""
        clock = self.clock._threads[threading.current_thread()]
        return next(one.member.facts() for one in self.agents if one.clock is clock)


def install(patch: pytest.MonkeyPatch, clock: OneAtATime, folder: Path) -> HostsInMemory:
    """Puts them in the place of all kinds of hosts."""
    hosts = HostsInMemory(clock, folder)
    for kind in ("local", "namespace", "cluster"):
        one = Kind("hosts in memory", hosts.connect, lambda *_: Availability(True))
        patch.setitem(members.KINDS, kind, one)
    patch.setattr(members, "server_here", lambda *_: hosts[SERVER_HERE])
    patch.setattr(in_part, "facts", hosts.facts_here)
    patch.setitem(os.environ, "NFSLAB_TURN", "")
    return hosts
