"""The Python interface: an experiment's results as data frames and tables.

    >>> import nfslab
    >>> experiment = nfslab.open(path)
    >>> experiment.name, [axis.name for axis in experiment.axes]
    ('placement-2001', ['placement', 'clients'])
    >>> experiment.runs.groupby("placement")["tps"].count().to_dict()
    {'log apart': 15, 'together': 15}
    >>> tps = experiment.points.query("metric == 'tps'")
    >>> sorted(set(tps["n"]))
    [5]
    >>> transactions = experiment.samples(experiment.runs["run_id"][0], "transactions")
    >>> transactions.column_names[:3]
    ['t_ns', 'client', 'latency_ns']
    >>> together = experiment.select(placement="together")
    >>> apart = experiment.select(placement="log apart")
    >>> comparison = together.compare(apart)
    >>> [result.verdict for result in comparison.results["tps"]]
    ['faster', 'faster', 'faster']

`nfslab.open` takes an experiment's folder, or a folder above exactly one. With several it
raises an error that lists them (`open_all` opens them all): a data frame that silently
mixes experiments would compare what was never meant to be compared.

Nothing here writes. Values come from `Outcomes`, estimates and comparisons from
`nfslab.statistics`, as in every report.
"""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.errors import ResultsError, UsageError
from nfslab.plugins import nearest
from nfslab.results.checksums import damage
from nfslab.results.columns import point_columns, run_columns
from nfslab.results.comparison import SelectionComparison, compare_selections
from nfslab.results.evidence_tables import evidence_path, read_evidence
from nfslab.results.outcomes import Outcomes, experiments_in
from nfslab.results.selection import Selection, select
from nfslab.results.store import checked_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import pyarrow as pa

    from nfslab.results.records import AxisRecord, ExperimentRecord, RunRecord
    from nfslab.results.store import TableKind


class Experiment:
    """One experiment's results (or some points of it), for reading."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def __repr__(self) -> str:
        points = len(self._selection.points)
        runs = f"{points} configurations, {len(self.runs)} runs"
        return f"<Experiment {self._selection.label}: {runs}>"

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._outcomes.folder.path

    @property
    def name(self) -> str:
        """The name in its file."""
        return self.record.name

    @property
    def record(self) -> ExperimentRecord:
        """The plan: points, seed, order, the resolved file, the machine it began on."""
        return self._outcomes.record

    @property
    def axes(self) -> list[AxisRecord]:
        """The axes of the matrix."""
        return self.record.axes

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the primary one first."""
        return list(self._outcomes.metrics)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a sealed run (failed ones and older attempts included), in order.

        Factors and metrics are columns. Figures are made of the rows with `counted`.
        `started` is the wall clock in UTC; `duration_s` is the whole run with all phases.
        """
        _require_pandas()
        import pandas as pd

        columns = run_columns(self._outcomes, self._selection.points)
        frame = pd.DataFrame(columns)
        started = pd.to_datetime(frame["started_unix_ns"], unit="ns", utc=True)
        frame.insert(list(columns).index("started_unix_ns"), "started", started)
        return frame.drop(columns="started_unix_ns")

    @cached_property
    def points(self) -> pd.DataFrame:
        """One row a point and metric: n, median with its interval, mean, spread.

        `low` and `high` are the 95 % interval of the median (`nfslab.statistics`).
        """
        _require_pandas()
        import pandas as pd

        return pd.DataFrame(point_columns(self._outcomes, self._selection.points))

    def run(self, run_id: str) -> RunRecord:
        """The whole record of one run: parameters, checks, places, phases, notes."""
        return self._outcomes.folder.run_record(run_id)

    def samples(self, run_id: str, table: str) -> pa.Table:
        """Raw samples of one run in the order measured; `.to_pandas()` for a frame."""
        return self._table(run_id, "samples", table)

    def evidence(self, run_id: str, table: str) -> pa.Table:
        """What a collector saw during one run; `.to_pandas()` for a frame."""
        return self._table(run_id, "evidence", table)

    def tables(self, run_id: str) -> dict[str, list[str]]:
        """Names of the tables of one run: {"samples": [...], "evidence": [...]}."""
        folder = self._run_folder(run_id)
        return {
            kind: sorted(path.stem for path in (folder / kind).glob("*.parquet"))
            for kind in ("samples", "evidence")
        }

    def select(self, **conditions: Any) -> Experiment:
        """Only the points at which the factors have these levels (a level or a list).

        Axis names that are no Python names: `select(**{"workload.clients": 10})`.
        """
        wanted = {
            factor: [str(v) for v in (value if isinstance(value, list | tuple) else [value])]
            for factor, value in conditions.items()
        }
        chosen = select(self._outcomes, {**self._selection.conditions, **wanted})
        kept = [index for index in chosen.points if index in set(self._selection.points)]
        if not kept:
            raise UsageError(
                f"no configuration of {self._selection.label} meets {conditions}",
                fix="`nfslab show` lists its configurations with their factors",
            )
        return Experiment(Selection(self._outcomes, kept, chosen.conditions))

    def compare(
        self, other: Experiment, metrics: Sequence[str] | None = None
    ) -> SelectionComparison:
        """This one as base against `other` as new, point by point (default: primary metric).

        Raises `UsageError` when they have no points in common.
        """
        return compare_selections(self._selection, other._selection, metrics)

    @property
    def _outcomes(self) -> Outcomes:
        return self._selection.outcomes

    def _run_folder(self, run_id: str) -> Path:
        folder = self._outcomes.folder.runs_path / checked_name(run_id, "run id")
        if not folder.is_dir():
            guess = nearest(run_id, [line.run_id for line in self._outcomes.catalogue.lines])
            raise ResultsError(
                f"{self.name} has no run {run_id!r}",
                fix=f"did you mean {guess!r}?" if guess else "see `.runs`",
            )
        return folder

    def _require_whole(self, run_id: str, name: str) -> None:
        """`ResultsError` where that file of a run is not what was sealed."""
        for why in damage(self._run_folder(run_id), "whole", [name]).values():
            raise ResultsError(
                f"{name} of run {run_id} is damaged",
                why=why,
                fix="restore it from a copy, or run the experiment again: it makes the run anew",
            )

    def _table(self, run_id: str, kind: TableKind, name: str) -> pa.Table:
        run = self._run_folder(run_id)
        path = evidence_path(run, checked_name(name, "table name"), kind)
        if not path.is_file():
            known = self.tables(run_id)[kind]
            raise ResultsError(
                f"run {run_id} has no {kind} table {name!r}",
                fix=f"it has: {', '.join(known) or 'none'}",
            )
        self._require_whole(run_id, f"{kind}/{path.name}")
        return read_evidence(run, name, rows_max=sys.maxsize, folder=kind)


def _require_pandas() -> None:
    """No command needs it; UsageError without it."""
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "data frames need pandas",
            why=str(error),
            fix="pip install pandas; or `.samples` and `.evidence`, which are tables of pyarrow",
        ) from error


def open_results(path: str | Path) -> Experiment:
    """Open one experiment's results; `ResultsError` lists them when there are several."""
    return _whole(Outcomes.open(Path(path).expanduser()))


def open_all(path: str | Path) -> list[Experiment]:
    """Open every experiment right below `path`, by name."""
    return [_whole(Outcomes.open(folder)) for folder in experiments_in(Path(path).expanduser())]


def _whole(outcomes: Outcomes) -> Experiment:
    return Experiment(Selection(outcomes, list(range(len(outcomes.points)))))
