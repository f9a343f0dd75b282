"""Where the CPU time goes: planted profiles in the page, in Markdown, in JSON, in a browser."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from nfslab.report import profile as said
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html import render_html
from nfslab.report.html.columns import unpack
from nfslab.report.markdown import render_markdown
from nfslab.report.profile import POINTS_MOST, compared, read_profiles, sentences
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.browser import browser, figure, figures, opened, settled
from tests.report.synthetic import Recipe, write_pgbench
from tests.results.planted_profiles import Row, write_profile

RECIPE = Recipe(clients=(1, 5), repetitions=2, samples=False, evidence=False, durable=False)
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


def payload(page: str, name: str) -> bytes:
    found = re.search(rf'id="data-{name}">([^<]*)<', page)
    assert found, name
    return unpack(found[1])


def section_text(page: str) -> str:
    section = page[page.index('<section id="profile-section"') :]
    section = section[: section.index("</section>")]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", section)))


def test_the_page_says_that_the_machine_was_idle(folder: ExperimentFolder) -> None:
    page = render_html(folder.path)
    text = section_text(page)
    assert (
        "The CPUs were idle 83 % of the time: what this load waits for decides, so look at waits"
        in text
    )
    # 2 x 150 of 4,000 possible samples, over both runs; the error is that of 4,000 samples.
    assert "ExecScan (in user mode): 7.5 % ± 0.8 % of all CPU time." in text
    assert "vfs_fsync kernel 200 5.00 % ± 0.675 % 5.00 % 5.00 %" in text
    # In all processes 2 x 180.
    assert "ExecScan user 300 7.50 % ± 0.816 % 7.50 % 9.00 %" in text
    assert "The CPUs were busy 90 % of the time" in text
    assert "Processes that are not this run's had 30 % of all CPU time." in text
    assert "perf itself took 0.12% of one CPU at most" in text
    split = json.loads(payload(page, "profile-bars"))["split"]
    assert [part["label"] for part in split["parts"]] == [
        "run, user", "run, kernel", "nfslab", "kernel threads, interrupts", "other processes",
        "perf", "idle",
    ]  # fmt: skip
    idle, busy = split["rows"]
    assert idle["shares"] == pytest.approx([0.075, 0.05, 0, 0.025, 0.015, 0.005, 0.83])
    assert busy["shares"] == pytest.approx([0.15, 0, 0.45, 0, 0.3, 0, 0.1])
    assert (idle["whole_s"], idle["calls"]) == (40, 680)
    assert idle["means_s"][6] == pytest.approx(33.2)
    flame = json.loads(payload(page, "profile"))["flame"]["points"]
    assert [(one["samples"], one["runs"]) for one in flame] == [(680, 2), (3600, 2)]
    assert "<b>&amp<" not in page, "names of others are text"


def test_one_thread_that_is_never_idle_is_another_matter(folder: ExperimentFolder) -> None:
    run = next(line for line in folder.sealed_runs()
               if line.point_id == folder.record.points[0].point_id)  # fmt: skip
    thread = {"process": "loader", "thread": "9", "share_of_a_cpu": 0.97}
    write_profile(folder.runs_path / run.run_id, IDLE, busiest_thread=thread)
    first = read_profiles(analyse(folder.path)).points[0]
    assert sentences(first)[0] == (
        "The CPUs were idle 83 % of the time: but one thread (loader) was running 97 % of it: it "
        "has no second CPU to use, so its functions decide."
    )


def test_processes_alone_have_no_idle_part(folder: ExperimentFolder) -> None:
    for line in folder.sealed_runs():
        write_profile(
            folder.runs_path / line.run_id, BUSY[:2], scope="processes", idle_share=0.4,
            idle_by="/proc/stat, of the whole recording", remarks=["Only this run's."],
        )  # fmt: skip
    first = read_profiles(analyse(folder.path)).points[0]
    assert (first.busy_share, first.cpu_s) == (1.0, 24.0)
    assert sentences(first)[1].endswith("75 % ± 1.7 % of the processes' CPU time.")
    assert "(by /proc/stat, of the whole recording)" in sentences(first)[0]
    assert first.notes == ["Only this run's."]
    split = json.loads(payload(render_html(folder.path), "profile-bars"))["split"]
    assert split["rows"][0]["shares"] == pytest.approx([0.25, 0, 0.75, 0, 0, 0, 0])


def test_markdown_and_json_say_it_too(folder: ExperimentFolder) -> None:
    text = render_markdown(folder.path)
    assert "The CPUs were idle 83 % of the time" in text
    rows = [line for line in text.splitlines() if "| ExecScan |" in line]
    assert [cell.strip() for cell in rows[0].split("|")][1:5] == [
        "ExecScan", "user", "7.50 %", "15 %",
    ]  # fmt: skip
    first, second = json.loads(render_json(folder.path))["profiles"]
    assert first["idle_share"] == pytest.approx(0.83)
    assert first["classes"]["run"] == pytest.approx({"user_share": 0.075, "kernel_share": 0.05})
    assert first["functions"][0]["function"] == "ExecScan"
    assert first["functions"][0]["self_share"] == pytest.approx(0.075)
    assert second["functions"][0]["function"] == "send <b>&amp</b>"


def test_one_run_is_shown_in_the_terminal(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    point = folder.record.points[0].point_id
    run = next(line.run_id for line in folder.sealed_runs() if line.point_id == point)
    shown = nfslab(capsys, "show", folder.path, run)
    assert shown.code == 0
    assert "The CPUs were idle 83 % of the time" in shown.out
    # One run: 150 of 2,000 possible samples.
    assert re.search(r"ExecScan +user +150 +7\.50 % +± 1\.15 % +7\.50 % +9 %", shown.out)
    (folder.runs_path / run / "evidence" / "profile_stacks.parquet").write_bytes(b"PAR1 no")
    assert "profile_stacks.parquet cannot be read" in nfslab(capsys, "show", folder.path, run).out


def test_functions_are_compared_by_point(folder: ExperimentFolder) -> None:
    points = read_profiles(analyse(folder.path)).points
    found = {one.name: shares for one, shares in compared(points)}
    assert found["send <b>&amp</b>"] == pytest.approx([0, 0.45])
    assert found["ExecScan"] == pytest.approx([0.075, 0.15])
    assert "mmap_read" not in found, "perf's own time is no function of the run"


def test_without_a_profile_nothing_is_said(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    assert "profile-section" not in render_html(folder.path)
    assert "CPU time goes" not in render_markdown(folder.path)
    assert "profiles" not in json.loads(render_json(folder.path))


def test_what_cannot_be_read_is_named(
    folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = folder.record.points[0].point_id
    runs = [folder.runs_path / line.run_id for line in folder.sealed_runs()
            if line.point_id == point]  # fmt: skip
    (runs[0] / "evidence" / "profile_stacks.parquet").write_bytes(b"PAR1 no")
    found = read_profiles(analyse(folder.path))
    assert found.points[0].stacks.runs == 1
    assert found.problems[0].startswith(f"{runs[0].name}: ")
    assert f"{runs[0].name}: " in section_text(render_html(folder.path))
    assert read_profiles(analyse(folder.path), 1).left_out == 1
    monkeypatch.setattr(said, "ROWS_MAX", 3)
    assert read_profiles(analyse(folder.path)).runs_left_out == 2
    assert POINTS_MOST >= 8


def many(frames: int) -> list[Row]:
    """A wide tree: each leaf once, all below one process."""
    return [("run", f"wide;main;level{n % 40};f{n % 900};leaf{n}", n % 2, 3) for n in range(frames)]


def test_tens_of_thousands_of_frames_stay_small(folder: ExperimentFolder) -> None:
    run = next(line for line in folder.sealed_runs()
               if line.point_id == folder.record.points[0].point_id)  # fmt: skip
    before = len(render_html(folder.path))
    write_profile(folder.runs_path / run.run_id, many(60_000), idle_share=0.1)
    page = render_html(folder.path)
    one = json.loads(payload(page, "profile"))["flame"]["points"][0]
    assert one["frames"] <= 20_000
    assert one["left_out"] >= 60_000 - 20_000
    assert one["frames"] + one["left_out"] >= 60_000
    assert len(page) - before < 600_000


@pytest.mark.parametrize(
    "options", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 420, "height": 800}}]
)
def test_the_flame_graph_in_a_browser(
    folder: ExperimentFolder, tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "page.html"
    path.write_text(render_html(folder.path))
    with browser() as chromium, opened(chromium, path, **options) as page:
        page.locator("#profile-flame").scroll_into_view_if_needed()
        drawn = figures(page)
        assert drawn["profile-bars-split"]["counts"]["total"] == 2
        state = drawn["profile-flame"]
        # postgres main ExecScan fsync vfs_fsync, kworker kthread flush, cc main ExecScan, perf ...
        assert state["counts"]["total"] == 14
        assert state["view"]["x"] == [0, 1]
        # Processes stand in the order of their names; postgres has 250 of its 340 samples.
        share = {"cc": 30, "kworker/0:1": 50, "perf": 10, "postgres": 250}
        scale = 0.17 / 340
        begin = (30 + 50 + 10) * scale
        press(page, begin + 0.5 * share["postgres"] * scale, 0)
        view = figure(page, "profile-flame")["view"]["x"]
        assert view == pytest.approx([begin, begin + 250 * scale])
        search(page, "fsync")
        told = page.locator("#profile-flame .found").inner_text()
        assert told == "2 frames found, together 5.00 % of all CPU time"
        search(page, "")
        assert page.locator("#profile-flame .found").count() == 0
        page.locator("#profile-flame .host").dblclick()
        assert figure(page, "profile-flame")["view"]["x"] == [0, 1]
        page.locator("#profile-flame").get_by_label("idle time").uncheck()
        settled(page)
        assert figure(page, "profile-flame")["full"]["x"] == pytest.approx([0, 0.17])
        page.locator("#profile-flame select").select_option("1")
        page.locator("#profile-flame .readout", has_text="8 frames").wait_for()
        assert painted(page) > 3
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= options.get("viewport", {"width": 1280})["width"]


def press(page: Any, share: float, depth: int) -> None:
    """Click on the frame at this share of all CPU time, as far down as `depth`."""
    box = page.locator("#profile-flame .host").bounding_box()
    rect = figures(page)["profile-flame"]["panels"][0]["rect"]
    low, high = figures(page)["profile-flame"]["view"]["x"]
    x = box["x"] + rect["x"] + (share - low) / (high - low) * rect["w"]
    page.mouse.click(x, box["y"] + rect["y"] + 17 * depth + 8)
    settled(page)


def search(page: Any, text: str) -> None:
    page.locator("#profile-flame input[type=search]").fill(text)
    settled(page)


def painted(page: Any) -> int:
    """Distinct colours on the canvas."""
    return int(
        page.evaluate("""() => {
          const canvas = document.querySelector('#profile-flame canvas');
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const colours = new Set();
          for (let i = 0; i < data.length; i += 4) colours.add(data.slice(i, i + 4).join());
          return colours.size;
        }""")
    )
