"""Where the CPU time goes, for all outputs: one profile a point, in words, rows and JSON.

All counted runs of a point that have a profile are merged: each sample counts once. Shares are of
the CPU time of the whole machine where that was recorded, else of the time that the run's processes
had. The first thing said is whether the CPUs were idle: then waits decide, and functions are beside
the point; unless one thread alone was never idle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import ResultsError
from nfslab.evidence.profile.stacks import (
    OWN_CLASSES,
    ROWS_MAX,
    Function,
    Stacks,
    Weight,
    functions_of,
    has_profile,
    read_stacks,
    summary_of,
)
from nfslab.report.shown_runs import counted_runs, problem
from nfslab.report.text import percent, printable, table
from nfslab.results.catalogue import read_run
from nfslab.statistics.proportions import NORMAL_95, share_error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.report.model import Analysis

POINTS_MOST: Final = 24
IDLE_NOTED: Final = 0.5
"""CPUs that are idle for more: waits are said to decide."""
OTHERS_NOTED: Final = 0.1
"""CPU time of processes that are not the run's: more of it is said."""
THREAD_FULL: Final = 0.8
"""A thread with more of one CPU than this has hardly waited."""
FUNCTIONS_MOST: Final = 20
CLASSES: Final = ("run", "nfslab", "kernel threads", "interrupts", "other", "perf")
"""Classes of processes as the collector names them, without the idle one."""
EXPLAINED: Final = (
    "Samples of what each CPU was doing (perf). Run: all that nfslab started, the workload and its "
    "servers; nfslab: itself, also where its core makes the load. Functions are those of the run "
    "and of the kernel's threads. Self: the function itself was running; total: it or what it "
    "called."
)


@dataclass
class PointProfile:
    """The profile of one point: its runs merged; asked only when all of them are there."""

    point: int
    label: str
    stacks: Stacks = field(default_factory=Stacks)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    """The collector's, one a run."""

    @property
    def whole_machine(self) -> bool:
        """Was the whole machine recorded (in all runs)?"""
        return all(one.get("scope") == "machine" for one in self.summaries)

    @cached_property
    def _busy(self) -> Weight:
        return self.stacks.busy()

    @property
    def samples(self) -> int:
        """Samples of something that was not idle."""
        return self._busy.samples

    @cached_property
    def idle_share(self) -> float | None:
        """Of all CPUs' time, over the runs by their length; None where it is not known."""
        weighed = [
            (one["idle_share"], one["window_s"])
            for one in self.summaries
            if one.get("idle_share") is not None
        ]
        whole_s = sum(length_s for _, length_s in weighed)
        if not weighed or whole_s <= 0:
            return None
        share = sum(share * length_s for share, length_s in weighed) / whole_s
        return float(min(1.0, max(0.0, share)))

    @property
    def idle_by(self) -> str:
        """How that is known."""
        return str(self.summaries[0].get("idle_by", "")) if self.summaries else ""

    @property
    def cpu_s(self) -> float:
        """CPU seconds that shares are of: all CPUs' time, or that of the processes."""
        if self.whole_machine:
            return float(sum(one["window_s"] * one["cpus"] for one in self.summaries))
        return float(sum(one["samples"] / one["frequency_hz"] for one in self.summaries))

    @property
    def busy_share(self) -> float:
        """Of `cpu_s`, what the samples that are not idle stand for."""
        idle = self.idle_share
        return 1.0 - idle if self.whole_machine and idle is not None else 1.0

    @property
    def busiest_thread(self) -> dict[str, Any] | None:
        """Of all runs the thread with the largest share of one CPU."""
        known = [one["busiest_thread"] for one in self.summaries if one.get("busiest_thread")]
        return max(known, key=lambda one: one["share_of_a_cpu"], default=None)

    @cached_property
    def functions(self) -> list[Function]:
        """Of the run (its processes, nfslab, the kernel's threads), by their own weight."""
        return functions_of(self.stacks.found, OWN_CLASSES)

    @cached_property
    def _everywhere(self) -> dict[tuple[str, bool], int]:
        """Function -> its own weight in all processes."""
        every = functions_of(self.stacks.found)
        return {(one.name, one.kernel): one.self_weight for one in every}

    @property
    def notes(self) -> list[str]:
        """What makes it doubtful, then how far it goes; each once."""
        said = [note for key in ("notes", "remarks") for one in self.summaries
                for note in one.get(key, [])]  # fmt: skip
        return list(dict.fromkeys(said))

    def class_shares(self) -> dict[str, tuple[float, float]]:
        """Class -> shares of `cpu_s` (in user mode, in the kernel), without the idle one."""
        by_class = self.stacks.by_class()
        found: dict[str, tuple[float, float]] = {}
        for klass in CLASSES:
            if klass in by_class:
                user, kernel = by_class[klass]
                found[klass] = (self._share(user.weight), self._share(kernel.weight))
        return found

    def self_share(self, one: Function) -> float:
        """A function's own share of `cpu_s`."""
        return self._share(one.self_weight)

    def total_share(self, one: Function) -> float:
        """With all that it called."""
        return self._share(one.total_weight)

    def machine_share(self, one: Function) -> float:
        """Its own share of `cpu_s` in all processes, those of others with them."""
        return self._share(self._everywhere.get((one.name, one.kernel), 0))

    def _share(self, weight: int) -> float:
        whole = self._busy.weight
        return weight / whole * self.busy_share if whole else 0.0

    def error(self, share: float) -> float:
        """Half the 95 % interval of a share, from the number of samples."""
        possible = self.samples / self.busy_share if self.busy_share else 0.0
        return NORMAL_95 * share_error(share, possible)


@dataclass(slots=True)
class FoundProfiles:
    """Profiles of an experiment's points, in their order."""

    points: list[PointProfile] = field(default_factory=list)
    left_out: int = 0
    """Points with a profile beyond `POINTS_MOST`."""
    runs_left_out: int = 0
    problems: list[str] = field(default_factory=list)

    def unread(self) -> list[str]:
        """Of runs that are not in it: what cannot be read, and how many were too much."""
        if not self.runs_left_out:
            return self.problems
        many = f"{self.runs_left_out} runs were left out: together their stacks are too many."
        return [*self.problems, many]


def read_profiles(analysis: Analysis, most: int = POINTS_MOST) -> FoundProfiles:
    """The profiles of all counted runs, merged by point."""
    found = FoundProfiles()
    made: dict[int, PointProfile] = {}
    beyond: set[int] = set()
    rows = 0
    for run in counted_runs(analysis, has_profile):
        if run.point not in made and len(made) >= most:
            beyond.add(run.point)
            continue
        if rows > ROWS_MAX:
            found.runs_left_out += 1
            continue
        try:
            stacks = read_stacks(run.folder)
            summary = summary_of(read_run(run.folder).evidence)
        except ResultsError as error:
            found.problems.append(problem(run.run_id, error))
            continue
        if summary is None:
            found.problems.append(f"{run.run_id}: its profile has no summary")
            continue
        rows += len(stacks)
        label = analysis.points[run.point].label
        one = made.setdefault(run.point, PointProfile(run.point, label))
        one.stacks.merge(stacks)
        one.summaries.append(summary)
    found.points = [made[point] for point in sorted(made)]
    found.left_out = len(beyond)
    return found


def profile_of_run(run: Path, label: str = "") -> PointProfile | None:
    """The profile of one sealed run; None without one. ResultsError: it cannot be read."""
    if not has_profile(run):
        return None
    summary = summary_of(read_run(run).evidence)
    if summary is None:
        return None
    made = PointProfile(0, label)
    made.stacks.merge(read_stacks(run))
    made.summaries.append(summary)
    return made


def sentences(profile: PointProfile) -> list[str]:
    """First idle or busy, then the largest function."""
    said = []
    idle, thread = profile.idle_share, profile.busiest_thread
    if idle is not None:
        by = "" if profile.idle_by == "samples" else f" (by {profile.idle_by})"
        if idle >= IDLE_NOTED:
            said.append(f"The CPUs were idle {percent(idle)} of the time{by}: {_instead(thread)}.")
        else:
            said.append(
                f"The CPUs were busy {percent(1 - idle)} of the time{by}{_kernel(profile)}."
            )
    others = sum(profile.class_shares().get("other", (0.0, 0.0)))
    if others > OTHERS_NOTED:
        said.append(f"Processes that are not this run's had {percent(others)} of all CPU time.")
    top = next((one for one in profile.functions if one.self_weight), None)
    if top is not None and (share := profile.self_share(top)) > 0:
        where = "in the kernel" if top.kernel else "in user mode"
        of = "all CPU time" if profile.whole_machine else "the processes' CPU time"
        said.append(
            f"The run's function with the most time of its own is {top.name} ({where}): "
            f"{percent(share)} ± {percent(profile.error(share))} of {of}."
        )
    return said


def _instead(thread: dict[str, Any] | None) -> str:
    if thread is not None and thread["share_of_a_cpu"] >= THREAD_FULL:
        return (
            f"but one thread ({thread['process']}) was running "
            f"{percent(min(1.0, thread['share_of_a_cpu']))} of it: it has no second CPU to use, "
            "so its functions decide"
        )
    return (
        "what this load waits for decides, so look at waits (devices, NFS calls, locks), "
        "not at functions"
    )


def _kernel(profile: PointProfile) -> str:
    shares = profile.class_shares().values()
    kernel = sum(one for _, one in shares)
    busy = kernel + sum(one for one, _ in shares)
    return f", {percent(kernel / busy)} of that in the kernel" if busy else ""


HEADER: Final = ("point", "function", "where", "self", "± 95 %", "total", "self, all")


def text_rows(profile: PointProfile, most: int = FUNCTIONS_MOST) -> list[list[str]]:
    """The largest functions as texts, below `HEADER` without its first column."""
    rows = []
    for one in profile.functions[:most]:
        if not one.self_weight:
            break
        share = profile.self_share(one)
        rows.append(
            [
                one.name,
                "kernel" if one.kernel else "user",
                percent(share),
                percent(profile.error(share)),
                percent(profile.total_share(one)),
                percent(profile.machine_share(one)),
            ]
        )
    return rows


def text_lines(profile: PointProfile) -> list[str]:
    """A profile on a terminal: what it says, then a row a function."""
    rows = [[printable(cell) for cell in row] for row in text_rows(profile)]
    said = [printable(line) for line in [*sentences(profile), *profile.notes]]
    return [*said, table(HEADER[1:], rows, right=(2, 3, 4, 5))]


def as_content(found: FoundProfiles) -> list[dict[str, Any]]:
    """Plain dictionaries of the points, for JSON."""
    return [
        {
            "point": one.label,
            "runs": one.stacks.runs,
            "samples": one.samples,
            "whole_machine": one.whole_machine,
            "idle_share": one.idle_share,
            "idle_by": one.idle_by,
            "classes": {
                klass: {"user_share": user, "kernel_share": kernel}
                for klass, (user, kernel) in one.class_shares().items()
            },
            "busiest_thread": one.busiest_thread,
            "functions": [
                {
                    "function": function.name,
                    "kernel": function.kernel,
                    "self_samples": function.self_samples,
                    "self_share": one.self_share(function),
                    "self_error_95": one.error(one.self_share(function)),
                    "total_share": one.total_share(function),
                    "machine_self_share": one.machine_share(function),
                }
                for function in one.functions[:FUNCTIONS_MOST]
                if function.self_weight
            ],
            "sentences": sentences(one),
            "notes": one.notes,
        }
        for one in found.points
    ]


def compared(
    points: Sequence[PointProfile], most: int = FUNCTIONS_MOST
) -> list[tuple[Function, list[float]]]:
    """Functions with the largest share of their own at any point: (function, share by point)."""
    shares: dict[tuple[str, bool], list[float]] = {}
    known: dict[tuple[str, bool], Function] = {}
    for at, profile in enumerate(points):
        for one in profile.functions:
            if one.self_weight:
                key = (one.name, one.kernel)
                known.setdefault(key, one)
                shares.setdefault(key, [0.0] * len(points))[at] = profile.self_share(one)
    ranked = sorted(shares, key=lambda key: (-max(shares[key]), key))
    return [(known[key], shares[key]) for key in ranked[:most]]
