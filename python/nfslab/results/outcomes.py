"""The runs of one experiment as columns, and what its metrics mean.

The one place between the catalogue and everything that computes or shows: the Python API,
SQL queries, comparisons and the reports all take their values from here, so that one run
counts the same everywhere: it is ok, it is the newest attempt of its (point, block), and
its point is one that the experiment plans.

The catalogue holds bare numbers. What a metric means (unit, direction, whether it is the
primary one) is read from the `run.json` of one run for each distinct set of metric names,
and what was in effect from one run for each distinct setup: ten thousand runs need a
handful of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.errors import ResultsError, UsageError, system_errors
from nfslab.plugins import meant
from nfslab.results.catalogue import Catalogue, read_provenance
from nfslab.results.groups import grouped
from nfslab.results.records import Metric, PointRecord
from nfslab.results.setup import setup_facts
from nfslab.results.store import RECORD, ExperimentFolder
from nfslab.statistics.summary import Summary, summarise_many

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nfslab.results.records import CatalogueLine, ExperimentRecord, RunRecord

MAX_METRIC_SETS = 64
"""Distinct sets of metric names whose meaning is looked up; more is no sane experiment."""

NAMES_SHOWN = 12
MAX_SETUPS = 256
"""Distinct setups that are read; beyond it `Outcomes.setups_complete` is False."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One state of mounts, machine and versions, and which counted runs had it."""

    lines: list[CatalogueLine]
    record: RunRecord
    """Of the first of these runs: it stands for all."""
    places: dict[str, Any]
    server: dict[str, Any]
    machine: dict[str, Any]
    disks: dict[str, Any]


class Outcomes:
    """One experiment's runs, ready to be selected, summarised and compared."""

    def __init__(self, folder: ExperimentFolder, catalogue: Catalogue | None = None) -> None:
        self.folder = folder
        self.record: ExperimentRecord = folder.record
        self.catalogue: Catalogue = folder.catalogue() if catalogue is None else catalogue
        self._summaries: dict[str, list[Summary]] = {}
        self._medians: dict[str, list[float | None]] = {}

    @classmethod
    def open(cls, path: Path) -> Outcomes:
        """The experiment at `path`: its own folder, or one that holds just that one."""
        return cls(ExperimentFolder.open(locate(path)))

    @cached_property
    def points(self) -> list[PointRecord]:
        """The planned points, in order."""
        return self.record.points

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Point id -> index into `points`."""
        return {point.point_id: index for index, point in enumerate(self.points)}

    @cached_property
    def newest(self) -> list[CatalogueLine]:
        """The newest attempt of every (point, block) of planned points, ok or failed."""
        return [line for line in self.catalogue.newest if line.point_id in self.index_of]

    @cached_property
    def counted(self) -> list[CatalogueLine]:
        """The runs that every figure is made of."""
        return [line for line in self.newest if line.status == "ok"]

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Metric name -> what it means (its `value` is of no interest here), primary first.

        The experiment file's `primary` wins over the workload's own mark.
        """
        found: dict[str, Metric] = {}
        for run_id in self._one_of_each_metric_set():
            for name, metric in self.folder.run_record(run_id).metrics.items():
                found.setdefault(name, metric)
        chosen = (self.record.resolved.get("experiment") or {}).get("primary")
        if isinstance(chosen, str) and chosen in found:
            for name, metric in found.items():
                found[name] = metric.model_copy(update={"primary": name == chosen})
        return dict(sorted(found.items(), key=lambda item: not item[1].primary))

    @property
    def primary(self) -> str | None:
        """The metric shown first; the first one when none is marked."""
        return next(iter(self.metrics), None)

    def metric(self, name: str) -> Metric:
        """What the metric means; `UsageError` names the nearest one of this experiment."""
        metric = self.metrics.get(name)
        if metric is None:
            known = ", ".join(sorted(self.metrics)) or "none, no run is ok"
            raise UsageError(
                f"{self.record.name} has no metric {name!r}",
                fix=f"{meant(name, self.metrics)}known: {known}",
            )
        return metric

    @cached_property
    def point_index(self) -> NDArray[np.int64]:
        """Per counted run the index of its point."""
        return np.array([self.index_of[line.point_id] for line in self.counted], dtype=np.int64)

    @cached_property
    def block(self) -> NDArray[np.int64]:
        """Per counted run its block."""
        return np.array([line.block for line in self.counted], dtype=np.int64)

    def values(self, metric: str) -> NDArray[np.float64]:
        """Per counted run the metric's value; NaN where a run has none."""
        # NumPy makes a NaN of each None.
        return np.array([line.metrics.get(metric) for line in self.counted], dtype=float)

    def summaries(self, metric: str) -> list[Summary]:
        """Per point the summary of the metric over its counted runs (n = 0 where none)."""
        if metric not in self._summaries:
            self._summaries[metric] = summarise_many(
                self.point_index, self.values(metric), n_groups=len(self.points)
            )
        return self._summaries[metric]

    def medians(self, metric: str) -> list[float | None]:
        """Per point the median of the metric: as in `summaries`, without the intervals."""
        if metric not in self._medians:
            found = summarise_many(
                self.point_index,
                self.values(metric),
                n_groups=len(self.points),
                bootstrap_resamples=0,
            )
            self._medians[metric] = [summary.median for summary in found]
        return self._medians[metric]

    @cached_property
    def setups(self) -> list[Setup]:
        """The distinct setups of the counted runs, in order of first appearance.

        At most `MAX_SETUPS`; a run whose files cannot be read is passed over here (the
        report that reads every run names it).
        """
        groups = grouped((line.setup, line) for line in self.counted)
        found = []
        for lines in list(groups.values())[:MAX_SETUPS]:
            try:
                record = self.folder.run_record(lines[0].run_id)
                provenance = read_provenance(self.folder.runs_path / lines[0].run_id)
            except ResultsError:
                continue
            facts = setup_facts(record, provenance)
            found.append(Setup(lines, record, **facts))
        return found

    @property
    def setups_complete(self) -> bool:
        """Whether `setups` accounts for every counted run."""
        return sum(len(setup.lines) for setup in self.setups) == len(self.counted)

    def missing(self) -> list[tuple[PointRecord, int]]:
        """Planned (point, block) pairs of which there is no sealed run."""
        there = {(line.point_id, line.block) for line in self.newest}
        return [
            (point, block)
            for block in range(self.record.repetitions)
            for point in self.points
            if (point.point_id, block) not in there
        ]

    def _one_of_each_metric_set(self) -> list[str]:
        """One counted run for each distinct set of metric names."""
        first: dict[tuple[str, ...], str] = {}
        for line in self.counted:
            first.setdefault(tuple(line.metrics), line.run_id)
        sets: dict[frozenset[str], str] = {}
        for ordered, run_id in first.items():
            if len(sets) < MAX_METRIC_SETS:
                sets.setdefault(frozenset(ordered), run_id)
        return list(sets.values())


def experiments_in(path: Path) -> list[Path]:
    """The experiment folders right below `path`, by name; UsageError where there is no folder."""
    kind = ResultsError if path.is_dir() else UsageError
    fix = "give a results folder, or the folder of one experiment in it"
    with system_errors(f"cannot read {path}", fix, kind):
        return sorted(entry for entry in path.iterdir() if (entry / RECORD).is_file())


def locate(path: Path) -> Path:
    """The folder of the one experiment that `path` means.

    `path` is an experiment's folder, or a folder with exactly one experiment in it. With
    several, the `UsageError` lists them.
    """
    inside = located(path)
    if len(inside) == 1:
        return inside[0]
    raise UsageError(
        f"{path} holds {len(inside)} experiments",
        why=_some([entry.name for entry in inside]),
        fix=f"give one of them, such as {inside[-1]}",
    )


def located(path: Path) -> list[Path]:
    """The folders of the experiments that `path` means: itself, or those right below it."""
    inside = [path] if (path / RECORD).is_file() else experiments_in(path)
    if not inside:
        raise UsageError(
            f"there is no experiment in {path}",
            why=f"neither it nor a folder in it holds {RECORD}",
            fix="give the folder that `nfslab run --results` wrote to",
        )
    return inside


def _some(names: Sequence[str]) -> str:
    """The names, or the first of many."""
    shown, left = ", ".join(names[:NAMES_SHOWN]), len(names) - NAMES_SHOWN
    return f"{shown} and {left} more" if left > 0 else shown
