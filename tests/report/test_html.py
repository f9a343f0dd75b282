"""The HTML report without a browser: data in it, sizes, grids, ranges, order, wording.

What is embedded is decoded by hand (`packed`) and
compared with the run folders read by DuckDB or computed by numpy.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.errors import UsageError
from nfslab.report.analysis import analyse
from nfslab.report.html import document
from nfslab.report.html.columns import ChunkWriter
from nfslab.report.html.content import metric_label, short_point_label, shown_levels
from nfslab.report.html.document import render_html, write_html
from nfslab.report.html.grid import NS, Grid, bin_sums, grid_for, nice_ns
from nfslab.report.html.samples import extent, heat, read_samples, whole_multiple
from nfslab.report.model import AxisInfo
from nfslab.results.records import CheckRecord
from nfslab.statistics.quantile_estimator import quantile_grid

from tests.report.packed import column, figures, view
from tests.report.synthetic import Recipe, write_files, write_pgbench

SMALL = Recipe(clients=(1, 10), repetitions=4)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pgbench(tmp_path_factory.mktemp("results"), SMALL).path


@pytest.fixture(scope="module")
def page(experiment: Path) -> str:
    return render_html(experiment)


def test_the_page_is_one_file_that_fetches_nothing(page: str) -> None:
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    assert policy + "img-src data: blob:" in page
    head = page[: page.index("<style>")]
    assert head.index("Content-Security-Policy") < head.index("<title>")
    assert re.findall(r"<(?:link|iframe|object|embed|base)\b", page) == []
    assert set(re.findall(r"<script[^>]*>", page)) <= {"<script>"} | set(
        re.findall(r'<script type="text/plain" id="data-[\w.-]+">', page)
    )
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r"<img\b", markup) == []
    assert len(page.encode()) < 2_000_000


def samples(experiment: Path, run_id: str) -> tuple[list[int], list[int]]:
    """(t_ns, latency_ns) of a run's transactions."""
    file = str(experiment / "runs" / run_id / "samples" / "transactions.parquet")
    rows = duckdb.execute("SELECT t_ns, latency_ns FROM read_parquet(?)", [file]).fetchall()
    return [t for t, _ in rows], [latency for _, latency in rows]


def test_embedded_counts_are_those_of_the_files(page: str, experiment: Path) -> None:
    analysis = analyse(experiment)
    found = figures(page)
    lines = {view["choice"][1]: view["drawing"] for view in found["timeline"]["views"]}
    heats = {tuple(view["choice"][1:]): view["drawing"] for view in found["heatmap"]["views"]}
    curves = {view["choice"][1]: view["drawing"] for view in found["percentiles"]["views"]}
    for point in range(len(analysis.points)):
        label = short_point_label(analysis, point)
        runs = [run for run in analysis.runs if run.point == point and run.counted]
        runs.sort(key=lambda run: run.block)
        series = lines[label]["panels"][0]["series"]
        assert len(series) == len(runs) == SMALL.repetitions
        for run, line, curve in zip(
            runs, series, curves[label]["panels"][0]["series"], strict=True
        ):
            t_ns, latency = samples(experiment, run.run_id)
            width_s = round(line["x"][1] - line["x"][0], 9)
            edges = np.arange(len(line["x"]) + 1) * width_s * 1e9
            whole = np.histogram([t for t in t_ns if t < edges[-1]], edges)[0]
            np.testing.assert_allclose(line["y"] * width_s, whole, rtol=1e-12, atol=1e-9)
            assert len(line["x"]) == int(max(t_ns) // (width_s * 1e9))
            assert heats[label, f"repetition {run.block + 1}"]["cells"].sum() == len(latency)
            ordered = np.sort(latency) / 1e9
            reached = [q for q in quantile_grid() if q < 1 and (1 - q) * len(ordered) >= 1]
            assert curve["x"].tolist() == reached
            ranks = [max(1, math.ceil(round(q * len(ordered), 6))) for q in reached]
            np.testing.assert_allclose(curve["y"], ordered[np.array(ranks) - 1], rtol=1e-12)


def test_figures_hold_the_analysis_as_it_is(page: str, experiment: Path) -> None:
    analysis = analyse(experiment)
    drawn = view(page, "metric", "tps", "clients", "placement")
    medians, lows, singles = [], [], []
    for series in drawn["panels"][0]["series"]:
        if series.get("draw") == "dots":
            singles += list(series["y"])
        else:
            medians += list(series["y"])
            lows += list(series["low"])
    estimates = [point.estimates["tps"] for point in analysis.points]
    assert medians == [found.median for found in estimates]
    assert lows == [found.interval and found.interval.low for found in estimates]
    counted = [run.metrics["tps"] for run in analysis.runs if run.counted]
    assert sorted(singles) == sorted(counted)
    rows = view(page, "ratio", "tps", "placement")["bars"]
    results = [item.result for item in analysis.comparisons["tps"] if item.axis == "placement"]
    assert [row["value"] for row in rows] == [result.ratio for result in results]
    assert all(result.verdict in row["hint"] for row, result in zip(rows, results, strict=True))
    order = view(page, "order", "tps", "placement", "over the median of its configuration")
    shares = sorted(v for cloud in order["clouds"] for v in cloud["y"])
    known = [
        run.metrics["tps"] / estimates[run.point].median
        for run in analysis.runs
        if run.counted and run.point is not None
    ]
    assert shares == sorted(known)


def test_order_of_the_page(experiment: Path, tmp_path: Path) -> None:
    flag = CheckRecord(name="littles_law", verdict="violation", message="impossible")
    mild = CheckRecord(name="clock_steps", verdict="warning", message="stepped")
    recipe = Recipe(
        clients=(4,), repetitions=2, volatile=("log apart",), flagged={(0, 0): mild, (0, 1): flag}
    )
    analysis = analyse(write_pgbench(tmp_path, recipe).path)
    text = render_html(analysis)
    body = re.sub(r"<[^>]+>", "\n", text[text.index("<body>") :])
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    assert lines[0].startswith("UNEQUAL DURABILITY")
    places = [
        text.index(part)
        for part in (
            'id="durability"',
            'class="verdict"',
            'id="warnings"',
            'id="figures"',
            'id="estimates"',
            'id="all-runs"',
            'id="environment"',
            'id="again"',
        )
    ]
    assert places == sorted(places)
    warnings = text[places[2] : places[3]]
    assert warnings.index("Violation") < warnings.index("<b>Warning</b>")
    assert "nfslab run placement-2001.toml" in text[places[-1] :]


def test_baseline_can_be_chosen(experiment: Path) -> None:
    found = analyse(experiment, baseline={"placement": "log apart"})
    text = render_html(analyse(experiment, baseline={"placement": "log apart"}))
    ratios = [row["value"] for row in view(text, "ratio", "tps", "placement")["bars"]]
    assert ratios == [item.result.ratio for item in found.comparisons["tps"]]
    assert max(ratios) < 1 < 1 / max(ratios)


def test_written_whole_or_not_at_all(experiment: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    output.write_text("earlier")
    with pytest.raises(UsageError):
        write_html(tmp_path / "nothing-here", output)
    assert output.read_text() == "earlier"
    assert write_html(experiment, output) == output
    assert output.read_text().rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_views_give_way_to_the_limit(
    experiment: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def views(text: str) -> dict[str, tuple[int, int]]:
        return {k: (len(f["views"]), f["left_out"]) for k, f in figures(text).items()}

    whole = views(page)
    assert all(left == 0 for _, left in whole.values())
    limit = len(page.encode()) - 40_000
    monkeypatch.setattr(document, "SIZE_LIMIT_BYTES", limit)
    tight_page = render_html(experiment)
    tight = views(tight_page)
    assert len(tight_page.encode()) <= limit
    assert {name: n + left for name, (n, left) in tight.items()} == {
        name: n for name, (n, _) in whole.items()
    }
    assert tight["order"][1] > 0
    assert tight["metric"][1] == 0, "rank 2 gives way first"


def test_unreadable_files_are_said(tmp_path: Path) -> None:
    recipe = Recipe(clients=(4,), repetitions=2)
    folder = write_pgbench(tmp_path, recipe).path
    run = sorted((folder / "runs").iterdir())[0]
    (run / "samples" / "transactions.parquet").write_bytes(b"PAR1 not at all")
    text = render_html(folder)
    warnings = text[text.index('id="warnings"') : text.index('id="estimates"')]
    assert "cannot be read" in warnings
    assert run.name in warnings


def test_columns_keep_what_they_promise() -> None:
    writer = ChunkWriter()
    random = np.random.default_rng(1)
    counts = [
        np.array([0, 254]),
        np.array([0, 255]),
        np.array([65535, 3]),
        np.array([2**32, 0]),
        np.zeros(0, dtype=np.int64),
    ]
    specs = [writer.counts(values) for values in counts]
    noise = random.normal(5.0, 2.0, 1000)
    noise[::7] = np.nan
    measured = writer.measured(noise)
    nothing = writer.measured(np.full(3, np.nan))
    exact = writer.exact(noise)
    content = writer.finish({})[6:]
    for values, spec in zip(counts, specs, strict=True):
        np.testing.assert_array_equal(column(content, dict(spec)), values)
    assert [spec["kind"] for spec in specs] == ["u8", "u16", "u32", "f64", "u8"]
    back = column(content, dict(measured))
    assert np.array_equal(np.isnan(back), np.isnan(noise))
    span_of = np.nanmax(noise) - min(0.0, np.nanmin(noise))
    assert np.nanmax(np.abs(back - noise)) <= span_of / 4000 / 2 * 1.0001
    assert np.isnan(column(content, dict(nothing))).all()
    np.testing.assert_array_equal(column(content, dict(exact)), noise)
    with pytest.raises(ValueError, match="not negative"):
        writer.counts(np.array([-1]))
    with pytest.raises(ValueError, match="whole"):
        writer.counts(np.array([0.5]))


@pytest.mark.parametrize(
    ("width", "wanted"), [(1, 1), (3, 5), (99.9, 100), (100, 100), (101, 200), (2.1e9, 5 * 10**9)]
)
def test_bin_widths_are_round(width: float, wanted: int) -> None:
    assert nice_ns(width) == wanted


def test_grid_follows_length_number_and_rate() -> None:
    second = 10**9
    few = grid_for([60 * second] * 10, [600_000] * 10, 10)
    many = grid_for([60 * second] * 1000, [600_000] * 1000, 1000)
    slow = grid_for([60 * second] * 10, [600] * 10, 10)
    assert few.rate_ns == second // 5
    assert many.rate_ns > few.rate_ns
    assert slow.rate_ns == 2 * second  # 20 events at 10 a second
    assert grid_for([], [], 0).rate_ns > 0


def test_bins_and_heat_maps_count_everything() -> None:
    random = np.random.default_rng(2)
    t_ns = random.integers(0, 10**10, 5000)
    latency = np.exp(random.normal(14, 1.5, 5000)).astype(np.int64)
    weights = random.integers(0, 10**12, 5000)
    assert bin_sums(t_ns, 10**8).sum() == 5000
    assert bin_sums(t_ns, 10**8, weights).sum() == weights.sum()
    grid = Grid(10**8, 10**8, 16)
    cells = heat(t_ns, latency, grid)
    assert (cells.total, cells.outside) == (5000, 0)
    x = (t_ns // 10**8).astype(int)
    y = np.floor(np.log10(latency) * 16).astype(int) - cells.lowest
    for i in (0, 17, 4999):
        assert cells.cells[y[i], x[i]] == np.sum((x == x[i]) & (y == y[i]))
    odd = heat(np.array([1, 2]), np.array([0, 1000]), grid)
    assert (odd.total, odd.outside) == (1, 1)


def test_sums_per_interval_are_never_cut_into_spikes() -> None:
    times = np.arange(0, 10**9, 10**8)
    assert whole_multiple(times, 10**7) == 10**8
    assert whole_multiple(times, 25 * 10**7) == 3 * 10**8
    assert whole_multiple(times[:1], 10**7) == 10**7


@pytest.mark.parametrize(
    ("name", "unit", "label"),
    [
        ("latency_p99_ms", "ms", "latency p99"),
        ("output_block_bytes_per_s", "bytes/s", "output block"),
        ("tps", "1/s", "tps"),
    ],
)
def test_metrics_lose_the_unit_that_is_shown(name: str, unit: str, label: str) -> None:
    assert metric_label(name, unit) == label


def test_files_workload_shows_its_phases_over_time(tmp_path: Path) -> None:
    text = render_html(write_files(tmp_path, repetitions=2).path)
    found = figures(text)
    labels = {one["choice"][0] for one in found["timeline"]["views"]}
    assert labels == {"output block throughput"}
    line = found["timeline"]["views"][0]["drawing"]["panels"][0]["series"][0]
    # The planted series: ten intervals of 100 ms with t_ns + 1 bytes each; the last is cut short.
    width_s = line["x"][1] - line["x"][0]
    whole = round(len(line["x"]) * width_s / 0.1)
    planted = [t + 1 for t in range(0, 10**9, 10**8)]
    assert (np.array(line["y"]) * width_s).sum() == pytest.approx(sum(planted[:whole]))
    curve = found["percentiles"]["views"][0]["drawing"]["panels"][0]["series"][0]
    # Planted buckets: 5, 50, 20, 1 operations with upper edges 1999, 3999, 7999, 15999 ns.
    values = dict(zip(curve["x"], curve["y"], strict=True))
    assert values[0.5] == pytest.approx(3999e-9)
    assert values[0.75] == pytest.approx(7999e-9)
    assert "76 operations" in curve["hints"][0]
    assert "16.0 µs" in curve["hints"][0]


def axis(*levels: object) -> AxisInfo:
    numbers = [0.0, 491_520.0, 1_048_576.0]
    return AxisInfo("nvram", ["targets.log.nvram"], list(levels), True, "bytes", numbers, False)


def test_sizes_have_their_unit_and_names_are_as_they_were_given() -> None:
    assert shown_levels(axis(0, "480k", 1_048_576)) == ["0 B", "480 KiB", "1 MiB"]
    assert shown_levels(axis("none", "60 pages", "1M")) == ["none", "60 pages", "1 MiB"]


GRID = Grid(rate_ns=NS // 10, cell_ns=NS // 10, decade_cells=16)
MIB = 1 << 20


def write_run(run: Path, *, phases: bool = True) -> Path:
    """0.7 s of writing at 10 MiB/s, then a final sync of 3 s: a phase of 3.7 s."""
    samples = run / "samples"
    samples.mkdir(parents=True)
    series = {
        "t_ns": [k * NS // 10 for k in range(7)],
        "phase": ["output_block"] * 7,
        "bytes": [MIB] * 7,
        "operations": [128] * 7,
    }
    pq.write_table(pa.table(series), samples / "series.parquet")
    if phases:
        row = {"t_ns": [0], "phase": ["output_block"], "wall_ns": [37 * NS // 10]}
        pq.write_table(pa.table(row), samples / "phases.parquet")
    return run


def test_a_final_sync_is_part_of_the_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert extent(run, "") == (37 * NS // 10, 0)
    rate = read_samples(run, GRID, "").rates["output_block"]
    assert rate.end_ns == 37 * NS // 10
    assert rate.whole().tolist() == [MIB] * 7 + [0] * 30, "no byte moves in the sync"


def test_a_run_of_an_older_folder_ends_with_its_series(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", phases=False)
    assert extent(run, "") == (6 * NS // 10, 0)
    assert read_samples(run, GRID, "").rates["output_block"].counts.tolist() == [MIB] * 7
