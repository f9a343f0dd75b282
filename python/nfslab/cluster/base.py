"""What every engine that reaches several machines has to be able to do.

    prime (this nfslab) ── Member.begin(module) ──> agent: `python -m module` on the member's host
             orders, events: lines of `machine.agent`, both ways
             what it left in its working folder comes home by `Agent.fetch`

An agent has a working folder of its own on its host. Its standard input is its life: it ends when
the prime closes it, and within `SILENCE_S` and a second when the prime is lost. A member that gives
no sign of life for `SILENCE_S` is lost: its agents' last event is `lost`, with why.

An engine carries lines and folders; it knows nothing of experiments. It never does a thing twice:
an agent whose host is gone is not begun elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.results.records import ClockRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from nfslab.machine.clock_pair import Trip

Said = Callable[[dict[str, Any]], object]
"""Who is given what an agent says."""
SILENCE_S: Final = 5.0
"""Without a sign of life from a member on another machine, until it counts as lost."""
FOLDER_BYTES_MAX: Final = 8 << 30
"""Of what an agent left, as it comes home."""
ROUNDS: Final = 15
"""Round trips of which the shortest compares clocks."""


class NoAnswer(RunFailed):
    """Nobody answers at a machine's address, or not in time."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds how long a prime waits for an agent, in seconds; none of them is measured."""

    ready_s: float = 60.0
    """From its begin to its first word: a busy machine takes seconds for the imports."""
    busy_s: float = 4.0
    """Without a sign of life while it starts programs."""
    load_s: float = 2.0
    """Without one in the timed part."""
    start_s: float = 0.5
    """From the word to all agents to their common start: time for it to arrive."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Compares a member's clocks with ours, now."""

    monotonic: ClockRecord
    """CLOCK_MONOTONIC: what runs are timed by."""
    realtime: ClockRecord
    """CLOCK_REALTIME: what captures are stamped with."""

    @classmethod
    def of(cls, trips: Iterable[Trip]) -> Clocks:
        """Returns what the shortest of some round trips tells."""
        best = min(trips)
        return cls(
            ClockRecord(offset_ns=best.monotonic_ns, error_ns=best.error_ns),
            ClockRecord(offset_ns=best.realtime_ns, error_ns=best.error_ns),
        )


class Agent(ABC):
    """Talks to a process of ours on a member."""

    member: Member

    def __init__(self, said: Said) -> None:
        self._said = said

    @abstractmethod
    def tell(self, name: str, **content: Any) -> None:
        """Gives an order; an agent that is gone is found out by its events."""

    @abstractmethod
    def fetch(self, destination: Path) -> None:
        """Brings its folder home, after it ended, to a path that does not exist yet; RunFailed.

        Plain files and folders alone, at most `FOLDER_BYTES_MAX`: a member may be hostile, and must
        not be able to write anywhere else.
        """

    @abstractmethod
    def end(self) -> None:
        """Leaves it: its input closes, it ends or is ended; its working folder goes."""


class Member(ABC):
    """Is one machine of a cluster."""

    name: str
    """As the user named it."""
    address: str
    """At which the others reach it."""

    @property
    def patience(self) -> Patience:
        """Says how long its agents may take."""
        return Patience()

    @property
    def made(self) -> Mapping[str, Any]:
        """Returns what only who made it knows, as sections of its provenance (JSON)."""
        return {}

    @property
    def notes(self) -> Sequence[str]:
        """Returns what is worth telling of it."""
        return ()

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Returns what a record keeps of it (JSON): kernel, cpus, memory_bytes, nfslab, ..."""

    @abstractmethod
    def clocks(self) -> Clocks:
        """Compares them now: of several round trips the shortest, with half of it as the error."""

    @abstractmethod
    def begin(self, module: str, said: Said) -> Agent:
        """Starts `python -m module` there, of the same nfslab; RunFailed.

        `said` is given what it says, in order, by threads that are not the caller's. The last one:
        `ended` with `why`, when it has ended, or `lost` with `why`, when the member is.
        """


class Cluster(ABC):
    """Connects the machines of an experiment until `close`."""

    notes: Sequence[str] = ()
    """What is worth telling of them all."""

    @property
    @abstractmethod
    def members(self) -> Sequence[Member]:
        """Lists them in the order that the user gave."""

    @abstractmethod
    def close(self) -> None:
        """Ends all agents, and the connection."""
