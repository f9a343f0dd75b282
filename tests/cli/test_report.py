"""`nfslab report`: what is printed, what is written, and that nothing is half written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nfslab.report.registry import REPORTS
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    recipe = Recipe(clients=(1, 5), repetitions=3, samples=False, evidence=False)
    return write_pgbench(tmp_path, recipe)


@pytest.fixture
def plain_html(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the page: this is about the command, tests/report is about the page."""
    monkeypatch.setitem(REPORTS, "html", f"{__name__}:render_plainly")


def render_plainly(analysis: Any) -> str:
    return f"<html>{analysis.verdict}</html>"


def test_markdown_and_json(folder: ExperimentFolder, capsys: Capture) -> None:
    said = nfslab(capsys, "report", folder.path, "--markdown")
    assert said.code == 0
    assert "placement=together" in said.out
    content = json.loads(nfslab(capsys, "report", folder.path, "--json").out)
    assert content["name"] == "placement-2001"
    assert not (folder.path / "report.html").exists()


def test_a_stated_baseline(folder: ExperimentFolder, capsys: Capture) -> None:
    arguments = ("report", folder.path, "--markdown", "--baseline")
    assert "placement=log apart" in nfslab(capsys, *arguments, "placement=log apart").out
    said = nfslab(capsys, *arguments, "placement")
    assert said.code == 2
    assert "AXIS=LEVEL" in said.err
    said = nfslab(capsys, *arguments, "placment=together")
    assert said.code == 2
    assert "'placement'" in said.err


@pytest.mark.usefixtures("plain_html")
def test_the_page_is_written_where_asked(
    folder: ExperimentFolder, capsys: Capture, tmp_path: Path
) -> None:
    said = nfslab(capsys, "report", folder.path)
    assert said.out.strip() == str(folder.path / "report.html")
    assert "<html>tps against" in (folder.path / "report.html").read_text()
    other = tmp_path / "other.html"
    said = nfslab(capsys, "report", folder.path, "--html", other, "--markdown")
    assert other.exists()
    assert said.out.startswith("### ")
    assert str(other) in said.err


@pytest.mark.usefixtures("plain_html")
def test_a_place_that_cannot_be_written(
    folder: ExperimentFolder, capsys: Capture, tmp_path: Path
) -> None:
    said = nfslab(capsys, "report", folder.path, "--html", tmp_path / "no" / "x.html")
    assert said.code == 1
    assert "cannot write" in said.err
    assert "--html FILE" in said.err


def test_bad_usage(folder: ExperimentFolder, capsys: Capture, tmp_path: Path) -> None:
    assert nfslab(capsys, "report", folder.path, "--markdown", "--json").code == 2
    said = nfslab(capsys, "report", tmp_path / "nowhere")
    assert said.code == 2
    assert "cannot read" in said.err


def test_several_get_a_page_each(plain_html: None, capsys: Capture, tmp_path: Path) -> None:
    recipe = Recipe(clients=(1,), repetitions=3, samples=False, evidence=False)
    paths = [write_pgbench(tmp_path / name, recipe).path for name in ("one", "two words")]
    said = nfslab(capsys, "report", *paths)
    assert said.code == 0
    assert said.out.splitlines() == [str(path / "report.html") for path in paths]
    assert all((path / "report.html").is_file() for path in paths)
    for option in (("--html", tmp_path / "x.html"), ("--json",)):
        refused = nfslab(capsys, "report", *paths, *option)
        assert refused.code == 2
        assert all(str(path) in refused.err for path in paths)
    assert not (tmp_path / "x.html").exists()
