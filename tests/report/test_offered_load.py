"""Offered load in reports: curves against arithmetic by hand and the published table of 1999."""

from __future__ import annotations

import csv
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from nfslab.report.analysis import analyse
from nfslab.report.html import render_html
from nfslab.report.html.columns import unpack
from nfslab.report.markdown import render_markdown
from nfslab.report.offered_load import (
    OfferedLoad,
    agreement,
    offered_load,
    published_at,
    sentences,
)
from nfslab.report.offered_operations import read_operations
from nfslab.shipped import PACKAGE

from tests.cli.invocation import nfslab
from tests.report.browser import browser, figure, figures, opened, settled
from tests.report.planted_loads import NoMeasurement, Planted, Runs, write_loads
from tests.report.synthetic import Recipe, write_pgbench

REFERENCE = {
    "table": "sfs_heavy_load_1999",
    "metric": {
        "achieved_ops_per_s": "achieved_ops_per_s",
        "response_time_ms": "response_mean_ms",
    },
    "match": {"server_threads": "threads", "offered_ops_per_s": "load"},
}
LATE = Planted(850, 1, failed=True)
HAND: Runs = {
    # Three repetitions each: medians are the middle ones.
    (1, 100): [Planted(99, 1), Planted(100, 2), Planted(101, 3)],
    (1, 200): [Planted(190, 4), Planted(200, 5), Planted(195, 6)],
    (1, 400): [Planted(150, 20), Planted(160, 22), Planted(140, 21)],
    (1, 900): [LATE, Planted(870, 3, failed=True), NoMeasurement()],
    (4, 100): [Planted(100, 1, little=2.0), Planted(100, 1, little=2.0), Planted(100, 1)],
    (4, 200): [Planted(200, 2), Planted(200, 2), LATE],
    (4, 400): [Planted(400, 4), Planted(400, 4), Planted(390, 4)],
    (4, 900): [NoMeasurement(), NoMeasurement(), NoMeasurement()],
}


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_loads(tmp_path_factory.mktemp("loads"), HAND)


@pytest.fixture(scope="module")
def of_1999(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two repetitions that give the published table back, but for one point that keeps up."""
    with (PACKAGE / "published" / "sfs_heavy_load_1999.csv").open() as file:
        rows = list(csv.DictReader(file))
    runs: dict[tuple[int, float], list[Planted | NoMeasurement]] = {}
    for row in rows:
        key = (int(row["server_threads"]), float(row["offered_ops_per_s"]))
        achieved = float(row["achieved_ops_per_s"])
        if key == (16, 1600.0):
            achieved = 1599.0
        runs[key] = [Planted(achieved, float(row["response_time_ms"]))] * 2
    return write_loads(tmp_path_factory.mktemp("1999"), runs, reference=REFERENCE)


def load_of(path: Path) -> OfferedLoad:
    found = offered_load(analyse(path))
    assert found is not None
    return found


def test_curves_by_hand(by_hand: Path) -> None:
    one, four = load_of(by_hand).curves
    assert (one.label, four.label) == ("threads 1", "threads 4")
    medians = [p.achieved.median if p.achieved else None for p in one.points]
    assert medians == [100, 195, 150, None]
    means = [p.response["mean"].median for p in one.points if p.valid]
    assert means == [2, 5, 21]
    # 195 of 200 is 97.5 %: saturated. Power: 50, 39 and 7 ops/s a ms.
    assert [p.verdict for p in one.points] == [
        "knee", "saturated in 2 of 3 runs, peak",
        "saturated, overload", "does not count",
    ]  # fmt: skip
    # Up to the peak: (100, 2), (195, 5) -> 200 + 95 x 3.5, over 195.
    assert one.overall_ms == pytest.approx((200 + 332.5) / 195)
    spread = one.overall_by_block_ms
    assert spread is not None
    # By repetition: (99, 1) (190, 4) and (101, 3) (195, 6) are the outer ones.
    assert (spread.n, spread.minimum, spread.maximum) == (
        3,
        pytest.approx((99 + 91 * 2.5) / 190),
        pytest.approx((303 + 94 * 4.5) / 195),
    )
    assert [p.verdict for p in four.points] == [
        "knee", "not saturated", "saturated in 1 of 3 runs, peak", "does not count",
    ]  # fmt: skip
    assert four.overall_by_block_ms is not None
    assert four.overall_by_block_ms.n == 2, "the third repetition lacks a point"


def test_what_failed_runs_measured_is_kept_apart(by_hand: Path) -> None:
    one, four = load_of(by_hand).curves
    refused = one.points[3].refused
    assert refused is not None
    assert (refused.achieved_ops_per_s, refused.response_ms["mean"], refused.runs) == (860, 2, 2)
    assert one.points[3].reasons == [
        "what was measured is not true: the generator was late (and 1 run like it)",
        "the server went away",
    ]
    assert four.points[3].refused is None
    partly = four.points[1]
    assert (partly.runs, partly.failed, partly.refused) == (2, 1, None)
    assert partly.achieved is not None
    assert partly.achieved.median == 200


def test_littles_law_is_of_each_run(by_hand: Path) -> None:
    point = load_of(by_hand).curves[1].points[0]
    assert point.rate_times_response is not None
    assert point.outstanding is not None
    # 100/s x 1 ms; two of three runs were given twice that.
    assert point.rate_times_response.median == pytest.approx(0.1)
    assert point.outstanding.median == pytest.approx(0.2)


def test_sentences(by_hand: Path) -> None:
    one, four = sentences(load_of(by_hand))
    assert one == (
        "threads 1: at most 195 operations a second (offered 200, mean response 5.00 ms); "
        "overload brings it down to 150 at 400 offered."
    )
    assert four.endswith("no overload was reached: the server may do more.")


def test_operations_of_a_point(tmp_path: Path) -> None:
    more = {"READ": (0.75, 100, 10e6), "WRITE": (0.25, 300, None)}
    path = write_loads(tmp_path, {(1, 100): [Planted(100, 1), Planted(100, 1, operations=more)]})
    (rows,) = read_operations(analyse(path)).of_point.values()
    read, write = rows
    # READ: 300 + 100 of 800; means 4 and 10 ms, p99 three times that.
    assert (read.operation, read.answered, read.answered_share) == ("READ", 400, 0.5)
    assert (read.mean_ms, read.p99_ms) == (pytest.approx(7), pytest.approx(21))
    assert (write.mean_ms, write.answered) == (pytest.approx(8), 400)


def test_a_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write_loads(tmp_path, {(1, 100): [Planted(100, 1), Planted(100, 1)]})
    broken = sorted((path / "runs").iterdir())[1]
    (broken / "samples" / "operations.parquet").write_bytes(b"PAR1 and nothing more")
    found = read_operations(analyse(path))
    assert [line.split(":")[0] for line in found.problems] == [broken.name]
    assert len(found.of_point[0]) == 2
    assert broken.name in section(render_html(path))


def test_the_published_table_stands_below_ours(of_1999: Path) -> None:
    analysis = analyse(of_1999)
    beside = published_at(analysis, load_of(of_1999))
    assert len(beside) == 20
    assert sum(bool(there.is_saturated) for there in beside.values()) == 18
    text = section(render_html(of_1999))
    assert "as published at 19 of 20 points (published: 18 saturated, measured: 17)" in text
    assert "threads 1 measured 356 56.6 ms 212 97.8 ms 162 128 ms 138 152 ms" in text
    assert "threads 16 published 801 6.10 ms 1,539 14.2 ms" in text
    assert 'href="#reference"' in render_html(of_1999)


def test_the_order_of_curves_is_compared_at_equal_loads(tmp_path: Path) -> None:
    # Published at 800: 356, 569, 782; at 1600: 212, 381. Two pairs of four are turned round.
    achieved = {(1, 800.0): 400, (2, 800.0): 350, (4, 800.0): 390, (1, 1600.0): 100}
    runs: Runs = {key: [Planted(value, 9)] for key, value in achieved.items()}
    path = write_loads(tmp_path, {**runs, (2, 1600.0): [Planted(300, 9)]}, reference=REFERENCE)
    analysis = analyse(path)
    found = load_of(path)
    said = agreement(found, published_at(analysis, found))
    assert said[0].startswith("Saturated or not: as published at 5 of 5 points")
    assert said[1].endswith("as published in 2 of 4 pairs.")
    assert said[1] in render_markdown(path)


def section(page: str) -> str:
    """The words of the section."""
    found = page[page.index('<section id="offered-load-section"') :]
    found = found[: found.index("</section>")]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", found)))


def payload(page: str) -> Any:
    found = re.search(r'id="data-offered-load">([^<]*)<', page)
    assert found
    return json.loads(unpack(found[1]))["load"]


def test_the_page_draws_what_counts_and_what_does_not(by_hand: Path) -> None:
    page = render_html(by_hand)
    load = payload(page)
    one, four = load["curves"]
    assert [(p["offered"], p["achieved"][0], p["valid"]) for p in one["points"]] == [
        (100, 100, True), (200, 195, True), (400, 150, True), (900, 860, False),
    ]  # fmt: skip
    assert [p["knee"] for p in one["points"]] == [True, False, False, False]
    assert [p["peak"] for p in one["points"]] == [False, True, False, False]
    assert [p["overloaded"] for p in one["points"]] == [False, False, True, False]
    assert len(four["points"]) == 3, "nothing was measured at the last one"
    assert load["responses"] == ["mean", "p99"]
    text = section(page)
    assert "threads 1, 900 offered: 3 of 3 runs failed" in text
    assert "(860) – (2 ms)" in text
    assert "threads 4 900/s – –" in text


def test_markdown_and_the_terminal_say_it_too(
    by_hand: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = render_markdown(by_hand)
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    (row,) = [r for r in rows if r[1:3] == ["threads 1", "200"]]
    assert row[3] == "195.0"
    assert row[-2] == "saturated in 2 of 3 runs, peak"
    assert "overload brings it down to 150" in text
    said = nfslab(capsys, "show", by_hand)
    assert said.code == 0
    assert re.search(r"threads 1 +200 +195.0 .* peak", said.out)
    assert "900 offered: 3 of 3 runs failed: what was measured is not true" in said.out
    run = next(run for run in analyse(by_hand).runs if run.counted)
    of_run = nfslab(capsys, "show", by_hand, run.run_id).out
    assert re.search(r"READ +75.0 % +75.0 % +300 +4.00 +12.0 +0", of_run)


def test_other_workloads_have_no_such_section(tmp_path: Path) -> None:
    recipe = Recipe(clients=(1,), repetitions=2, samples=False, evidence=False, durable=False)
    path = write_pgbench(tmp_path, recipe).path
    assert offered_load(analyse(path)) is None
    assert "offered-load-section" not in render_html(path)
    assert "Offered load" not in render_markdown(path)


def test_without_any_run_that_counts_there_are_hollow_marks_or_none(tmp_path: Path) -> None:
    refused = write_loads(tmp_path / "a", {(1, 100.0): [LATE], (1, 200.0): [NoMeasurement()]})
    nothing = write_loads(tmp_path / "b", {(1, 100.0): [NoMeasurement()]})
    path = tmp_path / "page.html"
    path.write_text(render_html(refused))
    with browser() as chromium:
        with opened(chromium, path) as page:
            assert figure(page, "load-achieved")["counts"]["total"] == 1
            assert figure(page, "load-response")["counts"]["total"] == 1
        path.write_text(render_html(nothing))
        with opened(chromium, path) as page:
            assert figures(page) == {}
    assert "no point counts." in section(path.read_text())
    assert "the server went away" in section(path.read_text())


def test_a_load_that_the_file_fixes_is_one_point_of_each_curve(tmp_path: Path) -> None:
    runs: Runs = {(1, 100.0): [Planted(99, 1)], (4, 100.0): [Planted(90, 2)]}
    path = write_loads(tmp_path, runs, fixed=True)
    assert [axis.name for axis in analyse(path).axes] == ["threads"]
    points = [point for curve in load_of(path).curves for point in curve.points]
    assert [point.offered_ops_per_s for point in points] == [100, 100]
    text = section(render_html(path))
    assert "threads 4 90 2 ms" in text


@pytest.mark.parametrize(
    "options",
    [{}, {"viewport": {"width": 420, "height": 800}}, {"color_scheme": "dark"}],
    ids=["wide", "narrow", "dark"],
)
def test_the_figures_are_drawn(by_hand: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "page.html"
    path.write_text(render_html(by_hand))
    with browser() as chromium, opened(chromium, path, **options) as page:
        # Four and three points; in both figures, and all in view.
        for name in ("load-achieved", "load-response"):
            counts = figure(page, name)["counts"]
            assert (counts["total"], counts["inView"]) == (7, 7)
            entries = page.locator(f"#{name} .legend .entry").all_inner_texts()
            assert entries[:5] == [
                "threads 1", "threads 4", "saturated", "overload", "hollow: does not count",
            ]  # fmt: skip
        before = figures(page)["load-response"]["full"]["y"]
        page.locator("#load-response select").select_option("p99")
        settled(page)
        assert figures(page)["load-response"]["full"]["y"][1] == pytest.approx(2 * before[1])
        page.locator("#load-response").get_by_label("log scale").check()
        page.locator("#load-response .legend button").first.click()
        settled(page)
        assert figures(page)["load-response"]["counts"]["total"] == 3
        if "viewport" in options:
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= options["viewport"]["width"]
