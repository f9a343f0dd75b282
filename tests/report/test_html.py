"""The HTML report without a browser: data in it, sizes, grids, ranges, order, wording.

What is embedded is decoded here by hand from the coding that payload.py documents, and
compared with the run folders read by DuckDB or computed by numpy.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from nfslab.errors import ResultsError
from nfslab.report.analysis import analyse
from nfslab.report.html import render_html, write_html
from nfslab.report.html import series as series_module
from nfslab.report.html.columns import ChunkWriter
from nfslab.report.html.content import linear_domain, log_domain, ratio_domain
from nfslab.report.html.evidence import binned, make_frame, wait_name
from nfslab.report.html.grid import Grid, bin_sums, grid_for, nice_ns, quantile_grid
from nfslab.report.html.samples import heat, whole_multiple
from nfslab.report.html.series import read_series
from nfslab.report.html.wording import metric_label, plain, quantity, span
from nfslab.results.records import CheckRecord

from tests.report.synthetic import Recipe, write_files, write_pgbench

SMALL = Recipe(clients=(1, 10), repetitions=4, durable=False)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pgbench(tmp_path_factory.mktemp("results"), SMALL).path


@pytest.fixture(scope="module")
def page(experiment: Path) -> str:
    return render_html(experiment)


def embedded(page: str, name: str) -> bytes:
    found = re.search(rf'<script type="text/plain" id="data-{name}">([^<]*)</script>', page)
    assert found is not None
    return zlib.decompress(base64.b64decode(found[1]), -15)


def chunk(page: str, name: str) -> tuple[Any, bytes]:
    content = embedded(page, name)
    (size,) = struct.unpack_from("<I", content)
    return json.loads(content[4 : 4 + size]), content[4 + size :]


def column(content: bytes, spec: dict[str, Any]) -> np.ndarray[Any, Any]:
    kinds = {"u8": ("<u1", 1), "u16": ("<u2", 2), "u32": ("<u4", 4), "f64": ("<f8", 8)}
    kind, width = kinds[spec["kind"]]
    raw = np.frombuffer(content, np.uint8, width * spec["n"], spec["offset"])
    whole = raw.reshape(width, spec["n"]).T.copy().view(kind).ravel().astype(np.float64)
    values = spec["base"] + spec["step"] * whole
    if spec["gaps"]:
        values[whole == 256**width - 1] = np.nan
    return values


def series_runs(experiment: Path) -> list[tuple[int, int, int, Path]]:
    return [
        (i, run.point, run.block, experiment / "runs" / run.run_id)
        for i, run in enumerate(analyse(experiment).runs)
        if run.counted and run.point is not None
    ]


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


def test_embedded_counts_are_those_of_the_files(page: str, experiment: Path) -> None:
    analysis = analyse(experiment)
    for point in range(len(analysis.points)):
        header, content = chunk(page, f"p{point}")
        assert len(header["runs"]) == SMALL.repetitions
        for entry in header["runs"]:
            path = experiment / "runs" / analysis.runs[entry["run"]].run_id / "samples"
            file = str(path / "transactions.parquet")
            t_ns, latency = zip(
                *duckdb.execute("SELECT t_ns, latency_ns FROM read_parquet(?)", [file]).fetchall(),
                strict=True,
            )
            frame = entry["rates"]["transactions"]
            bins = column(content, frame["amount"])
            edges = np.arange(len(bins) + 1) * frame["dt"] * 1e9
            np.testing.assert_array_equal(bins, np.histogram(t_ns, edges)[0])
            assert frame["whole"] == int(max(t_ns) // (frame["dt"] * 1e9))
            cells = entry["heat"]["transactions"]
            assert cells["total"] == len(latency)
            assert column(content, cells["cells"]).sum() == len(latency)
            values = column(content, entry["quantiles"]["transactions"]["values"])
            ordered = np.sort(latency) / 1e9
            for q, value in zip(quantile_grid(), values, strict=True):
                if q == 1.0 or (1 - q) * len(ordered) >= 1:
                    rank = max(1, math.ceil(round(q * len(ordered), 6)))
                    assert value == pytest.approx(ordered[rank - 1], rel=1e-12), q
                else:
                    assert math.isnan(value)


def test_main_part_holds_the_analysis_as_it_is(page: str, experiment: Path) -> None:
    main = json.loads(embedded(page, "main"))
    analysis = analyse(experiment)
    for i, point in enumerate(analysis.points):
        summary = point.estimates["tps"]
        assert main["estimates"]["tps"]["median"][i] == summary.median
        assert main["estimates"]["tps"]["low"][i] == (summary.interval and summary.interval.low)
    rows = main["comparisons"]["rows"]["tps"]
    assert [row["word"] for row in rows] == [c.result.verdict for c in analysis.comparisons["tps"]]
    assert [row["ratio"] for row in rows] == [c.result.ratio for c in analysis.comparisons["tps"]]
    assert main["metrics"][0]["name"] == "tps"
    assert main["axes"][1]["positions"] == pytest.approx([0.0, 1.0])


def test_ranges_hold_every_run_and_every_interval(page: str) -> None:
    main = json.loads(embedded(page, "main"))
    for metric in main["metrics"]:
        e = main["estimates"][metric["name"]]
        values = [v for v in main["runs"]["values"][metric["name"]] if v is not None]
        values += [v for v in e["low"] + e["high"] if v is not None]
        low, high = metric["domain"]
        assert low <= min(values) <= max(values) <= high
        if metric["positive"]:
            a, b = metric["log_domain"]
            assert a < math.log10(min(values)) <= math.log10(max(values)) < b


def test_order_of_the_page(experiment: Path, tmp_path: Path) -> None:
    flag = CheckRecord(name="littles_law", verdict="violation", message="impossible")
    mild = CheckRecord(name="clock_steps", verdict="warning", message="stepped")
    recipe = Recipe(
        clients=(4,),
        repetitions=2,
        volatile=("log apart",),
        flagged={(0, 0): mild, (0, 1): flag},
        durable=False,
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
            'id="estimates"',
            'id="figures"',
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
    text = render_html(experiment, baseline={"placement": "log apart"})
    rows = json.loads(embedded(text, "main"))["comparisons"]["rows"]["tps"]
    assert all(row["base_label"].startswith("log apart") for row in rows)


def test_written_whole_or_not_at_all(experiment: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    output.write_text("earlier")
    with pytest.raises(ResultsError):
        write_html(tmp_path / "nothing-here", output)
    assert output.read_text() == "earlier"
    assert write_html(experiment, output) == output
    assert output.read_text().rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_series_give_way_to_the_limit_and_nothing_is_lost(experiment: Path) -> None:
    runs = series_runs(experiment)
    whole = read_series(runs, 10**9)
    tight = read_series(runs, whole.size_bytes * 2 // 3)
    assert tight.size_bytes <= whole.size_bytes * 2 // 3
    assert (whole.left_out, tight.left_out) == ([], [])
    totals = [
        [sum(decoded(s, name, i)) for name in sorted(s.chunks) for i in range(4)]
        for s in (whole, tight)
    ]
    assert totals[0] == totals[1]
    hardly = read_series(runs, 6000)
    assert hardly.size_bytes <= 6000
    assert len(hardly.left_out) + len(hardly.shown_runs) == len(runs)
    assert read_series(runs, 0).chunks == {}


def decoded(found: series_module.Series, name: str, run: int) -> list[float]:
    content = zlib.decompress(base64.b64decode(found.chunks[name]), -15)
    (size,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + size])
    spec = header["runs"][run]["rates"]["transactions"]["amount"]
    return column(content[4 + size :], spec).tolist()


def test_left_out_series_and_unreadable_files_are_said(tmp_path: Path) -> None:
    recipe = Recipe(clients=(4,), repetitions=2, durable=False)
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
    grid = Grid(10**8, 10**8, 16, 100)
    cells = heat(t_ns, latency, grid)
    assert (cells.total, cells.outside) == (5000, 0)
    x = (t_ns // 10**8).astype(int)
    y = np.floor(np.log10(latency) * 16).astype(int) - cells.lowest
    for i in (0, 17, 4999):
        assert cells.cells[y[i], x[i]] == np.sum((x == x[i]) & (y == y[i]))
    assert cells.coarser().cells.sum() == 5000
    odd = heat(np.array([1, 2]), np.array([0, 1000]), grid)
    assert (odd.total, odd.outside) == (1, 1)


def test_sums_per_interval_are_never_cut_into_spikes() -> None:
    times = np.arange(0, 10**9, 10**8)
    assert whole_multiple(times, 10**7) == 10**8
    assert whole_multiple(times, 25 * 10**7) == 3 * 10**8
    assert whole_multiple(times[:1], 10**7) == 10**7


def test_evidence_means_and_extremes_are_those_of_the_samples() -> None:
    t_ns = np.arange(-5, 95) * 10**8
    values = np.vstack([np.arange(100.0), np.where(np.arange(100) % 2, np.nan, 4.0)])
    frame = make_frame(t_ns, ["a", "b"], values)
    assert frame.mean == [np.arange(5.0, 100).mean(), 4.0]
    assert frame.most == [99.0, 4.0]
    fewer = binned(frame, 10)
    assert fewer.values[0].tolist() == [4.5 + 10 * k for k in range(10)]
    assert fewer.samples == 100
    assert np.nanmax(np.abs(fewer.values[1] - 4.0)) == 0.0
    half = fewer.coarser()
    assert half.values[0].tolist() == [9.5 + 20 * k for k in range(5)]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (("IO", "WALSync", "active"), "IO: WALSync"),
        (("", "", "active"), "running (no wait)"),
        ((None, None, "active"), "running (no wait)"),
        (("Client", "ClientRead", "idle"), None),
        (("Client", "ClientRead", "idle in transaction"), "Client: ClientRead"),
        (("Activity", "WalWriterMain", ""), None),
        (("IO", "WALSync", ""), "IO: WALSync"),
        (("", "", ""), None),
    ],
)
def test_backends_are_counted_by_what_they_wait_for(row: Any, name: str | None) -> None:
    assert wait_name(*row) == name


def test_ranges() -> None:
    assert linear_domain(10.0, 100.0) == [0.0, 105.0]
    low, high = linear_domain(95.0, 100.0)
    assert 90 < low < 95
    assert 100 < high < 105
    assert linear_domain(-4.0, 4.0)[0] < -4.0
    assert linear_domain(0.0, 0.0) == [0.0, 1.0]
    a, b = log_domain(1.0, 1000.0)
    assert a < 0
    assert b > 3
    assert log_domain(5.0, 5.0)[1] - log_domain(5.0, 5.0)[0] == pytest.approx(0.2)
    row: Any = {"ratio": 2.0, "low": 1.5, "high": None}
    low, high = ratio_domain([row])
    assert low < 0 < math.log10(2.0) < high


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (quantity(1234.6, "1/s"), "1,235/s"),
        (quantity(0.0123, "s"), "12.3 ms"),
        (quantity(970, "us"), "970 µs"),
        (quantity(231318323.2, "bytes/s"), "221 MiB/s"),
        (quantity(0.0, "ms"), "0 ms"),
        (quantity(None, "ms"), "–"),
        (span(0.98, 1.0612, ""), "0.980 to 1.06"),
        (span(999.0, 1024.0, "ms"), "0.999 to 1.02 s"),
        (plain(-3.0), "−3"),
        (plain(1.3), "1.30"),
        (plain(float("inf")), "∞"),
        (metric_label("latency_p99_ms", "ms"), "latency p99"),
        (metric_label("output_block_bytes_per_s", "bytes/s"), "output block"),
        (metric_label("tps", "1/s"), "tps"),
    ],
)
def test_wording(text: str, wanted: str) -> None:
    assert text == wanted


def test_files_workload_shows_its_phases_over_time(tmp_path: Path) -> None:
    text = render_html(write_files(tmp_path, repetitions=2).path)
    main = json.loads(embedded(text, "main"))
    assert [rate["key"] for rate in main["time"]["rates"]] == ["output_block"]
    header, content = chunk(text, "p0")
    frame = header["runs"][0]["rates"]["output_block"]
    # The planted series: ten intervals of 100 ms with t_ns + 1 bytes each.
    assert column(content, frame["amount"]).sum() == sum(range(0, 10**9, 10**8)) + 10
    values = column(content, header["runs"][0]["quantiles"]["output_block"]["values"])
    # Planted buckets: 5, 50, 20, 1 operations with upper edges 1999, 3999, 7999, 15999 ns.
    grid = quantile_grid()
    assert values[grid.index(0.5)] == pytest.approx(3999e-9)
    assert values[grid.index(0.75)] == pytest.approx(7999e-9)
    assert values[-1] == pytest.approx(15999e-9)
