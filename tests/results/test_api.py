"""The Python interface: what the folder holds is what a script gets."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import nfslab
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from nfslab.errors import ResultsError, UsageError
from nfslab.results import api
from nfslab.results.api import Experiment

from tests.report.synthetic import Recipe, write_files, write_pgbench

RECIPE = Recipe(
    clients=(1, 5, 10), repetitions=5, measured_s=1.0, retried=((0, 1),), failed=((1, 0),)
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pgbench(tmp_path_factory.mktemp("results"), RECIPE).path


@pytest.fixture(scope="module")
def experiment(path: Path) -> Experiment:
    return nfslab.open(path)


def test_the_documented_example_is_true(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, Recipe(clients=(1, 5, 10), repetitions=5, measured_s=1.0))
    result = doctest.testmod(api, extraglobs={"path": folder.path})
    assert result.attempted >= 10
    assert result.failed == 0


def test_runs_are_the_sealed_ones_with_their_metrics(experiment: Experiment) -> None:
    runs = experiment.runs
    assert len(runs) == 2 * 3 * 5 + 1
    assert int(runs["counted"].sum()) == 2 * 3 * 5 - 1
    assert sorted(runs.loc[~runs["counted"], "status"]) == ["failed", "failed"]
    for _, row in runs[runs["counted"]].iterrows():
        record = experiment.run(row["run_id"])
        assert record.metrics["tps"].value == row["tps"]
        assert (record.block, record.factors["clients"]) == (row["block"], row["clients"])
        assert row["started"] == pd.Timestamp(record.started_unix_ns, unit="ns", tz="UTC")
        assert row["duration_s"] == record.duration_ns / 1e9


def test_points_summarise_the_counted_runs(experiment: Experiment) -> None:
    points = experiment.points
    assert len(points) == 6 * len(experiment.metrics)
    counted = experiment.runs[experiment.runs["counted"]]
    for _, row in points[points["metric"] == "tps"].iterrows():
        mine = counted[
            (counted["placement"] == row["placement"]) & (counted["clients"] == row["clients"])
        ]["tps"]
        assert row["n"] == len(mine)
        assert row["median"] == np.median(mine)
        assert row["mean"] == pytest.approx(np.mean(mine), rel=1e-12)
        assert row["low"] <= row["median"] <= row["high"]


def test_tables_are_those_of_the_run(experiment: Experiment, path: Path) -> None:
    run_id = experiment.runs.loc[experiment.runs["counted"], "run_id"].iloc[0]
    table = experiment.samples(run_id, "transactions")
    assert table.equals(pq.read_table(path / "runs" / run_id / "samples" / "transactions.parquet"))
    assert experiment.evidence(run_id, "system_cpu").num_rows > 0
    assert experiment.tables(run_id)["samples"] == ["transactions"]
    assert "postgres_waits" in experiment.tables(run_id)["evidence"]


def test_mistakes_are_told(experiment: Experiment, tmp_path: Path) -> None:
    run_id = experiment.runs.loc[experiment.runs["counted"], "run_id"].iloc[0]
    with pytest.raises(ResultsError, match="'transaction'") as caught:
        experiment.samples(run_id, "transaction")
    assert "transactions" in caught.value.fix
    with pytest.raises(ResultsError, match="no run"):
        experiment.samples("b999-00000000-a1", "transactions")
    with pytest.raises(ResultsError, match="not a valid"):
        experiment.samples("../../x", "transactions")
    with pytest.raises(UsageError, match="no factor 'client'"):
        experiment.select(client=1)
    with pytest.raises(UsageError, match="cannot read"):
        nfslab.open(tmp_path / "nowhere")


def test_several_experiments_are_listed_not_mixed(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert nfslab.open(tmp_path).name == "bonnie-2001"
    write_pgbench(tmp_path, Recipe(clients=(1,), repetitions=1, samples=False))
    with pytest.raises(UsageError, match="holds 2 experiments"):
        nfslab.open(tmp_path)
    assert [one.name for one in api.open_all(tmp_path)] == ["bonnie-2001", "placement-2001"]


def test_a_selection_is_an_experiment(experiment: Experiment) -> None:
    some = experiment.select(placement="together", clients=[1, 10])
    assert set(some.runs["clients"]) == {1, 10}
    assert set(some.runs["placement"]) == {"together"}
    assert len(some.points) == 2 * len(experiment.metrics)
    narrower = some.select(clients=10)
    assert set(narrower.runs["clients"]) == {10}
    with pytest.raises(UsageError, match="no configuration"):
        some.select(placement="log apart").select(clients=1).select(placement="together", clients=5)


def test_names_that_collide_get_a_prefix(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, Recipe(clients=(1, 2), repetitions=2))
    record = folder.record
    axis = record.axes[1].model_copy(update={"name": "status"})
    points = [
        point.model_copy(
            update={
                "factors": {
                    "placement": point.factors["placement"],
                    "status": point.factors["clients"],
                }
            }
        )
        for point in record.points
    ]
    folder.update_record(
        record.model_copy(update={"axes": [record.axes[0], axis], "points": points})
    )
    runs = nfslab.open(tmp_path).runs
    assert set(runs["status"]) == {"ok"}
    assert "factor_status" in runs.columns


def test_a_damaged_table_is_an_error_with_its_path(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, Recipe(clients=(1,), repetitions=1))
    run_id = folder.sealed_runs()[0].run_id
    table = folder.runs_path / run_id / "samples" / "transactions.parquet"
    table.write_bytes(table.read_bytes()[:-30])
    with pytest.raises(ResultsError, match="transactions"):
        nfslab.open(tmp_path).samples(run_id, "transactions")


@pytest.mark.system
@pytest.mark.long
def test_without_pandas_frames_say_what_to_do_and_all_else_works(path: Path) -> None:
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "scipy"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import nfslab
from nfslab.cli import main
from nfslab.errors import UsageError
experiment = nfslab.open({str(path)!r})
run = experiment._outcomes.counted[0].run_id
assert experiment.samples(run, "transactions").num_rows
try:
    experiment.runs
except UsageError as error:
    assert "pip install pandas" in error.fix
else:
    raise AssertionError("a frame without pandas")
sys.argv = ["nfslab", "report", {str(path)!r}, "--json"]
main()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["points"]
