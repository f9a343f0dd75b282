"""Scalability in reports: planted laws come back, what is no law is refused, elsewhere nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nfslab.evidence.found import sections_of
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.store import ExperimentFolder

from tests.report.designs import write_design

CLIENTS = [1, 2, 4, 8, 16, 32]


def planted(place: str, clients: int) -> float:
    if place == "law":
        return 200 * clients / (1 + 0.03 * (clients - 1) + 0.002 * clients * (clients - 1))
    return 300.0 * min(clients, 8) / (2 if clients > 8 else 1)


def content(path: Path) -> Any:
    return json.loads(render_json(path)).get("scalability")


def titles(path: Path) -> list[str]:
    return [section.title for section in sections_of(analyse(path))]


def test_a_planted_law_comes_back_and_a_cliff_is_refused(tmp_path: Path) -> None:
    """The peak of the planted one is sqrt(0.97 / 0.002) = 22.0."""
    path = write_design(tmp_path, {"place": ["law", "cliff"], "clients": CLIENTS}, planted)
    law, cliff = content(path)
    assert law["factors"] == {"place": "law"}
    assert law["levels"] == CLIENTS
    found = law["law"]
    assert not found["refused"]
    for name, truth in (("contention", 0.03), ("coherency", 0.002), ("peak", 22.02)):
        assert found[name]["low"] <= truth <= found[name]["high"], name
    assert found["peak"]["high"] / found["peak"]["low"] < 1.3
    assert cliff["law"]["refused"]
    assert "peak" not in cliff["law"]
    assert (cliff["highest_level"], cliff["knee_level"]) == (8, 8)

    analysis = analyse(path)
    (section,) = [s for s in sections_of(analysis) if s.anchor == "scalability"]
    assert "clients=22" in section.sentences[0]
    assert "does not fit" in section.sentences[1]
    fits = [row[-1].text for row in section.tables[0].rows]
    assert fits == ["fits", "does not fit"]
    for output in (render_markdown(analysis), render_html(analysis)):
        assert section.sentences[0] in output


@pytest.mark.parametrize(
    ("axes", "truth"),
    [
        ({"clients": [1, 8, 16]}, lambda clients: 100.0 * clients),
        ({"size": [1, 2, 4, 8, 16]}, lambda size: 100.0 * size),
        ({"clients": ["one", "two", "three", "four"]}, lambda clients: 100.0),
    ],
)
def test_where_there_is_nothing_to_fit_nothing_is_said(
    tmp_path: Path, axes: dict[str, list[Any]], truth: Callable[..., float]
) -> None:
    path = write_design(tmp_path, axes, truth)
    assert content(path) is None
    assert "Scalability" not in titles(path)


def test_two_blocks_are_too_few(tmp_path: Path) -> None:
    path = write_design(tmp_path, {"clients": CLIENTS}, lambda clients: planted("law", clients))
    assert titles(path) == ["Scalability"]
    folder = ExperimentFolder.open(path)
    few = write_design(
        tmp_path / "few",
        {"clients": CLIENTS},
        lambda clients: planted("law", clients),
        repetitions=2,
    )
    assert content(few) is None
    assert len(folder.record.points) == len(CLIENTS)


def test_only_whole_blocks_count(tmp_path: Path) -> None:
    """A level that lacks a run leaves its block out at all levels."""
    path = write_design(tmp_path, {"clients": CLIENTS}, lambda clients: planted("law", clients))
    (curve,) = content(path)
    assert curve["law"]["blocks"] == 4
    folder = ExperimentFolder.open(path)
    gone = next(line.run_id for line in folder.sealed_runs() if line.block == 2)
    (folder.path / "runs" / gone).rename(tmp_path / "gone")
    (curve,) = content(path)
    assert curve["law"]["blocks"] == 3
