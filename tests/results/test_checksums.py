"""What was sealed is what is read: flipped bits, cut files and edits are found, and named."""

from __future__ import annotations

import binascii
import json
import random
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from nfslab.report.analysis import analyse
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.checksums import CHECKSUMS, damage, harm, write_checksums
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench

SMALL = Recipe(clients=(1,), repetitions=3)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return write_pgbench(tmp_path / "results", SMALL)


def first_run(folder: ExperimentFolder) -> Path:
    return folder.runs_path / folder.sealed_runs()[0].run_id


def flip(path: Path, place: int = -1000) -> None:
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 0x10
    path.write_bytes(content)


def double_tps(run: Path) -> None:
    record = json.loads((run / "run.json").read_bytes())
    record["metrics"]["tps"]["value"] *= 2
    (run / "run.json").write_text(json.dumps(record))


def test_every_file_of_a_sealed_run_has_its_checksum(folder: ExperimentFolder) -> None:
    run = first_run(folder)
    stated = json.loads((run / CHECKSUMS).read_bytes())["files"]
    files = {p.relative_to(run).as_posix(): p for p in run.rglob("*") if p.is_file()}
    del files[CHECKSUMS]
    assert stated == {
        name: {
            "bytes": path.stat().st_size,
            "crc32": f"{binascii.crc32(path.read_bytes()):08x}",
        }
        for name, path in files.items()
    }
    assert damage(run, "whole") == {}


def test_a_flipped_bit_takes_the_run_out_of_every_figure(
    folder: ExperimentFolder, capsys: Capture
) -> None:
    before = analyse(folder.path)
    run = first_run(folder)
    flip(run / "samples" / "transactions.parquet")
    after = analyse(folder.path)
    assert list(after.damaged) == [run.name]
    assert "samples/transactions.parquet" in after.damaged[run.name]
    assert len(after.runs) == len(before.runs) - 1
    said = nfslab(
        capsys,
        "query",
        folder.path,
        "SELECT count(DISTINCT run_id) AS runs FROM samples_transactions",
        "--csv",
    )
    assert (said.code, said.out.split()) == (0, ["runs", str(len(before.runs) - 1)])
    assert f"{run.name}/samples/transactions.parquet" in said.err


def test_an_edited_record_is_not_believed(folder: ExperimentFolder, capsys: Capture) -> None:
    run = first_run(folder)
    double_tps(run)
    assert list(analyse(folder.path).damaged) == [run.name]
    for command in ("list", "show"):
        said = nfslab(capsys, command, folder.path)
        assert (said.code, run.name in said.out) == (0, True), command
    said = nfslab(capsys, "query", folder.path, "SELECT run_id FROM runs", "--csv")
    assert (said.code, run.name in said.out, run.name in said.err) == (0, False, True)
    for told in (render_markdown(folder.path), render_html(folder.path)):
        assert f"{run.name}: run.json: " in unescape(told)


def test_a_doubled_figure_is_in_no_comparison(folder: ExperimentFolder, capsys: Capture) -> None:
    together, apart = (f"{folder.path}:placement={name}" for name in ("together", "log apart"))
    base = [one for one in folder.sealed_runs() if one.factors["placement"] == "together"]
    victim = base.pop().run_id
    double_tps(folder.runs_path / victim)
    said = json.loads(nfslab(capsys, "compare", together, apart, "--json").out)
    (found,) = said["results"]["tps"]
    assert len([note for note in said["notes"] if victim in note]) == 1
    assert (found["n_base"], found["n_new"]) == (2, 3)
    values = [one.metrics["tps"] for one in base]
    assert min(values) <= found["base"] <= max(values)


@pytest.mark.parametrize("name", ["experiment.json", "experiment.toml"])
def test_what_was_planned_is_sealed_too(
    folder: ExperimentFolder, capsys: Capture, name: str
) -> None:
    """A record is extended, and stays sealed; a scale of 6 that was 8 is not printed."""
    folder.update_record(folder.record.model_copy(update={"repetitions": 4}))
    assert ExperimentFolder.open(folder.path).record == folder.record
    assert nfslab(capsys, "check", folder.path).code == 0
    text = (folder.path / name).read_text()
    (folder.path / name).write_text(text.replace("placement", "displacement"))
    for command in ("check", "report", "list", "show"):
        said = nfslab(capsys, command, folder.path)
        assert "CRC-32" in said.out + said.err, command
        assert (said.code == 1) == (command != "list"), command


def test_caches_that_were_changed_are_named_and_made_anew(
    folder: ExperimentFolder, capsys: Capture
) -> None:
    before = nfslab(capsys, "report", folder.path, "--json").out
    facts = next((folder.path / "facts").rglob("*.json"))
    for file in (facts, folder.path / "catalogue.jsonl"):
        file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    said = nfslab(capsys, "check", folder.path)
    assert said.code == 1
    assert all(f"/{name}: " in said.out for name in (facts.name, "catalogue.jsonl"))
    assert nfslab(capsys, "report", folder.path, "--json").out == before


def test_check_names_each_damaged_file(folder: ExperimentFolder, capsys: Capture) -> None:
    assert nfslab(capsys, "check", folder.path.parent).code == 0
    run = first_run(folder)
    flip(run / "evidence" / "system_cpu.parquet")
    double_tps(run)
    said = nfslab(capsys, "check", folder.path.parent, "--json")
    assert said.code == 1
    (entry,) = json.loads(said.out)
    assert set(entry["damaged"]) == {run.name}
    assert set(entry["damaged"][run.name]) == {"run.json", "evidence/system_cpu.parquet"}
    assert (entry["runs"], entry["without_checksums"]) == (6, 0)
    assert nfslab(capsys, "check", folder.path).code == 1


def test_runs_without_checksums_are_read_as_before(
    folder: ExperimentFolder, capsys: Capture
) -> None:
    for run in folder.runs_path.iterdir():
        (run / CHECKSUMS).unlink()
    assert len(analyse(folder.path).damaged) == 0
    said = nfslab(capsys, "check", folder.path, "--json")
    assert (said.code, json.loads(said.out)[0]["without_checksums"]) == (0, 6)
    table = first_run(folder) / "samples" / "transactions.parquet"
    table.write_bytes(table.read_bytes()[:-30])
    assert list(analyse(folder.path).damaged) == [first_run(folder).name]


def harmed(path: Path, chance: random.Random) -> None:
    """One accident: a bit, the end, all, the file itself, 64 bytes of nothing."""
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content)) if content else 0
    how = chance.choice(["bit", "cut", "empty", "gone", "zeros"])
    if how == "gone":
        path.unlink()
    elif how == "bit" and content:
        flip(path, place)
    elif how == "zeros":
        path.write_bytes(content[:place] + bytes(len(content[place : place + 64])))
    else:
        path.write_bytes(content[: place if how == "cut" else 0])


def test_any_accident_is_found_by_reading_all_and_most_by_sizes_and_the_record(
    folder: ExperimentFolder,
) -> None:
    """Accidents of all kinds to any file, one after the other."""
    runs = sorted(folder.runs_path.iterdir())
    chance = random.Random(7)
    for _ in range(200):
        victim = chance.choice(sorted(p for run in runs for p in run.rglob("*") if p.is_file()))
        kept = victim.read_bytes()
        harmed(victim, chance)
        run = folder.runs_path / victim.relative_to(folder.runs_path).parts[0]
        after = victim.read_bytes() if victim.exists() else None
        other_size = after is None or len(after) != len(kept)
        if after != kept and victim.name != CHECKSUMS:
            assert harm(run, "whole"), victim
            assert bool(harm(run, "sizes")) == (other_size or victim.name == "run.json"), victim
        assert not any(harm(other, "sizes") for other in runs if other != run)
        victim.write_bytes(kept)
    assert not any(harm(run, "sizes") for run in runs)


def test_what_is_in_no_figure_and_what_is_not_there(folder: ExperimentFolder) -> None:
    run = first_run(folder)
    log = run / "logs" / "server.log"
    log.write_text("before")
    write_checksums(run)
    log.write_text("behind it")
    assert harm(run, "sizes") == ""
    (run / CHECKSUMS).unlink()
    assert harm(run, "sizes") == "", "runs from before there were any"


@pytest.mark.parametrize("seed", range(10))
def test_no_accident_ends_a_command_or_changes_a_figure(
    folder: ExperimentFolder, capsys: Capture, seed: int
) -> None:
    """Each file of one run, by seed: its run is out and named, or every figure is as before."""
    chance = random.Random(seed)
    before = analyse(folder.path)
    values = {run.run_id: run.metrics for run in before.runs}
    run = first_run(folder)
    victim = chance.choice(sorted(p for p in run.rglob("*") if p.is_file()))
    harmed(victim, chance)
    after = analyse(folder.path)
    assert {one.run_id: one.metrics for one in after.runs}.items() <= values.items()
    assert set(values) == {one.run_id for one in after.runs} | set(after.damaged)
    table = victim.stem if victim.suffix == ".parquet" else "transactions"
    kind = victim.parent.name if victim.suffix == ".parquet" else "samples"
    asked: list[tuple[Any, ...]] = [
        ("list", folder.path.parent),
        ("show", folder.path),
        ("report", folder.path, "--json"),
        ("query", folder.path, f"SELECT count(*) FROM {kind}_{table}"),
    ]
    for words in asked:
        assert nfslab(capsys, *words).code == 0, (words, victim)
