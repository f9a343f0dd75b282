"""`nfslab run` as a person calls it: what is printed, and with which exit code."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from nfslab.cli.run import command
from nfslab.errors import UsageError
from nfslab.experiment.forecast import RUN_S
from nfslab.experiment.progress import View
from nfslab.experiment.session import Options, run_experiment
from nfslab.report.analysis import analyse

from tests.cli.invocation import nfslab
from tests.experiment import conftest as experiments
from tests.experiment.conftest import FILE

_fakes = experiments._fakes
experiment_file = experiments.experiment_file


def call(*words: str) -> Any:
    return CliRunner().invoke(command, list(words), catch_exceptions=True)


@pytest.fixture
def file(tmp_path: Path, experiment_file: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(experiment_file())


def test_a_good_run(file: str, tmp_path: Path) -> None:
    done = call(file, "--repetitions", "1")
    assert done.exit_code == 0
    assert "[6/6] repetition 1" in done.output
    assert re.search(r"\b6 of 6 .*\b0 .*\b0 ", done.output)
    (folder,) = (tmp_path / "results").iterdir()
    assert done.output.rstrip().endswith(f"report: nfslab report results/{folder.name}")
    table = [line.split() for line in done.output.splitlines() if line.startswith(("one", "two"))]
    assert table == [
        [place, str(clients), f"{100 * clients}/s", "1"]
        for place in ("one", "two")
        for clients in (1, 2, 4)
    ]


class Terminal(io.StringIO):
    """What rich and the view take for a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_the_lines_that_a_pipe_has(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = call(file, "--repetitions", "1", "--results", "piped").output
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    options = Options(file=Path(file), repetitions=1, results=tmp_path / "shown")
    run_experiment(options, View())
    line = re.compile(r"\[\d/6\] repetition 1 .* \d00/s +\(")
    assert len(line.findall(piped)) == len(line.findall(terminal.getvalue())) == 6


def test_the_end_is_what_the_report_says_before_the_medians(file: str, tmp_path: Path) -> None:
    done = call(file, "--repetitions", "3")
    (folder,) = (tmp_path / "results").iterdir()
    verdict = analyse(folder).verdict
    assert verdict in done.output
    assert done.output.index(verdict) < done.output.index("\none ")
    again = json.loads(call(file, "--repetitions", "3", "--json").stdout)
    assert "\n".join(again["conclusion"]).find(verdict) >= 0


def test_json_is_the_only_thing_on_standard_output(file: str) -> None:
    done = call(file, "--repetitions", "1", "--json", "--set", "axes.clients=[1]")
    summary = json.loads(done.stdout)
    assert (summary["ok"], summary["made"], summary["planned"]) == (2, 2, 2)
    assert [point["median"] for point in summary["points"]] == [100.0, 100.0]
    assert summary["exit_code"] == done.exit_code == 0


def test_a_failed_run_is_exit_code_1(file: str) -> None:
    done = call(file, "--repetitions", "1", "--set", "workload.fail=measure")
    assert done.exit_code == 1
    assert "the connection was lost" in done.output
    assert "nfslab run" in done.output
    assert "6 failed" in done.output


def test_a_dry_run_makes_nothing(
    file: str, tmp_path: Path, snapshot: Callable[[str, str], None]
) -> None:
    done = call(file, "--dry-run")
    assert done.exit_code == 0
    snapshot("dry_run.txt", re.sub(r"[0-9.]+ .iB free", "N free", done.output))
    assert not (tmp_path / "results").exists()


def test_a_dry_run_as_json_tells_the_order_that_is_then_carried_out(
    file: str, tmp_path: Path
) -> None:
    plan = json.loads(call(file, "--dry-run", "--json").stdout)
    assert (plan["planned"], plan["missing"]) == (18, 18)
    assert plan["seconds"] == pytest.approx(18 * (1.0 + RUN_S), rel=0.01)
    call(file, "--repetitions", "2")
    (folder,) = (tmp_path / "results").iterdir()
    runs = [json.loads(p.read_text()) for p in folder.glob("runs/*/run.json")]
    carried_out = [r["run_id"] for r in sorted(runs, key=lambda r: r["position"])]
    assert carried_out == [entry["run_id"] for entry in plan["order"]][:12]
    # What is there counts as done, and its runs make the estimate.
    rest = json.loads(call(file, "--dry-run", "--json").stdout)
    assert (rest["missing"], rest["seconds_from"]) == (6, "earlier runs")
    assert [entry["run_id"] for entry in rest["order"]] == [
        entry["run_id"] for entry in plan["order"]
    ][12:]
    assert Path(rest["folder"]).name == folder.name


def test_a_dry_run_tells_what_cannot_run(file: str) -> None:
    path = Path(file)
    path.write_text(path.read_text().replace("[targets.two]\n", '[targets.two]\ncannot = "no"\n'))
    done = call(file, "--dry-run")
    assert "target two (3 configurations)" in done.output
    assert "fix: buy one" in done.output
    assert done.exit_code == 2, "as the run itself, which would refuse"
    assert json.loads(call(file, "--dry-run", "--json").stdout)["refused"] is True
    assert isinstance(call(file).exception, UsageError)
    assert call(file, "--dry-run", "--skip-unavailable").exit_code == 0
    path.write_text(path.read_text().replace("[targets.one]\n", '[targets.one]\ncannot = "no"\n'))
    assert call(file, "--dry-run", "--skip-unavailable").exit_code == 2, "no point is left"


def test_contradictions_and_wrong_files_are_usage_errors(file: str, tmp_path: Path) -> None:
    for words in (
        [file, "--new", "--continue", str(tmp_path)],
        [str(tmp_path / "missing.toml")],
        [file, "--set", "nonsense"],
        [file, "--repetitions", "0"],
    ):
        error = call(*words).exception
        assert isinstance(error, UsageError), words
        assert error.exit_code == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "nonsense.toml"], 2, "there is no experiment file nonsense.toml"),
        (["run", "bad.toml"], 2, "bad.toml:2: name: 'X Y' cannot name a folder"),
        (["run", "--nonsense"], 2, "No such option"),
        (["run", "--help"], 0, "nfslab run experiments/placement-2001.toml --dry-run"),
    ],
)
def test_exit_codes_of_the_program(
    tmp_path: Path, words: list[str], code: int, said: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text(FILE.replace('name = "test"', 'name = "X Y"'))
    done = nfslab(capsys, *words)
    assert (done.code, said in done.out + done.err) == (code, True)
