"""The engine for several machines: workers of Dask's that joined a scheduler, over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import queue
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.cluster.attended import LEAVE_S
from nfslab.cluster.base import ROUNDS, Agent, Clocks, Cluster, Member
from nfslab.cluster.hosted import PIECES_AHEAD
from nfslab.cluster.identity import shown
from nfslab.cluster.landing import Landing
from nfslab.cluster.link import ANSWER_S, CONNECT_S, Link
from nfslab.cluster.loop import Loop
from nfslab.errors import RunFailed
from nfslab.machine.agent import Lines, order
from nfslab.machine.children import SAID_MAX
from nfslab.machine.clock_pair import clock_pair, round_trip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ORDER_PIECE_BYTES: Final = 1 << 20
HEARD_BYTES: Final = 1 << 20
"""So much of an agent's words is acknowledged at once."""
UNREAD_BYTES_MAX: Final = 2 * SAID_MAX
BEGIN_S: Final = 20.0
PIECE_S: Final = 60.0


class AgentThere(Agent):
    """A process of ours on another machine."""

    def __init__(self, member: MemberThere, number: int) -> None:
        self.member: MemberThere = member
        self.number = number
        self._said: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self._lines = Lines(SAID_MAX)
        self._unread_bytes = self._unheard_bytes = 0
        self._begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._gone: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._pieces: queue.Queue[dict[str, Any]] = queue.Queue(2 * PIECES_AHEAD)
        self._ended = False

    def tell(self, name: str, **content: Any) -> None:
        """See `Agent.tell`."""
        text = order(name, **content)
        for begin in range(0, len(text), ORDER_PIECE_BYTES):
            piece = text[begin : begin + ORDER_PIECE_BYTES]
            self.member.link.post("order", agent=self.number, bytes=piece)

    def events(self, timeout_s: float) -> list[dict[str, Any]]:
        """See `Agent.events`."""
        found: list[dict[str, Any]] = []
        with contextlib.suppress(queue.Empty):
            self._take(found, self._said.get(timeout=max(timeout_s, 0.0)))
            while True:
                self._take(found, self._said.get_nowait())
        return found

    def _take(self, found: list[dict[str, Any]], said: tuple[int, dict[str, Any]]) -> None:
        self._unread_bytes -= said[0]
        found.append(said[1])

    def fetch(self, destination: Path) -> None:
        """See `Agent.fetch`."""
        landing = Landing(destination, self.member.name)
        self.member.link.post("fetch", agent=self.number)
        try:
            deadline = clock.monotonic() + PIECE_S
            while True:
                try:
                    piece = self._pieces.get(timeout=0.2)
                except queue.Empty:
                    if why := self.member.link.lost or self._late(deadline):
                        raise RunFailed(
                            f"{self.member.name} is lost, and with it what it measured", why=why,
                            fix="run what is missing again when that host is back",
                        ) from None  # fmt: skip
                    continue
                if landing.take(piece):
                    return
                deadline = clock.monotonic() + PIECE_S
                self.member.link.post("more", agent=self.number)
        except BaseException:
            landing.drop()
            raise

    def _late(self, deadline: float) -> str:
        return f"nothing came for {PIECE_S:g} s" if clock.monotonic() > deadline else ""

    def end(self) -> None:
        """See `Agent.end`."""
        link = self.member.link
        link.post("end", agent=self.number)
        deadline = clock.monotonic() + LEAVE_S + CONNECT_S
        while not link.lost and clock.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                self._gone.get(timeout=0.2)
                break
        self.member.forget(self)

    def heard(self, said: dict[str, Any]) -> None:
        """A message of the worker's about it; what is wrong raises, and ends the connection."""
        match said["is"]:
            case "said":
                self._listen(said["bytes"])
            case "ended":
                self._put({"event": "ended", "why": shown(said["why"])})
                self._ended = True
            case "piece":
                if self._pieces.full():
                    raise ValueError("more of a folder than was asked for")
                self._pieces.put_nowait(said)
            case "begun":
                self._begun.put("")
            case "refused":
                self._begun.put(shown(said["why"]) or "no reason was given")
            case "gone":
                self._gone.put("")
            case other:
                raise ValueError(f"{str(other)[:100]!r} is no message")

    def lost(self, why: str) -> None:
        """Its machine is."""
        self._begun.put(why)
        if not self._ended:
            self._ended = True
            self._put({"event": "lost", "why": why})

    def wait_begun(self) -> str:
        """Why it did not begin; empty when it did."""
        try:
            return self._begun.get(timeout=BEGIN_S)
        except queue.Empty:
            return f"nothing was heard of it within {BEGIN_S:g} s"

    def _listen(self, words: bytes) -> None:
        self._unheard_bytes += len(words)
        if self._unheard_bytes >= HEARD_BYTES:
            self.member.link.post("heard", agent=self.number, size=self._unheard_bytes)
            self._unheard_bytes = 0
        for line in self._lines.feed(words):
            said = None if line is None else json.loads(line)
            if not isinstance(said, dict) or not isinstance(said.get("event"), str):
                raise ValueError("an agent said what is no event, or too much at once")
            self._unread_bytes += len(line or b"")
            if self._unread_bytes > UNREAD_BYTES_MAX:
                raise ValueError(f"more than {UNREAD_BYTES_MAX} bytes of events that nobody read")
            self._put(said, len(line or b""))

    def _put(self, event: dict[str, Any], size: int = 0) -> None:
        self._said.put((size, event))


class MemberThere(Member):
    """One machine of a cluster that was joined."""

    def __init__(self, link: Link, loop: Loop) -> None:
        self.name = link.name
        self.address = link.address.removeprefix("tls://").rpartition(":")[0].strip("[]")
        self.link = link
        self._loop = loop
        self._agents: dict[int, AgentThere] = {}
        self._numbers = itertools.count()

    def connect(self, *, differing: bool = False) -> None:
        """Greet it; RunFailed (NoAnswer)."""
        self._loop.call(self.link.open(self._heard, self._lost, differing=differing))

    def facts(self) -> dict[str, Any]:
        """See `Member.facts`: as it said when it was greeted."""
        return dict(self.link.facts)

    def doctor(self) -> dict[str, Any]:
        """What `nfslab doctor` says there; RunFailed."""
        said = self._loop.call(self.link.asked("ask", "answer", ANSWER_S, what="doctor"))
        try:
            found = json.loads(said["text"])
        except (KeyError, TypeError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("probes"), list):
            raise RunFailed(
                f"{self.name} cannot say what it can do",
                why=shown((found or {}).get("error", "its answer is no report")),
                fix="run nfslab doctor there",
            )
        return found

    def clocks(self, *, read: Callable[[], tuple[int, int, int]] = clock_pair) -> Clocks:
        """See `Member.clocks`."""
        found: Clocks = self._loop.call(compared(self.link, read))
        return found

    def begin(self, module: str) -> AgentThere:
        """See `Member.begin`."""
        agent = AgentThere(self, next(self._numbers))
        self._agents[agent.number] = agent
        self.link.post("begin", agent=agent.number, module=module)
        why = self.link.lost or agent.wait_begun()
        if why:
            # It may have begun after all.
            self.link.post("end", agent=agent.number)
            self.forget(agent)
            raise RunFailed(
                f"no process can be started on {self.name}", why=why,
                fix="free what the machine lacks; see nfslab cluster check",
            )  # fmt: skip
        return agent

    def forget(self, agent: AgentThere) -> None:
        """It is over."""
        self._agents.pop(agent.number, None)

    def _heard(self, said: dict[str, Any]) -> None:
        agent = self._agents.get(said["agent"])
        if agent is not None:
            agent.heard(said)

    def _lost(self, why: str) -> None:
        for agent in list(self._agents.values()):
            agent.lost(why)


class ClusterThere(Cluster):
    """Members that joined a scheduler; `end`: what else to do when it is closed."""

    def __init__(
        self, members: Sequence[MemberThere], loop: Loop, end: Callable[[], object] | None = None
    ) -> None:
        self._members = list(members)
        self._loop = loop
        self._end = end
        self.cleaned: dict[str, list[str]] = {}
        """What dead workers had left on hosts, and was undone when this cluster was started."""

    @property
    def members(self) -> Sequence[MemberThere]:
        """See `Cluster.members`."""
        return self._members

    def close(self) -> None:
        """See `Cluster.close`."""

        async def left() -> None:
            leaving = [member.link.close() for member in self._members]
            await asyncio.gather(*leaving, return_exceptions=True)

        try:
            self._loop.call(left())
            self._loop.close()
        finally:
            if self._end is not None:
                self._end()


async def compared(link: Link, read: Callable[[], tuple[int, int, int]]) -> Clocks:
    """Of `ROUNDS` questions the one that was answered fastest: its middle is when it was read."""
    found = []
    for _ in range(ROUNDS):
        here = read()
        said = await link.asked("clock", "clock", CONNECT_S)
        try:
            there = (int(said["wall_ns"]), int(said["monotonic_ns"]), int(said["width_ns"]))
        except (KeyError, TypeError, ValueError) as error:
            raise link.refuse(error) from error
        found.append(round_trip(here, there, said["heard_ns"]))
    return Clocks.of(found)
