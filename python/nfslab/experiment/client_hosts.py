"""The client hosts of one run, as the prime sees them: begun, talked to, their clocks, their end.

    members of a cluster ──> an agent on each (`in_part`) ──> ready ──> ... ──> sealed ──> fetched

One queue has what all of them say. A host that ends before it has sealed its part, says an error,
or gives no sign of life ends the run: `RunFailed` names it. What agents say is looked at
for its form: they are on machines that may be anybody's.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.errors import NfslabError, RunFailed
from nfslab.experiment.host_facts import MODULE
from nfslab.machine.journal import boot_id
from nfslab.results.records import ClockRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nfslab.cluster.base import Agent, Member

SLICE_S: Final = 0.1


@dataclass(slots=True)
class ClientHost:
    """One of them."""

    member: Member
    agent: Agent
    facts: dict[str, Any] = field(default_factory=dict)
    said: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Its last event of each name; of gates as "at GATE"."""
    seen: float = field(default_factory=time.monotonic)
    """When it gave the last sign of life."""
    silence_s: float = 0.0
    """The longest without one, of those that were looked at."""
    before: ClockRecord = field(default_factory=ClockRecord)
    after: ClockRecord = field(default_factory=ClockRecord)
    compared: tuple[float, float] = (0.0, 0.0)
    """When, by our clock."""
    is_over: bool = False

    @property
    def name(self) -> str:
        """As the user named it."""
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
        """How much faster its clock goes than ours."""
        span_s = self.compared[1] - self.compared[0]
        if span_s <= 0:
            return None
        return (self.after.offset_ns - self.before.offset_ns) / span_s / 1e3


class ClientHosts:
    """All of them, in the order of their names; `end` whatever happened."""

    def __init__(self, show: Callable[[str], None], check: Callable[[], object]) -> None:
        """`show` tells a person how far they are; `check` raises to give the run up."""
        self.hosts: list[ClientHost] = []
        self._show = show
        self._check = check
        self._heard: queue.SimpleQueue[tuple[ClientHost, dict[str, Any]]] = queue.SimpleQueue()

    def begin(self, members: Sequence[Member]) -> None:
        """An agent on each, until each is ready; RunFailed."""
        for member in members:
            host = ClientHost(member, member.begin(MODULE))
            self.hosts.append(host)
            threading.Thread(target=self._listen, args=(host,), daemon=True).start()
        self.await_all("ready", "ready_s")
        for host in self.hosts:
            told = host.said["ready"].get("facts")
            host.facts = told if isinstance(told, dict) else {}

    def tell_all(self, name: str, **content: Any) -> None:
        """The same order to all of them."""
        for host in self.hosts:
            host.agent.tell(name, **content)

    def await_all(
        self,
        event: str,
        wait: Literal["ready_s", "busy_s", "load_s"] = "busy_s",
        of: Sequence[ClientHost] | None = None,
    ) -> None:
        """Until each (or each of those) has said this; RunFailed names the one that does not.

        None may be silent for longer than that of its host's patience.
        """
        waiting = list(self.hosts if of is None else of)
        while waiting := [host for host in waiting if event not in host.said]:
            self._check()
            try:
                host, said = self._heard.get(timeout=SLICE_S)
            except queue.Empty:
                pass
            else:
                self._hear(host, said)
            for host in self.hosts:
                self._require_life(host, getattr(host.member.patience, wait))

    def compare_clocks(self, *, before: bool) -> None:
        """Of all hosts, now."""
        for host in self.hosts:
            clock = host.member.clocks().monotonic
            now = time.monotonic()
            if before:
                host.before, host.compared = clock, (now, now)
            else:
                host.after, host.compared = clock, (host.compared[0], now)

    def forget_silence(self) -> None:
        """From now on it is looked at anew."""
        for host in self.hosts:
            host.silence_s = 0.0

    def fetch(self, folder: Path) -> None:
        """The working folders of those that have sealed their part, as `folder`/NAME; RunFailed."""
        sealed = [host for host in self.hosts if "sealed" in host.said]
        self.await_all("ended", of=sealed)
        for host in sealed:
            host.agent.fetch(folder / host.name)

    def fetch_failed(self, folder: Path) -> list[str]:
        """The same of those whose part failed; their names."""
        names = []
        for host in self.hosts:
            if host.said.get("sealed", {}).get("status") == "failed":
                if not host.is_over:
                    self.await_all("ended", of=[host])
                host.agent.fetch(folder / host.name)
                names.append(host.name)
        return names

    def end(self) -> None:
        """None is at work any more; at once for all, since one that is stuck takes its time."""
        ends = [threading.Thread(target=_ended, args=(host,)) for host in self.hosts]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join()
        self.hosts.clear()

    def _listen(self, host: ClientHost) -> None:
        while True:
            for said in host.agent.events(1.0):
                self._heard.put((host, said))
                if said.get("event") in ("ended", "lost"):
                    return

    def _hear(self, host: ClientHost, said: dict[str, Any]) -> None:
        """One event; RunFailed for one that ends the run."""
        now = time.monotonic()
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
                    raise lost(host.name, str(said.get("why", "")))
                host.said["ended"] = said
            case {"event": "phase", "phase": str(phase)}:
                self._show(f"{host.name}: {phase}")
            case {"event": "at", "gate": str(gate)}:
                host.said[f"at {gate}"] = said
            case {"event": str(name)}:
                host.said[name] = said

    def _require_life(self, host: ClientHost, silence_s: float) -> None:
        silent_s = time.monotonic() - host.seen
        if not host.is_over and silent_s > silence_s:
            host.silence_s = max(host.silence_s, silent_s)
            raise lost(host.name, f"it gave no sign of life for {silent_s:.1f} s")

    @staticmethod
    def _failed(host: ClientHost, what: str, why: str = "", fix: str = "") -> RunFailed:
        return RunFailed(f"client host {host.name}: {what}", why=why, fix=fix)


def _ended(host: ClientHost) -> None:
    """One that cannot be ended is no reason to leave the others."""
    with contextlib.suppress(NfslabError, OSError):
        host.agent.end()


def lost(name: str, why: str) -> RunFailed:
    """The error for a host that is gone."""
    return RunFailed(
        f"client host {name} was lost",
        why=why,
        fix="see what ended it there: memory, limits, the network, somebody's kill",
    )
