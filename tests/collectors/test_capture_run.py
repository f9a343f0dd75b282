"""A run with `collectors = ["capture"]`: its calls stand in the run's report, text and HTML."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest
from nfslab.captures import tool as tools
from nfslab.evidence.capture.stored import stored_analysis

from tests.cli.invocation import nfslab

ROOT = Path(__file__).resolve().parents[2]
CALLS = 250
RUNS = 1


def need() -> None:
    answer = tools.available("auto")
    if not answer.ok:
        pytest.skip(f"{answer.reason}: {answer.fix}")


def experiment(folder: Path, calls: int, transport: str) -> Path:
    """A command that exchanges calls at an address of its own."""
    rng = random.Random(os.getpid())
    address = f"127.{rng.randint(1, 250)}.{rng.randint(1, 250)}.{rng.randint(1, 250)}"
    argv = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.collectors.loopback_nfs"]
    argv += [address, transport, str(calls)]
    path = folder / "captured.toml"
    path.write_text(
        f"""
[experiment]
name = "captured"
repetitions = {RUNS}
collectors = ["capture"]

[targets.disk]
kind = "local"
path = "{folder}"

[workload]
kind = "command"
data = "disk"
argv = {argv!r}

[[workload.metrics]]
name = "calls"
pattern = "calls ([0-9]+)"
unit = "1"
better = "higher"

[collectors.capture]
required = true
interface = "lo"
filter = "host {address}"
"""
    )
    return path


def made(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, list[Path]]:
    """The experiment, carried out: its folder and those of its runs."""
    results = file.parent / "results"
    said = nfslab(capsys, "run", file, "--results", results)
    assert said.code == 0, said.out + said.err
    (folder,) = results.iterdir()
    return folder, sorted((folder / "runs").iterdir())


@pytest.mark.long
def test_the_calls_of_every_run_are_in_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need()
    folder, runs = made(experiment(tmp_path, CALLS, "tcp"), capsys)
    assert len(runs) == RUNS
    for run in runs:
        stored = stored_analysis(run, run.name)
        assert stored is not None
        assert stored.calls == CALLS
        text = nfslab(capsys, "show", folder, run.name).out
        assert f"{CALLS} calls of 1 client to 1 server; the capture lacks nothing" in text
        assert re.search(rf"^NFSv3 GETATTR +{CALLS} ", text, flags=re.MULTILINE)
    assert nfslab(capsys, "report", folder).code == 0
    page = (folder / "report.html").read_text()
    assert page.count(f"{CALLS} calls in ") == RUNS
