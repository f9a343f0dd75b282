"""The file workload made by processes on several client hosts, as one run.

    each host:   a process of its own for each part (`files_part`) ──> they meet before each phase,
                 with those of all hosts ──> what each measured, as files in the host's run folder
    one place:   the files of all hosts ──> sums, one histogram, one series a phase

What a part does is decided by the core: the blocks, operations and random positions that its
threads would have in one process with the threads of all. Every phase begins at an instant that all
were given: its rate is what all did over the time from there to the last one's end. Why
barriers, not instants planned beforehand: nobody knows how long a phase takes, and one that some
hosts begin while others still do the one before is no sum of anything.

Histograms are added bucket by bucket, counts are integers. Of each process the time of a phase is
its own clock's, from the common instant on: clocks that differ move where phases lie on the run's
axis by nothing, and their beginnings by the error of the clocks' comparison.
"""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.machine.children import Group
from nfslab.machine.handed import HandedOver, read, unreadable
from nfslab.results.core_tables import typed_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from nfslab.context import HostPart, Met, TimedPart

SUMS: Final = (
    "threads", "bytes", "operations", "rewrites", "read_bytes", "written_bytes", "cpu_ns",
    "user_ns", "system_ns", "voluntary_switches", "involuntary_switches", "checked_blocks",
)  # fmt: skip
QUANTILES: Final = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}


class Handed(HandedOver):
    """What one process handed over."""

    result: dict[str, Any]
    """As `run_files` gives it."""
    common_ns: list[int]
    """When each phase began, on the clock on which the run is put together."""


class Processes:
    """Those of one host, from their start to their results."""

    def __init__(self, configs: Sequence[dict[str, Any]]) -> None:
        """All are begun; RunFailed."""
        self._configs = configs
        of = len(configs)
        names = [f"process {index + 1} of {of}" for index in range(of)]
        self.group = Group("nfslab.workloads.files_part", names)
        self._waiting: dict[int, tuple[str, str]] = {}
        """Process -> the gate and the phase that it waits at."""
        self._results: dict[int, dict[str, Any]] = {}
        self._common: list[Met] = []
        """When the phases began."""

    def start(self, check: Callable[[], object]) -> None:
        """Wait until each is there; RunFailed."""
        self.group.until_each("ready", lambda *_: None, check=check)

    def run(
        self,
        timed: TimedPart,
        check: Callable[[], object],
        progress: Callable[[dict[str, Any]], object],
    ) -> list[Handed]:
        """All phases, each begun with those of all hosts; RunFailed."""

        def hear(index: int, said: dict[str, Any]) -> None:
            match said["event"]:
                case "at":
                    self._waiting[index] = (str(said["gate"]), str(said["phase"]))
                    self._meet(timed)
                case "progress":
                    progress(said["state"])
                case "result":
                    self._results[index] = said["result"]

        for child, config in zip(self.group.children, self._configs, strict=True):
            child.tell("files", config=config)
        self.group.until_each("result", hear, check=check)
        common_ns = [met.common_ns for met in self._common]
        return [
            Handed(index=config["part"]["index"], result=self._results[i], common_ns=common_ns)
            for i, config in enumerate(self._configs)
        ]

    def late_ns(self) -> int:
        """By how much the last one of them began a phase behind its instant, of all phases."""
        return max(
            (
                phase["began_monotonic_ns"] - phase["start_monotonic_ns"]
                for result in self._results.values()
                for phase in result["phases"]
            ),
            default=0,
        )

    def span_ns(self) -> tuple[int, int]:
        """From the first phase's beginning to the last one's end, on this host's clock."""
        phases = [phase for one in self._results.values() for phase in one["phases"]]
        begins = [phase["start_monotonic_ns"] for phase in phases]
        return min(begins), max(one["start_monotonic_ns"] + one["wall_ns"] for one in phases)

    def _meet(self, timed: TimedPart) -> None:
        """Where all are at one gate, they go on when those of the other hosts are there, too."""
        if len(self._waiting) < len(self._configs):
            return
        (gate, phase), *others = set(self._waiting.values())
        if others:
            raise RunFailed(
                f"a process waits before {phase} in vain",
                why=f"another one is before {others[0][1]}",
                fix="Please report this.",
            )
        met = timed.meet(f"{phase}: {gate}")
        if gate == "start":
            self._common.append(met)
        self._waiting.clear()
        self.group.tell("go", at_ns=met.at_ns)


def merged(parts: Sequence[HostPart]) -> tuple[dict[str, Any], pa.Table]:
    """The result of the whole run, in the form of one process's; what each host did; RunFailed."""
    from nfslab._core import CoreError

    of_host = {part.name: read(part, Handed) for part in parts}
    try:
        result = _result([one for some in of_host.values() for one in some])
        return result, _by_host(of_host, result["start_monotonic_ns"])
    except (CoreError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unreadable("what the client hosts measured is not one run: it", error) from error


def _result(handed: Sequence[Handed]) -> dict[str, Any]:
    first, results = handed[0], [one.result for one in handed]
    order = [phase["phase"] for phase in first.result["phases"]]
    for one in handed:
        if [phase["phase"] for phase in one.result["phases"]] != order:
            raise ValueError(f"process {one.index + 1} had other phases")
        if one.common_ns != first.common_ns or len(one.common_ns) != len(order):
            raise ValueError(f"process {one.index + 1} began its phases at other instants")
    phases = [
        _phase([one["phases"][number] for one in results], common_ns)
        for number, common_ns in enumerate(first.common_ns)
    ]
    fills: dict[str, dict[str, Any]] = {}
    for fill in (fill for one in results for fill in one["fills"]):
        whole = fills.setdefault(fill["before_phase"], fill | {"bytes": 0, "wall_ns": 0})
        whole["bytes"] += fill["bytes"]
        whole["wall_ns"] = max(whole["wall_ns"], fill["wall_ns"])
    return first.result | {
        "start_monotonic_ns": first.common_ns[0] if order else first.result["start_monotonic_ns"],
        "flags": sorted({flag for one in results for flag in one["flags"]}),
        "fills": list(fills.values()),
        "phases": phases,
    }


def _phase(of: Sequence[dict[str, Any]], common_ns: int) -> dict[str, Any]:
    """One phase of all processes; its time ends with the last of them."""
    wall_ns, data_ns = (max(one[name] for one in of) for name in ("wall_ns", "data_ns"))
    late_ns = max(one["began_monotonic_ns"] - one["start_monotonic_ns"] for one in of)
    synced = [one["sync"] for one in of if one["sync"]]
    final = [one["final_sync"] for one in of if one["final_sync"]]
    caches = [one["cache"] for one in of if one["cache"]]
    resident = [one["resident_bytes"] for one in caches]
    return {
        "phase": of[0]["phase"],
        "start_monotonic_ns": common_ns,
        "began_monotonic_ns": common_ns + late_ns,
        "wall_ns": wall_ns,
        "data_ns": data_ns,
        "final_sync_ns": wall_ns - data_ns,
        "stopped_by": "time_limit" if any(one["stopped_by"] == "time_limit" for one in of)
        else "done",
        **{name: sum(int(one[name]) for one in of) for name in SUMS},
        "latency": _latency([one["latency"] for one in of]),
        "sync": {"operations": sum(one["operations"] for one in synced),
                 "total_ns": sum(one["total_ns"] for one in synced),
                 "latency": _latency([one["latency"] for one in synced])} if synced else None,
        "final_sync": {name: sum(one[name] for one in final)
                       for name in ("operations", "total_ns")} if final else None,
        "series": _series([one["series"] for one in of]),
        "errors": {name: sum(one["errors"][name] for one in of) for name in of[0]["errors"]},
        "first_mismatch": next(filter(None, (one["first_mismatch"] for one in of)), None),
        "cache": {"drop_asked": any(one["drop_asked"] for one in caches),
                  "resident_bytes": None if None in resident else sum(resident),
                  "size_bytes": sum(one["size_bytes"] for one in caches)} if caches else None,
        "workers": [worker for one in of for worker in one["workers"]],
    }  # fmt: skip


def _latency(of: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One histogram: its buckets are the sums, extremes and mean those of all values."""
    from nfslab._core import Histogram

    whole = Histogram()
    for one in of:
        whole.add(Histogram.from_v2(base64.b64decode(one["v2_base64"])))
    count = sum(int(one["count"]) for one in of)
    if whole.count != count:
        raise ValueError(f"a histogram has {whole.count} values, its processes counted {count}")
    some = [one for one in of if one["count"]]
    mean = math.fsum(one["count"] * one["mean_ns"] for one in some) / count if count else None
    squares = (one["count"] * (one["stdev_ns"] ** 2 + (one["mean_ns"] - mean) ** 2) for one in some)
    highest = max((one["max_ns"] for one in some), default=None)
    # A quantile is its bucket's upper edge, and never above the highest value.
    quantiles = {
        name: None if (found := whole.quantile(q)) is None or highest is None
        else min(found, highest)
        for name, q in QUANTILES.items()
    }  # fmt: skip
    return {
        "count": count,
        "below": sum(int(one["below"]) for one in of),
        "above": sum(int(one["above"]) for one in of),
        "min_ns": min((one["min_ns"] for one in some), default=None),
        "max_ns": highest,
        "mean_ns": mean,
        "stdev_ns": math.sqrt(math.fsum(squares) / count) if count else None,
        **quantiles,
        "relative_error": max(one["relative_error"] for one in of),
        "v2_base64": base64.b64encode(whole.to_v2()).decode(),
    }


def _series(of: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts over time, in the widest intervals that one of them has."""
    width_ns = max(one["interval_ns"] for one in of)
    sums: dict[str, list[int]] = {"bytes": [], "operations": []}
    for one in of:
        together, rest = divmod(width_ns, one["interval_ns"])
        if rest:
            raise ValueError(f"intervals of {width_ns} and {one['interval_ns']} ns do not fit")
        for name, whole in sums.items():
            counts = one[name]
            whole += [0] * (-(-len(counts) // together) - len(whole))
            for number, value in enumerate(counts):
                whole[number // together] += value
    return {"interval_ns": width_ns, "doublings": max(one["doublings"] for one in of), **sums}


def _by_host(of_host: dict[str, list[Handed]], start_ns: int) -> pa.Table:
    """A row for each phase and host."""
    import pyarrow as pa

    rows = []
    for name, handed in of_host.items():
        for number, common_ns in enumerate(handed[0].common_ns):
            of = [one.result["phases"][number] for one in handed]
            sums = [sum(int(one[key]) for one in of) for key in ("bytes", "operations", "cpu_ns")]
            late_ns = max(one["began_monotonic_ns"] - one["start_monotonic_ns"] for one in of)
            wall_ns = max(one["wall_ns"] for one in of)
            rows.append((common_ns - start_ns, name, of[0]["phase"], wall_ns, *sums, late_ns))
    numbers = ("wall_ns", "bytes", "operations", "cpu_ns", "late_ns")
    types = {"t_ns": pa.int64(), "host": pa.string(), "phase": pa.string()}
    return typed_table(rows, types | dict.fromkeys(numbers, pa.int64()))
