"""SQL over one experiment's results: DuckDB on the Parquet files and the catalogue.

Views: `runs` (one row a sealed run), `points` (one row a point and metric), `metrics` (one
row a metric: unit, direction), and for every table that the runs hold `samples_<name>` and
`evidence_<name>`, all runs together with a `run_id` column in front. Of runs that several client
hosts made, evidence has a column `host` behind it: the name of a client host, or NULL for this
machine; what samples a client host kept for itself are `samples_<name>_by_host`.

Reading only, and only from this experiment: DuckDB runs in memory, may open files in the
experiment's folder and nowhere else, installs and loads no extension, its settings are
locked, and anything but a query (COPY, ATTACH, INSERT, SET, ...) is refused, also below
EXPLAIN: a results folder is never written to from here.

Paths never become part of an SQL text. The folder is opened and named to DuckDB as
/proc/self/fd/N: what a person's folder is called (brackets and stars would be patterns)
plays no part, and run and table names hold only letters, digits, "_", "." and "-".
"""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from nfslab.errors import ResultsError, UsageError
from nfslab.results.catalogue import HOSTS, RUNS
from nfslab.results.checksums import damage
from nfslab.results.columns import point_columns, run_columns

if TYPE_CHECKING:
    from nfslab.results.outcomes import Outcomes

MAX_TABLES = 1000
"""Distinct tables in one experiment; collectors make a dozen."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)


class ResultsDatabase:
    """One experiment as a database to be asked; use it as a context manager."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._folder = os.open(outcomes.folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._root = f"/proc/self/fd/{self._folder}"
        self._files = self._find_files()
        self._made: set[str] = set()
        self.damaged: dict[str, str] = {}
        """Table ("RUN/evidence/NAME.parquet") -> why it was left out of its view."""
        settings: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",  # else Python variables are tables
        }
        self._duckdb = duckdb.connect(":memory:", config=settings)
        self._duckdb.execute("SET allowed_directories = $1", [[self._root]])
        self._duckdb.execute("SET enable_external_access = false")
        self._duckdb.execute("SET lock_configuration = true")

    def __enter__(self) -> ResultsDatabase:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database and the folder."""
        self._duckdb.close()
        os.close(self._folder)

    @property
    def views(self) -> list[str]:
        """Names of all views."""
        return ["runs", "points", "metrics", *sorted(self._files)]

    def columns(self) -> dict[str, list[tuple[str, str]]]:
        """View -> its columns as (name, SQL type); opens one file of every table."""
        found = {}
        for view in self.views:
            self._make(view)
            relation = self._duckdb.view(view)
            types = [str(kind) for kind in relation.types]
            found[view] = list(zip(relation.columns, types, strict=True))
        return found

    def ask(self, sql: str) -> pa.Table:
        """The answer to one query. `UsageError` carries DuckDB's words when it is wrong."""
        try:
            statements = self._duckdb.extract_statements(sql)
        except duckdb.Error as error:
            raise self._wrong(error) from error
        self._refuse_writing(statements)
        text = sql.lower()
        for view in self.views:  # a view opens its files when it is made: only what is asked
            if view.lower() in text:
                self._make(view)
        try:
            result: pa.Table = self._duckdb.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise self._wrong(error) from error
        return result.rename_columns(_distinct(result.column_names))

    def _refuse_writing(self, statements: list[duckdb.Statement]) -> None:
        """`UsageError` for more than one statement and for anything but reading."""
        if not statements:
            raise UsageError("there is no query", fix='write "SELECT ..."')
        if len(statements) > 1:
            raise UsageError(
                f"{len(statements)} statements were given, one is answered",
                fix="ask one after the other (PIVOT: name its values with IN)",
            )
        kind = statements[0].type.name
        if kind == "EXPLAIN":
            kind = self._explained(statements[0].query)
        if kind != "SELECT":
            raise UsageError(
                f"{kind} is not possible here",
                why="results are only read",
                fix="write SELECT ...; to keep an answer use --csv or --json",
            )

    def _explained(self, query: str) -> str:
        """What an EXPLAIN explains: EXPLAIN ANALYZE carries it out."""
        match = _EXPLAIN.fullmatch(query)
        try:
            inner = self._duckdb.extract_statements(match["rest"]) if match else []
        except duckdb.Error:
            inner = []
        return inner[0].type.name if len(inner) == 1 else "EXPLAIN with options"

    def _wrong(self, error: duckdb.Error) -> UsageError:
        """DuckDB's words without our inner path; its pointer to the place is kept."""
        words = str(error).replace(self._root, str(self._outcomes.folder.path))
        first, _, rest = words.partition("\n")
        kind, _, message = first.partition(": ")
        return UsageError(
            f"the query was not understood: {message or kind}",
            why=rest.strip("\n"),
            fix=f"views: {', '.join(self.views)} (columns: `nfslab query RESULTS --list`)",
        )

    def _find_files(self) -> dict[str, list[str]]:
        """View name -> the files of that table, over all sealed runs that can be read."""
        found: dict[str, list[str]] = {}
        for line in self._outcomes.catalogue.lines:
            for kind, folder, ending in self._table_folders(line.run_id):
                try:
                    names = sorted(os.listdir(folder))
                except OSError:
                    continue  # a run without such a folder has no such tables
                for name in names:
                    stem, dot, suffix = name.rpartition(".")
                    view = f"{kind}_{stem}{ending}"
                    if suffix == "parquet" and dot and _PLAIN_NAME.fullmatch(view):
                        found.setdefault(view, []).append(f"{folder}/{name}")
                if len(found) > MAX_TABLES:
                    raise UsageError(
                        f"more than {MAX_TABLES} tables in one experiment",
                        fix="query a part of the runs: copy the folder with fewer of them",
                    )
        return found

    def _table_folders(self, run_id: str) -> list[tuple[str, str, str]]:
        """(kind of table, folder, what views of it end with) of a run and its client hosts."""
        run = f"{self._root}/{RUNS}/{run_id}"
        found = [(kind, f"{run}/{kind}", "") for kind in ("samples", "evidence")]
        try:
            hosts = sorted(os.listdir(f"{run}/{HOSTS}"))
        except OSError:
            return found  # one client
        for host in hosts:
            found.append(("samples", f"{run}/{HOSTS}/{host}/samples", "_by_host"))
            found.append(("evidence", f"{run}/{HOSTS}/{host}/evidence", ""))
        return found

    def _leave_out_damaged(self, view: str) -> None:
        """Only tables that are what was sealed; the others are named in `damaged`."""
        whole = []
        for file in self._files[view]:
            run_id, _, table = file.removeprefix(f"{self._root}/{RUNS}/").partition("/")
            run = self._outcomes.folder.runs_path / run_id
            if harmed := damage(run, "whole", [table]):
                self.damaged[f"{run_id}/{table}"] = "; ".join(harmed.values())
            else:
                whole.append(file)
        if not whole:
            raise ResultsError(
                f"every table of {view} is damaged",
                why="; ".join(f"{name}: {why}" for name, why in list(self.damaged.items())[:5]),
                fix="restore them from a copy, or run the experiment again: it makes them anew",
            )
        self._files[view] = whole

    def _make(self, view: str) -> None:
        """Make one view, once."""
        if view in self._made:
            return
        self._made.add(view)
        if view in self._files:
            self._leave_out_damaged(view)
            relation = self._duckdb.read_parquet(
                self._files[view],
                filename=True,
                union_by_name=True,
            )
            # .../runs/<run id>/samples/<name>.parquet: the third part from the end; of a client
            # host .../runs/<run id>/hosts/<host>/samples/<name>.parquet.
            parts = "string_split(filename, '/')"
            there = f"{parts}[-4] = '{HOSTS}'"
            columns = f"{parts}[-3] AS run_id"
            if any(file.split("/")[-4] == HOSTS for file in self._files[view]):
                columns = f"CASE WHEN {there} THEN {parts}[-5] ELSE {parts}[-3] END AS run_id"
                columns += f", CASE WHEN {there} THEN {parts}[-3] END AS host"
            relation.project(f"{columns}, * EXCLUDE (filename)").create_view(view)
            return
        if view == "metrics":
            metrics = self._outcomes.metrics
            content: dict[str, list[Any]] = {
                "metric": list(metrics),
                "unit": [metric.unit for metric in metrics.values()],
                "better": [metric.better for metric in metrics.values()],
                "primary": [metric.primary for metric in metrics.values()],
            }
        elif view == "runs":
            content = run_columns(self._outcomes)
        else:
            content = point_columns(self._outcomes)
        self._duckdb.register(view, pa.table(_typed(content)))


def _typed(content: dict[str, list[Any]]) -> dict[str, Any]:
    """Arrow columns; one without any value is text or, for `flags`, a list of texts."""
    columns: dict[str, Any] = {}
    for name, values in content.items():
        if name == "flags":
            columns[name] = pa.array(values, pa.list_(pa.string()))
        elif all(value is None for value in values):
            columns[name] = pa.array(values, pa.string())
        elif any(isinstance(value, float) for value in values):
            columns[name] = pa.array(values, pa.float64())
        else:
            columns[name] = pa.array(values)
    return columns


def _distinct(names: list[str]) -> list[str]:
    """The same, the second "tps" as "tps_1", as DuckDB's shell has it: rows are read by name."""
    found: list[str] = []
    for name in names:
        tried = (f"{name}_{number}" if number else name for number in itertools.count())
        found.append(next(one for one in tried if one not in found))
    return found
