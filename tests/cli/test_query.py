"""`nfslab query`: tables for people, CSV and JSON for programs, errors for both."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ExperimentFolder:
    recipe = Recipe(clients=(1, 5), repetitions=3, measured_s=1.0, evidence=False)
    return write_pgbench(tmp_path_factory.mktemp("results"), recipe)


def test_a_table_for_people(folder: ExperimentFolder, capsys: Capture) -> None:
    sql = "SELECT placement, count(*) AS n FROM runs GROUP BY ALL ORDER BY ALL"
    said = nfslab(capsys, "query", folder.path, sql)
    assert said.code == 0
    assert [line.split() for line in said.out.splitlines()] == [
        ["placement", "n"],
        ["log", "apart", "6"],
        ["together", "6"],
        ["(2", "rows)"],
    ]


def test_csv_and_json_give_all_digits(folder: ExperimentFolder, capsys: Capture) -> None:
    sql = "SELECT run_id, tps, flags FROM runs ORDER BY run_id"
    expected = {line.run_id: line.metrics["tps"] for line in folder.sealed_runs()}
    said = nfslab(capsys, "query", folder.path, "--csv", sql)
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert {row["run_id"]: float(row["tps"]) for row in rows} == expected
    assert rows[0]["flags"] == "[]"
    said = nfslab(capsys, "query", folder.path, "--json", sql)
    assert {row["run_id"]: row["tps"] for row in json.loads(said.out)} == expected


def test_odd_values_stay_valid(folder: ExperimentFolder, capsys: Capture) -> None:
    sql = (
        "SELECT 'nan'::DOUBLE AS a, DATE '2001-07-10' AS b, 'x,\"y\"' AS c, NULL AS d, "
        "{'k': 1} AS e"
    )
    said = nfslab(capsys, "query", folder.path, "--json", sql)
    assert json.loads(said.out) == [
        {"a": "NaN", "b": "2001-07-10", "c": 'x,"y"', "d": None, "e": {"k": 1}}
    ]
    said = nfslab(capsys, "query", folder.path, "--csv", sql)
    assert list(csv.reader(io.StringIO(said.out)))[1] == [
        "nan",
        "2001-07-10",
        'x,"y"',
        "",
        '{"k":1}',
    ]
    assert "NULL" in nfslab(capsys, "query", folder.path, sql).out


def test_long_answers_are_cut_in_the_table_only(folder: ExperimentFolder, capsys: Capture) -> None:
    sql = "SELECT * FROM range(700) t(i)"
    said = nfslab(capsys, "query", folder.path, sql)
    assert re.findall(r"\d+", said.out.splitlines()[-1]) == ["700", "200"]
    assert len(nfslab(capsys, "query", folder.path, "--csv", sql).out.splitlines()) == 701


def test_the_views_are_listed(folder: ExperimentFolder, capsys: Capture) -> None:
    said = nfslab(capsys, "query", folder.path, "--list")
    assert "samples_transactions" in said.out.splitlines()
    assert "  latency_ns  BIGINT" in said.out.splitlines()
    content = json.loads(nfslab(capsys, "query", folder.path, "--list", "--json").out)
    assert content["runs"]["tps"] == "DOUBLE"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "either a query or --list"),
        (("SELECT 1", "--list"), "either a query or --list"),
        (("SELECT 1", "--json", "--csv"), "give one of them"),
        (("SELEC 1",), "syntax error"),
        (("DROP VIEW runs",), "only read"),
    ],
)
def test_bad_usage(
    folder: ExperimentFolder, capsys: Capture, arguments: tuple[str, ...], words: str
) -> None:
    said = nfslab(capsys, "query", folder.path, *arguments)
    assert said.code == 2
    assert words in said.err
