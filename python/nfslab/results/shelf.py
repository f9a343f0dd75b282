"""Experiments as DuckDB reads them: a folder of numbers, made for one query.

    ROOT/0 -> the first experiment's folder (a link)   ROOT/runs/*.parquet: runs in columns
    ROOT/1 -> ...                                      ROOT/table-0.parquet: texts for DuckDB

Experiments are opened one after the other and let go: memory does not grow with their runs, but for
the names of their tables where tables are asked for. The folder is in the place for temporary
files, and goes when the query is answered.
"""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from nfslab.errors import ResultsError, UsageError
from nfslab.results.arrays import plain_array
from nfslab.results.catalogue import HOSTS, RUNS
from nfslab.results.columns import point_columns, run_columns
from nfslab.results.outcomes import Outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CATALOGUE_VIEWS: Final = ("runs", "points", "metrics")
MAX_TABLES: Final = 1000
"""Distinct tables; collectors make a dozen."""
NUMBER: Final = "__number"
"""In the tables made of catalogues: of which experiment a row is."""
FRACTIONS: Final = frozenset(
    ("median", "low", "high", "mean", "standard_deviation", "minimum", "maximum", "duration_s")
)
"""Columns that are of this type also where nothing is known."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Shelf:
    """The experiments of one query."""

    def __init__(self, experiments: Sequence[Path]) -> None:
        self._paths = [path.resolve() for path in experiments]
        self._folder = tempfile.TemporaryDirectory(prefix="nfslab-query-")
        # Not by its name, which may hold what would be a pattern.
        self._descriptor = os.open(self._folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.root = f"/proc/self/fd/{self._descriptor}"
        self.damaged: dict[str, str] = {}
        """Run, or experiment -> why it is in no view."""
        self._filled: set[str] = set()
        self._tables = (f"table-{number}" for number in itertools.count())
        self._kept: Outcomes | None = None
        for number, path in enumerate(self._paths):
            os.symlink(path, f"{self.root}/{number}")

    def close(self) -> None:
        """Remove it."""
        self._folder.cleanup()
        os.close(self._descriptor)

    @property
    def folders(self) -> list[str]:
        """All that may be read: DuckDB follows the links before it compares."""
        return [self.root, *map(str, self._paths)]

    @property
    def is_one(self) -> bool:
        """There is one experiment: no column names it."""
        return len(self._paths) == 1

    def table(self, content: Mapping[str, Sequence[Any]]) -> str:
        """The file of a table with these columns.

        That is how texts reach DuckDB: a value that is bound, or a table that is registered, has it
        import pandas, which takes longer than most queries.
        """
        path = f"{self.root}/{next(self._tables)}.parquet"
        _write(pa.Table.from_arrays(list(map(plain_array, content.values())), list(content)), path)
        return path

    def names(self) -> str:
        """The file of a table with number and folder's name of each."""
        names = [path.name for path in self._paths]
        return self.table({"number": list(range(len(names))), "experiment": names})

    def sealed(self, file: str) -> tuple[str, str, str]:
        """Of a table's file: the run's folder on the shelf, the table within it, and the run as
        people know it."""
        number, _, run_id, table = file.removeprefix(f"{self.root}/").split("/", 3)
        known = run_id if self.is_one else f"{self._paths[int(number)].name}/{run_id}"
        return f"{self.root}/{number}/{RUNS}/{run_id}", table, known

    def fill(self, views: Sequence[str]) -> None:
        """Have those of these views that are made of catalogues; ResultsError where there are no
        experiments that can be read."""
        wanted = [view for view in views if view in CATALOGUE_VIEWS and view not in self._filled]
        if not wanted:
            return
        self._filled |= set(wanted)
        for view in wanted:
            os.mkdir(f"{self.root}/{view}")
        for number, outcomes in self._opened():
            for view in wanted:
                content = _typed(_content(view, outcomes), keep_empty=self.is_one)
                rows = len(next(iter(content.values()), ()))
                columns = [plain_array([number] * rows, pa.int64()), *content.values()]
                table = pa.Table.from_arrays(columns, [NUMBER, *content])
                # Views read them by their names' order.
                _write(table, f"{self.root}/{view}/{number:09}.parquet")

    def catalogue(self, view: str) -> list[str]:
        """The files of a view that was filled."""
        return [f"{self.root}/{view}/{name}" for name in sorted(os.listdir(f"{self.root}/{view}"))]

    @cached_property
    def tables(self) -> dict[str, list[str]]:
        """View -> the files of that table, over all sealed runs that can be read."""
        found: dict[str, list[str]] = {}
        for number, outcomes in self._opened():
            for line in outcomes.catalogue.lines:
                run = f"{self.root}/{number}/{RUNS}/{line.run_id}"
                for folder, view, ending in _table_folders(run):
                    _add_tables(folder, view, ending, found)
        return found

    def _opened(self) -> Iterator[tuple[int, Outcomes]]:
        """Each with its number; one alone is kept. What is damaged is noted."""
        problem: ResultsError | None = None
        some = False
        for number, path in enumerate(self._paths):
            try:
                outcomes = self._kept or Outcomes.open(path)
            except ResultsError as error:
                problem, self.damaged[path.name] = error, error.in_a_line(": ")
                continue
            some = True
            if self.is_one:
                self._kept = outcomes
            prefix = "" if self.is_one else f"{path.name}/"
            for run_id, why in outcomes.catalogue.damaged.items():
                self.damaged[f"{prefix}{run_id}"] = why
            yield number, outcomes
        if problem is not None and not some:
            raise problem


def _content(view: str, outcomes: Outcomes) -> dict[str, list[Any]]:
    if view == "runs":
        return run_columns(outcomes)
    if view == "points":
        return point_columns(outcomes)
    metrics = outcomes.metrics
    return {
        "metric": list(metrics),
        "unit": [metric.unit for metric in metrics.values()],
        "better": [metric.better for metric in metrics.values()],
        "primary": [metric.primary for metric in metrics.values()],
    }


def _table_folders(run: str) -> list[tuple[str, str, str]]:
    """(folder, what views of its tables begin with, and end with) of a run and its client hosts."""
    found = [(f"{run}/{kind}", kind, "") for kind in ("samples", "evidence")]
    try:
        hosts = sorted(os.listdir(f"{run}/{HOSTS}"))
    except OSError:
        return found  # one client
    for host in hosts:
        there = f"{run}/{HOSTS}/{host}"
        found += [
            (f"{there}/samples", "samples", "_by_host"),
            (f"{there}/evidence", "evidence", ""),
        ]
    return found


def _add_tables(folder: str, begin: str, ending: str, found: dict[str, list[str]]) -> None:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return  # a run without such a folder has no such tables
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        view = f"{begin}_{stem}{ending}"
        if suffix == "parquet" and dot and _PLAIN_NAME.fullmatch(view):
            found.setdefault(view, []).append(f"{folder}/{name}")
    if len(found) > MAX_TABLES:
        raise UsageError(
            f"more than {MAX_TABLES} tables",
            fix="query a part of the runs: copy the folder with fewer of them",
        )


def _write(table: pa.Table, path: str) -> None:
    """Read once, at once: what makes files small, or quick to search, only costs."""
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)


def _typed(content: dict[str, Any], *, keep_empty: bool) -> dict[str, Any]:
    """Arrow columns. One without any value is text, or left out: another experiment's has a type;
    `flags` is a list of texts."""
    columns: dict[str, Any] = {}
    for name, values in content.items():
        kinds = set(map(type, values))
        if name == "flags":
            columns[name] = plain_array(values, pa.list_(pa.string()))
        elif name in FRACTIONS:
            columns[name] = plain_array(values, pa.float64())
        elif kinds <= {NoneType}:
            if keep_empty or not len(values):
                columns[name] = pa.nulls(len(values), pa.string())
        elif any(issubclass(kind, float) for kind in kinds):
            columns[name] = plain_array(values, pa.float64())
        else:
            columns[name] = plain_array(values, None)
    return columns
