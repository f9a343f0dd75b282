"""File access as Bonnie measured it, and what databases need: `nfslab files` as a workload.

The work is done by the command `nfslab files DIRECTORY --json`. This module turns parameters
into its options and its result into metrics, samples and checks.

Names: phases are given by the names of `nfslab files`; metrics and samples use those of
Bonnie's table, which published results are laid beside:

    char_write   output_per_char_bytes_per_s      char_read   input_per_char_bytes_per_s
    block_write  output_block_bytes_per_s         block_read  input_block_bytes_per_s
    rewrite      rewrite_bytes_per_s              seeks       random_seeks_per_s
    random_read  random_read_per_s                random_write random_write_per_s
    log_write    log_write_per_s

Rates are over the whole phase, the final fsync included where there is one (its share is
`..._final_sync_s`). CPU is user and system time of the working threads as a share of one
CPU: above 100 with several threads. Latencies are those of single operations without the
syncs; those of the syncs are `random_write_sync_...`, `log_write_sync_...`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from nfslab.errors import RunFailed
from nfslab.quantities import Duration, Size
from nfslab.results.core_tables import typed_table
from nfslab.results.records import CheckRecord, Metric
from nfslab.workloads.base import (
    Completions,
    Outcome,
    OwnCommand,
    WorkloadParameters,
    buckets_table,
    refuse_debug_build,
)

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    import pyarrow as pa

    from nfslab.workloads.base import RunContext

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
CHARACTERS: Final = frozenset({"char_write", "char_read"})
DIRECT_ALIGNMENT_BYTES: Final = 512
ASSUMED_BYTES_PER_S: Final = 100e6
ASSUMED_CHARACTERS_PER_S: Final = 50e6
ASSUMED_OPERATIONS_PER_S: Final = 500.0
NS_PER_S: Final = 1e9
NS_PER_MS: Final = 1e6


def _phases(value: object) -> object:
    """One phase, several with commas, or a list; Bonnie's names are understood as well."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        return value
    ours = {theirs: own for own, theirs in BONNIE.items()}
    return [ours.get(n.strip(), n.strip()) if isinstance(n, str) else n for n in names]


Phase = Literal[
    "char_write",
    "block_write",
    "rewrite",
    "char_read",
    "block_read",
    "seeks",
    "random_read",
    "random_write",
    "log_write",
]


class FilesParameters(WorkloadParameters):
    """What `[workload]` may hold with `kind = "files"`."""

    data: str
    """Role: the target of the files."""
    file_size: Size
    """Of all files together."""
    files: int | None = Field(default=None, ge=1, le=100_000)
    """Default: one a thread."""
    block: Size = 8192
    """One read or write."""
    threads: int = Field(default=1, ge=1, le=1024)
    direct: bool = False
    """Bypass the page cache (O_DIRECT)."""
    phases: Annotated[list[Phase] | None, BeforeValidator(_phases)] = None
    """Default: all that go with the other parameters, in Bonnie's order."""
    seeks: int = Field(default=4000, ge=1, le=1_000_000_000)
    seek_threads: int | None = Field(default=None, ge=1, le=1024)
    """Bonnie had 3; default: as many as `threads`."""
    random_operations: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Of random_read, random_write and log_write; default: as many as `seeks`."""
    sync_every: int = Field(default=1, ge=0)
    """random_write and log_write: sync after each N writes; 0: never."""
    sync_kind: Literal["fdatasync", "fsync", "dsync"] = "fdatasync"
    final_sync: bool = True
    """Writing phases end with fsync, inside their time."""
    drop_cache: bool = True
    """Reading phases begin without the files' pages in the page cache."""
    time_limit: Duration | None = None
    """Of each phase."""
    check_every: int = Field(default=64, ge=0)
    """The content of one block in N that is read is checked; 0: none."""
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    """Default: the run's own."""

    @model_validator(mode="after")
    def _combination(self) -> Self:
        if self.block < DIRECT_ALIGNMENT_BYTES or self.block % DIRECT_ALIGNMENT_BYTES:
            raise ValueError(f"block is a multiple of {DIRECT_ALIGNMENT_BYTES} bytes")
        if self.file_size < self.block or self.file_size % self.block:
            raise ValueError(f"file_size is a multiple of the block ({self.block} bytes)")
        phases = self.phases
        if phases is not None and (not phases or len(set(phases)) != len(phases)):
            raise ValueError("phases: name each at most once, and at least one")
        if self.direct and CHARACTERS & set(phases or ()):
            raise ValueError(
                "direct does not go with char_write and char_read (one byte at a time)"
            )
        if self.sync_kind == "dsync" and self.sync_every != 1:
            raise ValueError('sync_kind "dsync" syncs every write: sync_every has to be 1')
        return self

    def effective_phases(self) -> list[str]:
        """The phases that run, in order."""
        if self.phases is not None:
            return list(self.phases)
        left_out = {"log_write"} | (CHARACTERS if self.direct else frozenset())
        return [name for name in PHASES if name not in left_out]


class FilesWorkload(OwnCommand):
    """Sequential and random file access, as Bonnie and as databases do it."""

    kind: ClassVar[str] = "files"
    summary: ClassVar[str] = "sequential and random file access, as Bonnie measured it"
    Parameters: ClassVar[type[WorkloadParameters]] = FilesParameters
    roles: ClassVar[tuple[str, ...]] = ("data",)
    parameters: FilesParameters

    def estimate_s(self) -> float:
        """From modest rates; every phase is bounded by its time limit."""
        p = self.parameters
        total = 2.0
        for phase in p.effective_phases():
            if phase in COUNTED:
                count = p.seeks if phase == "seeks" else p.random_operations or p.seeks
                seconds = count / ASSUMED_OPERATIONS_PER_S
            elif phase in CHARACTERS:
                seconds = p.file_size / ASSUMED_CHARACTERS_PER_S
            else:
                seconds = p.file_size / ASSUMED_BYTES_PER_S
            total += min(seconds, p.time_limit or seconds)
        return total

    def estimate_bytes(self) -> dict[str, int]:
        """The files, and a little for what the file system needs beside them."""
        return {"data": self.parameters.file_size + self.parameters.file_size // 50 + (1 << 20)}

    def arguments(self, directory: Path, seed: int) -> list[str]:
        """The whole command; every effective value is given, so that it can be repeated."""
        p = self.parameters
        argv = [sys.executable, "-m", "nfslab", "files", str(directory), "--json"]
        argv += ["--size", str(p.file_size), "--block", str(p.block), "--threads", str(p.threads)]
        argv += ["--phases", ",".join(p.effective_phases()), "--seeks", str(p.seeks)]
        argv += ["--sync-every", str(p.sync_every), "--sync-kind", p.sync_kind]
        argv += ["--seed", str(p.seed if p.seed is not None else seed % 2**63)]
        argv += ["--check-every", str(p.check_every)]
        for option, value in (
            ("--files", p.files),
            ("--seek-threads", p.seek_threads),
            ("--random-operations", p.random_operations),
        ):
            if value is not None:
                argv += [option, str(value)]
        if p.time_limit is not None:
            argv += ["--time-limit", f"{p.time_limit:.9g}s"]
        for option, wanted in (
            ("--direct", p.direct),
            ("--no-final-sync", not p.final_sync),
            ("--keep-cache", not p.drop_cache),
        ):
            if wanted:
                argv.append(option)
        return argv

    def prepare(self, context: RunContext) -> None:
        """Nothing: the phases make their files, and what is made untimed is said."""

    def measure(self, context: RunContext) -> Outcome:
        """Run the command; its JSON becomes metrics, samples and checks."""
        argv = self.arguments(context.places["data"].path, context.seed)
        context.commands.append(argv)
        with context.timed() as part:
            printed = self.printed(context, argv, "files", part.watcher)
        result: dict[str, Any] = json.loads(printed)
        (context.logs / "files.json").write_text(printed, encoding="utf-8")
        refuse_debug_build(result["flags"])
        phases = result["phases"]
        start_ns = result["start_monotonic_ns"]
        ends_ns = (phase["start_monotonic_ns"] + phase["wall_ns"] for phase in phases)
        part.was(start_ns, max(ends_ns, default=start_ns))
        context.notes.extend(_notes(result))
        return Outcome(
            metrics=phase_metrics(phases),
            samples={
                "phases": phases_table(result),
                "series": series_table(result),
                "histograms": histograms_table(phases),
            },
            completions=completions(result),
            checks=[content_check(phases)],
        )


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


def _notes(result: dict[str, Any]) -> list[str]:
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
