"""Where the CPU time goes at one point: all its runs that have a profile together.

Each sample counts once. Shares are of the CPU time of the whole machine where that was recorded,
else of the time that the run's processes had. The first thing said is whether the CPUs were idle:
then waits decide, and functions are beside the point; unless one thread alone was never idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from nfslab.display.numbers import percent
from nfslab.evidence.profile.facts import FunctionFacts, rank
from nfslab.statistics.proportions import NORMAL_95, share_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.profile.facts import ProfileFacts

IDLE_NOTED: Final = 0.5
"""CPUs that are idle for more: waits are said to decide."""
OTHERS_NOTED: Final = 0.1
"""CPU time of processes that are not the run's: more of it is said."""
THREAD_FULL: Final = 0.8
"""A thread with more of one CPU than this has hardly waited."""
FUNCTIONS_MOST: Final = 20
CLASSES: Final = ("run", "nfslab", "kernel threads", "interrupts", "other", "perf")
"""Classes of processes as the collector names them, without the idle one."""


@dataclass
class PointProfile:
    """The profile of one point: the sums over its runs."""

    label: str
    runs: Sequence[ProfileFacts]

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """The collector's, one a run."""
        return [one.summary for one in self.runs]

    @property
    def whole_machine(self) -> bool:
        """Was the whole machine recorded (in all runs)?"""
        return all(one.get("scope") == "machine" for one in self.summaries)

    @cached_property
    def _weight(self) -> int:
        return sum(one.weight for one in self.runs)

    @property
    def samples(self) -> int:
        """Samples of something that was not idle."""
        return sum(one.samples for one in self.runs)

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
    def functions(self) -> list[FunctionFacts]:
        """Of the run (its processes, nfslab, the kernel's threads), by their own weight."""
        sums: dict[tuple[str, bool], list[int]] = {}
        for run in self.runs:
            for one in run.functions:
                into = sums.setdefault((one.name, one.kernel), [0, 0, 0, 0])
                into[:] = [a + b for a, b in zip(into, one[2:], strict=True)]
        made = (FunctionFacts(*key, *values) for key, values in sums.items())
        return sorted((one for one in made if one.self_weight or one.total_weight), key=rank)

    @property
    def notes(self) -> list[str]:
        """What makes it doubtful, then how far it goes; each once."""
        said = [note for key in ("notes", "remarks") for one in self.summaries
                for note in one.get(key, [])]  # fmt: skip
        return list(dict.fromkeys(said))

    def class_shares(self) -> dict[str, tuple[float, float]]:
        """Class -> shares of `cpu_s` (in user mode, in the kernel), without the idle one."""
        found: dict[str, tuple[float, float]] = {}
        for klass in CLASSES:
            pairs = [one.classes[klass] for one in self.runs if klass in one.classes]
            if pairs:
                user, kernel = (sum(values) for values in zip(*pairs, strict=True))
                found[klass] = (self.share(user), self.share(kernel))
        return found

    def share(self, weight: int) -> float:
        """What that weight is of `cpu_s`."""
        return weight / self._weight * self.busy_share if self._weight else 0.0

    def error(self, share: float) -> float:
        """Half the 95 % interval of a share, from the number of samples."""
        possible = self.samples / self.busy_share if self.busy_share else 0.0
        return NORMAL_95 * share_error(share, possible)


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
    if top is not None and (share := profile.share(top.self_weight)) > 0:
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


def as_content(points: Sequence[PointProfile]) -> list[dict[str, Any]]:
    """Plain dictionaries of the points, for JSON."""
    return [
        {
            "point": one.label,
            "runs": len(one.runs),
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
                    "self_share": (own := one.share(function.self_weight)),
                    "self_error_95": one.error(own),
                    "total_share": one.share(function.total_weight),
                    "machine_self_share": one.share(function.machine_self_weight),
                }
                for function in one.functions[:FUNCTIONS_MOST]
                if function.self_weight
            ],
            "sentences": sentences(one),
            "notes": one.notes,
        }
        for one in points
    ]


def compared(
    points: Sequence[PointProfile], most: int = FUNCTIONS_MOST
) -> list[tuple[FunctionFacts, list[float]]]:
    """Functions with the largest share of their own at any point: (function, share by point)."""
    found: dict[tuple[str, bool], tuple[FunctionFacts, list[float]]] = {}
    for at, profile in enumerate(points):
        for one in profile.functions:
            if one.self_weight:
                _, shares = found.setdefault((one.name, one.kernel), (one, [0.0] * len(points)))
                shares[at] = profile.share(one.self_weight)
    ranked = sorted(found.items(), key=lambda item: (-max(item[1][1]), item[0]))
    return [pair for _, pair in ranked[:most]]
