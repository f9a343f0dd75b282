"""A recorded profile as evidence: tables, figures, and what makes them doubtful.

`Recorded` is what the collector knows of the recording (span, rate, /proc/stat at both ends, perf's
own cost), `Folded` what the text of perf script held. Here they become the evidence tables
`profile_stacks` and `profile_series`, and the summary that reports show without opening them.

Shares have the error of samples (`nfslab.statistics.proportions`), and /proc/stat counts in
ticks: only a difference beyond both is a note.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.profile.perf_script import BIN_NS
from nfslab.evidence.profile.perf_tool import kernel_symbols_hidden
from nfslab.evidence.profile.stacks import TABLE, Stacks, functions_of
from nfslab.machine.cpu_times import BUSY, IDLE, CpuTimes
from nfslab.machine.processes import CLOCK_TICKS_PER_S
from nfslab.statistics.proportions import share_error

if TYPE_CHECKING:
    import pyarrow as pa

    from nfslab.evidence.profile.perf_script import Folded
    from nfslab.evidence.profile.perf_tool import Grant

SERIES_TABLE: Final = "profile_series"
CLOCK_EVENT: Final = "cpu-clock"
NS_PER_S: Final = 1e9
FUNCTIONS_MOST: Final = 20
"""Functions in the summary; the table has all stacks."""
MODULES_MOST: Final = 5
ERRORS: Final = 4.0
"""Standard errors by which samples and /proc/stat may differ without a note."""
TICKS_OFF: Final = 2
"""Ticks by which the accounts of one CPU may be late at either end."""
STEAL_NOTED: Final = 0.02
UNKNOWN_NOTED: Final = 0.2
BROKEN_NOTED: Final = 0.2
FULL_SHARE: Final = 0.98
SHORT_S: Final = 0.2


@dataclass(slots=True)
class Recorded:
    """What is known of a recording beside its samples; instants on CLOCK_MONOTONIC."""

    frequency_hz: int
    call_graph: str
    grant: Grant
    begin: CpuTimes | None = None
    """/proc/stat when the event was switched on and, `end`, off."""
    end: CpuTimes | None = None
    begin_ns: int = 0
    end_ns: int = 0
    zero_ns: int = 0
    """Start of the timed part."""
    timed_end_ns: int = 0
    recording_cpu_s: float = 0.0
    """CPU time of perf record while its event was on."""
    perf_cpu_s: float = 0.0
    """CPU time of all that perf did, before and after included."""
    data_bytes: int = 0
    size_limit_bytes: int = 0
    record_counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What makes figures doubtful."""

    @property
    def window_ns(self) -> tuple[int, int]:
        """The timed part, as far as it was recorded."""
        return max(self.zero_ns, self.begin_ns), min(self.timed_end_ns, self.end_ns)

    @property
    def cpus(self) -> int:
        """CPUs of the machine; 0 when it does not tell."""
        return self.end.cpus if self.end is not None else 0

    @property
    def period_ns(self) -> int:
        """Between two samples of cpu-clock on one CPU, as the kernel computes it."""
        return int(NS_PER_S) // self.frequency_hz


def summary(folded: Folded, recorded: Recorded) -> dict[str, Any]:
    """What a report shows without opening a table; adds to `recorded.notes`."""
    event = folded.events.most_common(1)[0][0] if folded.events else ""
    begin_ns, end_ns = recorded.window_ns
    window_s = max(0, end_ns - begin_ns) / NS_PER_S
    busy = folded.window_samples - folded.window_idle_samples
    stacks = stacks_of(folded)
    idle = _idle(folded, recorded, event)
    found: dict[str, Any] = {
        "scope": recorded.grant.scope,
        "kernel": recorded.grant.kernel,
        "kernel_symbols": recorded.grant.kernel and not kernel_symbols_hidden(),
        "event": event,
        "frequency_hz": recorded.frequency_hz,
        "call_graph": recorded.call_graph,
        "cpus": recorded.cpus,
        "window_s": window_s,
        "samples": busy,
        "idle_samples": folded.window_idle_samples,
        "samples_outside": folded.samples - folded.window_samples,
        "lost_samples": max(folded.lost, recorded.record_counts.get("LOST_SAMPLES", 0)),
        "throttled": recorded.record_counts.get("THROTTLE", 0),
        **idle,
        "classes": {
            klass: {"user": user.samples, "kernel": kernel.samples}
            for klass, (user, kernel) in sorted(stacks.by_class().items())
        },
        "busiest_thread": _busiest(folded, recorded, window_s),
        "unknown_share": sum(folded.unknown.values()) / busy if busy else None,
        "unknown_modules": [
            {"module": name, "samples": count}
            for name, count in folded.unknown.most_common(MODULES_MOST)
        ],
        "broken_share": folded.broken / folded.user_stacks if folded.user_stacks else None,
        "functions": _functions(stacks),
        "perf_recording_cpu_s": recorded.recording_cpu_s,
        "perf_share_of_a_cpu": _recording_share(recorded),
        "data_bytes": recorded.data_bytes,
        "odd_lines": folded.odd_lines,
    }
    recorded.notes += _doubts(found, folded, recorded)
    found["notes"] = recorded.notes
    found["remarks"] = _remarks(found)
    return found


def tables(folded: Folded, recorded: Recorded) -> dict[str, pa.Table]:
    """Stacks of the timed part; samples over time of the whole recording."""
    import pyarrow as pa

    stacks = folded.each_stack()
    rows = [(stack, tally, ";".join((stack.process, *stack.frames))) for stack, tally in stacks]
    text = pa.dictionary(pa.int32(), pa.string())
    made = {
        TABLE: pa.table(
            {
                "t_ns": pa.array([t.first_ns - recorded.zero_ns for _, t, _ in rows], pa.int64()),
                "class": pa.array([one.klass for one, _, _ in rows]).cast(text),
                "process": pa.array([one.process for one, _, _ in rows]).cast(text),
                "stack": pa.array([name for _, _, name in rows], pa.string()),
                "frames": pa.array([len(one.frames) for one, _, _ in rows], pa.int32()),
                "kernel_frames": pa.array([one.kernel_frames for one, _, _ in rows], pa.int32()),
                "samples": pa.array([tally.samples for _, tally, _ in rows], pa.int64()),
                "weight": pa.array([tally.weight for _, tally, _ in rows], pa.int64()),
            }
        )
    }
    # A bin stands at its end, as the rates of the other collectors do.
    shift_ns = recorded.window_ns[0] - recorded.zero_ns + BIN_NS
    series = sorted(folded.series.items())
    made[SERIES_TABLE] = pa.table(
        {
            "t_ns": pa.array([key[0] * BIN_NS + shift_ns for key, _ in series], pa.int64()),
            "cpu": pa.array([key[1] for key, _ in series], pa.int32()),
            "class": pa.array([key[2] for key, _ in series], pa.string()).cast(text),
            "process": pa.array([key[3] for key, _ in series], pa.string()).cast(text),
            "user_samples": pa.array([counts[0] for _, counts in series], pa.int64()),
            "kernel_samples": pa.array([counts[1] for _, counts in series], pa.int64()),
        }
    )
    return made


def stacks_of(folded: Folded) -> Stacks:
    """The folded stacks as the results' side reads them back."""
    found = Stacks()
    found.merge(
        ((one.klass, ";".join((one.process, *one.frames)), one.kernel_frames),
         tally.samples, tally.weight)
        for one, tally in folded.each_stack()
    )  # fmt: skip
    return found


def _idle(folded: Folded, recorded: Recorded, event: str) -> dict[str, Any]:
    """How idle the CPUs were, by samples and by the kernel's accounts."""
    accounts = _accounts(recorded)
    begin_ns, end_ns = recorded.window_ns
    expected = recorded.cpus * max(0, end_ns - begin_ns) / recorded.period_ns
    clock = event.startswith(CLOCK_EVENT) and recorded.grant.scope == "machine"
    clock = clock and recorded.grant.kernel and expected > 0
    busy = folded.window_samples - folded.window_idle_samples
    found: dict[str, Any] = {
        "idle_share": accounts.get("idle"),
        "idle_by": "/proc/stat, of the whole recording" if accounts else "",
        "proc_stat": accounts,
    }
    if clock:
        found |= {"idle_share": 1 - busy / expected, "idle_by": "samples"}
        found["possible_samples"] = expected
        _compare(folded, recorded, accounts)
    return found


def _accounts(recorded: Recorded) -> dict[str, float]:
    """Shares of all CPUs' time over the recording, by /proc/stat; idle holds iowait."""
    if recorded.begin is None or recorded.end is None:
        return {}
    spent = recorded.end.since(recorded.begin)
    whole = sum(spent.values())
    if whole <= 0:
        return {}
    return {
        "busy": sum(spent[kind] for kind in BUSY) / whole,
        "idle": sum(spent[kind] for kind in IDLE) / whole,
        "iowait": spent["iowait"] / whole,
        "steal": spent["steal"] / whole,
        "whole_s": whole,
    }


def _compare(folded: Folded, recorded: Recorded, accounts: dict[str, float]) -> None:
    """Both ways of telling how busy the CPUs were have to agree; a note where they do not."""
    if not accounts or folded.first_ns is None:
        return
    expected = recorded.cpus * (recorded.end_ns - recorded.begin_ns) / recorded.period_ns
    busy = (folded.samples - folded.idle_samples) / expected
    ticks = 2 * TICKS_OFF / CLOCK_TICKS_PER_S * recorded.cpus
    room = ERRORS * share_error(busy, expected) + ticks / accounts["whole_s"]
    room += folded.lost / expected + accounts["steal"]
    if abs(busy - accounts["busy"]) > room:
        recorded.notes.append(
            f"by samples the CPUs were busy {busy:.1%} of the recording, by /proc/stat "
            f"{accounts['busy']:.1%}: more than both errors explain"
        )


def _busiest(folded: Folded, recorded: Recorded, window_s: float) -> dict[str, Any] | None:
    """The thread with most samples, and how much of one CPU it had."""
    if not folded.threads or window_s <= 0:
        return None
    (thread, process), samples = max(folded.threads.items(), key=lambda one: (one[1], one[0]))
    share = samples * recorded.period_ns / NS_PER_S / window_s
    return {"process": process, "thread": str(thread), "share_of_a_cpu": share}


def _functions(stacks: Stacks) -> list[dict[str, Any]]:
    """Functions with most weight of their own, as shares of what was not idle."""
    whole = stacks.busy().weight
    if not whole:
        return []
    return [
        {
            "function": one.name,
            "kernel": one.kernel,
            "self_share": one.self_weight / whole,
            "total_share": one.total_weight / whole,
        }
        for one in functions_of(stacks.found)[:FUNCTIONS_MOST]
        if one.self_weight
    ]


def _recording_share(recorded: Recorded) -> float | None:
    span_s = (recorded.end_ns - recorded.begin_ns) / NS_PER_S
    return recorded.recording_cpu_s / span_s if span_s > 0 else None


def _doubts(found: dict[str, Any], folded: Folded, recorded: Recorded) -> list[str]:
    """What makes the figures doubtful."""
    notes = []
    if lost := found["lost_samples"]:
        notes.append(
            f"{lost:,} records were lost (the machine was too busy to take them): shares are "
            "of what is left, and the CPUs were busier than stated"
        )
    if found["throttled"]:
        notes.append(
            f"the kernel throttled sampling {found['throttled']} times: lower "
            "collectors.profile.frequency"
        )
    if recorded.size_limit_bytes and recorded.data_bytes >= FULL_SHARE * recorded.size_limit_bytes:
        notes.append("perf.data reached its limit: what came later is missing")
    late_s = (recorded.timed_end_ns - (folded.last_ns or recorded.begin_ns)) / NS_PER_S
    if folded.idle_samples and late_s > max(SHORT_S, 10 / recorded.frequency_hz):
        notes.append(f"the last sample is {late_s:.1f} s before the end of the timed part")
    if not folded.window_samples:
        notes.append("there was no sample in the timed part")
    for table, count in sorted(folded.left_out.items()):
        notes.append(f"too many different {table}: {count:,} samples are in one entry for all")
    if folded.odd_lines:
        notes.append(f"{folded.odd_lines:,} lines of perf script could not be read")
    if folded.cut_stacks:
        notes.append(f"{folded.cut_stacks:,} stacks are deeper than could be kept")
    asked = recorded.grant.event
    if found["event"] and not found["event"].startswith(asked):
        notes.append(f"perf recorded {found['event']} where {asked} was asked for")
    if (steal := found["proc_stat"].get("steal", 0.0)) > STEAL_NOTED:
        notes.append(
            f"a hypervisor took {steal:.1%} of the CPUs' time: samples do not tell it from idle"
        )
    return notes


def _remarks(found: dict[str, Any]) -> list[str]:
    """How far the figures go, and what would make them go further."""
    said = []
    if found["scope"] == "processes":
        said.append(
            "Only this run's processes were profiled: the whole machine is not granted "
            "(root, or sysctl kernel.perf_event_paranoid=-1)."
        )
    if not found["kernel"]:
        said.append(
            "The kernel was not profiled: it is not granted "
            "(root, or sysctl kernel.perf_event_paranoid=1)."
        )
    elif not found["kernel_symbols"]:
        said.append("The kernel's functions have no names: sysctl kernel.kptr_restrict=0.")
    if (found["unknown_share"] or 0) > UNKNOWN_NOTED:
        modules = ", ".join(one["module"] for one in found["unknown_modules"])
        said.append(
            f"{found['unknown_share']:.0%} of the samples hit functions without names, most in "
            f"{modules}: install their debug symbols."
        )
    if (found["broken_share"] or 0) > BROKEN_NOTED and found["call_graph"] == "fp":
        said.append(
            f"{found['broken_share']:.0%} of the user stacks are broken above the leaf: the "
            'programs have no frame pointers; call_graph = "dwarf" reads them, at a price.'
        )
    return said
