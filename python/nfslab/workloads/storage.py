"""One kind of work on a storage, each with one figure: what `nfslab try` compares.

Each kind of work is another workload with fixed parameters; its main figure becomes the metric
`rate` (1/s, more is better), so that one experiment can hold several kinds side by side. All
figures of the other workload are kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from nfslab.machine.availability import Availability
from nfslab.quantities import Duration
from nfslab.results.records import Metric
from nfslab.workloads.base import Workload, WorkloadParameters
from nfslab.workloads.registry import workload_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.workloads.base import Outcome, RunContext

RATE: Final = "rate"
MIB: Final = 1 << 20
FILE_BYTES: Final = 16 << 10
ENOUGH: Final = 100_000_000
"""Operations that no time limit of a run reaches."""


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of work."""

    kind: str
    """The workload that does it."""
    parameters: Mapping[str, Any]
    timed_by: str
    """Its parameter that takes the seconds."""
    metric: str
    per: float
    """So much of that metric is one of what is counted."""
    counts: str
    """What is counted, for tables and sentences."""
    unit: str = "1/s"
    """What `metric` is shown in."""


FILES: Final = {"block": 8 << 10, "final_sync": True, "drop_cache": True}
WORKS: Final[dict[str, Work]] = {
    "commit": Work(
        "files",
        FILES | {"file_size": 16 * MIB, "phases": ["log_write"], "random_operations": ENOUGH},
        "time_limit", "log_write_per_s", 1.0, "8 KiB more of a log, an fdatasync after each",
    ),
    "pgbench": Work(
        "pgbench", {"scale": 4, "clients": 4}, "duration", "tps", 1.0,
        "PostgreSQL's transactions (pgbench, 4 clients)",
    ),
    "files": Work(
        "files",
        FILES | {"file_size": 200 * FILE_BYTES, "files": 200, "block": FILE_BYTES,
                 "phases": ["block_write"]},
        "time_limit", "output_block_bytes_per_s", FILE_BYTES,
        "new files of 16 KiB, written and synced",
    ),
    "large": Work(
        "files",
        FILES | {"file_size": 64 * MIB, "block": MIB, "phases": ["block_write"]},
        "time_limit", "output_block_bytes_per_s", MIB, "a large file in MiB, written and synced",
        "bytes/s",
    ),
    "reads": Work(
        "files",
        FILES | {"file_size": 128 * MIB, "phases": ["random_read"], "random_operations": 3000},
        "time_limit", "random_read_per_s", 1.0,
        "random reads of 8 KiB, this machine's cache dropped before",
    ),
}  # fmt: skip
WorkName = Literal["commit", "pgbench", "files", "large", "reads"]


class StorageParameters(WorkloadParameters):
    """What `[workload]` may hold with `kind = "storage"`."""

    data: str
    """Role: the storage."""
    work: WorkName = "commit"
    seconds: Duration = Field(default=1.0, ge=1, le=3600)
    """Of the timed part, at most; whole ones."""


class StorageWorkload(Workload):
    """One kind of work on a storage: of the class of the workload that does it."""

    kind: ClassVar[str] = "storage"
    summary: ClassVar[str] = "one kind of work on a storage: commits, PostgreSQL, files, reads"
    Parameters: ClassVar[type[WorkloadParameters]] = StorageParameters
    roles: ClassVar[tuple[str, ...]] = ("data",)

    @classmethod
    def of(cls, parameters: WorkloadParameters) -> Workload:
        """Returns the other workload, with a rate."""
        assert isinstance(parameters, StorageParameters)
        work = WORKS[parameters.work]
        chosen = workload_class(work.kind)
        given = {"data": parameters.data, work.timed_by: round(parameters.seconds)}
        made: Workload = _rated(chosen, work)(chosen.Parameters(**work.parameters, **given))
        return made

    @classmethod
    def available(cls) -> Availability:
        """Some kind of work can always be done; `check` asks for the one that is wanted."""
        return workload_class("files").available()


def _rated(chosen: type[Workload], work: Work) -> Any:
    """The class of a workload whose main figure becomes `rate`."""

    class Rated(chosen):  # type: ignore[misc, valid-type]
        kind: ClassVar[str] = StorageWorkload.kind
        roles: ClassVar[tuple[str, ...]] = ("data",)
        has_server: ClassVar[bool] = False
        check_hosts = Workload.check_hosts

        def check_host(self, kind: str) -> Availability:
            """Its kinds of work use files on different hosts."""
            where = 'kind = "storage" runs on this machine'
            return Availability(kind == "local", where, "leave client.host")

        def measure(self, context: RunContext) -> Outcome:
            """The work; its main figure first."""
            outcome: Outcome = super().measure(context)
            value = outcome.metrics[work.metric].value / work.per
            rate = Metric(value=value, unit="1/s", better="higher", primary=True)
            for metric in outcome.metrics.values():
                metric.primary = False
            outcome.metrics = {RATE: rate, **outcome.metrics}
            return outcome

    return Rated
