"""`nfslab compare`: exit codes that a script can rely on, and the caveats first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nfslab.results.comparison import NOT_INTERLEAVED
from nfslab.results.records import CheckRecord

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench

Capture = pytest.CaptureFixture[str]
QUICK: dict[str, Any] = {
    "clients": (1, 10),
    "samples": False,
    "evidence": False,
    "spread": 0.01,
}


def write(folder: Path, **changes: Any) -> str:
    return str(write_pgbench(folder, Recipe(**{**QUICK, "repetitions": 6, **changes})).path)


@pytest.mark.parametrize(
    ("factor", "condition", "code", "word"),
    [
        (0.8, "tps < -5%", 1, "FAILS: tps < -5% at clients=1: -20"),
        (0.97, "tps < -5%", 0, "ok: tps < -5% at clients=1: -3"),
        (1.3, "tps < -5%", 0, "ok"),
        (1.3, "latency_p99_ms > 5%", 0, "ok"),
        (0.8, "latency_p99_ms > 5%", 1, "FAILS"),
    ],
)
def test_exit_codes(
    tmp_path: Path, capsys: Capture, factor: float, condition: str, code: int, word: str
) -> None:
    path = write(tmp_path, placements={"base": 1.0, "new": factor})
    arguments = (f"{path}:placement=base", f"{path}:placement=new", "--fail-if", condition)
    said = nfslab(capsys, "compare", *arguments)
    assert said.code == code, said.out
    assert word in said.out
    content = json.loads(nfslab(capsys, "compare", *arguments, "--json").out)
    assert content["exit_code"] == code
    assert len(content["conditions"]) == 2


def test_several_conditions(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, placements={"base": 1.0, "new": 0.8})
    sides = (f"{path}:placement=base", f"{path}:placement=new")
    good = ("--fail-if", "tps < -50%")
    bad = ("--fail-if", "latency_p50_ms > 10%")
    assert nfslab(capsys, "compare", *sides, *good).code == 0
    assert nfslab(capsys, "compare", *sides, *good, *bad).code == 1
    assert nfslab(capsys, "compare", *sides, *bad, *good).code == 1


def test_too_few_repetitions_is_no_pass(tmp_path: Path, capsys: Capture) -> None:
    base = write(tmp_path / "a", repetitions=1)
    new = write(tmp_path / "b", repetitions=1, seed=2)
    said = nfslab(capsys, "compare", base, new, "--fail-if", "tps < -5%")
    assert said.code == 3
    assert "INCONCLUSIVE" in said.out
    words = ("compare", base, new, "--fail-if", "tps < -5%", "--if-inconclusive")
    assert [nfslab(capsys, *words, then).code for then in ("pass", "fail")] == [0, 1]
    assert "n = 1 and 1" in said.out
    assert nfslab(capsys, "compare", base, new).code == 0


def test_unequal_durability_is_the_first_line(
    tmp_path: Path, capsys: Capture, snapshot: Callable[[str, str], None]
) -> None:
    path = write(tmp_path, volatile=("log apart",))
    said = nfslab(capsys, "compare", f"{path}:placement=together", f"{path}:placement=log apart")
    first = said.out.splitlines()[0].lower()
    assert all(word in first for word in ("durability", "stable", "volatile"))
    snapshot("compare.txt", said.out.replace(str(tmp_path), "FOLDER"))


def test_two_experiments_say_that_they_are_not_paired(tmp_path: Path, capsys: Capture) -> None:
    base, new = write(tmp_path / "a"), write(tmp_path / "b", clients=(1, 20), seed=2)
    said = nfslab(capsys, "compare", base, new, "--metric", "tps", "--metric", "latency_p99_ms")
    assert "not paired" in said.out
    assert f"note: {NOT_INTERLEAVED}" in said.out
    assert "only in baseline (2)" in said.out
    assert "only in new (2)" in said.out
    assert "\nlatency_p99_ms\n" in said.out


def test_bad_usage(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, repetitions=2)
    sides = (f"{path}:placement=together", f"{path}:placement=log apart")
    for arguments, words in (
        (("--fail-if", "tps"), "is no condition"),
        (("--fail-if", "tsp < -5%"), "did you mean 'tps'"),
        (("--metric", "tsp"), "did you mean 'tps'"),
    ):
        said = nfslab(capsys, "compare", *sides, *arguments)
        assert (said.code, words in said.err) == (2, True)
    said = nfslab(capsys, "compare", path, path)
    assert (said.code, "same runs" in said.err) == (2, True)


def test_competing_load_on_one_side_is_told(tmp_path: Path, capsys: Capture) -> None:
    load = CheckRecord(name="busy_machine", verdict="warning", message="others used 40 %")
    base = write(tmp_path / "a")
    new = write(tmp_path / "b", seed=2, flagged={(0, 0): load})
    said = nfslab(capsys, "compare", base, new)
    row = next(line for line in said.out.splitlines() if line.startswith("busy_machine"))
    assert row.split("  ", 1)[1].split() == ["0", "of", "24", "runs", "1", "of", "24", "runs"]
    content = json.loads(nfslab(capsys, "compare", base, new, "--json").out)
    assert [item["new"] for item in content["checks"]] == ["1 of 24 runs"]
