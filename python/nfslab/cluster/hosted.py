"""A host of a cluster, as an actor on its worker: agents, clocks, folders, for one prime at a time.

The prime asks `said` again and again: that is its sign of life. When it was not heard for
`SILENCE_S`, its agents lose their input, and their lives `GRACE_S` later. A worker that stood still
itself (SIGSTOP, a machine that slept) sees the same by its clock when it wakes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from nfslab import clock
from nfslab.cluster.base import SILENCE_S
from nfslab.cluster.identity import difference, facts_here, limits_here
from nfslab.errors import one_line
from nfslab.machine import children
from nfslab.machine.clock_pair import clock_pair
from nfslab.machine.journal import boot_id
from nfslab.machine.processes import TOKEN_VARIABLE
from nfslab.machine.undo import Scope, end_strays

GRACE_S: Final = 0.8
"""After `SILENCE_S`: so long a load may outlive its prime."""
LOOK_S: Final = 0.2
PIECE_BYTES: Final = 64 << 10
PIECES_MAX: Final = 64
"""Of what an agent said, how much waits for the prime before the agent has to."""
DOCTOR_S: Final = 60.0
BUSY: Final = "another nfslab holds this host"


Said: TypeAlias = "queue.Queue[tuple[int, str, bytes]]"


class HostedAgent:
    """A child of ours on this machine: a thread writes its orders, another reads its words."""

    def __init__(self, number: int, module: str, said: Said) -> None:
        """Start it; OSError."""
        self.number = number
        self.folder = Path(tempfile.mkdtemp(prefix="agent-", dir=HostActor.folder))
        self._child = children.begin(module, cwd=self.folder)
        self._said = said
        self._orders: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._early: dict[int, bytes] = {}
        self._written = 0
        self._left = False
        self._threads = [
            threading.Thread(target=work, daemon=True, name="agent")
            for work in (self._write, self._read)
        ]
        for thread in self._threads:
            thread.start()

    def order(self, place: int, text: bytes) -> None:
        """Bytes for its standard input, in the order of their places."""
        self._early[place] = text
        while self._written in self._early:
            self._orders.put(self._early.pop(self._written))
            self._written += 1

    def end(self, patience_s: float) -> None:
        """Close its input, wait so long, kill it and what it started; its folder goes."""
        self._left = True
        self._orders.put(None)
        if not self._child.ends_within(patience_s):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.process.pid, signal.SIGKILL)
            self._child.process.wait()
        for thread in self._threads:
            thread.join(GRACE_S)
        self._child.complaints.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self) -> None:
        stdin = self._child.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            while (text := self._orders.get()) is not None:
                stdin.write(text)
                stdin.flush()
        with contextlib.suppress(OSError):
            stdin.close()

    def _read(self) -> None:
        stdout = self._child.process.stdout
        assert stdout is not None
        while piece := os.read(stdout.fileno(), PIECE_BYTES):
            self._put("said", piece)
        self._put("ended", self._child.fate().encode())
        stdout.close()

    def _put(self, kind: str, content: bytes) -> None:
        while not self._left:
            with contextlib.suppress(queue.Full):
                self._said.put((self.number, kind, content), timeout=LOOK_S)
                return


class HostActor:
    """One prime's visit. Coroutines run on the worker's loop, side by side."""

    folder: ClassVar[Path | None] = None
    """The worker's own, which is in its journal: agents' folders are made in it."""
    on_stop: ClassVar[Callable[[], object]] = staticmethod(lambda: None)
    """Ends the worker."""

    def __init__(self, prime: dict[str, Any]) -> None:
        self._agents: dict[int, HostedAgent] = {}
        self._said: Said = queue.Queue(PIECES_MAX)
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
        try:
            agent = await asyncio.to_thread(HostedAgent, number, module, self._said)
        except OSError as error:
            return one_line(error)
        self._agents[number] = agent
        return ""

    async def order(self, number: int, place: int, text: bytes) -> None:
        """Bytes for an agent."""
        if agent := self._agents.get(number):
            agent.order(place, text)

    async def said(self, wait_s: float) -> list[tuple[int, str, bytes]]:
        """What agents said since, after so long at most: (agent, "said" or "ended", bytes)."""
        now_s = clock.monotonic()
        if self.is_over or now_s - self._heard_s >= SILENCE_S:
            raise RuntimeError(f"it has not heard of us for {now_s - self._heard_s:.1f} s")
        self._heard_s = now_s
        return await asyncio.to_thread(self._take, wait_s)

    async def listed(self, number: int) -> list[tuple[str, bool]]:
        """Paths in an agent's folder, and whether each is a folder."""
        return await asyncio.to_thread(lambda: list(listed(self._agents[number].folder)))

    async def read(self, number: int, path: str, offset: int, size: int) -> bytes:
        """A piece of a file in an agent's folder."""
        return await asyncio.to_thread(_piece, self._agents[number].folder / path, offset, size)

    async def end(self, number: int, patience_s: float) -> None:
        """End an agent."""
        if agent := self._agents.pop(number, None):
            await asyncio.to_thread(agent.end, patience_s)

    async def leave(self) -> None:
        """The prime goes: all agents end, and the host is free."""
        await asyncio.to_thread(self.end_all)

    def end_all(self) -> None:
        """All agents, and what they started in sessions of their own: it carries the token, too."""
        with self._ending:
            agents = list(self._agents.values())
            self._agents.clear()
            enders = [threading.Thread(target=one.end, args=(GRACE_S,)) for one in agents]
            for ender in enders:
                ender.start()
            for ender in enders:
                ender.join()
            if agents and (token := os.environ.get(TOKEN_VARIABLE)):
                end_strays(Scope(token, True), [])
            self.is_over = True

    def _take(self, wait_s: float) -> list[tuple[int, str, bytes]]:
        found = []
        with contextlib.suppress(queue.Empty):
            found.append(self._said.get(timeout=wait_s))
            while len(found) < PIECES_MAX:
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
