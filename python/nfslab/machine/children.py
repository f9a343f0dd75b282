"""Child processes of our own that are talked to by lines (`machine.agent`), several at a time.

    begin ──> tell orders ──> events of all of them, as they come ──> leave ──> see_end
    Group ──> tell ──> until_each has said it ──> leave                (those of one load)

A child is a Python module of ours, in a session of its own (a Ctrl-C is for us), with pipes for
orders and events. Its standard input is its life.
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
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.agent import Lines, error_of, order
from nfslab.machine.own_command import importing_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

LEAVE_S: Final = 10.0
"""How long a child may take to end when it was left alone."""
LOOK_S: Final = 0.5
"""Between two looks at whether a group is to go on, where no child says anything."""
READ_BYTES: Final = 1 << 20
SAID_MAX: Final = 256 << 20
"""Bytes of one event: the sums of a long load's series and histograms are some megabytes."""


@dataclass(slots=True)
class Child:
    """One of them."""

    process: subprocess.Popen[bytes]
    complaints: IO[bytes]
    """Its standard error."""
    lines: Lines = field(default_factory=lambda: Lines(SAID_MAX))

    def tell(self, name: str, **content: Any) -> None:
        """An order; a child that is gone is found out by its output."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(order(name, **content))
            self.process.stdin.flush()

    def said(self, found: bytes) -> Iterator[dict[str, Any]]:
        """The events among these bytes of its output; RunFailed: it says too much."""
        for line in self.lines.feed(found):
            if line is None:
                raise RunFailed(
                    "a process of ours said more than can be kept", fix="Please report this."
                )
            yield json.loads(line)

    def leave(self) -> None:
        """Close its pipes: it sees that nobody is there, and ends."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def ends_within(self, limit_s: float) -> bool:
        """Wait so long for its end."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def see_end(self) -> None:
        """Wait for a child that was left alone; kill it if it does not go."""
        if not self.ends_within(LEAVE_S):
            self.process.kill()
            self.process.wait()
        self.complaints.close()

    def end(self) -> None:
        """Kill it: it holds nothing that anybody needs."""
        self.process.kill()
        self.leave()
        self.see_end()

    def fate(self) -> str:
        """Why it ended, in words."""
        code = self.process.wait()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        self.complaints.seek(0)
        lines = self.complaints.read()[-READ_BYTES:].decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f"exit code {code}" + (f" ({said[-1]})" if said else "")


def begin(module: str, *, cwd: Path | None = None, before: Sequence[str] = ()) -> Child:
    """Start `python -m module`; OSError. `before`: words of a command that starts the rest."""
    complaints = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(
            [*before, sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=os.environ | importing_us(),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError:
        complaints.close()
        raise
    return Child(process, complaints)


def events(
    children: Sequence[Child], deadline: float | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """What children say, by their index; `ended` with `why` of each whose output ends.

    Ends when all have ended, or at the deadline (clock.monotonic). RunFailed: it says too much.
    """
    with selectors.DefaultSelector() as selector:
        for index, child in enumerate(children):
            assert child.process.stdout is not None
            selector.register(child.process.stdout, selectors.EVENT_READ, index)
        while selector.get_map():
            left_s = None if deadline is None else deadline - clock.monotonic()
            if left_s is not None and left_s <= 0:
                return
            for key, _ in selector.select(left_s):
                index = key.data
                found = os.read(key.fd, READ_BYTES)
                if not found:
                    selector.unregister(key.fileobj)
                    yield index, {"event": "ended", "why": children[index].fate()}
                    continue
                yield from ((index, event) for event in children[index].said(found))


class Group:
    """Begins and hears the children of one load, each with a name for people; always `leave`."""

    def __init__(self, module: str, names: Sequence[str]) -> None:
        """All are begun, or none; RunFailed."""
        self.names = names
        self.children: list[Child] = []
        for name in names:
            try:
                self.children.append(begin(module))
            except OSError as error:
                self.leave()
                raise RunFailed(
                    f"{name} cannot be started",
                    why=error.strerror or str(error),
                    fix="ask for fewer processes, or free what the machine lacks",
                ) from error

    def tell(self, name: str, **content: Any) -> None:
        """Gives the same order to all."""
        for child in self.children:
            child.tell(name, **content)

    def until_each(
        self,
        event: str,
        hear: Callable[[int, dict[str, Any]], object],
        *,
        of: Iterable[int] | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """Waits until each (or each of those) has said this; RunFailed for one that fails or ends.

        `hear` is given all that they say, by their index; `check` raises to give it up.
        """
        waiting = set(range(len(self.children)) if of is None else of)
        while waiting:
            check()
            some = sorted(waiting)
            deadline = clock.monotonic() + LOOK_S
            for place, said in events([self.children[index] for index in some], deadline):
                if (index := some[place]) not in waiting:
                    continue
                self._require(index, said)
                hear(index, said)
                if said["event"] == event:
                    waiting.discard(index)
                if not waiting:
                    return

    def leave(self) -> None:
        """None is left."""
        for child in self.children:
            child.leave()
        for child in self.children:
            child.see_end()

    def _require(self, index: int, said: dict[str, Any]) -> None:
        name = self.names[index]
        if said["event"] == "error":
            error = error_of(said)
            raise RunFailed(f"{name}: {error.what}", why=error.why, fix=error.fix)
        if said["event"] == "ended":
            raise RunFailed(
                f"{name} ended before its time",
                why=said["why"],
                fix="see what ended it: memory, limits, somebody's kill",
            )
