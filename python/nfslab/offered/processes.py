"""A point measured by several generator processes: started, begun together, put together.

    plan ──> one process a part (`nfslab.offered.part`) ──> prepared: the first, then the others
         ──> all connected ──> one instant for all ──> sums of each ──> the core adds them up

They may be on several hosts (`nfslab.offered.hosts`): each host then has some of the parts.

Each process has its own connections, threads and file handles, and works on files that no other one
has: what belongs to whom is a function of the file's number, in the core. The file set is that of
the whole offered load. A process that cannot start or prepare fails the point (`PartFailed`); one
that ends before its time makes it invalid, and what the others measured stays.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.machine import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nfslab._core import Load
    from nfslab.machine.children import Child

START_S: Final = 0.5
"""From the last process's being ready to the common start: time for the word to arrive, at a
process of a virtual machine that was kept from running, too."""
OVERTIME_S: Final = 60.0
"""Beyond the load and the silence that ends it: a process that needs longer is ended."""


class PartFailed(Exception):
    """A generator process could not begin; parts as `nfslab._core.CoreError`."""

    def __init__(self, kind: str, what: str, why: str, fix: str) -> None:
        super().__init__(f"{what}: {why}" if why else what)
        self.kind, self.what, self.why, self.fix = kind, what, why, fix


@dataclass(slots=True)
class Part:
    """A generator process."""

    index: int
    """Among the parts of the whole load."""
    child: Child
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

    `progress` as the core calls it; returning False stops. `CoreError` for the plan,
    `PartFailed` for a process.
    """
    from nfslab._core import Load

    whole = Load(json.dumps(plan))
    with started(plan, range(processes), processes, progress) as generators:
        generators.prepare()
        generators.connect()
        generators.run(clock.monotonic_ns() + round(START_S * 1e9))
        parts = generators.parts
        lost = [(part.index, part.lost) for part in parts if part.lost is not None]
        sums = [part.sums for part in parts if part.sums is not None]
    if not sums:
        index, why = lost[0]
        raise PartFailed(
            "generator_process",
            "no generator process measured anything",
            f"process {index + 1} of {processes}: {why}",
            "See what ended it: memory, limits, somebody's kill.",
        )
    return whole.merge(sums, lost), whole


@contextlib.contextmanager
def started(
    plan: dict[str, Any],
    indices: Iterable[int],
    of: int,
    progress: Callable[[dict[str, Any]], object],
) -> Iterator[Generators]:
    """Processes that have their plans: those parts of so many; at the end none is left."""
    from nfslab._core import Load

    plans = {index: plan | {"part": {"index": index, "of": of}} for index in indices}
    for one in plans.values():
        Load(json.dumps(one))  # refused before anything is started
    generators = Generators([], plan, of, progress)
    try:
        for index, one in plans.items():
            generators.parts.append(_start(index, of))
            generators.parts[-1].child.tell("plan", plan=one)
        yield generators
    finally:
        generators.leave()


def _start(index: int, of: int) -> Part:
    try:
        return Part(index, children.begin("nfslab.offered.part"))
    except OSError as error:
        raise PartFailed(
            "generator_process",
            f"generator process {index + 1} of {of} cannot be started",
            str(error.strerror or error),
            "Ask for fewer processes, or free what the machine lacks.",
        ) from error


@dataclass
class Generators:
    """The processes of one point, or those of one host, from their plans to their sums."""

    parts: list[Part]
    plan: dict[str, Any]
    of: int
    """Parts of the whole load."""
    progress: Callable[[dict[str, Any]], object]

    def prepare(self) -> None:
        """The file set: the load's first part makes it, the others look at theirs."""
        first = [part for part in self.parts if part.index == 0]
        others = [part for part in self.parts if part.index != 0]
        for some in filter(None, (first, others)):
            self._each(some, "prepare", "prepared")

    def connect(self) -> None:
        """Threads and connections of all."""
        self._each(self.parts, "connect", "connected")

    def leave(self) -> None:
        """None is left."""
        for part in self.parts:
            part.child.leave()
        for part in self.parts:
            part.child.see_end()

    def _each(self, parts: Sequence[Part], word: str, answer: str) -> None:
        """Tells all of them, and waits until each has answered."""
        for part in parts:
            part.child.tell(word)
        waiting = {part.index for part in parts}
        for part, event in self._events(parts):
            said = event["event"]
            if said == answer:
                waiting.discard(part.index)
            elif said == "error":
                raise PartFailed(*(event[name] for name in ("kind", "what", "why", "fix")))
            elif said == "ended":
                raise PartFailed(
                    "generator_process",
                    f"{self._name(part)} ended before the load began",
                    event["why"],
                    "See what ended it: memory, limits, somebody's kill.",
                )
            elif said == "progress" and self.progress(event["state"]) is False:
                raise PartFailed("cancelled", "the load was stopped", "", "")
            if not waiting:
                return

    def run(self, start_ns: int) -> None:
        """The load, at one instant for all; until each has handed over its sums or is lost."""
        for part in self.parts:
            part.child.tell("start", at_ns=start_ns)
        phases = ("warm_up_s", "measure_s", "cool_down_s")
        ahead_s = max(start_ns - clock.monotonic_ns(), 0) / 1e9
        load_s = ahead_s + sum(self.plan.get(phase, 0.0) for phase in phases)
        limit_s = load_s + self.plan.get("silence_limit_s", 30.0) + OVERTIME_S
        deadline = clock.monotonic() + limit_s
        for part, event in self._events(self.parts, deadline):
            said = event["event"]
            if said == "progress":
                part.state = event["state"]
                if part is self._slowest() and self.progress(self._together()) is False:
                    self._stop()
            elif said == "sums":
                part.sums, part.began_ns = event["sums"], event["began_ns"]
            elif said == "error":
                part.lost = ": ".join(filter(None, (event["what"], event["why"])))
            elif said == "ended" and not part.is_done:
                part.lost = event["why"]
            if all(part.is_done for part in self.parts):
                return
        for part in self.parts:
            if not part.is_done:
                part.child.process.kill()
                part.lost = f"it did not end within {limit_s:.0f} s"

    def _name(self, part: Part) -> str:
        return f"generator process {part.index + 1} of {self.of}"

    def _slowest(self) -> Part:
        """The first process that is still at work: it gives the display its beat."""
        return next((part for part in self.parts if not part.is_done), self.parts[-1])

    def _together(self) -> dict[str, Any]:
        """Progress of all: the beat's phase, everybody's counts."""
        states = [part.state for part in self.parts if part.state.get("stage") == "run"]
        beat = self._slowest().state
        sums = ("answered", "unexpected", "outstanding")
        return beat | {name: sum(state[name] for state in states) for name in sums}

    def _stop(self) -> None:
        for part in self.parts:
            stdin = part.child.process.stdin
            assert stdin is not None
            with contextlib.suppress(BrokenPipeError):
                stdin.close()

    def _events(
        self, parts: Sequence[Part], deadline: float | None = None
    ) -> Iterator[tuple[Part, dict[str, Any]]]:
        """What processes say, until all have ended or the deadline has come."""
        found = children.events([part.child for part in parts], deadline)
        return ((parts[index], event) for index, event in found)
