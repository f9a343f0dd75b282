"""A host of a cluster, as an actor on its worker: agents, clocks, folders, for one prime at a time.

The prime asks `said` again and again: that is its sign of life. When it was not heard for
`SILENCE_S`, its agents lose their input, and their lives `GRACE_S` later. A worker that stood still
itself (SIGSTOP, a machine that slept) sees the same by its clock when it wakes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

from nfslab import clock
from nfslab.cluster.base import SILENCE_S
from nfslab.cluster.here import AgentHere, MemberHere
from nfslab.cluster.identity import difference, facts_here, limits_here
from nfslab.errors import RunFailed, one_line
from nfslab.machine.clock_pair import clock_pair
from nfslab.machine.journal import boot_id
from nfslab.machine.processes import TOKEN_VARIABLE
from nfslab.machine.undo import Scope, end_strays

GRACE_S: Final = 0.8
"""After `SILENCE_S`: so long a load may outlive its prime."""
LOOK_S: Final = 0.2
UNREAD_MAX: Final = 64
"""Events that wait for the prime before an agent has to."""
DOCTOR_S: Final = 60.0
BUSY: Final = "another nfslab holds this host"


class Orders:
    """Of an agent: a thread tells them, in the order of their places."""

    def __init__(self, agent: AgentHere) -> None:
        self.agent = agent
        self._orders: queue.SimpleQueue[tuple[str, dict[str, Any]] | None] = queue.SimpleQueue()
        self._early: dict[int, tuple[str, dict[str, Any]]] = {}
        self._passed = 0
        threading.Thread(target=self._tell, daemon=True, name="agent").start()

    def put(self, place: int, name: str, content: dict[str, Any]) -> None:
        """One of them."""
        self._early[place] = (name, content)
        while self._passed in self._early:
            self._orders.put(self._early.pop(self._passed))
            self._passed += 1

    def end(self, patience_s: float) -> None:
        """The agent ends within so long, or is ended."""
        self._orders.put(None)
        self.agent.end(patience_s)

    def _tell(self) -> None:
        while (order := self._orders.get()) is not None:
            self.agent.tell(order[0], **order[1])


class HostActor:
    """One prime's visit. Coroutines run on the worker's loop, side by side."""

    member: ClassVar[MemberHere]
    """This machine, as the worker that runs here has it."""
    on_stop: ClassVar[Callable[[], object]] = staticmethod(lambda: None)
    """Ends the worker."""

    def __init__(self, prime: dict[str, Any]) -> None:
        self._agents: dict[int, Orders] = {}
        self._left: set[int] = set()
        """Agents that nobody listens to any more."""
        self._said: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue(UNREAD_MAX)
        self._heard_s = clock.monotonic()
        self.is_over = False
        self._ending = threading.Lock()
        own = facts_here() | limits_here() | {"boot_id": boot_id()}
        # Seen from here, "there" is the prime: the sentence is the prime's to make.
        self._hello = {"facts": own, "differs": difference(own, prime), "busy": take_turn(self)}
        if not self._hello["busy"]:
            threading.Thread(target=self._watch, daemon=True, name="prime").start()

    async def hello(self) -> dict[str, Any]:
        """What this machine is, whether it is another nfslab's, and whether one holds it."""
        return self._hello

    async def clocks(self) -> tuple[int, int, int]:
        """They, read now."""
        return clock_pair()

    async def doctor(self) -> str:
        """What `nfslab doctor --json` says here; an error's text does not begin with a brace."""
        return await asyncio.to_thread(doctor)

    async def begin(self, number: int, module: str) -> str:
        """Start an agent; why not, or nothing."""
        said = functools.partial(self._put, number)
        try:
            agent = await asyncio.to_thread(self.member.begin, module, said)
        except RunFailed as error:
            return error.why or error.what
        self._agents[number] = Orders(agent)
        return ""

    async def order(self, number: int, place: int, name: str, content: dict[str, Any]) -> None:
        """One for an agent."""
        if orders := self._agents.get(number):
            orders.put(place, name, content)

    async def said(self, wait_s: float) -> list[tuple[int, dict[str, Any]]]:
        """What agents said since, after so long at most."""
        now_s = clock.monotonic()
        if self.is_over or now_s - self._heard_s >= SILENCE_S:
            raise RuntimeError(f"it has not heard of us for {now_s - self._heard_s:.1f} s")
        self._heard_s = now_s
        return await asyncio.to_thread(self._take, wait_s)

    async def listed(self, number: int) -> list[tuple[str, bool]]:
        """Paths in an agent's folder, and whether each is a folder."""
        return await asyncio.to_thread(lambda: list(listed(self._agents[number].agent.folder)))

    async def read(self, number: int, path: str, offset: int, size: int) -> bytes:
        """A piece of a file in an agent's folder."""
        return await asyncio.to_thread(
            _piece, self._agents[number].agent.folder / path, offset, size
        )

    async def end(self, number: int, patience_s: float) -> None:
        """End an agent."""
        self._left.add(number)
        if orders := self._agents.pop(number, None):
            await asyncio.to_thread(orders.end, patience_s)

    async def leave(self) -> None:
        """The prime goes: all agents end, and the host is free."""
        await asyncio.to_thread(self.end_all)

    def end_all(self) -> None:
        """All agents, and what they started in sessions of their own: it carries the token, too."""
        with self._ending:
            agents = list(self._agents.values())
            self._left.update(self._agents)
            self._agents.clear()
            enders = [threading.Thread(target=one.end, args=(GRACE_S,)) for one in agents]
            for ender in enders:
                ender.start()
            for ender in enders:
                ender.join()
            if agents and (token := os.environ.get(TOKEN_VARIABLE)):
                end_strays(Scope(token, True), [])
            self.is_over = True

    def _put(self, number: int, event: dict[str, Any]) -> None:
        """An agent whose words nobody takes waits."""
        while number not in self._left:
            with contextlib.suppress(queue.Full):
                self._said.put((number, event), timeout=LOOK_S)
                return

    def _take(self, wait_s: float) -> list[tuple[int, dict[str, Any]]]:
        found = []
        with contextlib.suppress(queue.Empty):
            found.append(self._said.get(timeout=wait_s))
            while len(found) < UNREAD_MAX:
                found.append(self._said.get_nowait())
        return found

    def _watch(self) -> None:
        while not self.is_over:
            if clock.monotonic() - self._heard_s >= SILENCE_S:
                self.end_all()
            clock.sleep(LOOK_S)


_turn = threading.Lock()
_visits: list[HostActor] = []


def take_turn(visit: HostActor) -> str:
    """This worker is that prime's from now on; why not, or nothing."""
    with _turn:
        if any(not one.is_over for one in _visits):
            return BUSY
        _visits[:] = [visit]
        return ""


def end_visits() -> None:
    """This worker ends: its agents before it."""
    for visit in list(_visits):
        visit.end_all()


def ask_to_end() -> None:
    """Run on a worker (`Client.run`): it is to end."""
    HostActor.on_stop()


def doctor() -> str:
    """What `nfslab doctor --json` says here: what this machine can mount and watch."""
    argv = [sys.executable, "-P", "-m", "nfslab", "doctor", "--json"]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=DOCTOR_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return one_line(error)
    return done.stdout if done.returncode == 0 else done.stderr[-2000:]


def listed(folder: Path) -> list[tuple[str, bool]]:
    """Plain files and folders below a folder, folders before what is in them; OSError."""
    found = []
    for here, folders, files in os.walk(folder):
        for name in sorted(folders) + sorted(files):
            path = Path(here, name)
            if not path.is_symlink() and (path.is_dir() or path.is_file()):
                found.append((str(path.relative_to(folder)), path.is_dir()))
    return found


def _piece(path: Path, offset: int, size: int) -> bytes:
    # No link is followed: the agent's folder is its own, but the load may have been anybody's.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        file.seek(offset)
        return file.read(size)
