"""The time by statement: it sums to the transaction, has names by rule, and differs as planted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.evidence.base import SealedRun
from nfslab.evidence.found import find, section_of
from nfslab.evidence.statements.facts import BETWEEN, LATE, ROUNDING_NS, statements_of
from nfslab.evidence.statements.kind import StatementsEvidence
from nfslab.evidence.statements.names import labels, short_name
from nfslab.findings.explanation import content, explained
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.store import ExperimentFolder
from nfslab.workloads.pgbench.statements import CommandReport, statements_table

from tests.cli.invocation import nfslab
from tests.evidence.runs import sealed_run
from tests.report.synthetic import Recipe, write_pgbench

US = 1_000
UPDATE = "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;"


def command(text: str, us: float | None, failures: int | None = 0) -> CommandReport:
    return CommandReport(text, None if us is None else round(us * US), failures, None)


def write(run: Path, scripts: list[list[CommandReport]], counts: list[int]) -> None:
    names = [f"script {k}" for k in range(len(scripts))]
    (run / "samples").mkdir(exist_ok=True)
    pq.write_table(statements_table(scripts, names, counts), run / "samples/statements.parquet")


def made(
    folder: Path, scripts: list[list[CommandReport]], counts: list[int], **metrics: float
) -> SealedRun:
    run = sealed_run(folder, metrics=metrics)
    write(folder, scripts, counts)
    return run


def parts(run: SealedRun) -> dict[str, float]:
    found = statements_of(run)
    assert found is not None
    assert found.whole is not None
    texts = {one.key: f"{one.text}{one.occurrence or ''}" for one in found.statements}
    return {texts.get(path, path): one.ns / US for path, one in found.whole.by_path().items()}


def test_two_scripts_are_parts_of_the_mean_of_all_transactions(tmp_path: Path) -> None:
    """A of 300 us three times in four, B of 2 times 100 us: 275 us, of 280 on average."""
    scripts = [
        [command("A", 300)],
        [command("B", 100), command("B", 100), command("never", None)],
    ]
    run = made(tmp_path, scripts, [30, 10], latency_mean_ms=0.280)
    assert parts(run) == {
        "A": pytest.approx(225), "B": pytest.approx(25), "B1": pytest.approx(25), "never": 0,
        BETWEEN: pytest.approx(5),
    }  # fmt: skip


def test_a_late_start_is_no_statement(tmp_path: Path) -> None:
    run = made(tmp_path, [[command("A", 300)]], [5], latency_mean_ms=0.8, lag_mean_ms=0.4)
    assert parts(run) == {
        "A": pytest.approx(300), LATE: pytest.approx(400), BETWEEN: pytest.approx(100)
    }  # fmt: skip


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12), st.floats(0, 1.0), st.integers(1, 100))
def test_statements_sum_to_the_whole_and_none_is_below_zero(
    tmp_path_factory: pytest.TempPathFactory, us: list[float], more: float, number: int
) -> None:
    printed = [round(one) for one in us]
    whole_us = sum(us) * (1 + more)
    run = made(
        tmp_path_factory.mktemp("run"), [[command(f"S{k}", one) for k, one in enumerate(printed)]],
        [number], latency_mean_ms=whole_us / 1e3,
    )  # fmt: skip
    found = parts(run)
    assert sum(found.values()) == pytest.approx(whole_us)
    assert min(found.values()) >= 0


def test_what_does_not_sum_has_no_parts_and_says_why(tmp_path: Path) -> None:
    with_if = [command("\\if :x", 1), command("A", 9), command("\\endif", 0)]
    branch = made(tmp_path / "if", [with_if],
                  [5], latency_mean_ms=0.5)  # fmt: skip
    beyond_ms = (600 * US - 3 * ROUNDING_NS) / 1e6
    more = made(tmp_path / "more", [[command("A", 600)]], [5], latency_mean_ms=beyond_ms)
    within = made(tmp_path / "in", [[command("A", 600)]], [5], latency_mean_ms=0.5996)
    for run, word in ((branch, "\\if"), (more, "exceed")):
        found = statements_of(run)
        assert found is not None
        assert found.whole is None
        assert word in found.why_not
    assert parts(within) == {"A": pytest.approx(599.6)}, "what is printed is rounded"
    assert statements_of(sealed_run(tmp_path / "old", metrics={"latency_mean_ms": 1.0})) is None


NAMES = [
    (UPDATE, "UPDATE pgbench_accounts"),
    ('insert into public."My Table"(a) values (1);', 'INSERT public."My Table"'),
    ("DELETE FROM ONLY t WHERE x", "DELETE t"),
    ("SELECT a, from_date FROM s.t JOIN u USING (x)", "SELECT s.t"),
    ("SELECT 1 -- FROM", "SELECT"),
    ("/* why */ -- so\n  MERGE INTO t USING u", "MERGE t"),
    ("WITH x AS (SELECT 1) UPDATE t SET a = 1", "WITH t"),
    ("LOCK TABLE t", "LOCK t"),
    ("begin;", "BEGIN"),
    ("UPDATE", "UPDATE"),
    ("\\set aid random(1, 10)", "\\set aid"),
    ("\\sleep 10 ms", "\\sleep 10"),
    ("\\endpipeline", "\\endpipeline"),
    (";", ";"),
    ("(SELECT 1)", "(SELECT 1)"),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_short_names_are_verb_and_table(text: str, name: str) -> None:
    assert short_name(text) == name


@given(st.text(min_size=1))
def test_every_text_has_a_name(text: str) -> None:
    assert short_name(text)


def test_names_that_would_be_equal_have_more_beside_them(tmp_path: Path) -> None:
    scripts = [
        [command("BEGIN;", 1), command("UPDATE t SET a = 1", 1), command("UPDATE t SET b = 1", 1)],
        [command("BEGIN;", 1), command("SELECT 1", 1), command("SELECT 1", 1)],
    ]
    found = statements_of(made(tmp_path, scripts, [1, 1], latency_mean_ms=1.0))
    assert found is not None
    assert list(labels(found.statements).values()) == [
        "BEGIN of script 0",
        "UPDATE t of script 0: UPDATE t SET a = 1",
        "UPDATE t of script 0: UPDATE t SET b = 1",
        "BEGIN of script 1",
        "SELECT of script 1: SELECT 1 (1)",
        "SELECT of script 1: SELECT 1 (2)",
    ]


RECIPE = Recipe(placements={"here": 1.0, "there": 0.25}, clients=(1,), repetitions=6,
                samples=False)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    """END takes what the transaction takes beyond 2 ms; all else is equal. Of the last block there
    are no statements: an older nfslab made it."""
    made = write_pgbench(tmp_path, RECIPE)
    for line in made.sealed_runs():
        if line.block == RECIPE.repetitions - 1:
            continue
        mean_us = line.metrics["latency_mean_ms"] * 1e3
        commands = [
            command("\\set aid random(1, 10)", 1), command("BEGIN;", 100), command(UPDATE, 1_890),
            command("END;", mean_us - 2_000),
        ]  # fmt: skip
        write(made.runs_path / line.run_id, [commands], [100])
    return made


def test_between_two_points_the_planted_statement_differs(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    told = content(analyse(folder.path))
    (pair,) = told["comparisons"]
    rows = {one["statement"]: one for one in pair["statements"]}
    assert set(rows) == {
        "\\set aid",
        "BEGIN",
        "UPDATE pgbench_accounts",
        "END",
        "between statements",
    }
    assert rows["UPDATE pgbench_accounts"]["text"] == UPDATE
    end = rows["END"]
    assert end["shown"]
    low, high = end["interval_ns"]
    assert low < end["difference_ns"] < high
    assert low > 0
    means = {one["factors"]["placement"]: one for one in told["points"]}
    for point in means.values():
        of_runs = [one["ns"] for one in point["statements"]]
        assert min(of_runs) >= 0
        end_ns = next(one["ns"] for one in point["statements"] if one["statement"] == "END")
        assert sum(of_runs) == pytest.approx(end_ns + 2e6, rel=1e-3)
    assert sum(one["difference_ns"] for one in pair["statements"]) == pytest.approx(
        end["difference_ns"], rel=1e-3
    )
    for form in ([], ["--markdown"]):
        said = nfslab(capsys, "explain", folder.path, *form)
        assert said.code == 0
        assert "UPDATE pgbench" in said.out.replace("\\", "")
        assert "END takes" in said.out


def test_every_output_has_it(folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]) -> None:
    analysis = analyse(folder.path)
    stored = json.loads(render_json(folder.path))["statements"]
    assert [len(one["statements"]) for one in stored["points"]] == [5, 5]
    assert len(stored["comparisons"]) == 1
    assert "By statement" in render_markdown(folder.path)
    assert 'id="statements"' in render_html(folder.path)
    section = section_of(StatementsEvidence(), find(StatementsEvidence(), analysis))
    assert section is not None
    table = section.tables[0]
    assert next(row[1].text for row in table.rows if "there" in row[0].text) == "END"
    run = folder.sealed_runs()[0].run_id
    assert "pgbench_accounts" in nfslab(capsys, "show", folder.path, run).out


def test_results_without_it_are_as_they_were(tmp_path: Path) -> None:
    old = write_pgbench(tmp_path, RECIPE)
    assert len(explained(analyse(old.path))) == 1
    assert "statements" not in json.loads(render_json(old.path))
    told: dict[str, Any] = content(analyse(old.path))
    assert all("statements" not in one for one in [*told["comparisons"], *told["points"]])


def test_a_table_that_cannot_be_read_is_a_problem(folder: ExperimentFolder) -> None:
    run = folder.runs_path / folder.sealed_runs()[0].run_id
    pq.write_table(pa.table({"script": [1]}), run / "samples/statements.parquet")
    found = find(StatementsEvidence(), analyse(folder.path))
    (problem,) = found.problems
    assert "script_name" in problem
    assert len(found.runs) == 2 * (RECIPE.repetitions - 1) - 1
