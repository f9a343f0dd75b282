"""Where the CPU time goes: planted profiles in every output, all runs of a point together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from nfslab.display.figures import Flame, Stacked
from nfslab.evidence.found import find
from nfslab.evidence.profile.kind import PARTS, ProfileEvidence, points_of
from nfslab.evidence.profile.points import PointProfile, compared, sentences
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.checksums import write_checksums
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench
from tests.results.planted_profiles import Row, write_profile

RECIPE = Recipe(clients=(1, 5), repetitions=2, samples=False, evidence=False)
IDLE: list[Row] = [
    ("run", "postgres;main;ExecScan", 0, 150),
    ("run", "postgres;main;fsync;vfs_fsync", 1, 100),
    ("kernel threads", "kworker/0:1;kthread;flush", 2, 50),
    ("other", "cc;main;ExecScan", 0, 30),
    ("perf", "perf;main;mmap_read", 0, 10),
    ("idle", "swapper;do_idle;halt", 2, 600),
]
"""340 of 2,000 possible samples: 83 % idle."""
BUSY: list[Row] = [
    ("run", "postgres;main;ExecScan", 0, 300),
    ("nfslab", "python;send <b>&amp</b>", 0, 900),
    ("other", "cc;main;f", 0, 600),
]


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    """Both runs of the first point idle, of the second busy; the others have no profile."""
    made = write_pgbench(tmp_path, RECIPE)
    points = [point.point_id for point in made.record.points]
    for line in made.sealed_runs():
        if line.point_id in points[:2]:
            write_profile(made.runs_path / line.run_id, [IDLE, BUSY][points.index(line.point_id)])
    return made


def runs_of_first_point(folder: ExperimentFolder) -> list[Path]:
    point = folder.record.points[0].point_id
    return [folder.runs_path / one.run_id for one in folder.sealed_runs() if one.point_id == point]


def profiles(folder: ExperimentFolder) -> list[PointProfile]:
    return [one for one, _ in points_of(find(ProfileEvidence(), analyse(folder.path)))]


def test_shares_and_errors_are_those_of_all_runs_of_a_point(folder: ExperimentFolder) -> None:
    idle, busy = profiles(folder)
    assert (idle.samples, len(idle.runs), idle.cpu_s) == (680, 2, 40)
    assert idle.idle_share == pytest.approx(0.83)
    scan = next(one for one in idle.functions if one.name == "ExecScan")
    # 2 x 150 of 4,000 possible samples; in all processes 2 x 180.
    assert (scan.self_samples, idle.share(scan.self_weight)) == (300, pytest.approx(0.075))
    assert idle.share(scan.machine_self_weight) == pytest.approx(0.09)
    assert idle.error(0.075) == pytest.approx(1.96 * (0.075 * 0.925 / 4000) ** 0.5, rel=1e-3)
    assert sum(busy.class_shares()["other"]) == pytest.approx(0.3)
    assert "mmap_read" not in {one.name for one, _ in compared([idle, busy])}
    shares = {one.name: shares for one, shares in compared([idle, busy])}
    assert shares["send <b>&amp</b>"] == pytest.approx([0, 0.45])
    assert shares["ExecScan"] == pytest.approx([0.075, 0.15])


def test_one_thread_that_is_never_idle_is_another_matter(folder: ExperimentFolder) -> None:
    assert "look at waits" in sentences(profiles(folder)[0])[0]
    thread = {"process": "loader", "thread": "9", "share_of_a_cpu": 0.97}
    write_profile(runs_of_first_point(folder)[0], [*IDLE, IDLE[0]], busiest_thread=thread)
    said = sentences(profiles(folder)[0])[0]
    assert "loader" in said
    assert "97 %" in said


def test_processes_alone_have_no_idle_part(folder: ExperimentFolder) -> None:
    for line in folder.sealed_runs():
        write_profile(
            folder.runs_path / line.run_id, BUSY[:2], scope="processes", idle_share=0.4,
            idle_by="/proc/stat, of the whole recording", remarks=["Only this run's."],
        )  # fmt: skip
    first = profiles(folder)[0]
    assert (first.busy_share, first.cpu_s) == (1.0, 24.0)
    assert "/proc/stat" in sentences(first)[0]
    assert first.notes == ["Only this run's."]


def test_figures_have_what_was_planted(folder: ExperimentFolder) -> None:
    section = ProfileEvidence().section(find(ProfileEvidence(), analyse(folder.path)))
    assert section is not None
    bars, flames = section.figures
    stacked = bars.views[0].load()
    assert isinstance(stacked, Stacked)
    idle, busy = stacked.wholes
    seconds = [0.075, 0.05, 0, 0.025, 0.015, 0.005, 0.83]
    assert list(idle.parts) == pytest.approx([share * 40 for share in seconds])
    assert [part.label for part in stacked.parts] == [label for label, _ in PARTS]
    assert list(busy.parts)[6] == pytest.approx(4)
    flame = flames.views[0].load()
    assert isinstance(flame, Flame)
    # postgres main ExecScan fsync vfs_fsync, kworker kthread flush, cc main ExecScan, perf ...
    assert len(flame.name) == 14
    weights = dict(zip((flame.names[n] for n in flame.name), np.asarray(flame.weight), strict=True))
    assert weights["postgres"] * 680 == weights["vfs_fsync"] * 680 / 200 * 500
    assert len(flames.views) == 2


def test_every_output_says_it(folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]) -> None:
    page, text = render_html(folder.path), render_markdown(folder.path)
    assert 'id="profile-section"' in page
    assert "<b>&amp<" not in page, "names of others are text"
    for output in (page, text):
        assert re.search(r"\bidle 83 %", output)
    first, second = json.loads(render_json(folder.path))["profiles"]
    assert first["idle_share"] == pytest.approx(0.83)
    assert first["classes"]["run"] == pytest.approx({"user_share": 0.075, "kernel_share": 0.05})
    assert first["functions"][0]["function"] == "ExecScan"
    assert first["functions"][0]["self_share"] == pytest.approx(0.075)
    assert second["functions"][0]["function"] == "send <b>&amp</b>"
    whole, broken = runs_of_first_point(folder)
    shown = nfslab(capsys, "show", folder.path, whole.name)
    # One run: 150 of 2,000 possible samples.
    assert re.search(r"ExecScan +user +150 +7\.50 % +± 1\.15 % +7\.50 % +9 %", shown.out)
    (broken / "evidence" / "profile_stacks.parquet").write_bytes(b"PAR1 no")
    write_checksums(broken)
    assert "cannot be read" in nfslab(capsys, "show", folder.path, broken.name).out
    assert f"{broken.name}: " in render_html(folder.path)
    assert profiles(folder)[0].samples == 340


def test_without_a_profile_nothing_is_said(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    assert "profile-section" not in render_html(folder.path)
    assert "profiles" not in json.loads(render_json(folder.path))


def test_tens_of_thousands_of_frames_are_pruned_and_counted(folder: ExperimentFolder) -> None:
    many = [("run", f"wide;main;level{n % 40};f{n % 900};leaf{n}", n % 2, 3) for n in range(20_000)]
    write_profile(runs_of_first_point(folder)[0], many, idle_share=0.1)
    section = ProfileEvidence().section(find(ProfileEvidence(), analyse(folder.path)))
    assert section is not None
    flame = section.figures[1].views[0].load()
    assert isinstance(flame, Flame)
    assert 1 <= len(flame.name) <= 20_000
