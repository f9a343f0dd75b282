"""The records of a results folder: the contract between measuring and understanding.

Everything after a run works from these files alone, on another machine, years later.
A record carries its schema version; `nfslab.results.upgrade` brings older ones up to
date, and a newer one is refused with a clear message (never half understood).

    RESULTS/<name>-<identity>/
        experiment.json     ExperimentRecord: the plan, the seed, the machine it began on
        experiment.toml     the file as it was given, byte for byte
        catalogue.jsonl     one CatalogueLine a sealed run; a cache, rebuilt when missing
        runs/<run id>/      sealed by rename: it is whole or it is not there
            run.json        RunRecord
            provenance.json the machine, its load before the start, versions, mounts
            samples/*.parquet    raw samples in the order in which they were measured
            evidence/*.parquet   what the collectors saw; evidence/<collector>.json sums up
            logs/*.log           what servers and programs said
            hosts/<name>/        of several client hosts: the same of each, as it sealed it
        runs/.partial-<run id>/  a run under way or cut off: never counted

Units are in the names. Times are integer nanoseconds since the epoch (`_unix_ns`) or of
the monotonic clock (`_ns` durations).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

RunStatus = Literal["ok", "failed"]
Verdict = Literal["ok", "warning", "violation", "unknown"]
Better = Literal["higher", "lower"]
Level = Literal["stable", "volatile", "unknown"]


class Record(BaseModel):
    """Base of all records: unknown fields are kept, so that nothing written is lost."""

    model_config = ConfigDict(extra="allow")


class Metric(Record):
    """One number of a run, with what it means."""

    value: float
    unit: str
    better: Better | None = None
    """Direction of improvement; None for a number that is neither good nor bad."""
    primary: bool = False
    """The metric that a report shows first; a workload marks exactly one."""


EARLIER_CHECKS: Final = {
    "competing_load": "busy_machine", "dead_time": "stall", "steady_state": "not_steady",
}  # fmt: skip
"""Names of checks in results made before -> now."""


def _named_now(check: str) -> str:
    """The check's name, or "name:verdict", as it is called now."""
    name, *verdict = check.split(":", 1)
    return ":".join([EARLIER_CHECKS.get(name, name), *verdict])


CheckName = Annotated[str, AfterValidator(_named_now)]


class CheckRecord(Record):
    """The outcome of one validity check on one run."""

    name: CheckName
    verdict: Verdict
    message: str
    values: dict[str, Any] = Field(default_factory=dict)


class DurabilityRecord(Record):
    """Does an fsync that returned mean that the data survives a loss of power?"""

    level: Level
    reasons: list[str] = Field(default_factory=list)


class PlaceRecord(Record):
    """Where a target's data really was, with the options in effect."""

    target: str
    kind: str
    path: str
    filesystem: str
    source: str
    mount_point: str
    mount_options: str
    """Options in effect, as the kernel states them in /proc/self/mountinfo."""
    devices: list[str] = Field(default_factory=list)
    """Block devices below it (names of /sys/block), for the evidence per device."""
    durability: DurabilityRecord
    facts: dict[str, Any] = Field(default_factory=dict)
    """What else the target knows: chunk size, number of devices, read-back settings."""


class PhaseRecord(Record):
    """One phase of a run: when it began (wall clock) and how long it took (monotonic)."""

    name: str
    """A phase within another one names both: "prepare/load"."""
    start_unix_ns: int
    duration_ns: int


class ClockRecord(Record):
    """A host's monotonic clock against that of the machine that nfslab ran on."""

    offset_ns: int = 0
    """The host's clock minus ours."""
    error_ns: int = 0
    """At most so wrong; 0 where it is the same kernel's clock."""


class HostRecord(Record):
    """Where programs of a run were."""

    name: str = "local"
    kind: str = "local"
    clock: ClockRecord = Field(default_factory=ClockRecord)
    facts: dict[str, Any] = Field(default_factory=dict)
    """Kernel, addresses."""


class RunHostRecord(HostRecord):
    """One of the hosts that made a run together: a client host, or the servers'."""

    address: str = ""
    """At which the others reached it."""
    folder: str = ""
    """What it sealed of its part, in the run's folder: hosts/NAME."""
    setup: str = ""
    """Digest of the machine and its software."""
    processes: int = 1
    """Of the workload."""
    clock_after: ClockRecord = Field(default_factory=ClockRecord)
    """Compared again behind the timed part; `clock` is from before."""
    drift_ppm: float | None = None
    """How much faster its clock went than ours."""
    skew_ns: int | None = None
    """When its programs began, by their own account, behind the common start, on our clock."""
    t0_ns: int = 0
    """Where t = 0 of its own tables is on the run's axis, as well as the clocks were compared."""
    silence_ns: int = 0
    """The longest that it gave no sign of life while it measured."""
    cpu_busy: float | None = None
    """Share of all its processors, of the timed part."""
    operations: float | None = None
    share: float | None = None
    """Of the operations of all hosts."""
    planned_share: float | None = None
    """The same as it was to be."""
    mean_latency_ns: float | None = None

    @property
    def clock_meanwhile(self) -> ClockRecord:
        """As it stood between both comparisons: as before, wrong by as much more as it went."""
        went_ns = abs(self.clock_after.offset_ns - self.clock.offset_ns)
        clock = self.clock
        return ClockRecord(offset_ns=clock.offset_ns, error_ns=clock.error_ns + went_ns)


class LoadShape(Record):
    """How a workload offers its load."""

    kind: Literal["closed", "open"]
    """Closed: each client waits for its answer. Open: operations begin at a rate of their own."""
    clients: int | None = None
    """Clients, each with one operation at a time; in an open load the most at once, if bounded."""
    rate_per_s: float | None = None
    """Operations a second that an open load offers."""


class EvidenceRecord(Record):
    """What a collector left behind, and what its watching cost."""

    collector: str
    status: Literal["ok", "incomplete", "unavailable", "failed", "moot"] = "ok"
    """Of an "incomplete" one some is missing, as `reason` tells."""
    reason: str = ""
    tables: list[str] = Field(default_factory=list)
    """Paths of its Parquet files, relative to the run's folder."""
    summary: dict[str, Any] = Field(default_factory=dict)
    cpu_s: float | None = None
    """CPU seconds the collector itself used while it watched; None when not known."""
    wall_s: float | None = None


class RunRecord(Record):
    """Everything about one run except its raw samples and evidence tables."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    experiment: str
    identity: str
    point_id: str
    point_index: int
    block: int
    """0-based: the k-th repetition of every point forms block k."""
    position: int
    """0-based place in the order in which the experiment was carried out."""
    attempt: int = 1
    factors: dict[str, Any]
    """Axis name -> level shown to people (the label where there is one)."""
    settings: dict[str, Any]
    """Parameter path -> value, for every parameter that an axis sets."""
    parameters: dict[str, Any]
    """The fully resolved experiment at this point: targets, workload, limits, collectors."""
    status: RunStatus
    reason: str = ""
    """Why it failed: what / why / fix, as printed."""
    failure_phase: str = ""
    started_unix_ns: int
    duration_ns: int
    phases: list[PhaseRecord] = Field(default_factory=list)
    metrics: dict[str, Metric] = Field(default_factory=dict)
    checks: list[CheckRecord] = Field(default_factory=list)
    places: dict[str, PlaceRecord] = Field(default_factory=dict)
    """Role (data, wal, ...) -> where it was."""
    hosts: dict[str, HostRecord] = Field(default_factory=dict)
    """"client", "server" -> where it was; of older runs: this machine."""
    client_hosts: list[RunHostRecord] = Field(default_factory=list)
    """Several hosts that made the load together; empty: the client was one."""
    server_host: RunHostRecord | None = None
    """Where the servers of these were; None: the machine that nfslab ran on."""
    load: LoadShape | None = None
    """None: not known of this workload."""
    operations: str = ""
    """Which of its samples has one row an operation; "": none has."""
    durability: DurabilityRecord | None = None
    """The weakest durability among the places."""
    page_cache: dict[str, Any] = Field(default_factory=dict)
    """{"dropped": "all" | "files" | "no", "reason": ...}"""
    memory_limit: dict[str, Any] = Field(default_factory=dict)
    evidence: list[EvidenceRecord] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """What a reader has to know: a copy was restored, a default was taken, ..."""
    commands: list[list[str]] = Field(default_factory=list)
    """Programs as started (argv), so that a person can do the same by hand."""


class PointRecord(Record):
    """One combination of the axes."""

    point_id: str
    index: int
    factors: dict[str, Any]
    settings: dict[str, Any]


class AxisRecord(Record):
    """One axis of the matrix as resolved."""

    name: str
    parameters: list[str]
    levels: list[Any]
    """What people see on the axis, in order: labels, or the values themselves."""
    values: list[list[Any]]
    """Per level: one value for each parameter."""
    numeric: bool
    unit: str = ""


class Stopping(Record):
    """Blocks are added until the comparisons of the primary metric are narrow."""

    at_least: int
    at_most: int
    """Blocks."""
    until: float
    """Share of the ratio: its upper bound over itself, minus 1, of the widest interval."""


class ExperimentRecord(Record):
    """What was planned, from which file, with which seed, on which machine."""

    schema_version: int = SCHEMA_VERSION
    name: str
    title: str = ""
    description: str = ""
    identity: str
    """SHA-256 (hex) of the resolved experiment; the folder's suffix is its beginning."""
    seed: int
    order: Literal["blocks", "fixed"]
    repetitions: int
    """Blocks: those asked for, with `stopping` those decided on so far."""
    stopping: Stopping | None = None
    """None: a number of repetitions that was given."""
    axes: list[AxisRecord]
    points: list[PointRecord]
    excluded: int = 0
    resolved: dict[str, Any]
    """The whole file after --set, defaults filled in."""
    reference: dict[str, Any] = Field(default_factory=dict)
    """The published table to lay beside the results (see docs/guide)."""
    created_unix_ns: int
    command: list[str] = Field(default_factory=list)
    """The command that runs it again."""
    nfslab_version: str
    nfslab_commit: str = ""
    machine: dict[str, Any] = Field(default_factory=dict)
    """Kernel release, CPU model, memory: the fingerprint a resume is checked against."""
    file_crc32: str = ""
    """CRC-32 of the experiment file beside it; empty: made before there was one."""


class CatalogueLine(Record):
    """One sealed run, short: what `list`, `compare` and the report's tables need."""

    run_id: str
    point_id: str
    block: int
    position: int
    attempt: int
    status: RunStatus
    reason: str = ""
    factors: dict[str, Any]
    metrics: dict[str, float]
    flags: list[CheckName] = Field(default_factory=list)
    """Names of checks that did not come out "ok", as "name:verdict"."""
    durability: Level = "unknown"
    setup: str = ""
    """Digest of what was in effect (mounts, machine, versions): equal in equal setups."""
    started_unix_ns: int
    duration_ns: int
