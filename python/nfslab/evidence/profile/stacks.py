"""CPU profiles out of run folders: merged stacks, functions, the tree of a flame graph.

The collector `profile` leaves `profile_stacks` (one row a stack: class and name of the process,
frames from the root, how many of the last ones are the kernel's, samples and their weight). All
counted runs of a point are merged: a sample is a sample, and the runs of a point have one rate
of samples. Weight is the sum of the sampling periods: nanoseconds of CPU time for cpu-clock,
cycles for cycles; shares are of weight.

    run folders ─► read_stacks ─► merge ─► functions_of (self, total), tree_of (pruned)

Decisions. In *total* a function counts once a stack, however often it calls itself. A tree is
pruned by weight: what lies below the stated share is left out with all that it calls, and counted;
its weight stays in its caller's. Nameless frames in a row are one frame of the tree: broken chains
of frame pointers make a hundred of them.

Limits: the stacks' names are text joined by ";": a name never holds one (the collector sees to it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.results.evidence_tables import has_evidence, read_evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

TABLE: Final = "profile_stacks"
COLLECTOR: Final = "profile"
IDLE_CLASS: Final = "idle"
OWN_CLASSES: Final = frozenset({"run", "nfslab", "kernel threads", "interrupts"})
"""Classes of what works for the run, or may: not other processes, not perf, not idle."""
ROWS_MAX: Final = 4_000_000
"""Rows of one run's stacks, and of all runs' that are merged; further runs are left out, and
counted."""

StackKey = tuple[str, str, int]
"""(class of the process, stack "process;frame;frame", kernel frames)."""


@dataclass(slots=True)
class Weight:
    """Samples and the sum of their periods."""

    samples: int = 0
    weight: int = 0

    def add(self, samples: int, weight: int) -> None:
        """Some more."""
        self.samples += samples
        self.weight += weight


@dataclass(slots=True)
class Stacks:
    """Stacks of some runs together."""

    found: dict[StackKey, Weight] = field(default_factory=dict)

    def merge(self, rows: Iterable[tuple[StackKey, int, int]]) -> None:
        """One more run's rows."""
        for key, samples, weight in rows:
            self.found.setdefault(key, Weight()).add(samples, weight)

    def busy(self) -> Weight:
        """All that is not idle."""
        total = Weight()
        for (klass, _, _), one in self.found.items():
            if klass != IDLE_CLASS:
                total.add(one.samples, one.weight)
        return total

    def by_class(self) -> dict[str, tuple[Weight, Weight]]:
        """Class -> (in user mode, in the kernel), the idle one with them."""
        found: dict[str, tuple[Weight, Weight]] = {}
        for (klass, _, kernel), one in self.found.items():
            pair = found.setdefault(klass, (Weight(), Weight()))
            pair[kernel > 0].add(one.samples, one.weight)
        return found


@dataclass(frozen=True, slots=True)
class Function:
    """One function, over all stacks."""

    name: str
    kernel: bool
    self_samples: int
    """Samples in which it was running itself."""
    self_weight: int
    total_weight: int
    """With all that it called."""


@dataclass(slots=True)
class Frame:
    """A node of the flame graph's tree."""

    name: str
    kernel: bool
    weight: int = 0
    children: dict[tuple[str, bool], Frame] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One drawn frame; rows are in preorder, children by name, so the tree follows from depths."""

    depth: int
    name: str
    kernel: bool
    weight: int


def has_profile(run: Path) -> bool:
    """Did the collector leave stacks in this run's folder?"""
    return has_evidence(run, TABLE)


def read_stacks(run: Path) -> list[tuple[StackKey, int, int]]:
    """Rows of a run's table: (key, samples, weight). ResultsError: it cannot be read."""
    names = ["class", "stack", "kernel_frames", "samples", "weight"]
    columns = read_evidence(run, TABLE, names, rows_max=ROWS_MAX).to_pydict()
    keys = zip(columns["class"], columns["stack"], columns["kernel_frames"], strict=True)
    return list(zip(keys, columns["samples"], columns["weight"], strict=True))


def functions_of(
    stacks: Mapping[StackKey, Weight], classes: Collection[str] | None = None
) -> list[Function]:
    """Functions by their own weight, of processes of these classes (None: all but the idle one).

    The name of a process is none of its functions.
    """
    own: dict[tuple[str, bool], Weight] = {}
    total: dict[tuple[str, bool], int] = {}
    for (klass, stack, kernel), one in stacks.items():
        if klass == IDLE_CLASS or (classes is not None and klass not in classes):
            continue
        frames = marked_frames(stack, kernel)[1:]
        for frame in set(frames):
            total[frame] = total.get(frame, 0) + one.weight
        if frames:
            own.setdefault(frames[-1], Weight()).add(one.samples, one.weight)
    nothing = Weight()
    found = [
        Function(
            name, kernel, own.get((name, kernel), nothing).samples,
            own.get((name, kernel), nothing).weight, weight,
        )
        for (name, kernel), weight in total.items()
    ]  # fmt: skip
    found.sort(key=lambda one: (-one.self_weight, -one.total_weight, one.name, one.kernel))
    return found


def marked_frames(stack: str, kernel_frames: int) -> list[tuple[str, bool]]:
    """The stack's names from the root, the process's first: (name, is it the kernel's)."""
    names = stack.split(";")
    first = len(names) - kernel_frames
    return [(name, i >= first) for i, name in enumerate(names)]


def tree_of(stacks: Mapping[StackKey, Weight], least_share: float, frames_most: int) -> list[Row]:
    """The tree of all that was not idle, without frames below `least_share` of its weight.

    Where that leaves more than `frames_most` frames, the least share is doubled until it does not.
    """
    root = Frame("", False)
    for (klass, stack, kernel), one in stacks.items():
        if klass == IDLE_CLASS:
            continue
        root.weight += one.weight
        at = root
        for key in _without_repeats(marked_frames(stack, kernel)):
            at = at.children.setdefault(key, Frame(*key))
            at.weight += one.weight
    rows = _flat(root)
    least = max(1, round(root.weight * least_share))
    while sum(row.weight >= least for row in rows) > frames_most:
        least *= 2
    return [row for row in rows if row.weight >= least]  # none weighs more than its caller


def _without_repeats(frames: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Frames without a name ("[unknown]", "[libc.so.6]") that call their like are one."""
    kept = frames[:1]
    for frame in frames[1:]:
        if frame != kept[-1] or not frame[0].startswith("["):
            kept.append(frame)
    return kept


def _flat(root: Frame) -> list[Row]:
    """Preorder, without recursion: stacks may be deep. Children by name, taken from the end."""
    rows = []
    waiting = [(-1, root)]
    while waiting:
        depth, frame = waiting.pop()
        rows.append(Row(depth, frame.name, frame.kernel, frame.weight))
        below = sorted(frame.children.items(), reverse=True)
        waiting.extend((depth + 1, child) for _, child in below)
    return rows[1:]


def summary_of(evidence: Iterable[Any]) -> dict[str, Any] | None:
    """The collector's summary among a run's evidence records; None when it did not work."""
    for record in evidence:
        if record.collector == COLLECTOR and record.summary:
            return dict(record.summary)
    return None
