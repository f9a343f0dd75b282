"""Offered load on an NFS server, as SPEC SFS made it.

The target is an export that is not mounted (kind "nfs" with `client = "none"`): the workload is
the client, in a process of its own (`offered.measuring`). Its file set is made before the timed
part, once for a server that stays.

A point that does not count (an unexpected answer, a server that went away, a generator that was
itself the limit) fails the run: a reader must never take the generator's limit for the server's.

Time zero of samples and evidence is the load's start, its warm-up included; metrics are of the
measured window behind it: `achieved_ops_per_s`; `arrived_ops_per_s` (open load only);
`response_mean_ms` and quantiles, from the planned instant of an operation (open load) or its
sending (closed); `saturated`: 1 or 0, as `nfslab.statistics.load_curve` defines it.

On several client hosts the generator processes of all of them are one point (`offered.hosts`):
each host runs its own, connected before the common start, and keeps what they handed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from nfslab.errors import RunFailed, UsageError, of_core
from nfslab.machine.availability import Availability
from nfslab.machine.emulation import is_emulated
from nfslab.machine.own_command import of_changes
from nfslab.offered.measuring import histograms, progress_words
from nfslab.offered.plans import PARTS_MAX, Load, Mounted, Point
from nfslab.quantities import Duration, Size
from nfslab.results import emulation
from nfslab.results.records import LoadShape
from nfslab.workloads.base import (
    HostFigures,
    Outcome,
    OwnCommand,
    WorkloadParameters,
    refuse_debug_build,
)
from nfslab.workloads.sfs_point import (
    completions,
    histograms_table,
    operations_table,
    point_checks,
    point_metrics,
    series_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from nfslab.context import HostPart
    from nfslab.mounts.none import NfsExport
    from nfslab.offered.mixes import Mix
    from nfslab.offered.processes import Generators
    from nfslab.workloads.base import RunContext

MOUNTS: Final = ("data", "data_2", "data_3", "data_4")
"""Roles: a mount each."""
PROGRAM: Final = "nfslab.offered.measuring"
ASSUMED_BYTES_PER_S: Final = 50e6
CALLS: Final = "calls.parquet"
"""In the logs, where every call is recorded."""
CALLS_ROOM: Final = 1 << 18
"""Of them, between two looks."""


class SfsParameters(WorkloadParameters):
    """What `[workload]` may hold with `kind = "sfs"`."""

    data: str
    """Role: the target, an export that is not mounted."""
    data_2: str | None = None
    """Roles: more of them, which share load and file set evenly."""
    data_3: str | None = None
    data_4: str | None = None
    load: float = Field(gt=0, le=1e9)
    """Offered operations a second."""
    mix: str = "sfs3"
    """A mix that comes with nfslab, or the path of a file of one's own."""
    mix_table: dict[str, Any] | None = None
    """A mix of one's own, in the experiment file: the tables of a mix's file."""
    mode: Literal["open", "closed"] = "open"
    """Arrivals that do not wait for answers; or processes that do."""
    arrivals: Literal["poisson", "uniform"] = "poisson"
    """Open load."""
    outstanding: int = Field(default=1024, ge=1, le=65536)
    """Open load: operations under way at once."""
    clients: int = Field(default=1, ge=1, le=65536)
    """Closed load."""
    processes: int = Field(default=4, ge=1, le=65536)
    """Closed load: on each client, one operation under way each."""
    think: Literal["exponential", "constant", "saturated"] = "exponential"
    """Closed load: between two operations of a process."""
    warm_up: Duration = Field(default=10.0, ge=0)
    duration: Duration = Field(default=30.0, gt=0)
    """Of the measured window."""
    cool_down: Duration = Field(default=0.0, ge=0)
    threads: int = Field(default=1, ge=1, le=256)
    """Generator threads, each with its own connections, of each generator process."""
    generators: int = Field(default=1, ge=1, le=256)
    """Generator processes, each with its share of the offered load."""
    files: int | None = Field(default=None, ge=1)
    """Files of the set, instead of a size by the offered load."""
    bytes_per_op: Size | None = None
    """Bytes of the set for each offered operation a second, instead of the mix's."""
    verify_share: float = Field(default=0.05, ge=0, le=1)
    """Share of READs whose data is compared."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Of the file set; what is drawn from it differs from run to run by the run's own."""
    silence: Duration | None = Field(default=None, gt=0)
    """Without any answer, until a server counts as gone; default: 30 s."""
    calibration: bool = False
    """The server is a null store: any name is a file."""
    calls: bool = False
    """Record every call of the one generator process."""

    @model_validator(mode="after")
    def _combination(self) -> Self:
        if self.files is not None and self.bytes_per_op is not None:
            raise ValueError("files and bytes_per_op exclude each other")
        if self.calls and self.generators > 1:
            raise ValueError("calls are recorded of one generator process")
        try:
            self.whole_mix()
        except UsageError as error:
            raise ValueError("; ".join(error.lines())) from error
        return self

    def whole_mix(self) -> Mix:
        """The mix; UsageError."""
        from nfslab.offered.mixes import mix_of, read_mix

        return read_mix(self.mix) if self.mix_table is None else mix_of("own", self.mix_table)

    def point(self, mounts: Sequence[Mounted], repetition: int, *, calibration: bool) -> Point:
        """What is planned on these exports; other arrivals and operations for each repetition."""
        names = ("mode", "arrivals", "outstanding", "clients", "processes", "think")
        return Point(
            mounts,
            self.whole_mix(),
            Load(self.load, **{name: getattr(self, name) for name in names}),
            warm_up_s=self.warm_up,
            measure_s=self.duration,
            cool_down_s=self.cool_down,
            # A thread has one mount.
            threads=max(self.threads, len(mounts)),
            seed=self.seed,
            repetition=repetition,
            verify_share=self.verify_share,
            files=self.files,
            bytes_per_op_per_s=self.bytes_per_op,
            silence_limit_s=self.silence,
            record_calls=CALLS_ROOM if self.calls else 0,
            calibration=self.calibration or calibration,
        )


class SfsWorkload(OwnCommand):
    """NFS operations at an offered load."""

    kind: ClassVar[str] = "sfs"
    summary: ClassVar[str] = "NFS operations at an offered load, as SPEC SFS made them"
    Parameters: ClassVar[type[WorkloadParameters]] = SfsParameters
    roles: ClassVar[tuple[str, ...]] = MOUNTS
    parameters: SfsParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self._generators: Generators | None = None
        """On one of several client hosts: its processes."""

    def load_shape(self) -> LoadShape:
        """Open: operations at their own instants; closed: each client waits for its answer."""
        p = self.parameters
        if p.mode == "open":
            return LoadShape(kind="open", clients=p.outstanding, rate_per_s=p.load)
        return LoadShape(kind="closed", clients=p.clients * p.processes)

    def estimate_s(self) -> float:
        """The load's own time, and making its files."""
        p = self.parameters
        return p.warm_up + p.duration + p.cool_down + 3 + self._set_bytes() / ASSUMED_BYTES_PER_S

    def estimate_bytes(self) -> dict[str, int]:
        """The file set, what it may grow, and a little for names."""
        roles = self.mounts()
        return {role: round(self._set_bytes() * 1.15 / len(roles)) + (16 << 20) for role in roles}

    def mounts(self) -> list[str]:
        """The roles that are given."""
        return [role for role in MOUNTS if getattr(self.parameters, role) is not None]

    def _set_bytes(self) -> float:
        p = self.parameters
        file_set = p.whole_mix().content["file_set"]
        files = p.files or (None if p.bytes_per_op else file_set.get("files"))
        if files is None:
            return float(p.bytes_per_op or file_set.get("bytes_per_op_per_s") or 0) * p.load
        sizes = {float(size): part for size, part in file_set["file_sizes_bytes"].items()}
        mean = sum(size * part for size, part in sizes.items()) / sum(sizes.values())
        return float(files * mean)

    def prepare(self, context: RunContext) -> None:
        """Make the file set."""
        if context.is_part:
            self._prepare_part(context)
            return
        asked = self._asked(context) | {"prepare_only": True}
        self.printed(context, PROGRAM, asked, "file set")

    def measure(self, context: RunContext) -> Outcome:
        """Run the program; its JSON becomes metrics, samples and checks."""
        if self._generators is not None:
            return self._measure_part(context, self._generators)
        asked = self._asked(context)
        with context.timed() as part:
            text = self.printed(context, PROGRAM, asked, "offered load", part.watcher)
        return self._outcome(context, json.loads(text), is_emulated())

    def finish(self, context: RunContext) -> None:
        """Generator processes of this host go; the program has ended."""
        if self._generators is not None:
            self._generators.close()

    def check_exports(self, others: Sequence[str]) -> Availability:
        """It is the client itself."""
        if not others:
            return Availability(True)
        return Availability(
            False,
            f"target {others[0]!r} is no export that the workload could load: the workload sfs "
            "speaks NFS itself, it needs no mount",
            f'[targets.{others[0]}] kind = "nfs", client = "none"',
        )

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        """Each generator process needs a part of the load."""
        p, of = self.parameters, hosts * processes
        if p.calls:
            return Availability(
                False, "calls are recorded of one generator process", "leave out workload.calls"
            )
        if p.generators != 1:
            return Availability(
                False,
                "workload.generators are the generator processes of a load from one host",
                "say client.processes instead: those on each of the client hosts",
            )
        if of > PARTS_MAX:
            return Availability(
                False, f"{hosts} client hosts with {processes} processes are {of:,} processes",
                f"ask for fewer hosts or processes: {PARTS_MAX:,} make one load at most",
            )  # fmt: skip
        at_once = p.outstanding if p.mode == "open" else p.clients * p.processes
        if at_once < of * p.threads:
            return Availability(
                False,
                f"{hosts} client hosts with {processes} processes of {p.threads} threads are "
                f"{of * p.threads}, the load has {at_once} operations at once",
                "ask for fewer hosts, processes or threads, or for more of workload."
                + ("outstanding" if p.mode == "open" else "clients or workload.processes"),
            )
        return Availability(True)

    def connections(self, processes: int) -> int:
        """Of each host: its threads', each with one mount."""
        return processes * max(self.parameters.threads, len(self.mounts()))

    def merge(self, context: RunContext, parts: Sequence[HostPart]) -> Outcome:
        """The core adds up what all generator processes handed over."""
        from nfslab.offered.hosts import merged

        point, load, by_host = merged(parts)
        point["histograms"] = histograms(load)
        emulated = any(emulation.is_stamped_by(part.record.checks) for part in parts)
        outcome = self._outcome(context, point, emulated)
        outcome.by_host = {
            name: HostFigures(one.answered, one.mean_ns, one.planned_share)
            for name, one in by_host.items()
        }
        return outcome

    def _prepare_part(self, context: RunContext) -> None:
        """The generator processes of this host, and their file set."""
        from nfslab._core import CoreError
        from nfslab.offered.processes import Generators

        plan, share = self._point(context).plan(), context.share
        tell = of_changes(context.say)

        def progress(state: dict[str, Any]) -> None:
            context.remaining_s()
            tell(progress_words(state))

        try:
            self._generators = Generators(plan, share.indices, share.of, progress)
        except CoreError as error:
            raise of_core(error) from error
        with context.phase("file set"):
            self._generators.prepare()

    def _measure_part(self, context: RunContext, generators: Generators) -> Outcome:
        """Their load from the common start on; what they handed over is kept."""
        from nfslab.offered.hosts import handed_over
        from nfslab.offered.processes import START_S

        generators.connect()
        with context.timed(lead_s=START_S) as part:
            assert part.start_ns is not None
            generators.run(part.start_ns)
        begins = [one.began_ns for one in generators.parts if one.began_ns is not None]
        if len(begins) == len(generators.parts):
            part.began(max(begins))
        plan = self._point(context).plan()
        handed = [handed_over(part, plan) for part in generators.parts]
        return Outcome(metrics={}, handed=handed)

    def _outcome(self, context: RunContext, point: dict[str, Any], emulated: bool) -> Outcome:
        """Metrics, samples and checks of a point."""
        stored = {key: value for key, value in point.items() if key != "histograms"}
        text = json.dumps(stored, indent=1)
        (context.logs / "sfs.json").write_text(text, encoding="utf-8")
        refuse_debug_build(point.get("flags", []))
        context.timed.was(point["start_monotonic_ns"], point["window_end_ns"])
        context.notes.extend(point["notes"])
        return Outcome(
            metrics=point_metrics(point),
            samples={
                "series": series_table(point),
                "histograms": histograms_table(point["histograms"]),
                "operations": operations_table(point),
            },
            completions=[completions(point)],
            checks=point_checks(point, emulated=emulated),
        )

    def _exports(self, context: RunContext) -> list[NfsExport]:
        """Of all mounts; RunFailed where a target is none."""
        exports = context.services.nfs_exports
        targets = [context.places[role].target for role in self.mounts()]
        usable = self.check_exports([target for target in targets if target not in exports])
        if not usable.ok:
            raise RunFailed(usable.reason, fix=usable.fix)
        return [exports[target] for target in targets]

    def _point(self, context: RunContext) -> Point:
        """What is planned in this run, where all generator processes are one load."""
        exports = self._exports(context)
        return self.parameters.point(
            [Mounted(export.source, ",".join(export.options)) for export in exports],
            context.seed % 2**63,
            calibration=any(export.is_calibration for export in exports),
        )

    def _asked(self, context: RunContext) -> dict[str, Any]:
        """Of the program."""
        return {
            "plan": self._point(context).plan(),
            "generators": self.parameters.generators,
            "calls": str(context.logs / CALLS) if self.parameters.calls else None,
            "prepare_only": False,
        }
