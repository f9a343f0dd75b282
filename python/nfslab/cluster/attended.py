"""The worker's side of its prime: beats both ways, clocks, questions, agents.

    prime ── beat, clock, begin, order, heard, fetch, more, end, ask ──►
          ◄── hello, beat, clock, begun, refused, said, ended, piece, gone, answer ── worker

One prime at a time: a machine that is measured is nobody else's. When the prime is not heard for
`SILENCE_S`, or its connection ends, agents lose their input at once and their lives `GRACE_S`
later. A worker that stood still itself (SIGSTOP, a machine that slept) may not trust what lay in
its sockets meanwhile: the prime has given it up, so it ends its agents when it wakes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.cluster.base import SILENCE_S
from nfslab.cluster.hosted import Hosted
from nfslab.cluster.identity import difference, facts_here, limits_here
from nfslab.errors import one_line
from nfslab.machine.clock_pair import clock_pair
from nfslab.machine.journal import boot_id
from nfslab.machine.undo import Scope, end_strays

if TYPE_CHECKING:
    from pathlib import Path

BEAT_S: Final = 0.4
GRACE_S: Final = 0.8
"""With `SILENCE_S` less than three seconds: so long a load may outlive its prime."""
LEAVE_S: Final = 10.0
"""How long an agent may take to end that was ended in order, as `machine.children` has it."""
AGENTS_MAX: Final = 256
MODULE: Final = re.compile(r"nfslab(\.[a-z_][a-z0-9_]*)+")
DOCTOR_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 4 << 20
read_clocks = clock_pair
"""The seam where tests have a clock that is off."""


class Attended:
    """One prime's visit."""

    def __init__(self, comm: Any, name: str, folder: Path, token: str) -> None:
        self._comm = comm
        self._name = name
        self._folder = folder
        self._token = token
        self._agents: dict[int, Hosted] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self.is_over = False
        """The prime is gone; its agents may not have ended yet."""
        self._in_order = False
        self._heard_s = self._alive_s = clock.monotonic()

    async def serve(self, prime: dict[str, Any]) -> None:
        """Until the prime leaves, is lost, or is refused."""
        own = facts_here() | limits_here() | {"boot_id": boot_id()}
        if differs := difference(own, prime):
            # Seen from here, "there" is the prime: the sentence is the prime's to make.
            await self._say("hello", name=self._name, facts=json.dumps(own), refused=differs)
            self._left.set()
            return
        await self._say("hello", name=self._name, facts=json.dumps(own))
        beats = asyncio.create_task(self._beat())
        words = asyncio.create_task(self._listen())
        try:
            await asyncio.wait({beats, words}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.is_over = True
            if not self._in_order:
                self._comm.abort()
            for task in (beats, words, *self._tasks):
                task.cancel()
            await asyncio.gather(beats, words, *self._tasks, return_exceptions=True)
            await self._end_all()
            self._left.set()
            # A prime that left in order waits for this: then the host is free for the next one.
            self._comm.abort()

    async def leave(self) -> None:
        """The worker ends, and its agents before it."""
        self._comm.abort()
        await self._left.wait()

    async def _end_all(self) -> None:
        agents, self._agents = list(self._agents.values()), {}
        ended = [agent.end(GRACE_S) for agent in agents]
        await asyncio.gather(*ended, return_exceptions=True)
        if agents:
            # What agents started in sessions of their own carries the token, too.
            await asyncio.to_thread(end_strays, Scope(self._token, True), [])

    async def _beat(self) -> None:
        """Ends when the prime is lost, or we stood still for so long that it has given us up."""
        while True:
            now_s = clock.monotonic()
            if max(now_s - self._heard_s, now_s - self._alive_s) >= SILENCE_S:
                return
            self._alive_s = now_s
            await self._say("beat")
            await asyncio.sleep(min(BEAT_S, self._heard_s + SILENCE_S - clock.monotonic()))

    async def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                said = await self._comm.read()
                now_s = clock.monotonic()
                if now_s - self._alive_s >= SILENCE_S:
                    return
                self._heard_s = now_s
                if said.get("is") == "leave":
                    self._in_order = True
                    return
                await self._obey(said)

    async def _obey(self, said: dict[str, Any]) -> None:
        match said.get("is"):
            case "clock":
                wall_ns, monotonic_ns, width_ns = read_clocks()
                await self._say(
                    "clock", n=said["n"],
                    wall_ns=wall_ns, monotonic_ns=monotonic_ns, width_ns=width_ns,
                )  # fmt: skip
            case "ask":
                self._later(self._answer(said["n"], said["what"]))
            case "begin":
                await self._begin(said["agent"], said["module"])
            case "order" if agent := self._agents.get(said["agent"]):
                agent.order(said["bytes"])
            case "heard" if agent := self._agents.get(said["agent"]):
                agent.heard(said["size"])
            case "fetch" if agent := self._agents.get(said["agent"]):
                self._later(agent.fetched())
            case "more" if agent := self._agents.get(said["agent"]):
                agent.more()
            case "end" if agent := self._agents.pop(said["agent"], None):
                self._later(self._leave(agent))

    async def _begin(self, number: int, module: str) -> None:
        try:
            if not MODULE.fullmatch(module) or len(self._agents) >= AGENTS_MAX:
                raise OSError(f"{module} is no agent, or there are {AGENTS_MAX} already")
            agent = Hosted(number, self._folder, self._send)
            await agent.begin(module)
        except OSError as error:
            await self._say("refused", agent=number, why=one_line(error))
            return
        self._agents[number] = agent
        await self._say("begun", agent=number)

    async def _leave(self, agent: Hosted) -> None:
        await agent.end(LEAVE_S)
        await self._say("gone", agent=agent.number)

    async def _answer(self, number: int, what: str) -> None:
        answers = {"facts": lambda: json.dumps(facts_here()), "doctor": doctor}
        text = await asyncio.to_thread(answers[what])
        await self._say("answer", n=number, text=text)

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, name: str, /, **content: Any) -> None:
        """From where nothing can be awaited; in order, since writing only queues."""
        self._later(self._say(name, **content))

    async def _say(self, name: str, /, **content: Any) -> None:
        with contextlib.suppress(OSError):
            await self._comm.write({"is": name, **content})


def doctor() -> str:
    """What `nfslab doctor --json` says here: what this machine can mount and watch."""
    argv = [sys.executable, "-P", "-m", "nfslab", "doctor", "--json"]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=DOCTOR_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return json.dumps({"error": one_line(error)})
    said = done.stdout if done.returncode == 0 else json.dumps({"error": done.stderr[-2000:]})
    return said[:ANSWER_BYTES_MAX]
