"""Tested by intervention: right predictions are confirmed, wrong ones refuted, at stated rates."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.findings.base import Finding
from nfslab.findings.confirm import CONTROL, Prediction, Slope, line_of, read_test
from nfslab.findings.explanation import why
from nfslab.findings.registry import findings_of
from nfslab.report.analysis import analyse

from tests.cli.invocation import nfslab
from tests.findings.pairs import US, pair
from tests.report.synthetic import Recipe, write_pgbench

USUAL = {"wal_fsync": 300 * US, "row_lock_waits": 200 * US, "client": 500 * US}
SLOW = USUAL | {"wal_fsync": 1300 * US}
Capture = pytest.CaptureFixture[str]


def found(rng: np.random.Generator) -> Finding:
    return findings_of(pair(USUAL, SLOW, noise=0.05, blocks=6, rng=rng))[0]


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        (USUAL, "confirmed"),  # the intervention takes the part away
        (SLOW, "refuted"),  # it changes nothing: the part was not the cause
        (SLOW | {"wal_fsync": 3000 * US}, "refuted"),  # it makes it worse
    ],
)
def test_what_is_true_is_decided(after: dict[str, float], outcome: str) -> None:
    rng = np.random.default_rng(20261123)
    rounds = 10
    decided = [
        Prediction.of(found(rng)).decide(pair(SLOW, after, noise=0.05, blocks=5, rng=rng))
        for _ in range(rounds)
    ]
    assert decided.count(outcome) >= 0.9 * rounds


def test_noise_decides_nothing() -> None:
    rng = np.random.default_rng(4)
    prediction = Prediction.of(found(rng))
    assert prediction.decide(pair(SLOW, USUAL, noise=2.0, blocks=4, rng=rng)) == "not decided"
    assert prediction.decide(pair(SLOW, USUAL, noise=0.1, blocks=2, rng=rng)) == "not decided"


def test_a_prediction_is_read_back_from_its_file() -> None:
    made = Prediction("log_sync", 1e6, (5e5, 2e6))
    counted = Slope("log_sync", "syncs", 1.2, (1.0, 1.4), 1e6, "workload.x", ("0us", "500us"))
    for test in (made, counted):
        assert read_test(f"{line_of(test)}\n[experiment]\n") == test
    for text in ("", "# prediction: ", '# prediction: {"cause": 1}', "# prediction: [1]"):
        assert read_test(text) is None


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log apart is slower, and all that is slower is in the log."""
    monkeypatch.chdir(tmp_path)
    recipe = Recipe(
        placements={"together": 1.0, "log apart": 0.4},
        clients=(1, 10),
        repetitions=4,
        samples=False,
    )
    return write_pgbench(tmp_path / "made", recipe).path


def told(said: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(said.out)
    return content


def test_it_writes_the_experiment_with_its_prediction(results: Path, capsys: Capture) -> None:
    asked = told(nfslab(capsys, "confirm", results, "--no-run", "--json"))
    text = Path(asked["file"]).read_text()
    made = tomllib.loads(text)
    intervention = made["axes"][-1]
    assert intervention["labels"][0] == CONTROL
    assert (intervention["parameters"], intervention["values"]) == (
        ["workload.wal"],
        [["log1"], ["disk"]],
    )
    others = {axis["parameter"]: axis["values"] for axis in made["axes"][:-1]}
    assert others == {"workload.data": ["disk"], "workload.clients": [10]}
    assert made["experiment"]["name"].startswith("confirm-")
    prediction = read_test(text)
    assert isinstance(prediction, Prediction)
    assert (asked["cause"], asked["shorter_ns"]) == (prediction.cause, prediction.shorter_ns)
    explained = told(nfslab(capsys, "explain", results, "--json"))
    effects = [one["findings"][0]["effect_ns"] for one in explained["comparisons"]]
    assert prediction.shorter_ns == max(effects)


def test_a_run_ends_with_the_command_that_tests_what_it_found(results: Path) -> None:
    said = why(analyse(results))
    assert said.confirm.split()[-2:] == [str(results), "log_sync"]
    # Both numbers of clients, the larger effect first: transactions of ten clients are longer.
    assert [("clients=10" in line, "clients=1:" in line) for line in said.sentences] == [
        (True, False), (False, True),
    ]  # fmt: skip


def test_a_file_that_was_edited_is_kept(results: Path, capsys: Capture) -> None:
    asked = ["confirm", results, "--no-run", "--write", "mine.toml"]
    assert nfslab(capsys, *asked).code == 0
    assert nfslab(capsys, *asked).code == 0, "the same again"
    Path("mine.toml").write_text("edited")
    assert nfslab(capsys, *asked).code == 2
    assert Path("mine.toml").read_text() == "edited"


def test_what_cannot_be_tested_says_why(results: Path, capsys: Capture) -> None:
    wrong = nfslab(capsys, "confirm", results, "log_sink", "--no-run")
    assert (wrong.code, "log_sync" in wrong.err) == (2, True)
    assert nfslab(capsys, "confirm", results, "row_locks", "--no-run").code == 1
    assert list(Path.cwd().glob("*.toml")) == []


def test_a_modelled_time_is_confirmed_within_what_timers_do() -> None:
    """A constant has no spread, so the prediction is a point; more than it is no refutation."""
    point = Prediction("server_threads", 1e6, (1e6, 1e6))
    rng = np.random.default_rng(5)
    base = {"storage": 3e6, "program": 2e5}
    decided = [
        point.decide(pair(base, base | {"storage": 3e6 - shorter}, noise=0.002, blocks=5, rng=rng))
        for shorter in (1.03e6, 1.6e6, 0.0)
    ]
    assert decided == ["confirmed", "not decided", "refuted"]
