"""Which runs a report reads: their order, what is left out, what cannot be read."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from nfslab.errors import ResultsError
from nfslab.evidence.capture.stored import ANALYSIS_TABLE
from nfslab.report.analysis import analyse
from nfslab.report.html import render_html
from nfslab.report.model import Analysis
from nfslab.report.shown_runs import counted_runs, first_of_each_point, problem, read_shown
from nfslab.results.evidence_tables import evidence_path

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench


class Run:
    def __init__(self, point: int, block: int) -> None:
        self.point, self.block = point, block


@pytest.fixture
def analysis(tmp_path: Path) -> Analysis:
    recipe = Recipe(clients=(1, 5), repetitions=3, samples=False, durable=False)
    return analyse(write_pgbench(tmp_path, recipe).path)


def test_first_runs_of_all_points_come_first() -> None:
    runs = [Run(1, 1), Run(0, 1), Run(0, 0), Run(1, 0), Run(2, 5)]
    ordered = [(run.point, run.block) for run in first_of_each_point(runs)]
    assert ordered == [(0, 0), (1, 0), (2, 5), (0, 1), (1, 1)]


def test_one_run_of_each_point_is_read_before_any_second_one(analysis: Analysis) -> None:
    read: list[str] = []

    def name(folder: Path) -> str:
        read.append(folder.name)
        return folder.name

    points = {run.run_id: run.point for run in analysis.runs}
    every = sorted({run.point for run in analysis.runs if run.point is not None})
    assert len(every) > 1
    found = read_shown(analysis, lambda _: True, name, len(every) + 1)
    assert [points[run_id] for run_id in read] == [*every, every[0]]
    assert [run.found for run in found.runs] == [run.run_id for run in found.runs]
    placed = [(run.point, run.block) for run in found.runs]
    assert placed == sorted(placed)
    assert found.left_out == len(analysis.runs) - len(every) - 1


def test_only_counted_runs_with_the_evidence_count(analysis: Analysis) -> None:
    analysis.runs[0] = replace(analysis.runs[0], counted=False)
    without = analysis.runs[1].run_id
    found = counted_runs(analysis, lambda folder: folder.name != without)
    names = {run.run_id for run in found}
    assert names == {run.run_id for run in analysis.runs[2:]}
    assert all(run.folder.is_dir() for run in found)


def test_what_cannot_be_read_is_named_and_nothing_is_no_run(analysis: Analysis) -> None:
    first, second = analysis.runs[0].run_id, analysis.runs[1].run_id

    def read(folder: Path) -> int | None:
        if folder.name == first:
            raise ResultsError("x.parquet cannot be read", why="it is short", fix="copy it")
        return None if folder.name == second else 1

    found = read_shown(analysis, lambda _: True, read, 100)
    assert found.problems == [f"{first}: x.parquet cannot be read: it is short"]
    assert len(found.runs) == len(analysis.runs) - 2
    assert found.left_out == 0
    assert problem("r", ResultsError("too long")) == "r: too long"


def test_a_capture_that_cannot_be_read_is_named_in_the_page_and_by_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_pgbench(tmp_path, Recipe(clients=(1,), repetitions=2, samples=False))
    run = folder.runs_path / folder.sealed_runs()[0].run_id
    evidence_path(run, ANALYSIS_TABLE).write_bytes(b"PAR1 and nothing more")
    page = unescape(render_html(folder.path))
    section = page[page.index('<section id="captures"') :]
    assert re.search(rf"\({run.name}\): \S*capture_analysis\.parquet cannot be read: ", section)
    assert 'href="#captures"' in page
    said = nfslab(capsys, "show", folder.path, run.name)
    assert said.code == 0
    assert re.search(r"the capture cannot be read: \S*parquet cannot be read\n  why: .*\n  fix: ",
                     said.out)  # fmt: skip
