"""kill -9 at ten random instants: nothing finished is lost, nothing half counts, nothing stays.

A real `nfslab run` is killed at instants drawn from a fixed seed and started again each
time: three times at any moment from its start on, seven times within some runs' length of
its first run. At the end the results are exactly the planned runs, and no process, folder
or open journal is left. Where exactly a kill lands differs between machines: any instant
has to do. That kills really hit runs under way is checked as well.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nfslab.experiment.plan import planned_runs
from nfslab.experiment.reading import read_experiment

from tests.experiment.fakes import give_passes
from tests.experiment.session_support import (
    left_behind,
    left_running,
    only_folder,
    records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCHER = Path(__file__).with_name("launcher.py")
KILLS = 10
SEED = 2001
FROM_START = 3
"""Kills counted from the start of the process; the others from its first run."""
LONGEST_S = 2.0
RUNS_LENGTH_S = 0.6
"""A few runs of the workload below."""
RUNS_MOST = 5
"""Of one process, however late it is killed: it is never at its end by then."""
FINISH_LIMIT_S = 900


def launch(path: Path, tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(LAUNCHER), "run", str(path)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NFSLAB_STATE": str(tmp_path / "state")},
    )


def wait_for_a_run(process: subprocess.Popen[str], passes: Path) -> None:
    """Until a run of this process is under way: it has taken a pass."""
    deadline = time.monotonic() + FINISH_LIMIT_S
    while len(list(passes.iterdir())) == RUNS_MOST and process.poll() is None:
        assert time.monotonic() < deadline, "no run begins"
        time.sleep(0.002)


@pytest.mark.timeout(2 * FINISH_LIMIT_S)
def test_some_kills_and_exactly_the_planned_runs(
    experiment_file: Callable[..., Path], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    long = bool(pytestconfig.getoption("--long"))
    kills, blocks = (KILLS, 10) if long else (KILLS // 2, 6)
    passes = tmp_path / "passes"
    more = f'log = "two"\nchild = true\nmeasure_s = 0.1\npasses = "{passes}"'
    path = experiment_file(
        ('data = "one"', f'data = "one"\n{more}'),
        ("repetitions = 3", f"repetitions = {blocks}"),
    )
    instants = random.Random(SEED)
    sealed_before = cut_off = 0
    for kill in range(kills):
        give_passes(passes, RUNS_MOST)
        process = launch(path, tmp_path)
        if kill >= FROM_START:
            wait_for_a_run(process, passes)
        delay_s = instants.uniform(0, LONGEST_S if kill < FROM_START else RUNS_LENGTH_S)
        try:
            process.wait(timeout=delay_s)
        except subprocess.TimeoutExpired:
            process.kill()
        _, errors = process.communicate()
        assert process.returncode == -9, errors
        cut_off += bool(list(tmp_path.glob("results/*/runs/.partial-*")))
        # No finished run is ever lost.
        sealed = len(list(tmp_path.glob("results/*/runs/b*")))
        assert sealed >= sealed_before
        sealed_before = sealed
    assert cut_off > 0, "no kill hit a run under way: the test shows nothing"
    give_passes(passes, 6 * blocks)
    process = launch(path, tmp_path)
    _, errors = process.communicate(timeout=FINISH_LIMIT_S)
    assert process.returncode == 0, errors

    experiment = read_experiment(path)
    folder = only_folder(path)
    planned = planned_runs(experiment.points, blocks, "blocks", seed=7)
    found = records(folder)
    assert sorted(r.run_id for r in found) == sorted(run.run_id for run in planned)
    assert {r.status for r in found} == {"ok"}
    assert len({r.position for r in found}) == len(planned)
    assert folder.catalogue().damaged == {}
    # Each holds the figure that its point has: no run got another one's.
    assert all(r.metrics["rate_per_s"].value == 100.0 * r.factors["clients"] for r in found)
    assert left_behind(tmp_path) == []
    assert left_running(tmp_path / "state") == []
