"""The prime's connections, on a thread of their own: beats, messages, and when a machine is lost.

All connections of a prime share one event loop. What a machine says is taken for hostile: it is
plain data (`cluster.messages`), its parts are checked here, and what is wrong ends the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.cluster.attended import BEAT_S
from nfslab.cluster.base import SILENCE_S, NoAnswer
from nfslab.cluster.identity import difference, facts_here, shown
from nfslab.cluster.messages import PlainConnector, PlainTLS
from nfslab.errors import RunFailed, UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.cluster.certificates import Papers
    from nfslab.cluster.loop import Loop

CONNECT_S: Final = 5.0
ANSWER_S: Final = 90.0
"""For what a machine has to look up; `doctor` tries things."""
FACTS_MAX: Final = 256
SCHEME: Final = "tls://"


async def dial(address: str, role: str, papers: Papers) -> PlainTLS:
    """A connection to the one of this role there; NoAnswer, UsageError."""
    if not address.startswith(SCHEME) or ":" not in address.removeprefix(SCHEME):
        raise UsageError(
            f"{address!r} is no address of a cluster",
            why="only tls://HOST:PORT is spoken to: nothing is sent that others can read",
            fix="write it as tls://prime:8786",
        )
    where = address.removeprefix(SCHEME)
    context = papers.context(ssl.Purpose.SERVER_AUTH)
    try:
        async with asyncio.timeout(CONNECT_S):
            comm = await PlainConnector(role).connect(
                where, ssl_context=context, require_encryption=True
            )
            # Both sides say what they can; nothing of it is needed for plain data.
            await comm.write(comm.handshake_info())
            await comm.read()
    except (OSError, TimeoutError, ValueError) as error:
        raise NoAnswer(
            f"no {role} of this cluster can be reached at {address}",
            why=_not_reached(error),
            fix="see that it runs there, that no firewall is between, and that it has this "
            "cluster's certificates (a scheduler that others started is not ours)",
        ) from error
    return comm


def _not_reached(error: Exception) -> str:
    """Why nobody could be dialled; Dask wraps it in words of its own (objects, its settings)."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return f"who answers there has no certificate of this cluster ({cause.reason or cause})"
    if isinstance(cause, OSError):
        return cause.strerror or one_line(cause)
    return one_line(error) or f"no answer within {CONNECT_S:g} s"


async def members_at(scheduler: str, papers: Papers) -> list[tuple[str, str]]:
    """(name, address) of those who joined; RunFailed: it is no scheduler of ours."""
    comm = await dial(scheduler, "scheduler", papers)
    try:
        async with asyncio.timeout(CONNECT_S):
            await comm.write({"op": "identity", "reply": True})
            said = await comm.read()
            if said["kind"] != "nfslab-scheduler":
                raise ValueError(f"it calls itself {str(said['kind'])[:100]!r}")
            return [(shown(name), shown(address)) for name, address in said["members"]]
    except (OSError, TimeoutError, KeyError, TypeError, ValueError) as error:
        raise RunFailed(
            f"what answers at {scheduler} is no scheduler of nfslab's",
            why=one_line(error),
            fix="start one: nfslab cluster start, or python -m nfslab.cluster scheduler",
        ) from error
    finally:
        comm.abort()


class Link:
    """One machine, while we speak to it. Everything here runs on the loop's thread but `post`."""

    def __init__(self, name: str, address: str, papers: Papers, loop: Loop) -> None:
        self.name = name
        self.address = address
        self.facts: dict[str, Any] = {}
        self.lost = ""
        """Why it is lost; empty while it is not."""
        self._papers = papers
        self._loop = loop
        self._heard: Callable[[dict[str, Any]], None] = lambda _said: None
        self._on_lost: Callable[[str], None] = lambda _why: None
        self._waiting: dict[tuple[str, int], asyncio.Future[dict[str, Any]]] = {}
        self._next = 0
        self._comm: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(
        self, heard: Callable[[dict[str, Any]], None], on_lost: Callable[[str], None],
        *, differing: bool = False,
    ) -> None:  # fmt: skip
        """Greet it; RunFailed (NoAnswer). `differing`: go on with another nfslab, to tell of it."""
        self._heard, self._on_lost = heard, on_lost
        try:
            self._comm = await dial(self.address, "worker", self._papers)
        except NoAnswer as error:
            raise NoAnswer(
                f"{self.name} does not answer at {self.address}",
                why=error.why,
                fix="see that its worker there goes on, that the network between is up, and that "
                "it has this cluster's certificates; or use other hosts",
            ) from error
        if not self._comm.peer.may_be(self.name):
            self._comm.abort()
            raise RunFailed(
                f"who answers for {self.name} at {self.address} is not {self.name}",
                why=f"its certificate is that of {self._comm.peer.name!r}",
                fix="nfslab cluster stop, then start: each host gets a certificate of its own",
            )
        own = facts_here()
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._comm.write({"op": "nfslab-attend", "reply": False, "prime": own})
                said = await self._comm.read()
            self.facts = facts_of(said["facts"])
        except (OSError, TimeoutError, KeyError, TypeError, ValueError) as error:
            self._comm.abort()
            # What ended its connection or said nothing in time may come back.
            kind = NoAnswer if isinstance(error, OSError) else RunFailed
            raise kind(
                f"{self.name} does not answer as nfslab does",
                why=one_line(error) or f"no answer within {CONNECT_S:g} s",
                fix="see that nfslab there is of this version, and its log",
            ) from error
        self._refuse(said, own, differing)
        self._heard_s = self._alive_s = clock.monotonic()
        self._tasks = [asyncio.create_task(work) for work in (self._beat(), self._listen())]

    def _refuse(self, said: dict[str, Any], own: dict[str, Any], differing: bool) -> None:
        if "busy" in said:
            self._comm.abort()
            raise RunFailed(
                f"{self.name} is taken",
                why=shown(said["busy"]),
                fix="wait until that one has ended",
            )
        differs = difference(own, self.facts)
        if (differs or "refused" in said) and not differing:
            self._comm.abort()
            raise RunFailed(
                f"{self.name} has another nfslab",
                why=differs or shown(said["refused"]),
                fix="bring the same state of nfslab to all hosts, and build it on each",
            )

    def post(self, name: str, /, **content: Any) -> None:
        """Say it, from any thread; a machine that is gone is found out otherwise."""
        with contextlib.suppress(RuntimeError):
            self._loop.loop.call_soon_threadsafe(self._write, {"is": name, **content})

    def _write(self, message: dict[str, Any]) -> None:
        self._loop.loop.create_task(self.say(message))

    async def say(self, message: dict[str, Any]) -> None:
        """Say it now."""
        if not self.lost:
            with contextlib.suppress(OSError):
                await self._comm.write(message)

    async def asked(self, kind: str, answer: str, limit_s: float, **content: Any) -> dict[str, Any]:
        """A question of this kind and the message that answers it; RunFailed."""
        self._next += 1
        number = self._next
        waiting = self._waiting[answer, number] = self._loop.loop.create_future()
        try:
            await self.say({"is": kind, "n": number, **content})
            async with asyncio.timeout(limit_s):
                answered: dict[str, Any] = await waiting
                return answered
        except TimeoutError as error:
            raise RunFailed(
                f"{self.name} did not answer", why=f"nothing within {limit_s:g} s",
                fix="see what its processors are busy with",
            ) from error  # fmt: skip
        finally:
            del self._waiting[answer, number]

    async def close(self) -> None:
        """Leave it: it ends what of ours is there, and then the connection."""
        if not self._tasks:
            return
        await self.say({"is": "leave"})
        beating, listening = self._tasks
        beating.cancel()
        # Who listens sees the end; to cancel it would end the connection before the word is out.
        await asyncio.wait([listening], timeout=CONNECT_S)
        listening.cancel()
        self._lose(f"{self.name} was left")

    async def _beat(self) -> None:
        while not self.lost:
            now_s = clock.monotonic()
            stood_s = now_s - self._alive_s
            if stood_s >= SILENCE_S:
                self._lose(f"{self.name} has given us up: nfslab here stood still {stood_s:.1f} s")
            elif now_s - self._heard_s >= SILENCE_S:
                self._lose(
                    f"{self.name} gave no sign of life for {SILENCE_S:g} s: it died, stands "
                    "still, or the network between is gone"
                )
            self._alive_s = now_s
            await self.say({"is": "beat"})
            left_s = self._heard_s + SILENCE_S - clock.monotonic()
            await asyncio.sleep(max(min(BEAT_S, left_s), 0.0))

    async def _listen(self) -> None:
        try:
            while True:
                said = await self._comm.read()
                self._heard_s = clock.monotonic()
                number = (said["is"], said.get("n", -1))
                if (waiting := self._waiting.get(number)) is not None:
                    if not waiting.done():
                        waiting.set_result(said | {"heard_ns": clock.monotonic_ns()})
                elif said["is"] != "beat":
                    self._heard(said)
        except OSError as error:
            self._lose(f"{self.name} ended its connection: {one_line(error)}")
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            RunFailed,
        ) as error:
            self.refuse(error)

    def refuse(self, error: Exception) -> RunFailed:
        """It said what is no answer: it is lost, and this is the error."""
        why = f"{self.name} said what nfslab does not say: {one_line(error)}"
        self._lose(why)
        return RunFailed(why, fix="see who else can do as nfslab there")

    def _lose(self, why: str) -> None:
        if self.lost:
            return
        self.lost = why
        self._comm.abort()
        failed = RunFailed(why, fix="see what became of that host, then run what is missing again")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(failed)
        self._on_lost(why)


def facts_of(text: Any) -> dict[str, Any]:
    """What a machine says of itself, as far as a record may keep it; ValueError, TypeError."""
    found = json.loads(text)
    if not isinstance(found, dict) or len(found) > FACTS_MAX:
        raise ValueError("no facts")
    return {
        shown(key): shown(value) if isinstance(value, str) else value
        for key, value in found.items()
        if isinstance(value, str | int | float | bool) or value is None
    }
