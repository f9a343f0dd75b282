"""Offered load in reports: curves against arithmetic by hand and the published table of 1999."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from nfslab.display.figures import Lines
from nfslab.evidence.offered_load import operations as offered_operations
from nfslab.evidence.offered_load.curves import (
    OfferedLoad,
    agreement,
    offered_load,
    published_at,
    sentences,
)
from nfslab.evidence.offered_load.operations import read_operations
from nfslab.evidence.offered_load.section import load_section
from nfslab.report.analysis import analyse
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.checksums import write_checksums
from nfslab.shipped import PACKAGE

from tests.cli.invocation import nfslab
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
        "saturated, overload", "invalid",
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
        "not saturated", "not saturated", "saturated in 1 of 3 runs", "invalid",
    ]  # fmt: skip
    assert four.overall_by_block_ms is not None
    assert four.overall_by_block_ms.n == 2, "the third repetition lacks a point"


def test_few_arrivals_are_no_saturation(tmp_path: Path) -> None:
    runs: Runs = {
        # All that came was answered; then one run of three did not keep what came.
        (1, 100): [Planted(94, 1, arrived=94), Planted(106, 1, arrived=106)],
        (2, 100): [Planted(94, 1, arrived=95), Planted(94, 1, arrived=95), Planted(94, 1)],
        # The server answers less than what came.
        (1, 200): [Planted(180, 9, arrived=190), Planted(180, 9, arrived=210)],
        (2, 200): [Planted(190, 3, arrived=190), Planted(150, 9, arrived=200)],
        # Neither is saturated, though the middle of 350 and 450 is what was offered.
        (1, 400): [Planted(350, 4, arrived=350), Planted(395, 4, arrived=450)],
        (2, 400): [Planted(395, 4), Planted(300, 4)],
    }
    one, two = load_of(write_loads(tmp_path, runs)).curves
    assert [(point.is_saturated, point.saturated_runs) for point in one.points] == [
        (False, 0), (True, 2), (False, 0),
    ]  # fmt: skip
    asked = [point.asked.median for point in one.points if point.asked is not None]
    assert asked == [97, 195, 375]
    assert [point.verdict for point in two.points] == [
        "saturated in 1 of 3 runs, knee", "saturated in 1 of 2 runs",
        "saturated in 1 of 2 runs, peak",
    ]  # fmt: skip
    assert [point.is_saturated for point in two.points] == [False, True, True]


def test_what_failed_runs_measured_is_kept_apart(by_hand: Path) -> None:
    one, four = load_of(by_hand).curves
    refused = one.points[3].refused
    assert refused is not None
    assert (refused.achieved_ops_per_s, refused.response_ms["mean"], refused.runs) == (860, 2, 2)
    assert one.points[3].reasons == [
        "the run's own checks failed: the generator was late (and 1 run like it)",
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
        "threads 1: at most 195 operations a second (offered 200, mean response 5 ms); "
        "overload brings it down to 150 at 400 offered."
    )
    assert "peak and knee not reached" in four


def test_operations_of_a_point(tmp_path: Path) -> None:
    # A quick run with many answers, a slow one with few: no mean of two quantiles is any of these.
    first = {"READ": (0.75, {1_000_000: 900}), "WRITE": (0.25, {8_000_000: 100})}
    second = {"READ": (0.75, {1_000_000: 9, 50_000_000: 90, 100_000_000: 1}), "WRITE": (0.25, {})}
    runs = [Planted(100, 1, operations=first), Planted(100, 1, operations=second)]
    (rows,) = read_operations(analyse(write_loads(tmp_path, {(1, 100): runs}))).of_point.values()
    read, write = rows
    assert (read.operation, read.answered, read.answered_share) == ("READ", 1000, 1000 / 1100)
    # Ranks 500, 900, 990 and 999 of 909 x 1 ms, 90 x 50 ms, 1 x 100 ms.
    known = {"p50": 1, "p90": 1, "p99": 50, "p99.9": 50}
    for name, true in known.items():
        assert true <= read.response_ms[name] <= true * 1.001, name
    assert read.response_ms["mean"] == pytest.approx((909 * 1 + 90 * 50 + 100) / 1000)
    assert (write.operation, write.answered) == ("WRITE", 100)
    assert set(write.response_ms.values()) == {8.0}, "never above the longest response"


def test_runs_beyond_the_limit_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: Runs = {(1, 100.0): [Planted(100, 1)] * 3, (1, 200.0): [Planted(200, 1)] * 2}
    path = write_loads(tmp_path, runs)
    monkeypatch.setattr(offered_operations, "RUNS_READ_MOST", 2)
    found = read_operations(analyse(path))
    assert (found.left_out, set(found.of_point)) == (3, {0})
    assert found.of_point[0][0].answered == 600
    assert re.search(r"\b3 more runs\b", section(render_html(path)))


def test_an_operation_without_an_answer_has_no_times(tmp_path: Path) -> None:
    none = {"READ": (0.75, {2_000_000: 3}), "WRITE": (0.25, {})}
    path = write_loads(tmp_path, {(1, 100): [Planted(100, 1, operations=none)]})
    ((_, write),) = read_operations(analyse(path)).of_point.values()
    assert (write.answered, write.answered_share, write.response_ms) == (0, 0.0, {})
    assert "WRITE 25 % 0 % 0 – – – – – 0" in section(render_html(path))


def test_histograms_of_other_buckets_are_not_added_up(tmp_path: Path) -> None:
    path = write_loads(tmp_path, {(1, 100): [Planted(100, 1), Planted(100, 1)]})
    table = next((path / "runs").glob("*/samples/histograms.parquet"))
    rows = pq.read_table(table)
    wider = pc.add(rows["high_ns"], 1)
    pq.write_table(rows.set_column(2, "high_ns", wider), table)
    write_checksums(table.parents[1])
    found = read_operations(analyse(path))
    assert found.of_point == {}
    assert ["different buckets" in line for line in found.problems] == [True]


def test_a_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write_loads(tmp_path, {(1, 100): [Planted(100, 1), Planted(100, 1)]})
    broken = sorted((path / "runs").iterdir())[1]
    (broken / "samples" / "operations.parquet").write_bytes(b"PAR1 and nothing more")
    write_checksums(broken)
    found = read_operations(analyse(path))
    assert [line.split(":")[0] for line in found.problems] == [broken.name]
    assert len(found.of_point[0]) == 2
    assert broken.name in section(render_html(path))
    assert broken.name in render_markdown(path)


def test_tables_of_another_form_are_named(tmp_path: Path) -> None:
    path = write_loads(tmp_path, {(1, 100): [Planted(100, 1), Planted(100, 1), Planted(100, 1)]})
    first, second, third = sorted(path.glob("runs/*/samples"))
    rows = pq.read_table(first / "operations.parquet")
    pq.write_table(rows.drop_columns("mean_ns"), first / "operations.parquet")
    pq.write_table(pa.concat_tables([rows] * 33), second / "operations.parquet")
    for changed in (first, second, third):
        write_checksums(changed.parent)
    found = read_operations(analyse(path))
    first_said, second_said = found.problems
    assert first.parent.name in first_said
    assert "mean_ns" in first_said
    assert second.parent.name in second_said
    assert re.search(r"\b66\b.*\b64\b", second_said)
    assert found.of_point[0][0].answered == 300, f"of {third.parent.name} alone"


def test_the_published_table_stands_below_ours(of_1999: Path) -> None:
    analysis = analyse(of_1999)
    beside = published_at(analysis, load_of(of_1999))
    assert len(beside) == 20
    assert sum(bool(there.is_saturated) for there in beside.values()) == 18
    text = section(render_html(of_1999))
    assert re.search(r"\b19 of 20 points .*published\D+18\b.*measured\D+17\b", text)
    assert "threads 1 measured 356 56.6 ms 212 97.8 ms 162 128 ms 138 152 ms" in text
    assert "threads 16 published 801 6.10 ms 1,539 14.2 ms" in text


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


def drawn(path: Path, which: int, choice: tuple[str, ...] = ()) -> dict[str, tuple[Any, Any]]:
    """Label of a series -> (x, y) in one of the section's figures."""
    made = load_section(analyse(path), "Offered load")
    assert made is not None
    (view,) = (view for view in made.figures[which].views if tuple(view.choice) == choice)
    lines = view.load()
    assert isinstance(lines, Lines)
    series = lines.panels[0].series
    return {one.label: (list(np.asarray(one.x)), list(np.asarray(one.y))) for one in series}


def test_figures_show_what_counts_and_what_does_not(by_hand: Path) -> None:
    achieved = drawn(by_hand, 0)
    assert achieved["threads 1"] == ([100, 200, 400], [100, 195, 150])
    assert achieved["threads 1, invalid"] == ([900], [860])
    assert achieved["threads 4"][0] == [100, 200, 400]
    assert "threads 4, invalid" not in achieved, "nothing was measured at the last one"
    made = load_section(analyse(by_hand), "Offered load")
    assert made is not None
    lines = made.figures[0].views[0].load()
    assert isinstance(lines, Lines)
    assert [(rule.at, rule.label) for rule in lines.panels[0].rules] == [
        (200, "peak: threads 1"),
    ]  # fmt: skip
    assert lines.panels[0].series[0].hints[2] == "400 offered: saturated, overload"
    mean = drawn(by_hand, 1, ("mean", "all operations"))
    assert mean["threads 1"] == ([100, 195, 150], [2, 5, 21])
    assert mean["threads 1, invalid"] == ([860], [2])
    assert drawn(by_hand, 1, ("p99", "all operations"))["threads 1"][1] == [4, 10, 42]
    text = section(render_html(by_hand))
    assert "threads 1, 900 offered: 3 of 3 runs failed" in text
    assert "(860) – (2 ms)" in text
    assert "threads 4 900/s – –" in text


def test_a_response_figure_of_one_operation(tmp_path: Path) -> None:
    def planted(read_ms: int, write_ms: int) -> Planted:
        answers = {"READ": (0.75, {read_ms * 10**6: 10}), "WRITE": (0.25, {write_ms * 10**6: 10})}
        return Planted(100, 1, operations=answers)

    # WRITEs are answered at the second load only.
    first = replace(planted(2, 40), operations={"READ": (1.0, {2_000_000: 10})})
    path = write_loads(tmp_path, {(1, 100.0): [first], (1, 200.0): [planted(4, 80)]})
    assert drawn(path, 1, ("mean", "WRITE"))["all points"][1] == [80]
    assert drawn(path, 1, ("p99", "READ"))["all points"][1] == pytest.approx([2, 4], rel=1e-3)


def test_markdown_and_the_terminal_say_it_too(
    by_hand: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = render_markdown(by_hand)
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    row, *operations = (r for r in rows if r[1:3] == ["threads 1", "200/s"])
    assert [r[3] for r in operations] == ["READ", "WRITE"]
    assert row[3] == "195/s"
    assert any("2 of 3" in cell and "peak" in cell for cell in row)
    assert re.search(r"overload\b[^.|]*\b150\b", text)
    said = nfslab(capsys, "show", by_hand)
    assert said.code == 0
    assert re.search(r"threads 1 +200/s +195/s .* peak", said.out)
    assert re.search(r"\b900 offered\b.*\b3 of 3\b", said.out)
    run = next(run for run in analyse(by_hand).runs if run.counted)
    of_run = nfslab(capsys, "show", by_hand, run.run_id).out
    assert re.search(r"READ +75 % +75 % +300 +4 ms +2.00 ms +5.00 ms +10 ms +10 ms", of_run)
    # Three runs at the peak of a curve.
    peak = r"READ +\|? *75 % +\|? *75 % +\|? *900 +\|? *4 ms .*10 ms"
    assert re.search(rf"threads 1 +200/s +{peak}", said.out)
    assert re.search(rf"threads 1 \| 200/s \| {peak}", text)
    assert not re.search(rf"threads 1 +100/s +{peak}", said.out), "the peak only"


def test_programs_get_the_curves_as_json(
    by_hand: Path, of_1999: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "report", by_hand, "--json")
    assert said.code == 0, said.err
    content = json.loads(said.out)["offered_load"]
    one, four = content["curves"]
    assert (content["axes"], one["label"], four["label"]) == (
        ["threads"],
        "threads 1",
        "threads 4",
    )
    rows = {row["offered_ops_per_s"]: row for row in one["points"]}
    # Medians of 99, 100, 101 and 190, 200, 195; 150 of 400 is saturated and below the peak.
    assert rows[100]["achieved_ops_per_s"]["median"] == 100
    assert rows[200]["achieved_ops_per_s"]["median"] == 195
    assert rows[200]["response_ms"]["mean"]["median"] == 5
    assert rows[200]["response_ms"]["p99"]["median"] == 10
    assert [(row["saturated"], row["overloaded"], row["peak"]) for row in one["points"]] == [
        (False, False, False), (True, False, True), (True, True, False), (False, False, False),
    ]  # fmt: skip
    assert one["points"][one["peak"]]["offered_ops_per_s"] == 200
    assert one["points"][one["knee"]]["offered_ops_per_s"] == 100
    # By trapezoids up to the peak: 2 ms to 100, then (2 + 5) / 2 over 95 more, all of it by 195.
    assert one["overall_response_ms"] == pytest.approx((2 * 100 + 3.5 * 95) / 195)
    invalid = rows[900]
    assert (invalid["valid"], invalid["failed"], invalid["achieved_ops_per_s"]) == (False, 3, None)
    assert invalid["refused"]["achieved_ops_per_s"] == 860
    assert any("the generator was late" in reason for reason in invalid["reasons"])
    assert invalid["operations"] == []
    read, write = rows[200]["operations"]
    assert (read["operation"], read["answered"], write["operation"]) == ("READ", 900, "WRITE")
    assert read["response_ms"]["mean"] == pytest.approx(4)
    assert 5 <= read["response_ms"]["p90"] < 5.005
    assert read["response_ms"]["p99.9"] == 10
    beside = json.loads(nfslab(capsys, "report", of_1999, "--json").out)["offered_load"]
    published = [row["published"] for curve in beside["curves"] for row in curve["points"]]
    assert sum(row["saturated"] for row in published) == 18
    assert len(published) == 20


def test_other_workloads_have_no_such_section(tmp_path: Path) -> None:
    recipe = Recipe(clients=(1,), repetitions=2, samples=False, evidence=False)
    path = write_pgbench(tmp_path, recipe).path
    assert offered_load(analyse(path)) is None
    assert "offered-load-section" not in render_html(path)
    assert "Offered load" not in render_markdown(path)


def test_without_any_run_that_counts_the_reasons_are_told(tmp_path: Path) -> None:
    refused = write_loads(tmp_path / "a", {(1, 100.0): [LATE], (1, 200.0): [NoMeasurement()]})
    nothing = write_loads(tmp_path / "b", {(1, 100.0): [NoMeasurement()]})
    assert drawn(refused, 0)["all points, invalid"] == ([100], [850])
    made = load_section(analyse(nothing), "Offered load")
    assert made is not None
    assert made.figures == []
    assert "no point counts." in section(render_html(nothing)).lower()
    assert "the server went away" in section(render_html(nothing))


def test_a_load_that_the_file_fixes_is_one_point_of_each_curve(tmp_path: Path) -> None:
    runs: Runs = {(1, 100.0): [Planted(99, 1)], (4, 100.0): [Planted(90, 2)]}
    path = write_loads(tmp_path, runs, fixed=True)
    assert [axis.name for axis in analyse(path).axes] == ["threads"]
    points = [point for curve in load_of(path).curves for point in curve.points]
    assert [point.offered_ops_per_s for point in points] == [100, 100]
    text = section(render_html(path))
    assert "threads 4 90 2 ms" in text
