"""`nfslab query`: SQL over the runs, points, samples and evidence of experiments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import print_json
from nfslab.display.numbers import number
from nfslab.display.terminal import table
from nfslab.errors import UsageError
from nfslab.results.durable import to_json

if TYPE_CHECKING:
    import pyarrow as pa

MAX_SHOWN = 500
"""Rows printed as a table; --csv and --json give all of them."""


@click.command(
    "query",
    epilog="""\b
Examples:
  nfslab query RESULTS --list
  nfslab query RESULTS "SELECT placement, clients, median(tps) FROM runs GROUP BY ALL"
  nfslab query RESULTS --csv "SELECT run_id, quantile_cont(latency_ns, 0.999) / 1e6 AS p999_ms
    FROM samples_transactions GROUP BY run_id"
  nfslab query results "SELECT experiment, max(tps) FROM runs WHERE counted GROUP BY ALL"

\b
Views: runs (every sealed run; `counted` are those in the figures), points, metrics, and
samples_<name>, evidence_<name> with a run_id. Of several experiments each has a column
`experiment`. Reading only; the language is DuckDB's.
""",
)
@click.argument("results", type=click.Path(path_type=Path))
@click.argument("sql", required=False)
@click.option("--list", "list_views", is_flag=True, help="Show the views and their columns.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print rows as CSV.")
def command(results: Path, sql: str | None, list_views: bool, as_json: bool, as_csv: bool) -> None:
    """Ask SQL of the experiment in RESULTS, or of all that are right below it."""
    from nfslab.results.outcomes import located
    from nfslab.results.query import ResultsDatabase

    if (sql is None) != list_views:
        raise UsageError(
            "give either a query or --list",
            fix="nfslab query RESULTS 'SELECT ...', or nfslab query RESULTS --list",
        )
    if as_json and as_csv:
        raise UsageError(
            "--json and --csv both print: give one of them", fix="leave one of them out"
        )
    with ResultsDatabase(located(results)) as database:
        if sql is None:
            _print_views(database.columns(), as_json)
            return
        answer = database.ask(sql)
        left_out = database.damaged
    for name, why in left_out.items():
        click.echo(f"damaged, left out: {name}: {why}", err=True)
    if as_csv:
        _print_csv(answer)
    elif as_json:
        _print_json(answer)
    else:
        _print_table(answer)


def _print_views(columns: dict[str, list[tuple[str, str]]], as_json: bool) -> None:
    if as_json:
        print_json({view: dict(found) for view, found in columns.items()})
        return
    for view, found in columns.items():
        click.echo(view)
        for name, kind in found:
            click.echo(f"  {name}  {kind}")


def _print_csv(answer: pa.Table) -> None:
    """RFC 4180 through Python's writer: quotes what has to be, lists as JSON."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.column_names)
    for batch in answer.to_batches():
        columns = [column.to_pylist() for column in batch.columns]
        writer.writerows([_cell(value) for value in row] for row in zip(*columns, strict=True))


def _print_json(answer: pa.Table) -> None:
    """A list of rows, one a line."""
    rows = (to_json(_plain(row)).decode() for b in answer.to_batches() for row in b.to_pylist())
    click.echo("[" + ",\n ".join(rows) + "]")


def _print_table(answer: pa.Table) -> None:
    def shown(value: Any) -> str:
        if value is None:
            return "NULL"
        return number(value, 7) if isinstance(value, float) else _cell(value)

    import pyarrow as pa

    rows = [[shown(v) for v in row.values()] for row in answer.slice(0, MAX_SHOWN).to_pylist()]
    right = [
        index
        for index, field in enumerate(answer.schema)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    click.echo(table(answer.column_names, rows, right=right))
    left = answer.num_rows - len(rows)
    click.echo(f"({answer.num_rows} rows{f', {left} not shown: use --csv' if left else ''})")


def _cell(value: Any) -> str:
    """One value as text; nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return to_json(_plain(value)).decode()
    return str(value)


def _plain(value: Any) -> Any:
    """The value in JSON's types; dates and decimals as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
