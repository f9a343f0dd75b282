"""The hosts of one run, as the prime sees them: begun, talked to, their clocks, their end.

They are its client hosts and, where that is another one, the server's.

    members of a cluster ──> an agent on each (`in_part`) ──> ready ──> ... ──> sealed ──> fetched

One queue has what all of them say. A host that ends before it has sealed its part, says an error,
or gives no sign of life ends the run: `RunFailed` names it. What agents say is looked at
for its form: they are on machines that may be anybody's.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from nfslab import clock
from nfslab.errors import NfslabError, RunFailed
from nfslab.experiment.host_facts import MODULE, SERVER_HERE
from nfslab.machine.agent import WORDS_MAX
from nfslab.machine.journal import boot_id
from nfslab.results.records import ClockRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nfslab.cluster.base import Agent, Member

T = TypeVar("T")

SLICE_S: Final = 0.1
MEET_S: Final = 0.1
"""From the word to hosts that wait for each other to the instant at which they go on."""
SAID_BYTES_MAX: Final = 1 << 14
"""Of what a host may tell the others where they meet."""


@dataclass(slots=True)
class RunHost:
    """Is one of them."""

    member: Member
    agent: Agent = field(init=False)
    facts: dict[str, Any] = field(default_factory=dict)
    said: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Its last event of each name; of gates as "at GATE"."""
    seen: float = field(default_factory=clock.monotonic)
    """When it gave the last sign of life."""
    silence_s: float = 0.0
    """The longest without one, of those that were looked at."""
    before: ClockRecord = field(default_factory=ClockRecord)
    after: ClockRecord = field(default_factory=ClockRecord)
    compared: tuple[float, float] = (0.0, 0.0)
    """When, by our clock."""
    gate: str | None = None
    """Where it waits for the others."""
    told: Any = None
    """What it tells them there."""
    is_over: bool = False
    serves: bool = False
    """It is the server's, and no client host."""

    @property
    def said_as(self) -> str:
        """Names it for people."""
        if self.name == SERVER_HERE:
            return "server"
        return f"{'server host' if self.serves else 'client host'} {self.name}"

    @property
    def name(self) -> str:
        """Names it as the user did."""
        return self.member.name

    @property
    def is_prime(self) -> bool:
        """It is on this machine."""
        return bool(self.facts.get("boot_id")) and self.facts["boot_id"] == boot_id()

    @property
    def is_emulated(self) -> bool:
        """Its processor is software: its timings say nothing."""
        return self.facts.get("emulated") is True

    @property
    def drift_ppm(self) -> float | None:
        """Says how much faster its clock goes than ours."""
        span_s = self.compared[1] - self.compared[0]
        if span_s <= 0:
            return None
        return (self.after.offset_ns - self.before.offset_ns) / span_s / 1e3


class RunHosts:
    """Talks to all of them, in the order of their names; `end` whatever happened."""

    def __init__(self, show: Callable[[str], None], check: Callable[[], object]) -> None:
        """`show` tells a person how far they are; `check` raises to give the run up."""
        self.hosts: list[RunHost] = []
        """Those that make the load."""
        self.serving: RunHost | None = None
        """The server's, where there is one."""
        self._show = show
        self._check = check
        self._heard: queue.SimpleQueue[tuple[RunHost, dict[str, Any]]] = queue.SimpleQueue()

    @property
    def all(self) -> list[RunHost]:
        """Lists each with an agent, the server's behind the others."""
        return [*self.hosts, *([self.serving] if self.serving else [])]

    def begin(self, clients: Sequence[Member], server: Member) -> None:
        """Begins an agent on each, and waits until each is ready; RunFailed."""
        for member in clients:
            self.hosts.append(self._begun(RunHost(member)))
        self.serving = self._begun(RunHost(server, serves=True))
        self.await_all("ready", "ready_s")
        for host in self.all:
            told = host.said["ready"].get("facts")
            host.facts = told if isinstance(told, dict) else {}

    def _begun(self, host: RunHost) -> RunHost:
        """Returns the same with its agent, which is heard."""
        host.agent = host.member.begin(MODULE, lambda said: self._heard.put((host, said)))
        return host

    def tell_all(self, name: str, **content: Any) -> None:
        """Gives the same order to all of them."""
        for host in self.all:
            host.agent.tell(name, **content)

    def await_all(
        self,
        event: str,
        wait: Literal["ready_s", "busy_s", "load_s"] = "busy_s",
        of: Sequence[RunHost] | None = None,
    ) -> None:
        """Waits until each (or each of those) has said this; RunFailed names the one that does not.

        None may be silent for longer than that of its host's patience. Where all wait for each
        other, they go on.
        """
        waiting = list(self.all if of is None else of)
        while waiting := [host for host in waiting if event not in host.said]:
            self._check()
            if (heard := self._listened()) is not None:
                self._hear(*heard)
                with contextlib.suppress(queue.Empty):
                    while True:
                        self._hear(*self._heard.get_nowait())
            for host in self.all:
                self._require_life(host, getattr(host.member.patience, wait))
            self._let_meet()

    def compare_clocks(self, *, before: bool) -> None:
        """Compares those of all hosts, now."""
        for host in self.all:
            offset = host.member.clocks().monotonic
            now = clock.monotonic()
            if before:
                host.before, host.compared = offset, (now, now)
            else:
                host.after, host.compared = offset, (host.compared[0], now)

    def require_server(self, within_s: float) -> None:
        """Raises RunFailed by the server's host, which may be why others fail.

        It has so long to say that it does; then it is waited for, until it says why.
        """
        until = clock.monotonic() + within_s
        host = self.serving
        while host is not None and not host.is_over:
            self._check()
            if "fails" not in host.said and clock.monotonic() > until:
                return
            self._require_life(host, host.member.patience.busy_s)
            if (heard := self._listened()) is not None:
                try:
                    self._hear(*heard)
                except RunFailed:
                    if heard[0] is host:
                        raise

    def _let_meet(self) -> None:
        """Where all wait for each other, they get one instant to go on at.

        RunFailed: one never comes. Clocks are compared again: they may have drifted meanwhile.
        """
        waiting = [host for host in self.hosts if host.gate is not None]
        if not waiting:
            return
        first = waiting[0]
        # Who has gone further never comes: to its end, or into the timed part.
        further = {"measured"} | ({"armed"} - first.said.keys())
        astray = [one for one in self.hosts if one.gate != first.gate and
                  (one.gate is not None or further & one.said.keys())]  # fmt: skip
        if astray:
            raise RunFailed(
                f"client host {first.name} waits for {astray[0].name} at {first.gate!r} in vain",
                why=f"that one is at {astray[0].gate or _last(astray[0])!r}",
                fix="see that all have the same nfslab; if so, please report this",
            )
        if len(waiting) < len(self.hosts):
            return
        offsets = [host.member.clocks().monotonic.offset_ns for host in self.hosts]
        common_ns = clock.monotonic_ns() + round(MEET_S * 1e9)
        said = [host.told for host in self.hosts]
        for host, offset_ns in zip(self.hosts, offsets, strict=True):
            host.gate = None
            host.agent.tell("meet", at_ns=common_ns + offset_ns, common_ns=common_ns, said=said)

    def forget_silence(self) -> None:
        """Looks at it anew from now on."""
        for host in self.all:
            host.silence_s = 0.0

    def fetch(self, folder: Path, of: Sequence[RunHost]) -> None:
        """Fetches folders of hosts that have sealed their part, as `folder`/NAME; RunFailed."""
        self.await_all("ended", of=of)
        for host in of:
            host.agent.fetch(folder / host.name)

    def fetch_failed(self, folder: Path) -> list[str]:
        """Fetches the same of those whose part failed; returns their names."""
        names = []
        for host in self.all:
            if host.said.get("sealed", {}).get("status") == "failed":
                if not host.is_over:
                    self.await_all("ended", of=[host])
                host.agent.fetch(folder / host.name)
                names.append(host.name)
        return names

    def end(self) -> None:
        """None is at work any more; at once for all clients, since one that is stuck takes its
        time, then the server's: who waits for its reply in vain takes longer."""
        for some in (self.hosts, [self.serving] if self.serving else []):
            ends = [threading.Thread(target=_ended, args=(host,)) for host in some]
            for thread in ends:
                thread.start()
            for thread in ends:
                thread.join()
        self.hosts.clear()
        self.serving = None

    def _listened(self) -> tuple[RunHost, dict[str, Any]] | None:
        """Returns what one says within a slice. While we stood still, nobody was silent."""
        before = clock.monotonic()
        try:
            heard = clock.get(self._heard, SLICE_S)
        except queue.Empty:
            heard = None
        stood_s = clock.monotonic() - before - SLICE_S
        if stood_s > 0:
            for host in self.all:
                host.seen += stood_s
        return heard

    def _hear(self, host: RunHost, said: dict[str, Any]) -> None:
        """Takes one event; RunFailed for one that ends the run."""
        now = clock.monotonic()
        host.silence_s = max(host.silence_s, now - host.seen)
        host.seen = now
        match said:
            case {"event": "error", "what": str(what)}:
                raise self._failed(host, what, str(said.get("why", "")), str(said.get("fix", "")))
            case {"event": "sealed", "status": "failed", "reason": reason}:
                host.said["sealed"] = said
                raise self._failed(host, str(reason))
            case {"event": "ended" | "lost" as how}:
                host.is_over = True
                if how == "lost" or "sealed" not in host.said:
                    raise lost(host.said_as, str(said.get("why", "")))
                host.said["ended"] = said
            case {"event": "phase", "phase": str(phase)}:
                self._show(f"{host.name}: {phase}")
            case {"event": "at", "gate": str(gate)}:
                host.said[f"at {gate}"] = said
            case {"event": "meet", "gate": str(gate)}:
                host.gate, host.told = gate, said.get("said")
                if len(json.dumps(host.told)) > SAID_BYTES_MAX:
                    what = f"it tells the others too much at {gate[:WORDS_MAX]!r}"
                    raise self._failed(host, what, fix="Please report this.")
            case {"event": str(name)}:
                host.said[name] = said

    def _require_life(self, host: RunHost, silence_s: float) -> None:
        silent_s = clock.monotonic() - host.seen
        if not host.is_over and silent_s > silence_s:
            host.silence_s = max(host.silence_s, silent_s)
            raise lost(host.said_as, f"it gave no sign of life for {silent_s:.1f} s")

    @staticmethod
    def _failed(host: RunHost, what: str, why: str = "", fix: str = "") -> RunFailed:
        return RunFailed(f"{host.said_as}: {what}", why=why, fix=fix)


def _last(host: RunHost) -> str:
    """Says where one is that waits for nobody."""
    return "its end" if "measured" in host.said else "the load"


def told_by_agent(host: RunHost, event: str, name: str, kind: type[T]) -> T:
    """Returns what its last event of that name has under this one; RunFailed where that is none."""
    told = host.said.get(event, {}).get(name)
    if not isinstance(told, kind):
        raise RunFailed(
            f"{host.said_as} did not say what it had to ({event}: {name})",
            fix="see that all hosts have the same nfslab; if so, please report this",
        )
    return told


def _ended(host: RunHost) -> None:
    """One that cannot be ended is no reason to leave the others."""
    with contextlib.suppress(NfslabError, OSError):
        host.agent.end()


def lost(host: str, why: str) -> RunFailed:
    """Makes the error for a host that is gone."""
    return RunFailed(
        f"{host} was lost",
        why=why,
        fix="see what ended it there: memory, limits, the network, somebody's kill",
    )
