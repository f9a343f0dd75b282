"""From what was found to a sealed run: its checks, its record, and storing it.

A run is stored whole, or as failed without its tables when there is no room for them, or
as failed without its logs. When not even that can be stored, going on with the experiment
makes no sense: `ResultsError`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab.errors import ResultsError, RunFailed
from nfslab.experiment.failure import Failure, keep_traceback, reason_of
from nfslab.experiment.planted import planted_latency
from nfslab.experiment.validity import Clocks, validity_checks
from nfslab.results.records import (
    CatalogueLine,
    CheckRecord,
    HostRecord,
    LoadShape,
    Metric,
    PhaseRecord,
    PlaceRecord,
    RunHostRecord,
    RunRecord,
)

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.watching import Watching
    from nfslab.results.records import ExperimentRecord
    from nfslab.results.store import ExperimentFolder, PartialRun
    from nfslab.targets.base import Place
    from nfslab.workloads.base import Outcome, RunContext

NOTES_MAX = 200
"""Notes kept of one run."""


@dataclass(slots=True)
class Findings:
    """What has been learnt of a run so far; survives its failure."""

    phases: list[PhaseRecord] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    """Role -> where it was."""
    context: RunContext | None = None
    outcome: Outcome | None = None
    checks: list[CheckRecord] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    hosts: dict[str, HostRecord] = field(default_factory=dict)
    client_hosts: list[RunHostRecord] = field(default_factory=list)
    """Several that made the load together."""
    server_host: RunHostRecord | None = None
    """Where the servers were, if not on this machine."""
    places_there: dict[str, PlaceRecord] = field(default_factory=dict)
    """Role -> where it was on them, as the first of them told; before those of this machine."""
    page_cache: dict[str, Any] = field(default_factory=dict)
    others_during: float | None = None
    """Share of all processors that programs had which are not the run's; None: not known."""
    memory_limit: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failure: Failure | None = None
    primary: str | None = None
    """The metric that the experiment wants to be shown first."""

    def metrics(self) -> dict[str, Metric]:
        """The metrics, the one that is wanted first marked as primary."""
        metrics = dict(self.outcome.metrics) if self.outcome else {}
        if self.primary is None or self.primary not in metrics:
            return metrics
        return {
            name: metric.model_copy(update={"primary": name == self.primary})
            for name, metric in metrics.items()
        }

    def fail_before(self, cause: Failure) -> None:
        """What was found later and happened before: another failure becomes a note on it."""
        later, self.failure = self.failure, cause
        if later is not None:
            self.fail(later)

    def fail(self, failure: Failure) -> None:
        """The first failure counts; a later one becomes a note."""
        if self.failure is None:
            self.failure = failure
        else:
            self.notes.append(f"afterwards, in {failure.phase}: {failure.reason}")


@dataclass(frozen=True, slots=True)
class Sealing:
    """Everything that is needed to store one run."""

    folder: ExperimentFolder
    experiment: ExperimentRecord
    run: PlannedRun
    position: int
    found: Findings
    watching: Watching
    load: LoadShape | None
    started_unix_ns: int
    duration_ns: int

    def check(self, clocks: Clocks, logs: Path) -> None:
        """Add the validity checks; one that breaks down does not cost the measurement."""
        found = self.found
        setup = self.run.point.setup
        found.checks += planted_latency(setup)
        workload, client = setup.resolved()["workload"], setup.client
        processes = max(len(client.host_names), 1) * client.processes
        try:
            found.checks += validity_checks(
                found.outcome, self.load, self.watching.evidence, found.provenance, clocks,
                threads=max(int(workload.get("threads") or 1), 1) * processes,
                others_during=found.others_during,
            )  # fmt: skip
        except Exception as error:
            keep_traceback(error, logs, "validity")
            message = f"the validity checks broke down: {reason_of(error)}"
            found.checks.append(CheckRecord(name="validity", verdict="unknown", message=message))

    def store(self, partial: PartialRun) -> CatalogueLine:
        """Seal the run, whole or as failed; `ResultsError` when nothing can be stored."""
        try:
            if self.found.outcome is not None:
                for name, table in self.found.outcome.samples.items():
                    partial.write_table("samples", name, table, self.found.hosts.get("client"))
            self.watching.write(partial, self._sides())
            return partial.seal(self.record(), self.found.provenance)
        except RunFailed as error:
            self.found.fail(Failure(reason_of(error), "seal"))
        self.found.outcome = None
        self.watching.forget_tables()
        with contextlib.suppress(RunFailed):
            _remove_tables(partial)
            return partial.seal(self.record(), self.found.provenance)
        partial.discard()
        again = self.folder.begin_run(self.run.run_id)
        try:
            return again.seal(self.record(), self.found.provenance)
        except RunFailed as error:
            again.discard()
            raise ResultsError(
                "the results folder cannot take any more runs", why=error.why, fix=error.fix
            ) from error

    def _sides(self) -> dict[str, HostRecord]:
        """The hosts, as collectors name them."""
        hosts, context = self.found.hosts, self.found.context
        if context is None or context.files_on not in hosts:
            return hosts
        return hosts | {"files": hosts[context.files_on]}

    def record(self) -> RunRecord:
        """Everything about the run except its raw samples."""
        point, found = self.run.point, self.found
        context, failure, metrics = found.context, found.failure, found.metrics()
        notes = [*found.notes, *(context.notes if context else [])]
        if found.primary is not None and metrics and found.primary not in metrics:
            notes.append(f"there is no metric {found.primary!r} in this run ([experiment] primary)")
        places = {role: place.record() for role, place in found.places.items()}
        places |= found.places_there
        durability = None
        if places:
            from nfslab.storage.durability import weakest

            durability = weakest(place.durability for place in places.values())
        return RunRecord(
            run_id=self.run.run_id,
            experiment=self.experiment.name,
            identity=self.experiment.identity,
            point_id=point.point_id,
            point_index=point.index,
            block=self.run.block,
            position=self.position,
            attempt=self.run.attempt,
            factors=point.factors,
            settings=point.settings,
            parameters=point.setup.resolved(),
            status="failed" if failure else "ok",
            reason=failure.reason if failure else "",
            failure_phase=failure.phase if failure else "",
            started_unix_ns=self.started_unix_ns,
            duration_ns=self.duration_ns,
            phases=found.phases,
            metrics=metrics,
            checks=found.checks,
            places=places,
            hosts=found.hosts,
            client_hosts=found.client_hosts,
            server_host=found.server_host,
            load=self.load,
            operations=found.outcome.operations if found.outcome else "",
            durability=durability,
            page_cache=found.page_cache,
            memory_limit=found.memory_limit,
            evidence=self.watching.records,
            notes=notes[:NOTES_MAX],
            commands=context.commands if context else [],
        )


def _remove_tables(partial: PartialRun) -> None:
    """Give the room of the tables back; the logs stay, they may tell why it failed."""
    for folder in (partial.samples, partial.evidence):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                path.unlink()
