"""SQL over results: DuckDB on the Parquet files and the catalogues.

Views: `runs` (one row a sealed run), `points` (one row a point and metric), `metrics` (one
row a metric: unit, direction), and for every table that the runs hold `samples_<name>` and
`evidence_<name>`, all runs together with a `run_id` column in front. Of runs that several client
hosts made, evidence has a column `host` behind it: the name of a client host, or NULL for this
machine; what samples a client host kept for itself are `samples_<name>_by_host`. Of several
experiments every view has their folders' names as `experiment` before all else (`results.shelf`).

Reading only, and only from these experiments: DuckDB runs in memory, may open files in their
folders and nowhere else, installs and loads no extension, its settings are
locked, and anything but a query (COPY, ATTACH, INSERT, SET, ...) is refused, also below
EXPLAIN: a results folder is never written to from here.

Paths never become part of an SQL text. A folder is named to DuckDB by a number: what a person's
folder is called (brackets and stars would be patterns) plays no part, and run and table names hold
only letters, digits, "_", "." and "-".
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import duckdb

from nfslab.errors import ResultsError, UsageError
from nfslab.results.catalogue import HOSTS
from nfslab.results.checksums import damage
from nfslab.results.shelf import CATALOGUE_VIEWS, NUMBER, Shelf
from nfslab.results.taken_tables import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)


class ResultsDatabase:
    """Experiments as a database to be asked; use it as a context manager."""

    def __init__(self, experiments: Sequence[Path]) -> None:
        self._shelf = Shelf(experiments)
        self._made: set[str] = set()
        self._damaged: dict[str, str] = {}
        settings: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",  # else Python variables are tables
        }
        self._duckdb = duckdb.connect(":memory:", config=settings)
        self._duckdb.read_parquet(self._shelf.table({"path": self._shelf.folders})).create_view("f")
        self._duckdb.execute("SET VARIABLE folders = (SELECT list(path) FROM f)")
        self._duckdb.execute("SET allowed_directories = getvariable('folders')")
        self._duckdb.execute("RESET VARIABLE folders")
        self._duckdb.execute("DROP VIEW f")
        self._duckdb.execute("SET enable_external_access = false")
        self._duckdb.execute("SET lock_configuration = true")

    def __enter__(self) -> ResultsDatabase:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database and the folder."""
        self._duckdb.close()
        self._shelf.close()

    @property
    def views(self) -> list[str]:
        """Names of all views."""
        return [*CATALOGUE_VIEWS, *sorted(self._shelf.tables)]

    @property
    def damaged(self) -> dict[str, str]:
        """What was left out of views, run or table ("RUN/evidence/NAME.parquet") -> why."""
        return self._shelf.damaged | self._damaged

    def columns(self) -> dict[str, list[tuple[str, str]]]:
        """View -> its columns as (name, SQL type); opens one file of every table."""
        found = {}
        self._shelf.fill(self.views)
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
        # A view opens its files when it is made: only what is asked. Runs are many.
        views = self.views if "samples_" in text or "evidence_" in text else CATALOGUE_VIEWS
        self._shelf.fill([view for view in views if view.lower() in text])
        for view in views:
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
        words = str(error).replace(self._shelf.root, "RESULTS")
        first, _, rest = words.partition("\n")
        kind, _, message = first.partition(": ")
        return UsageError(
            f"the query was not understood: {message or kind}",
            why=rest.strip("\n"),
            fix=f"views: {', '.join(self.views)} (columns: `nfslab query RESULTS --list`)",
        )

    def _whole(self, view: str) -> list[str]:
        """Only tables that are what was sealed; the others are named in `damaged`."""
        whole = []
        for file in self._shelf.tables[view]:
            run, table, known = self._shelf.sealed(file)
            if harmed := damage(run, "whole", [table]):
                self._damaged[f"{known}/{table}"] = "; ".join(harmed.values())
            else:
                whole.append(file)
        if not whole:
            raise ResultsError(
                f"every table of {view} is damaged",
                why="; ".join(f"{name}: {why}" for name, why in list(self._damaged.items())[:5]),
                fix="restore them from a copy, or run the experiment again: it makes them anew",
            )
        return whole

    def _make(self, view: str) -> None:
        """Make one view, once."""
        if view in self._made:
            return
        self._made.add(view)
        shelf = self._shelf
        of_runs = view not in CATALOGUE_VIEWS
        files = self._whole(view) if of_runs else shelf.catalogue(view)
        relation = self._duckdb.read_parquet(files, filename=of_runs, union_by_name=True)
        number, columns, without = NUMBER, "", NUMBER
        if of_runs:
            has_hosts = any(f"/{HOSTS}/" in file for file in files)
            is_told = HOST in relation.columns
            number, columns = _places(has_hosts, is_told=is_told)
            without = f"filename{f', {HOST}' * is_told}"
        if shelf.is_one:
            relation.project(f"{columns}* EXCLUDE ({without})").create_view(view)
            return
        numbered = f"CAST({number} AS BIGINT) AS {NUMBER}, {columns}* EXCLUDE ({without})"
        names = self._duckdb.read_parquet(shelf.names()).set_alias("names")
        joined = relation.project(numbered).set_alias("one").join(names, f"{NUMBER} = number")
        joined.project(f"names.experiment, one.* EXCLUDE ({NUMBER})").create_view(view)


def _places(has_hosts: bool, *, is_told: bool) -> tuple[str, str]:
    """SQL for the number of a table's experiment, and for the columns that tell its run and host.

    ROOT/NUMBER/runs/<run id>/samples/<name>.parquet, or of a client host
    ROOT/NUMBER/runs/<run id>/hosts/<host>/samples/<name>.parquet: counted from the end. Where the
    run's own tables are of other hosts, a column of theirs tells which (`is_told`).
    """
    parts, told = "string_split(filename, '/')", f"CAST({HOST} AS VARCHAR)"
    if not has_hosts:
        host = f"{told} AS {HOST}, " if is_told else ""
        return f"{parts}[-5]", f"{parts}[-3] AS run_id, {host}"
    there = f"CASE WHEN {parts}[-4] = '{HOSTS}' THEN {parts}"
    host = f"{there}[-3] {f'ELSE {told} ' if is_told else ''}END AS {HOST}, "
    return (
        f"{there}[-7] ELSE {parts}[-5] END",
        f"{there}[-5] ELSE {parts}[-3] END AS run_id, {host}",
    )


def _distinct(names: list[str]) -> list[str]:
    """The same, the second "tps" as "tps_1", as DuckDB's shell has it: rows are read by name."""
    found: list[str] = []
    for name in names:
        tried = (f"{name}_{number}" if number else name for number in itertools.count())
        found.append(next(one for one in tried if one not in found))
    return found
