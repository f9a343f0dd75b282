"""What a kind of evidence is: tables of a run, facts computed of them once, a section of reports.

    collector ─► tables (Parquet, sealed with the run) ─► facts (typed, cached) ─► section

*Tables* are what was seen, by name, with schema, units, host and clock. *Facts* are one frozen
record a run, computed after the run is sealed and kept beside it with a version: a change of how
they are computed raises the version, and they are computed anew when they are next asked for. A
*section* is made of the facts of **all** counted runs; figures load tables of runs themselves, when
a page is written. A kind may give *panels* over the time of a run, which stand with those of all
other kinds below the run's throughput.

Outputs walk the registry; none knows a kind by name. A new kind is one folder, one line in
`registry.py`, one test file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from nfslab.results.evidence_tables import has_evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from nfslab.display.figures import Panel
    from nfslab.display.sections import Cell, Column, Section
    from nfslab.report.model import Analysis
    from nfslab.results.records import RunRecord


class Facts(BaseModel):
    """Base of a kind's facts: plain values, units in the names, None for what is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


F = TypeVar("F", bound=Facts)


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column of a table: Arrow's type by its name ("int64", "double", "string"), and its unit.

    A string may be stored as a dictionary of its values.
    """

    name: str
    type: str
    unit: str = ""
    optional: bool = False
    """Tables of earlier versions lack it."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table of evidence: evidence/<name>.parquet of a run."""

    name: str
    columns: tuple[ColumnSpec, ...]
    host: str = "client"
    """Where it was taken: the role of a host ("client", "server")."""
    clock: str = "timed"
    """Of its times. timed: ns since the start of the timed part, on the host's monotonic clock."""


@dataclass(frozen=True, slots=True)
class SealedRun:
    """A run as facts are computed of it: its folder and its record."""

    folder: Path
    record: RunRecord

    @property
    def run_id(self) -> str:
        """Its name."""
        return self.record.run_id

    def summary(self, collector: str) -> dict[str, Any]:
        """What that collector summed up; empty when it did not watch this run."""
        return next((e.summary for e in self.record.evidence if e.collector == collector), {})


@dataclass(frozen=True, slots=True)
class RunFacts(Generic[F]):
    """The facts of one counted run."""

    run: SealedRun
    point: int
    """Index of its point."""
    block: int
    label: str
    """What reports call it: "clients=10, block 2"."""
    facts: F


@dataclass(frozen=True, slots=True)
class Found(Generic[F]):
    """What a section is made of: the facts of all counted runs that have them, by point, block."""

    name: str
    """Of the experiment."""
    runs: Sequence[RunFacts[F]]
    points: Sequence[str]
    """By index of a point: what reports call it."""
    problems: Sequence[str] = ()
    """Runs whose evidence cannot be read, and why."""
    analysis: Analysis | None = None
    """All that is known of the experiment, for kinds of a workload. None: one run is looked at."""
    only: Collection[int] | None = None
    """Indices of the points that are asked for; None: all. For kinds of a workload."""


class EvidenceKind(ABC, Generic[F]):
    """A kind of evidence; see the module's text."""

    kind: ClassVar[str]
    title: ClassVar[str]
    """The section's heading."""
    tables: ClassVar[tuple[TableSpec, ...]] = ()
    Facts: ClassVar[type[Facts]]
    version: ClassVar[int] = 1
    """Of the facts. Raise it when the same tables give other facts."""
    workload: ClassVar[str] = ""
    """Kind of workload of whose points it tells, also of those without counted runs; `nfslab show`
    of such an experiment has the section. Empty: it tells of runs."""
    json_key: ClassVar[str] = ""
    """Where `report --json` has it; empty: under the kind's own name."""
    point_key: ClassVar[str] = ""
    """Where a point of `report --json` has `at_point`; empty: the table of points has nothing."""
    point_columns: ClassVar[tuple[Column, ...]] = ()
    """What it adds to the table of points: a cell of `point_cells` each."""

    def present(self, run: SealedRun) -> bool:
        """Is there such evidence of this run?"""
        return has_evidence(run.folder, *(table.name for table in self.tables))

    @abstractmethod
    def facts(self, run: SealedRun) -> F | None:
        """Computed of the tables; None: nothing to tell. ResultsError: they cannot be read."""

    @abstractmethod
    def section(self, found: Found[F]) -> Section | None:
        """What a report says of all these runs; None: nothing."""

    def at_point(self, runs: Sequence[F]) -> BaseModel | None:
        """What stands beside the estimates of a point with these runs; None: nothing is known."""
        return None

    def point_cells(self, figures: BaseModel | None) -> Sequence[Cell]:
        """`at_point` below `point_columns`."""
        return ()

    def run_section(self, run: RunFacts[F]) -> Section | None:
        """What `nfslab show` says of one run; default: the section of that run alone."""
        return self.section(Found(run.run.record.run_id, [run], [run.label] * (run.point + 1)))

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """Panels over the time of the run, x in seconds since the start of the timed part."""
        return ()

    def content(self, found: Found[F]) -> Any:
        """What `report --json` holds: of every run its facts."""
        return [
            {"run_id": one.run.run_id, "point": one.point, "block": one.block}
            | one.facts.model_dump(mode="json")
            for one in found.runs
        ]
