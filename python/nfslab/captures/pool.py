"""Processes that do tasks of one capture, here or on a cluster's hosts (`captures.part_worker`).

    tasks that wait ──> a process each ──> done: the work takes it, and may have more tasks
                   <── lost: its task is done again, by a new one; three times is an error

What a task gives is the work's (`side_by_side`). What a process says is
checked in its shape: it may be on another machine.
"""

from __future__ import annotations

import contextlib
import queue
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.captures.analysis import Fault, in_words
from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nfslab._core import TraceProgress
    from nfslab.captures.stretches import Stretch
    from nfslab.cluster.base import Agent, Member

MODULE: Final = "nfslab.captures.part_worker"
TRIES: Final = 3
"""A task that ends its process so often is not given to another one."""
LOOK_S: Final = 0.05
"""How soon a task is begun that had to wait, and the end is seen."""
STATE: Final = ("read_bytes", "frames", "calls")
"""Of a process's progress, what is looked at."""


class NotAnAnswerError(ValueError):
    """What a process said is not what it was asked for."""


class Work(ABC):
    """What is to be done, in stretches of files that any process can read, and read again."""

    def __init__(self, tasks: Iterable[Stretch]) -> None:
        self.waiting = list(tasks)
        """Those that nobody does yet, the next one first."""

    @abstractmethod
    def order(self, task: Stretch) -> tuple[str, dict[str, Any]]:
        """What a process is told: name and content."""

    @abstractmethod
    def take(self, task: Stretch, said: dict[str, Any], state: TraceProgress | None) -> None:
        """It is done, with this answer (`NotAnAnswerError`) and what was last heard of it."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether all is."""

    @abstractmethod
    def subject(self, task: Stretch) -> str:
        """What is read in it, for messages."""

    @abstractmethod
    def progress(self, states: Mapping[Stretch, TraceProgress]) -> TraceProgress:
        """How far all is, with the tasks that are being done."""


@dataclass(slots=True, eq=False)
class _Worker:
    """A process, and what it does."""

    member: Member
    agent: Agent = field(init=False)
    task: Stretch | None = None
    state: TraceProgress | None = None


class Pool:
    """`begin`, `finish`, and `end` in any case."""

    def __init__(
        self,
        work: Work,
        members: Sequence[Member],
        progress: Callable[[TraceProgress], None] | None = None,
    ) -> None:
        self._work = work
        self._members = list(members)
        self._progress = progress
        self._tries: Counter[Stretch] = Counter()
        self._workers: list[_Worker] = []
        self._said: queue.SimpleQueue[tuple[_Worker, dict[str, Any]]] = queue.SimpleQueue()

    def begin(self, workers: int) -> None:
        """So many processes, at work."""
        for _ in range(workers):
            self._begin()

    def finish(self) -> None:
        """Until all is done; raises what a process could not do."""
        while not self._work.is_done():
            with contextlib.suppress(queue.Empty):
                self._hear(*self._said.get(timeout=LOOK_S))
            for idle in (one for one in self._workers if one.task is None):
                self._give(idle)

    def end(self) -> None:
        """No process is left."""
        for worker in self._workers:
            worker.agent.end()

    def _begin(self) -> None:
        """One more process, on the member with the fewest; one that starts none is lost."""
        counts = Counter(worker.member.name for worker in self._workers)
        member = min(self._members, key=lambda one: counts[one.name])
        try:
            worker = _Worker(member)
            worker.agent = member.begin(MODULE, lambda said: self._said.put((worker, said)))
        except RunFailed as error:
            self._without(member, error.in_a_line(": "))
            self._begin()
            return
        self._workers.append(worker)
        self._give(worker)

    def _give(self, worker: _Worker) -> None:
        waiting = self._work.waiting
        worker.task = waiting.pop(0) if waiting else None
        worker.state = None
        if worker.task is not None:
            name, content = self._work.order(worker.task)
            worker.agent.tell(name, **content)

    def _hear(self, worker: _Worker, event: dict[str, Any]) -> None:
        match event["event"]:
            case "error":
                named = (str(event.get(name, "")) for name in ("kind", "what", "why", "fix"))
                raise in_words(Fault(*named))
            case "progress":
                worker.state = _state(worker.member, event)
                self._show()
            case "done" if worker.task is not None:
                try:
                    self._work.take(worker.task, event, worker.state)
                except NotAnAnswerError as error:
                    raise _hostile(worker.member, str(error)) from error
                worker.task = None
            case "ended" | "lost" as how:
                why = str(event.get("why", ""))
                if how == "lost":
                    self._without(worker.member, why)
                self._lost(worker, why)

    def _without(self, member: Member, why: str) -> None:
        if member in self._members:
            self._members.remove(member)
        if not self._members:
            raise RunFailed(
                "the captures cannot be read: no host is left to read them", why=why,
                fix="nfslab cluster check tells of each; or read them here, without --workers",
            )  # fmt: skip

    def _lost(self, worker: _Worker, fate: str) -> None:
        """Its task is done again, from the beginning, by a new one."""
        self._workers.remove(worker)
        worker.agent.end()
        task = worker.task
        if task is None:
            return
        self._tries[task] += 1
        if self._tries[task] >= TRIES:
            raise RunFailed(
                f"{self._work.subject(task)} cannot be read",
                why=f"the process that reads it ended {TRIES} times, at last: {fate}",
                fix="leave --workers out; is there memory left?",
            )
        self._work.waiting.insert(0, task)
        self._begin()

    def _show(self) -> None:
        if self._progress is not None:
            self._progress(
                self._work.progress(
                    {
                        worker.task: worker.state
                        for worker in self._workers
                        if worker.task is not None and worker.state is not None
                    }
                )
            )


def _state(member: Member, event: dict[str, Any]) -> TraceProgress:
    state: Any = event.get("state")
    if not isinstance(state, dict) or not all(type(state.get(name)) is int for name in STATE):
        raise _hostile(member, "it told no progress")
    found: TraceProgress = state  # type: ignore[assignment]
    return found


def _hostile(member: Member, why: str) -> RunFailed:
    return RunFailed(
        "the captures cannot be read: a process gave no answer that can be taken",
        why=f"{member.name}: {why}",
        fix="see that all hosts run the same nfslab; or read them here, without --cluster",
    )
