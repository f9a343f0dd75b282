"""What `nfslab files` measured, as metrics, checks and tables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.results.core_tables import typed_table
from nfslab.results.records import CheckRecord, Metric
from nfslab.workloads.base import Completions, buckets_table

if TYPE_CHECKING:
    import pyarrow as pa

BONNIE: Final = {
    "char_write": "output_per_char",
    "block_write": "output_block",
    "rewrite": "rewrite",
    "char_read": "input_per_char",
    "block_read": "input_block",
    "seeks": "random_seeks",
    "random_read": "random_read",
    "random_write": "random_write",
    "log_write": "log_write",
}
"""Name of a phase here -> its name in metrics and samples."""
PHASES: Final = tuple(BONNIE)
COUNTED: Final = frozenset({"seeks", "random_read", "random_write", "log_write"})
"""Phases whose figure is operations a second; the others' is bytes a second."""
WRITING: Final = frozenset({"char_write", "block_write", "random_write", "log_write"})
"""Phases that read nothing."""
NS_PER_S: Final = 1e9
NS_PER_MS: Final = 1e6


def phase_metrics(phases: list[dict[str, Any]]) -> dict[str, Metric]:
    """The numbers of all phases; the first phase's rate is the primary one."""
    metrics: dict[str, Metric] = {}
    for phase in phases:
        name, wall_s = BONNIE[phase["phase"]], phase["wall_ns"] / NS_PER_S
        if phase["wall_ns"] <= 0:
            raise RunFailed(
                f"the phase {phase['phase']} took no time: {phase['wall_ns']} ns",
                fix="give a larger file_size (or more seeks): the clock has to see it",
            )
        if phase["phase"] in COUNTED:
            rate, unit, value = f"{name}_per_s", "1/s", phase["operations"] / wall_s
        else:
            rate, unit, value = f"{name}_bytes_per_s", "bytes/s", phase["bytes"] / wall_s
        metrics[rate] = Metric(value=value, unit=unit, better="higher", primary=not metrics)
        cpu_pct = 100 * phase["cpu_ns"] / phase["wall_ns"]
        metrics[f"{name}_cpu_pct"] = Metric(value=cpu_pct, unit="%", better="lower")
        metrics |= _latencies(name, phase["latency"])
        if phase["sync"]:
            metrics |= _latencies(f"{name}_sync", phase["sync"]["latency"])
        if phase["final_sync"]:
            final_s = phase["final_sync_ns"] / NS_PER_S
            metrics[f"{name}_final_sync_s"] = Metric(value=final_s, unit="s", better="lower")
    return metrics


def _latencies(name: str, latency: dict[str, Any] | None) -> dict[str, Metric]:
    if not latency or not latency["count"]:
        return {}
    return {
        f"{name}_{quantile}_ms": Metric(
            value=latency[f"{quantile}_ns"] / NS_PER_MS, unit="ms", better="lower"
        )
        for quantile in ("p50", "p99")
    }


def phases_table(result: dict[str, Any]) -> pa.Table:
    """One row a phase: when it was, how much it did, what it cost."""
    import pyarrow as pa

    start_ns = result["start_monotonic_ns"]
    numbers = (
        "wall_ns",
        "data_ns",
        "final_sync_ns",
        "bytes",
        "operations",
        "rewrites",
        "user_ns",
        "system_ns",
        "cpu_ns",
        "voluntary_switches",
        "involuntary_switches",
        "threads",
        "checked_blocks",
    )
    phases = result["phases"]
    columns: dict[str, Any] = {
        "t_ns": pa.array([p["start_monotonic_ns"] - start_ns for p in phases], pa.int64()),
        "phase": pa.array([BONNIE[p["phase"]] for p in phases], pa.string()),
    }
    for name in numbers:
        columns[name] = pa.array([p.get(name) for p in phases], pa.int64())
    resident = [(p["cache"] or {}).get("resident_bytes") for p in phases]
    columns["resident_before_bytes"] = pa.array(resident, pa.int64())
    columns["stopped_by"] = pa.array([p["stopped_by"] for p in phases], pa.string())
    return pa.table(columns)


def completions(result: dict[str, Any]) -> list[Completions]:
    """What each phase did in its whole intervals; a final sync completes no operation."""
    start_ns = result["start_monotonic_ns"]
    found = []
    for phase in result["phases"]:
        width_ns = phase["series"]["interval_ns"]
        counts = phase["series"]["operations"][: phase["data_ns"] // width_ns]
        found.append(Completions(phase["start_monotonic_ns"] - start_ns, width_ns, counts))
    return found


def series_table(result: dict[str, Any]) -> pa.Table:
    """Bytes and operations over time; t_ns is the beginning of an interval."""
    import pyarrow as pa

    rows: list[tuple[int, str, int, int]] = []
    for phase in result["phases"]:
        series = phase["series"]
        begin_ns = phase["start_monotonic_ns"] - result["start_monotonic_ns"]
        for number, counts in enumerate(zip(series["bytes"], series["operations"], strict=True)):
            rows.append(
                (begin_ns + number * series["interval_ns"], BONNIE[phase["phase"]], *counts)
            )
    types = {"t_ns": pa.int64(), "phase": pa.string()}
    return typed_table(rows, types | {"bytes": pa.int64(), "operations": pa.int64()})


def histograms_table(phases: list[dict[str, Any]]) -> pa.Table:
    """Buckets of all latencies; those of the syncs as a phase of their own (`..._sync`)."""
    found: list[tuple[str, Any]] = []
    for phase in phases:
        name = BONNIE[phase["phase"]]
        found.append((name, phase["latency"]))
        if phase["sync"]:
            found.append((f"{name}_sync", phase["sync"]["latency"]))
    return buckets_table((name, latency["v2_base64"]) for name, latency in found if latency)


def content_check(phases: list[dict[str, Any]]) -> CheckRecord:
    """Did what was read come back as it was written?"""
    wrong = [
        f"{phase['phase']}: {phase['errors']} (first: {phase['first_mismatch']})"
        for phase in phases
        if phase["errors"]["content_mismatches"] or phase["errors"]["short_reads"]
    ]
    checked = sum(phase["checked_blocks"] for phase in phases)
    if wrong:
        return CheckRecord(
            name="file_content",
            verdict="violation",
            message="data came back wrong: " + "; ".join(wrong),
            values={"checked_blocks": checked},
        )
    reading = [p for p in phases if p["phase"] not in WRITING]
    return CheckRecord(
        name="file_content",
        verdict="ok" if checked or not reading else "unknown",
        message=f"{checked} blocks that were read were checked, all as they were written"
        if checked
        else "no block was read and checked",
        values={"checked_blocks": checked},
    )


def notes(result: dict[str, Any]) -> list[str]:
    """What a reader has to know about these figures."""
    errors = [p["latency"]["relative_error"] for p in result["phases"] if p["latency"]]
    notes = [f"latency quantiles are at most {max(errors):.1%} too high"] if errors else []
    notes += [f"{s['phase']} was left out: {s['why']}" for s in result["skipped"]]
    notes += [f"note of the core: {flag}" for flag in result["flags"]]
    for phase in result["phases"]:
        if phase["stopped_by"] == "time_limit":
            notes.append(f"{phase['phase']} was stopped by its time limit")
        cache = phase["cache"]
        if cache and cache["drop_asked"] and cache["resident_bytes"]:
            share = cache["resident_bytes"] / max(1, cache["size_bytes"])
            notes.append(
                f"{phase['phase']}: {share:.0%} of the files was in the page cache before, "
                "although it was to be dropped"
            )
        if phase["errors"]["short_writes"]:
            notes.append(f"{phase['phase']}: {phase['errors']['short_writes']} short writes")
    return notes
