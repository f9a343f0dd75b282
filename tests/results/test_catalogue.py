"""The catalogue is a cache: whatever happens to it, the runs are the truth."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from nfslab.results.outcomes import Outcomes
from nfslab.results.records import CatalogueLine
from nfslab.results.store import ExperimentFolder

from tests.report.synthetic import Recipe, write_pgbench

RECIPE = Recipe(clients=(1, 5, 10), repetitions=3, samples=False, evidence=False)


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return write_pgbench(tmp_path, RECIPE)


def ids(lines: list[CatalogueLine]) -> list[str]:
    return [line.run_id for line in lines]


def test_a_rebuilt_catalogue_equals_the_appended_one(folder: ExperimentFolder) -> None:
    before = folder.sealed_runs()
    assert len(before) == 2 * 3 * 3
    assert [line.position for line in before] == list(range(18))
    (folder.path / "catalogue.jsonl").unlink()
    catalogue = folder.catalogue()
    assert catalogue.lines == before
    assert catalogue.missing_lines == 18
    with folder.lock():
        pass
    catalogue = folder.catalogue()
    assert catalogue.lines == before
    assert catalogue.missing_lines == 0


def test_a_torn_last_line_loses_nothing(folder: ExperimentFolder) -> None:
    path = folder.path / "catalogue.jsonl"
    whole = path.read_bytes()
    before = folder.sealed_runs()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole), 37):
        path.write_bytes(whole[:cut])
        assert folder.sealed_runs() == before
    # Cut just before the newline: the line may be whole, or a number may be cut short.
    path.write_bytes(whole[:-1])
    assert folder.sealed_runs() == before


def test_appending_after_a_torn_line_loses_nothing(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    path = folder.path / "catalogue.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    record = folder.run_record(folder.sealed_runs()[0].run_id)
    again = record.model_copy(update={"run_id": f"b009-{record.point_id}-a1", "block": 9})
    folder.begin_run(again.run_id).seal(again, {})
    lines = folder.sealed_runs()
    assert len(lines) == 19
    assert folder.catalogue().missing_lines == 1


def test_garbage_in_the_middle_is_passed_over(folder: ExperimentFolder) -> None:
    before = folder.sealed_runs()
    path = folder.path / "catalogue.jsonl"
    rows = path.read_bytes().splitlines()
    rows[3] = b"\x00\xff garbage"
    rows[5] = b'{"run_id": 3}'
    rows.append(rows[0])
    path.write_bytes(b"\n".join(rows) + b"\n")
    catalogue = folder.catalogue()
    assert catalogue.lines == before
    assert (catalogue.missing_lines, catalogue.useless_lines) == (2, 3)


def test_a_changed_figure_in_a_line_is_not_believed(folder: ExperimentFolder) -> None:
    before = folder.sealed_runs()
    path = folder.path / "catalogue.jsonl"
    rows = path.read_bytes().splitlines()
    figure = re.compile(rb'("tps":)[0-9.e+-]+')
    assert figure.search(rows[2])
    rows[2] = figure.sub(rb"\g<1>1e6", rows[2], count=1)
    path.write_bytes(b"\n".join(rows) + b"\n")
    catalogue = folder.catalogue()
    assert catalogue.lines == before
    assert (catalogue.missing_lines, catalogue.useless_lines) == (1, 1)


def test_lines_of_before_there_were_checksums_count(folder: ExperimentFolder) -> None:
    before = folder.sealed_runs()
    path = folder.path / "catalogue.jsonl"
    path.write_bytes(re.sub(rb',"crc32":"[0-9a-f]{8}"}', b"}", path.read_bytes()))
    catalogue = folder.catalogue()
    assert (catalogue.lines, catalogue.missing_lines) == (before, 0)


def test_a_removed_run_does_not_count(folder: ExperimentFolder) -> None:
    before = folder.sealed_runs()
    shutil.rmtree(folder.runs_path / before[4].run_id)
    assert folder.sealed_runs() == before[:4] + before[5:]


def test_half_written_runs_are_named_and_not_counted(folder: ExperimentFolder) -> None:
    folder.begin_run("b007-00000000-a1")
    catalogue = folder.catalogue()
    assert catalogue.partial == ["b007-00000000-a1"]
    assert len(catalogue.lines) == 18


@pytest.mark.parametrize("damage", ["truncated", "missing", "other run", "wrong type"])
def test_a_damaged_run_is_named_not_hidden(folder: ExperimentFolder, damage: str) -> None:
    before = folder.sealed_runs()
    victim = folder.runs_path / before[2].run_id / "run.json"
    content = victim.read_bytes()
    if damage == "truncated":
        victim.write_bytes(content[: len(content) // 2])
    elif damage == "missing":
        victim.unlink()
    elif damage == "other run":
        victim.write_bytes((folder.runs_path / before[3].run_id / "run.json").read_bytes())
    else:
        victim.write_text(json.dumps({**json.loads(content), "block": "first"}))
    (folder.path / "catalogue.jsonl").unlink()
    catalogue = folder.catalogue()
    assert list(catalogue.damaged) == [before[2].run_id]
    assert catalogue.damaged[before[2].run_id]
    assert catalogue.lines == before[:2] + before[3:]


def test_only_the_newest_attempt_counts(tmp_path: Path) -> None:
    recipe = Recipe(
        clients=(1, 5),
        repetitions=3,
        retried=((0, 1), (2, 3)),
        failed=((1, 0),),
        samples=False,
        evidence=False,
    )
    outcomes = Outcomes(write_pgbench(tmp_path, recipe))
    assert len(outcomes.catalogue.lines) == 12 + 2
    assert len(outcomes.newest) == 12
    assert len(outcomes.counted) == 11
    superseded = outcomes.catalogue.superseded()
    assert [(line.status, line.attempt) for line in superseded] == [("failed", 1)] * 2
    assert [(line.block, line.attempt) for line in outcomes.counted if line.attempt == 2] == [
        (0, 2),
        (2, 2),
    ]
    assert outcomes.missing() == []


def test_missing_runs_are_known(tmp_path: Path) -> None:
    recipe = Recipe(
        clients=(1,), repetitions=3, missing=((1, 0), (2, 1)), samples=False, evidence=False
    )
    outcomes = Outcomes(write_pgbench(tmp_path, recipe))
    assert [(point.index, block) for point, block in outcomes.missing()] == [(0, 1), (1, 2)]


def test_setups_differ_exactly_when_something_in_effect_does(tmp_path: Path) -> None:
    plain = {"clients": (1, 5), "samples": False, "evidence": False}
    same = Outcomes(write_pgbench(tmp_path / "a", Recipe(repetitions=4, **plain)))
    # Two placements use two log targets: two setups, and no more.
    assert len({line.setup for line in same.counted}) == 2
    changed = Recipe(repetitions=4, machine_changes_at_block=2, **plain)
    other = Outcomes(write_pgbench(tmp_path / "b", changed))
    assert len(other.setups) == 4
    assert other.setups_complete
    kernels = {setup.machine["kernel"]["release"] for setup in other.setups}
    assert kernels == {"6.1.0-18-amd64", "6.1.0-21-amd64"}
