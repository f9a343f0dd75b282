"""A kind of evidence that is defined here appears in every output: no product file knows it.

Facts of all counted runs, computed once, computed anew when they no longer fit.
"""

from __future__ import annotations

import json
import shutil
import sys
import types
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
import pytest
from nfslab.display.figures import Axis, Bar, Bars, Figure
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.errors import ResultsError
from nfslab.evidence import cache, registry
from nfslab.evidence.base import (
    ColumnSpec,
    EvidenceKind,
    Facts,
    Found,
    RunFacts,
    SealedRun,
    TableSpec,
)
from nfslab.evidence.found import find, sections_of
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.catalogue import read_run
from nfslab.results.checksums import write_checksums
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench
from tests.results.client_hosts import SEEN, plant_hosts

RECIPE = Recipe(placements={"together": 1.0}, clients=(1, 5), repetitions=7, samples=False)


class ToyFacts(Facts):
    """How many rows its table has."""

    rows: int


class ToyEvidence(EvidenceKind[ToyFacts]):
    """Counts the rows of a table that every run of the synthetic experiment has."""

    kind: ClassVar[str] = "toy"
    title: ClassVar[str] = "Toy rows"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec("system_cpu", (ColumnSpec("t_ns", "int64", "ns"),)),
    )
    Facts: ClassVar[type[Facts]] = ToyFacts
    computed: ClassVar[list[str]] = []

    def facts(self, run: SealedRun) -> ToyFacts:
        self.computed.append(run.run_id)
        path = run.folder / "evidence" / "system_cpu.parquet"
        try:
            return ToyFacts(rows=pq.read_metadata(path).num_rows)
        except Exception as error:
            raise ResultsError("the toy is broken", why="planted") from error

    def section(self, found: Found[ToyFacts]) -> Section:
        rows = [[Cell(one.label), Cell(str(one.facts.rows), one.facts.rows)] for one in found.runs]
        bars = [Bar(one.label, one.facts.rows) for one in found.runs]
        return Section(
            self.title,
            sentences=[f"{len(found.runs)} toys counted."],
            tables=[Table("Toys", [Column("run", numeric=False), Column("rows")], rows)],
            figures=[Figure.of("toy-rows", "Rows", "Of each run.", Bars(Axis("rows"), bars))],
        )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ToyEvidence:
    module = types.ModuleType("toy_evidence")
    module.ToyEvidence = ToyEvidence  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_evidence", module)
    monkeypatch.setitem(registry.EVIDENCE, "toy", "toy_evidence:ToyEvidence")
    monkeypatch.setattr(ToyEvidence, "computed", [])
    return ToyEvidence()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pgbench(tmp_path, RECIPE).path


def test_facts_of_all_counted_runs_are_found(toy: ToyEvidence, folder: Path) -> None:
    found = find(toy, analyse(folder))
    assert [(one.point, one.block) for one in found.runs] == [
        (point, block) for point in range(2) for block in range(7)
    ]
    section = next(one for one in sections_of(analyse(folder)) if one.title == "Toy rows")
    assert section.sentences == ["14 toys counted."]
    assert not section.problems


def test_it_appears_in_every_output(
    toy: ToyEvidence, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = find(toy, analyse(folder)).runs
    rows = facts[0].facts.rows
    assert rows > 0
    for text in (render_html(folder), render_markdown(folder)):
        assert "Toy rows" in text
        assert "14 toys counted." in text
    (first, *others) = json.loads(render_json(folder))["toy"]
    assert len(others) == 13
    assert first == {"run_id": facts[0].run.run_id, "point": 0, "block": 0, "rows": rows}
    said = nfslab(capsys, "show", folder, facts[0].run.run_id).out
    assert "Toy rows" in said
    assert "1 toys counted." in said


def test_facts_are_computed_once(toy: ToyEvidence, folder: Path) -> None:
    first, again = find(toy, analyse(folder)), find(toy, analyse(folder))
    assert len(toy.computed) == 14
    assert [one.facts for one in first.runs] == [one.facts for one in again.runs]


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(b'{"facts": {"rows": 1}'),
        lambda path: path.write_bytes(b"[]"),
        lambda path: path.write_text(path.read_text().replace('"version":1', '"version":0')),
        lambda path: path.write_text(path.read_text().replace("schema_version", "none")),
        lambda path: path.write_text(path.read_text().replace('"rows"', '"row"')),
        lambda path: path.write_text(
            path.read_text().replace('"started_unix_ns":', '"started_unix_ns":1')
        ),
    ],
)
def test_what_is_damaged_or_of_another_version_is_computed_anew(
    toy: ToyEvidence, folder: Path, harm: object
) -> None:
    facts = [one.facts for one in find(toy, analyse(folder)).runs]
    run = toy.computed[0]
    harm(folder / "facts" / run / "toy.json")  # type: ignore[operator]
    toy.computed.clear()
    assert [one.facts for one in find(toy, analyse(folder)).runs] == facts
    assert toy.computed == [run]


def test_a_folder_that_cannot_be_written_goes_without(toy: ToyEvidence, folder: Path) -> None:
    (folder / "facts").write_text("in the way")
    assert len(find(toy, analyse(folder)).runs) == 14
    assert len(find(toy, analyse(folder)).runs) == 14
    assert len(toy.computed) == 28


def test_a_run_whose_evidence_cannot_be_read_is_named(toy: ToyEvidence, folder: Path) -> None:
    run = sorted(path for path in (folder / "runs").iterdir() if path.is_dir())[0]
    (run / "evidence" / "system_cpu.parquet").write_bytes(b"no table")
    write_checksums(run)
    found = find(toy, analyse(folder))
    assert len(found.runs) == 13
    assert [run.name in problem for problem in found.problems] == [True]


def test_a_run_alone_in_a_folder_has_facts_and_no_cache(toy: ToyEvidence, folder: Path) -> None:
    run = next(path for path in (folder / "runs").iterdir() if path.is_dir())
    moved = run.rename(folder.parent / run.name)
    one = SealedRun(moved, read_run(moved))
    facts = cache.facts_of(toy, one)
    assert facts is not None
    section = toy.run_section(RunFacts(one, 3, 1, "moved", facts))
    assert section is not None
    assert section.tables[0].rows[0][0].text == "moved"
    assert not (folder.parent / "facts").exists()


def test_what_client_hosts_saw_is_shown_by_host_and_never_mixed(
    toy: ToyEvidence, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = plant_hosts(ExperimentFolder.open(folder))
    for run in runs:
        for host in SEEN:
            evidence = run / "hosts" / host / "evidence"
            shutil.copy(evidence / "planted.parquet", evidence / "system_cpu.parquet")
    for _ in range(2):  # computed, then known
        (section,) = [one for one in sections_of(analyse(folder)) if one.title == "Toy rows"]
        assert section.sentences == ["14 toys counted."], "of this machine, as without hosts"
        assert [part.title for part in section.parts] == [f"On host {h}" for h in SEEN]
        for part, seen in zip(section.parts, SEEN.values(), strict=True):
            assert part.sentences == ["14 toys counted."]
            assert {row[1].text for row in part.tables[0].rows} == {str(len(seen))}
        ids = [figure.id for part in section.parts for figure in part.figures]
        assert ids == [f"toy-rows-{host}" for host in SEEN], "unique in a page"
    assert len(toy.computed) == 3 * 14
    assert render_html(folder).count("On host load1") >= 1
    told = json.loads(render_json(folder))
    assert list(told["toy_by_host"]) == list(SEEN)
    assert [len(runs) for runs in told["toy_by_host"].values()] == [14, 14]
