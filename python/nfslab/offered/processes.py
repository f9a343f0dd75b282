"""A point measured by several generator processes: started, begun together, put together.

    plan ──> one process a part (`nfslab.offered.part`) ──> prepared: the first, then the others
         ──> all connected ──> one instant for all ──> sums of each ──> the core adds them up

Each process has its own connections, threads and file handles, and works on files that no other one
has: what belongs to whom is a function of the file's number, in the core. The file set is that of
the whole offered load. A process that cannot start or prepare fails the point (`PartFailed`); one
that ends before its time makes it invalid, and what the others measured stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from nfslab.machine.agent import Lines, order
from nfslab.machine.own_command import importing_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab._core import Load

START_S: Final = 0.1
"""From the last process's being ready to the common start: time for the word to arrive."""
OVERTIME_S: Final = 60.0
"""Beyond the load and the silence that ends it: a process that needs longer is ended."""
LEAVE_S: Final = 10.0
"""How long a process may take to end when it was told to."""
READ_BYTES: Final = 1 << 20
SAID_MAX: Final = 256 << 20
"""Bytes of one event: the sums of a long load's series and histograms are some megabytes."""


class PartFailed(Exception):
    """A generator process could not begin; parts as `nfslab._core.CoreError`."""

    def __init__(self, kind: str, what: str, why: str, fix: str) -> None:
        super().__init__(f"{what}: {why}" if why else what)
        self.kind, self.what, self.why, self.fix = kind, what, why, fix


@dataclass(slots=True)
class Part:
    """A generator process."""

    index: int
    process: subprocess.Popen[bytes]
    complaints: IO[bytes]
    """Its standard error."""
    lines: Lines = field(default_factory=lambda: Lines(SAID_MAX))
    state: dict[str, Any] = field(default_factory=dict)
    """Its last progress."""
    sums: str | None = None
    lost: str | None = None
    """What became of it, if it handed over nothing."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to come of it."""
        return self.sums is not None or self.lost is not None

    def tell(self, name: str, **content: Any) -> None:
        """A command; one that is gone is found out by its output."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(order(name, **content))
            self.process.stdin.flush()

    def leave(self) -> None:
        """Closes its pipes: it sees that nobody is there, and ends."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def fate(self) -> str:
        """Why it ended, in words."""
        code = self.process.wait()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        self.complaints.seek(0)
        lines = self.complaints.read()[-READ_BYTES:].decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f"exit code {code}" + (f" ({said[-1]})" if said else "")


def measured(
    plan: dict[str, Any], processes: int, progress: Callable[[dict[str, Any]], object]
) -> tuple[dict[str, Any], Load]:
    """The report of a point, and the object that has its histograms and series.

    `progress` as the core calls it; returning False stops. `CoreError` for the plan,
    `PartFailed` for a process.
    """
    from nfslab._core import Load

    whole = Load(json.dumps(plan))
    plans = [plan | {"part": {"index": n, "of": processes}} for n in range(processes)]
    for one in plans:
        Load(json.dumps(one))  # refused before anything is started
    with _started(plans, progress) as generators:
        generators.prepare()
        generators.run()
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
def _started(
    plans: Sequence[dict[str, Any]], progress: Callable[[dict[str, Any]], object]
) -> Iterator[Generators]:
    """Processes that have their plans; at the end none is left."""
    parts: list[Part] = []
    try:
        for index, plan in enumerate(plans):
            parts.append(_start(index, len(plans)))
            parts[-1].tell("plan", plan=plan)
        yield Generators(parts, plans[0], progress)
    finally:
        for part in parts:
            part.leave()
        for part in parts:
            _ended(part)


def _start(index: int, of: int) -> Part:
    complaints = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nfslab.offered.part"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=os.environ | importing_us(),
            start_new_session=True,  # a Ctrl-C is for us
        )
    except OSError as error:
        complaints.close()
        raise PartFailed(
            "generator_process",
            f"generator process {index + 1} of {of} cannot be started",
            str(error.strerror or error),
            "Ask for fewer processes, or free what the machine lacks.",
        ) from error
    return Part(index, process, complaints)


def _ended(part: Part) -> None:
    """Waits for a process that was left alone; ends it if it does not go."""
    try:
        part.process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        part.process.kill()
        part.process.wait()
    part.complaints.close()


@dataclass
class Generators:
    """The processes of one point, from their plans to their sums."""

    parts: list[Part]
    plan: dict[str, Any]
    progress: Callable[[dict[str, Any]], object]

    def prepare(self) -> None:
        """The file set: the first process makes it, the others look at theirs; then connected."""
        first, others = self.parts[:1], self.parts[1:]
        self._each(first, "prepare", "prepared")
        self._each(others, "prepare", "prepared")
        self._each(self.parts, "connect", "connected")

    def _each(self, parts: Sequence[Part], word: str, answer: str) -> None:
        """Tells all of them, and waits until each has answered."""
        for part in parts:
            part.tell(word)
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

    def run(self) -> None:
        """The load, at one instant for all; until each has handed over its sums or is lost."""
        start_ns = time.monotonic_ns() + round(START_S * 1e9)
        for part in self.parts:
            part.tell("start", at_ns=start_ns)
        phases = ("warm_up_s", "measure_s", "cool_down_s")
        load_s = START_S + sum(self.plan.get(phase, 0.0) for phase in phases)
        limit_s = load_s + self.plan.get("silence_limit_s", 30.0) + OVERTIME_S
        deadline = time.monotonic() + limit_s
        for part, event in self._events(self.parts, deadline):
            said = event["event"]
            if said == "progress":
                part.state = event["state"]
                if part.index == self._slowest() and self.progress(self._together()) is False:
                    self._stop()
            elif said == "sums":
                part.sums = event["sums"]
            elif said == "error":
                part.lost = ": ".join(filter(None, (event["what"], event["why"])))
            elif said == "late":
                part.process.kill()
                part.lost = f"it did not end within {limit_s:.0f} s"
            elif said == "ended" and not part.is_done:
                part.lost = event["why"]
            if all(part.is_done for part in self.parts):
                return

    def _name(self, part: Part) -> str:
        return f"generator process {part.index + 1} of {len(self.parts)}"

    def _slowest(self) -> int:
        """The first process that is still at work: it gives the display its beat."""
        return next((part.index for part in self.parts if not part.is_done), -1)

    def _together(self) -> dict[str, Any]:
        """Progress of all: the beat's phase, everybody's counts."""
        states = [part.state for part in self.parts if part.state.get("stage") == "run"]
        beat = self.parts[self._slowest()].state
        sums = ("answered", "unexpected", "outstanding")
        return beat | {name: sum(state[name] for state in states) for name in sums}

    def _stop(self) -> None:
        for part in self.parts:
            assert part.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                part.process.stdin.close()

    def _events(
        self, parts: Sequence[Part], deadline: float | None = None
    ) -> Iterator[tuple[Part, dict[str, Any]]]:
        """What processes say, and `ended` with why of one whose output ends; `late` of each that
        is not done at the deadline."""
        with selectors.DefaultSelector() as selector:
            for part in parts:
                assert part.process.stdout is not None
                selector.register(part.process.stdout, selectors.EVENT_READ, part)
            while selector.get_map():
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    yield from ((part, {"event": "late"}) for part in parts if not part.is_done)
                    return
                for key, _ in selector.select(left_s):
                    part = key.data
                    found = os.read(key.fd, READ_BYTES)
                    if not found:
                        selector.unregister(key.fileobj)
                        yield part, {"event": "ended", "why": part.fate()}
                        continue
                    yield from ((part, event) for event in _said(part, found))


def _said(part: Part, found: bytes) -> Iterator[dict[str, Any]]:
    """The events among what a process said."""
    for line in part.lines.feed(found):
        if line is None:
            raise PartFailed(
                "internal", "a generator process says too much", "", "Please report this."
            )
        yield json.loads(line)
