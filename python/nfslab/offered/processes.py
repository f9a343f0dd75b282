"""A point measured by several generator processes: started, begun together, put together.

    plan ──> one process a part (`nfslab.offered.part`) ──> prepared: the first, then the others
         ──> all connected ──> one instant for all ──> sums of each ──> the core adds them up

They may be on several hosts (`nfslab.offered.hosts`): each host then has some of the parts.

Each process has its own connections, threads and file handles, and works on files that no other one
has: what belongs to whom is a function of the file's number, in the core. The file set is that of
the whole offered load. A process that cannot start or prepare fails the point; one that ends before
its time makes it invalid, and what the others measured stays.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.children import Group, events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nfslab._core import Load

START_S: Final = 0.5
"""From the last process's being ready to the common start: time for the word to arrive, at a
process of a virtual machine that was kept from running, too."""
OVERTIME_S: Final = 60.0
"""Beyond the load and the silence that ends it: a process that needs longer is ended."""


@dataclass(slots=True)
class Part:
    """What a generator process did."""

    index: int
    """Among the parts of the whole load."""
    state: dict[str, Any] = field(default_factory=dict)
    """Its last progress."""
    sums: str | None = None
    began_ns: int | None = None
    """When it was there to begin, by its own account."""
    lost: str | None = None
    """What became of it, if it handed over nothing."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to come of it."""
        return self.sums is not None or self.lost is not None


def measured(
    plan: dict[str, Any], processes: int, progress: Callable[[dict[str, Any]], object]
) -> tuple[dict[str, Any], Load]:
    """The report of a point, and the object that has its histograms and series.

    `progress` is told how far they are. `CoreError` for the plan, `RunFailed` for a process.
    """
    from nfslab._core import Load

    whole = Load(json.dumps(plan))
    generators = Generators(plan, range(processes), processes, progress)
    with contextlib.closing(generators):
        generators.prepare()
        generators.connect()
        generators.run(clock.monotonic_ns() + round(START_S * 1e9))
    lost = [(part.index, part.lost) for part in generators.parts if part.lost is not None]
    sums = [part.sums for part in generators.parts if part.sums is not None]
    if not sums:
        index, why = lost[0]
        raise RunFailed(
            "no generator process measured anything",
            why=f"process {index + 1} of {processes}: {why}",
            fix="see what ended them: memory, limits, somebody's kill",
        )
    return whole.merge(sums, lost), whole


class Generators:
    """The processes of one point, or those of one host, from their plans to their sums."""

    def __init__(
        self,
        plan: dict[str, Any],
        indices: Iterable[int],
        of: int,
        progress: Callable[[dict[str, Any]], object],
    ) -> None:
        """Those parts of so many of the whole load are begun, and have their plans.

        `CoreError` for the plan; RunFailed."""
        from nfslab._core import Load

        self._plan, self._progress = plan, progress
        self.parts = [Part(index) for index in indices]
        plans = [plan | {"part": {"index": part.index, "of": of}} for part in self.parts]
        for one in plans:
            Load(json.dumps(one))  # refused before anything is started
        names = [f"generator process {part.index + 1} of {of}" for part in self.parts]
        self.group = Group("nfslab.offered.part", names)
        for child, one in zip(self.group.children, plans, strict=True):
            child.tell("plan", plan=one)

    def close(self) -> None:
        """None is left."""
        self.group.leave()

    def prepare(self) -> None:
        """The file set: the load's first part makes it, the others look at theirs."""
        first = [place for place, part in enumerate(self.parts) if part.index == 0]
        others = [place for place, part in enumerate(self.parts) if part.index != 0]
        for places in (first, others):
            self._each("prepare", "prepared", places)

    def connect(self) -> None:
        """Threads and connections of all."""
        self._each("connect", "connected", range(len(self.parts)))

    def _each(self, word: str, answer: str, places: Iterable[int]) -> None:
        """Tells those, and waits until each has answered."""

        def hear(_place: int, said: dict[str, Any]) -> None:
            if said["event"] == "progress":
                self._progress(said["state"])

        for place in places:
            self.group.children[place].tell(word)
        self.group.until_each(answer, hear, of=places)

    def run(self, start_ns: int) -> None:
        """The load, at one instant for all; until each has handed over its sums or is lost."""
        self.group.tell("start", at_ns=start_ns)
        phases = ("warm_up_s", "measure_s", "cool_down_s")
        ahead_s = max(start_ns - clock.monotonic_ns(), 0) / 1e9
        load_s = ahead_s + sum(self._plan.get(phase, 0.0) for phase in phases)
        limit_s = load_s + self._plan.get("silence_limit_s", 30.0) + OVERTIME_S
        deadline = clock.monotonic() + limit_s
        for place, event in events(self.group.children, deadline):
            part, said = self.parts[place], event["event"]
            if said == "progress":
                part.state = event["state"]
                if part is self._slowest():
                    self._progress(self._together())
            elif said == "sums":
                part.sums, part.began_ns = event["sums"], event["began_ns"]
            elif said == "error":
                part.lost = ": ".join(filter(None, (event["what"], event["why"])))
            elif said == "ended" and not part.is_done:
                part.lost = event["why"]
            if all(part.is_done for part in self.parts):
                return
        for part, child in zip(self.parts, self.group.children, strict=True):
            if not part.is_done:
                child.process.kill()
                part.lost = f"it did not end within {limit_s:.0f} s"

    def _slowest(self) -> Part:
        """The first process that is still at work: it gives the display its beat."""
        return next((part for part in self.parts if not part.is_done), self.parts[-1])

    def _together(self) -> dict[str, Any]:
        """Progress of all: the beat's phase, everybody's counts."""
        states = [part.state for part in self.parts if part.state.get("stage") == "run"]
        beat = self._slowest().state
        sums = ("answered", "unexpected", "outstanding")
        return beat | {name: sum(state[name] for state in states) for name in sums}
