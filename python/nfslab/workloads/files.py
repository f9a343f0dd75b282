"""File access as Bonnie measured it, and what databases need.

The work is done by the core, in a process of its own (`files_part`). This module turns parameters
into its configuration and its result into metrics, samples and checks.

Names: phases are given by the names of the core; metrics and samples use those of
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

On several client hosts the processes of all of them are one run (`files_hosts`), in which every
phase begins together.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from nfslab.machine.availability import Availability
from nfslab.machine.own_command import of_changes
from nfslab.quantities import Duration, Size
from nfslab.workloads.base import (
    HostFigures,
    Outcome,
    OwnCommand,
    WorkloadParameters,
    refuse_debug_build,
)
from nfslab.workloads.files_part import progress_words
from nfslab.workloads.files_result import (
    BONNIE,
    COUNTED,
    PHASES,
    completions,
    content_check,
    histograms_table,
    notes,
    phase_metrics,
    phases_table,
    series_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from nfslab.context import HostPart, Share
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.files_hosts import Processes

CHARACTERS: Final = frozenset({"char_write", "char_read"})
DIRECT_ALIGNMENT_BYTES: Final = 512
PROGRAM: Final = "nfslab.workloads.files_part"
FILES_MAX: Final = 65_536
"""The core's."""
FOLDER: Final = "nfslab-files"
"""Of the processes on several client hosts, in the run's folder on the target."""
ASSUMED_BYTES_PER_S: Final = 100e6
ASSUMED_CHARACTERS_PER_S: Final = 50e6
ASSUMED_OPERATIONS_PER_S: Final = 500.0
NS_PER_S: Final = 1e9


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
    seek_rewrite_share: float = Field(default=0.1, ge=0, le=1)
    """Of the blocks sought, as Bonnie: changed and written back."""
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

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self._processes: Processes | None = None
        """On one of several client hosts."""

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

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        """Each thread of each process needs a block, as the core will say again."""
        p = self.parameters
        workers = hosts * processes * p.threads
        rounds = -(-(p.seek_threads or 1) // p.threads)
        blocks, needed = p.file_size // p.block, max(p.files or workers, workers * rounds)
        if blocks >= needed and (p.files or workers) <= FILES_MAX:
            return Availability(True)
        return Availability(
            False,
            f"{hosts} client hosts with {processes} processes of {p.threads} threads need "
            f"{needed} blocks and {p.files or workers} files, there are {blocks} blocks "
            f"and may be {FILES_MAX} files",
            "ask for fewer hosts, processes or threads, or for a larger workload.file_size",
        )

    def prepare(self, context: RunContext) -> None:
        """The processes of one of several client hosts.

        The phases make their files, and what is made untimed is said.
        """
        if context.is_part:
            from nfslab.workloads.files_hosts import Processes

            self._processes = Processes(self.part_configs(context, context.share))
            self._processes.start(context.remaining_s)

    def finish(self, context: RunContext) -> None:
        """Processes of this host go; the program has ended."""
        if self._processes is not None:
            self._processes.group.leave()

    def config(self, context: RunContext) -> dict[str, Any]:
        """What the core gets."""
        p = self.parameters
        whole = {
            "directory": str(context.places["data"].path),
            "size_bytes": p.file_size,
            "block_size_bytes": p.block,
            "phases": p.effective_phases(),
            "seed": p.seed if p.seed is not None else context.seed % 2**63,
            "time_limit_ns": None if p.time_limit is None else round(p.time_limit * NS_PER_S),
        }
        names = ("files", "threads", "direct", "seeks", "seek_threads", "random_operations",
                 "sync_every", "sync_kind", "final_sync", "drop_cache", "check_every",
                 "seek_rewrite_share")  # fmt: skip
        return whole | {name: getattr(p, name) for name in names}

    def part_configs(self, context: RunContext, share: Share) -> list[dict[str, Any]]:
        """The same in each process of this host, and which part of it that process is."""
        whole = self.config(context)
        return [
            whole | {"part": {"index": index, "of": share.of, "folder": FOLDER}}
            for index in share.indices
        ]

    def measure(self, context: RunContext) -> Outcome:
        """Run the program; its JSON becomes metrics, samples and checks."""
        if self._processes is not None:
            return self._measure_part(context, self._processes)
        with context.timed() as part:
            printed = self.printed(context, PROGRAM, self.config(context), "files", part.watcher)
        (context.logs / "files.json").write_text(printed, encoding="utf-8")
        return self._outcome(context, json.loads(printed))

    def merge(self, context: RunContext, parts: Sequence[HostPart]) -> Outcome:
        """Sums of what all processes handed over."""
        from nfslab.workloads.files_hosts import merged

        result, by_host = merged(parts)
        (context.logs / "files.json").write_text(json.dumps(result), encoding="utf-8")
        outcome = self._outcome(context, result)
        outcome.samples["phases_by_host"] = by_host
        first = result["phases"][0]["phase"]
        outcome.by_host = {
            row["host"]: HostFigures(row["operations"])
            for row in by_host.to_pylist()
            if row["phase"] == first
        }
        return outcome

    def _measure_part(self, context: RunContext, processes: Processes) -> Outcome:
        """The phases of this host's processes, with those of the others; their results are kept."""
        tell = of_changes(context.say)
        with context.timed() as part:
            begun_ns = part.start_ns or 0
            handed = processes.run(
                part, context.remaining_s, lambda state: tell(progress_words(state))
            )
            # The phase that was late the most counts.
            part.began(max(part.began_ns or 0, begun_ns + processes.late_ns()))
        context.timed.was(*processes.span_ns())
        for one in handed:
            refuse_debug_build(one.result["flags"])
        phases = [phase for one in handed for phase in one.result["phases"]]
        return Outcome(metrics={}, checks=[content_check(phases)], handed=handed)

    def _outcome(self, context: RunContext, result: dict[str, Any]) -> Outcome:
        """Metrics, samples and checks."""
        refuse_debug_build(result["flags"])
        phases = result["phases"]
        start_ns = result["start_monotonic_ns"]
        ends_ns = (phase["start_monotonic_ns"] + phase["wall_ns"] for phase in phases)
        context.timed.was(start_ns, max(ends_ns, default=start_ns))
        context.notes.extend(notes(result))
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
