"""Records of other schema versions: older ones are led up, newer ones are refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab.errors import ResultsError
from nfslab.results.checksums import write_checksums
from nfslab.results.records import SCHEMA_VERSION, CheckName, CheckRecord
from nfslab.results.store import ExperimentFolder
from nfslab.results.upgrade import STEPS, check_table, load_record, stamp_table, upgrade
from pydantic import TypeAdapter

from tests.report.synthetic import Recipe, write_pgbench

SMALL = Recipe(clients=(1, 2), repetitions=2, samples=False, evidence=False)


def tree_digest(folder: Path) -> str:
    """A hash over every name and byte below the folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes() if path.is_file() else b"/")
    return digest.hexdigest()


def test_steps_are_walked_in_order_without_touching_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = {
        1: lambda content: {**content, "walked": [*content["walked"], 1]},
        2: lambda content: {**content, "walked": [*content["walked"], 2]},
        3: lambda content: {**content, "walked": [*content["walked"], 3]},
    }
    monkeypatch.setitem(STEPS, "run", chain)
    monkeypatch.setattr("nfslab.results.upgrade.SCHEMA_VERSION", 4)
    old: dict[str, Any] = {"schema_version": 2, "walked": []}
    new = upgrade(old, "run", where="x")
    assert new == {"schema_version": 4, "walked": [2, 3]}
    assert old == {"schema_version": 2, "walked": []}


def test_a_missing_step_is_an_error_not_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "run", {2: dict})
    monkeypatch.setattr("nfslab.results.upgrade.SCHEMA_VERSION", 3)
    with pytest.raises(ResultsError, match="1 to 2"):
        upgrade({"schema_version": 1}, "run", where="x")


def test_an_old_run_is_read_through_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the next version will do it: version 1 on disk called `block` `repetition`."""
    folder = write_pgbench(tmp_path, SMALL)
    line = folder.sealed_runs()[0]
    path = folder.runs_path / line.run_id / "run.json"
    content = json.loads(path.read_bytes())
    content["repetition"] = content.pop("block")
    path.write_text(json.dumps(content))

    def rename(content: dict[str, Any]) -> dict[str, Any]:
        content["block"] = content.pop("repetition")
        return content

    monkeypatch.setitem(STEPS, "run", {1: rename})
    monkeypatch.setattr("nfslab.results.upgrade.SCHEMA_VERSION", 2)
    before = tree_digest(tmp_path)
    assert folder.run_record(line.run_id).block == line.block
    assert tree_digest(tmp_path) == before


@pytest.mark.parametrize("version", [0, -1, True, "1", None, 1.0])
def test_what_has_no_version_is_not_ours(version: object) -> None:
    with pytest.raises(ResultsError, match="no record of nfslab"):
        upgrade({"schema_version": version}, "run", where="x")


def test_a_folder_from_the_future_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, SMALL)
    path = folder.path / "experiment.json"
    content = json.loads(path.read_bytes())
    content |= {"schema_version": SCHEMA_VERSION + 1, "nfslab_version": "7.3.0"}
    path.write_text(json.dumps(content))
    before = tree_digest(tmp_path)
    with pytest.raises(ResultsError, match="written by a newer nfslab") as caught:
        ExperimentFolder.open(folder.path)
    assert "nfslab 7.3.0 or newer" in caught.value.fix
    assert f"its schema is {SCHEMA_VERSION + 1}" in caught.value.why
    assert tree_digest(tmp_path) == before


def test_a_run_from_the_future_is_named_and_not_counted(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, SMALL)
    lines = folder.sealed_runs()
    path = folder.runs_path / lines[0].run_id / "run.json"
    content = json.loads(path.read_bytes())
    content["schema_version"] = SCHEMA_VERSION + 1
    path.write_text(json.dumps(content))
    write_checksums(path.parent)
    (folder.path / "catalogue.jsonl").unlink()
    catalogue = folder.catalogue()
    assert list(catalogue.damaged) == [lines[0].run_id]
    assert "newer nfslab" in catalogue.damaged[lines[0].run_id]
    assert len(catalogue.lines) == len(lines) - 1


def test_a_table_from_the_future_is_refused(tmp_path: Path) -> None:
    table = stamp_table(pa.table({"a": [1]}))
    check_table(table.schema.metadata, tmp_path)
    check_table(None, tmp_path)
    with pytest.raises(ResultsError, match="newer nfslab"):
        check_table({b"nfslab.schema_version": b"99"}, tmp_path)
    with pytest.raises(ResultsError, match="damaged"):
        check_table({b"nfslab.schema_version": b"x"}, tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not valid JSON"),
        (b"[1]", "one JSON object"),
        (b'{"schema_version": 1, "a": ', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_damaged_records_say_what_is_wrong(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(ResultsError, match="damaged") as caught:
        load_record(path, "run")
    assert reason in caught.value.why


def test_a_huge_file_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole: takes no space
    with pytest.raises(ResultsError, match="no record of nfslab"):
        load_record(path, "run")


def test_checks_of_earlier_results_have_the_names_of_today() -> None:
    assert CheckRecord(name="dead_time", verdict="ok", message="").name == "stall"
    flags = TypeAdapter(list[CheckName]).validate_python(["competing_load:warning", "planted:ok"])
    assert flags == ["busy_machine:warning", "planted:ok"]
