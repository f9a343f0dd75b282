"""The engine for several machines: a client of Dask's, and an actor on the worker of each host.

    prime: Client ── TLS ──► scheduler ◄── TLS ── worker of each host
             └─ an actor a host (`hosted`): agents, their words and folders, clocks

A thread of each member asks its actor for what agents said; a host from which nothing comes for
`SILENCE_S` is lost, and so is one whose worker is gone. Nothing is tried again elsewhere.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from nfslab.cluster.base import ROUNDS, SILENCE_S, Agent, Clocks, Cluster, Member, NoAnswer
from nfslab.cluster.base import Patience as AnyPatience
from nfslab.cluster.hosted import HostActor
from nfslab.cluster.identity import difference, facts_here, shown
from nfslab.cluster.landing import Landing
from nfslab.errors import RunFailed, UsageError, one_line
from nfslab.machine.children import LEAVE_S
from nfslab.machine.clock_pair import clock_pair, round_trip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nfslab.cluster.base import Said
    from nfslab.cluster.certificates import Papers

CONNECT_S: Final = 5.0
ANSWER_S: Final = 90.0
"""For what a machine has to look up; `doctor` tries things."""
BEGIN_S: Final = 20.0
BEAT_S: Final = 0.4
"""How long a host keeps a question open when its agents say nothing."""
PIECE_BYTES: Final = 4 << 20
PIECE_S: Final = 60.0
SCHEME: Final = "tls://"


def client_of(address: str, papers: Papers) -> Any:
    """A client of the scheduler at that address; NoAnswer, UsageError."""
    from distributed import Client

    if not address.startswith(SCHEME) or ":" not in address.removeprefix(SCHEME):
        raise UsageError(
            f"{address!r} is no address of a cluster",
            why="only tls://HOST:PORT is spoken to: nothing is sent that others can read",
            fix="write it as tls://prime:8786",
        )
    # What becomes of hosts is told by errors of ours.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        return Client(
            address,
            security=papers.security(),
            timeout=CONNECT_S,
            # An actor finds its client by that.
            set_as_default=True,
            direct_to_workers=True,
        )
    except (OSError, TimeoutError, ValueError) as error:
        raise NoAnswer(
            f"no scheduler of this cluster can be reached at {address}",
            why=one_line(error.__cause__ or error) or f"no answer within {CONNECT_S:g} s",
            fix="see that it runs there, that no firewall is between, and that it has this "
            "cluster's certificates (a scheduler that others started is not ours)",
        ) from error


def workers_of(client: Any) -> dict[str, str]:
    """The address of each worker by its name."""
    workers = client.scheduler_info()["workers"]
    return {shown(one["name"]): where for where, one in workers.items()}


class AgentThere(Agent):
    """A process of ours on another machine."""

    def __init__(self, member: MemberThere, number: int, said: Said) -> None:
        super().__init__(said)
        self.member: MemberThere = member
        self.number = number
        self._places = itertools.count()
        self._is_over = False

    def tell(self, name: str, **content: Any) -> None:
        """See `Agent.tell`."""
        self.member.post("order", self.number, next(self._places), name, content)

    def fetch(self, destination: Path) -> None:
        """See `Agent.fetch`."""
        ask = self.member.ask
        with Landing(destination, self.member.name) as landing:
            for path, is_folder in ask("listed", self.number, limit_s=PIECE_S):
                if is_folder:
                    landing.folder(path)
                    continue
                for offset in itertools.count(0, PIECE_BYTES):
                    piece = ask("read", self.number, path, offset, PIECE_BYTES, limit_s=PIECE_S)
                    landing.piece(path, piece, is_first=offset == 0)
                    if len(piece) < PIECE_BYTES:
                        break

    def end(self) -> None:
        """See `Agent.end`."""
        # Where its worker does not answer, that one ends it.
        with contextlib.suppress(RunFailed):
            self.member.ask("end", self.number, LEAVE_S, limit_s=LEAVE_S + CONNECT_S)
        self.member.forget(self)

    def heard(self, event: Any) -> None:
        """What it said, as its host passes it on; ValueError: no event."""
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise ValueError("an agent said what is no event")
        if event["event"] == "ended":
            self._close("ended", shown(event.get("why", "")))
        elif not self._is_over:
            self._said(event)

    def lost(self, why: str) -> None:
        """Its machine is."""
        self._close("lost", why)

    def _close(self, how: str, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._said({"event": how, "why": why})


class MemberThere(Member):
    """One machine of a cluster that was joined."""

    def __init__(self, name: str, where: str, client: Any) -> None:
        self.name = name
        self.address = where.removeprefix(SCHEME).rpartition(":")[0].strip("[]")
        self.lost = ""
        """Why it is lost; empty while it is not."""
        self._where = where
        self._client = client
        self._actor: Any = None
        self._facts: dict[str, Any] = {}
        self._agents: dict[int, AgentThere] = {}
        self._numbers = itertools.count()
        self._listener = threading.Thread(target=self._listen, daemon=True, name="member")

    @property
    def patience(self) -> AnyPatience:
        """See `Member.patience`."""
        return AnyPatience(busy_s=SILENCE_S, load_s=SILENCE_S)

    def connect(self) -> None:
        """Take it; RunFailed (NoAnswer)."""
        try:
            self._actor = self._client.submit(
                HostActor, facts_here(),
                actor=True, workers=[self._where], pure=False, retries=0,
            ).result(CONNECT_S)  # fmt: skip
            said = self._actor.hello().result(CONNECT_S)
        except Exception as error:  # whatever Dask raises of a host that is gone
            self._actor = None
            raise NoAnswer(
                f"{self.name} does not answer at {self._where}",
                why=one_line(error) or f"no answer within {CONNECT_S:g} s",
                fix="see that its worker there goes on, and that the network between is up; or "
                "use other hosts",
            ) from error
        self._facts = said["facts"]
        differs = difference(facts_here(), self._facts) or said["differs"]
        if differs or said["busy"]:
            held = not said["busy"]
            actor, self._actor = self._actor, None
            if held:
                actor.leave().result(CONNECT_S)
        if said["busy"]:
            raise RunFailed(
                f"{self.name} is taken", why=said["busy"], fix="wait until that one has ended"
            )
        if differs:
            raise RunFailed(
                f"{self.name} has another nfslab", why=differs,
                fix="bring the same state of nfslab to all hosts, and build it on each",
            )  # fmt: skip
        self._listener.start()

    def facts(self) -> dict[str, Any]:
        """See `Member.facts`: as it said when it was greeted."""
        return dict(self._facts)

    def doctor(self) -> dict[str, Any]:
        """What `nfslab doctor` says there; RunFailed."""
        text = self.ask("doctor", limit_s=ANSWER_S)
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            found = {}
        if "probes" not in found:
            raise RunFailed(
                f"{self.name} cannot say what it can do", why=shown(text),
                fix="run nfslab doctor there",
            )  # fmt: skip
        return found

    def clocks(self) -> Clocks:
        """See `Member.clocks`."""
        trips = []
        for _ in range(ROUNDS):
            here = clock_pair()
            there, heard_ns = self.ask_timed("clocks")
            trips.append(round_trip(here, there, heard_ns))
        return Clocks.of(trips)

    def begin(self, module: str, said: Said) -> AgentThere:
        """See `Member.begin`."""
        agent = AgentThere(self, next(self._numbers), said)
        self._agents[agent.number] = agent
        try:
            why = self.ask("begin", agent.number, module, limit_s=BEGIN_S)
        except RunFailed as error:
            why = error.why or error.what
        if why:
            # It may have begun after all.
            self.post("end", agent.number, 0.0)
            self.forget(agent)
            raise RunFailed(
                f"no process can be started on {self.name}", why=why,
                fix="free what the machine lacks; see nfslab cluster check",
            )  # fmt: skip
        return agent

    def forget(self, agent: AgentThere) -> None:
        """It is over."""
        self._agents.pop(agent.number, None)

    def post(self, method: str, *arguments: Any) -> None:
        """Say it; a machine that is gone is found out otherwise."""
        if not self.lost:
            try:
                getattr(self._actor, method)(*arguments)
            except RuntimeError as error:
                self._lose(one_line(error))

    def ask(self, method: str, *arguments: Any, limit_s: float = CONNECT_S) -> Any:
        """What its actor answers; RunFailed."""
        why = self.lost
        if not why:
            try:
                return getattr(self._actor, method)(*arguments).result(limit_s)
            except TimeoutError:
                why = self.lost or f"no answer within {limit_s:g} s"
            except Exception as error:  # whatever its actor or Dask raises
                why = self.lost or one_line(error) or type(error).__name__
        raise RunFailed(
            f"{self.name} did not answer", why=why,
            fix="see what became of that host, then run what is missing again",
        )  # fmt: skip

    def ask_timed(self, method: str) -> tuple[Any, int]:
        """An answer, and when it was here (CLOCK_MONOTONIC)."""
        answer = self.ask(method)
        return answer, clock_pair()[1]

    def close(self) -> None:
        """Leave it: it ends what of ours is there."""
        if self._actor is None or self.lost:
            return
        # A host that does not answer ends our agents when it does not hear of us any more.
        with contextlib.suppress(RunFailed):
            self.ask("leave", limit_s=CONNECT_S)
        self._lose(f"{self.name} was left")
        self._listener.join(SILENCE_S)
        self._actor = None

    def _listen(self) -> None:
        while not self.lost:
            try:
                for number, event in self._actor.said(BEAT_S).result(SILENCE_S):
                    if (agent := self._agents.get(number)) is not None:
                        agent.heard(event)
            except TimeoutError:
                self._lose(
                    f"{self.name} gave no sign of life for {SILENCE_S:g} s: it died, stands "
                    "still, or the network between is gone"
                )
            except ValueError as error:
                self._lose(f"{self.name} said what nfslab does not say: {one_line(error)}")
            except Exception as error:  # whatever Dask raises of a worker that is gone
                self._lose(f"{self.name} is gone: {one_line(error)}")

    def _lose(self, why: str) -> None:
        if not self.lost:
            self.lost = why
            for agent in list(self._agents.values()):
                agent.lost(why)


class ClusterThere(Cluster):
    """Members that joined a scheduler; `end`: what else to do when it is closed."""

    def __init__(
        self, members: Sequence[MemberThere], client: Any, end: Callable[[], object] | None = None
    ) -> None:
        self._members = list(members)
        self._client = client
        self._end = end
        self.cleaned: dict[str, list[str]] = {}
        """What dead workers had left on hosts, and was undone when this cluster was started."""

    @property
    def members(self) -> Sequence[MemberThere]:
        """See `Cluster.members`."""
        return self._members

    def close(self) -> None:
        """See `Cluster.close`."""
        try:
            for member in self._members:
                member.close()
            self._client.close(CONNECT_S)
        finally:
            if self._end is not None:
                self._end()
