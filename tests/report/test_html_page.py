"""The report in a browser: everything drawn, zooming, sorting, colours, paper, foreign names.

What figures say they show is compared with the run folders, read here by other means
(DuckDB over the Parquet files, the analysis), never with what the report's own code says.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from nfslab.report.analysis import analyse
from nfslab.report.html import write_html
from nfslab.results.records import CheckRecord

from tests.report.browser import await_truth, browser, drag, figure, figures, opened
from tests.report.designs import write_design
from tests.report.synthetic import Recipe, write_files, write_pgbench

ALL_FIGURES = ["metric", "ratio", "timeline", "percentiles", "heatmap", "evidence", "order"]
WARM_UP = CheckRecord(
    name="steady_state",
    verdict="warning",
    message="the first 0.8 s were a warm-up",
    values={"warm_up_ns": 800_000_000},
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = Recipe(
        placements={"together": 1.0, "log apart": 1.25},
        clients=(1, 10, 30),
        repetitions=6,
        failed=((2, 3),),
        flagged={(0, 0): WARM_UP},
        volatile=("log apart",),
        durable=False,
    )
    return write_pgbench(tmp_path_factory.mktemp("results"), recipe).path


@pytest.fixture(scope="module")
def report(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_html(experiment, tmp_path_factory.mktemp("report") / "report.html")


def transactions(experiment: Path, point: int) -> list[tuple[int, int]]:
    """(t_ns, latency_ns) of all counted runs of a point, straight from the files."""
    analysis = analyse(experiment)
    ids = [run.run_id for run in analysis.runs if run.counted and run.point == point]
    files = [str(experiment / "runs" / i / "samples/transactions.parquet") for i in ids]
    query = "SELECT t_ns, latency_ns FROM read_parquet(?) WHERE status = 0"
    return duckdb.execute(query, [files]).fetchall()


def test_every_figure_is_drawn_and_holds_all_of_its_data(
    chromium: Any, report: Path, experiment: Path
) -> None:
    analysis = analyse(experiment)
    counted = sum(run.counted for run in analysis.runs)
    done = len(transactions(experiment, 0))
    with opened(chromium, report) as page:
        states = figures(page)
        assert list(states) == ALL_FIGURES
        assert all(state["drawn"] for state in states.values())
        totals = {name: state["counts"]["total"] for name, state in states.items()}
        in_view = {name: state["counts"]["inView"] for name, state in states.items()}
        painted = page.evaluate(PAINTED)
    assert in_view == totals
    assert totals["metric"] == counted == 35
    assert totals["order"] == counted + 1  # the failed run has its mark
    assert totals["ratio"] == 3
    assert totals["timeline"] == totals["heatmap"] == done
    assert {name: n for name, n in painted.items() if n < 8} == {}


# Shapes of an SVG, distinct colours of a canvas: an empty frame has few of either.
PAINTED = """() => Object.fromEntries([...document.querySelectorAll('.figure')].map((figure) => {
  const shapes = figure.querySelectorAll('.surface svg path').length;
  const colours = new Set();
  for (const canvas of figure.querySelectorAll('canvas')) {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4) colours.add(data.slice(i, i + 4).join());
  }
  return [figure.id, Math.max(shapes, colours.size)];
}))"""


def test_a_drag_zooms_to_exactly_the_runs_in_the_box(
    chromium: Any, report: Path, experiment: Path
) -> None:
    with opened(chromium, report) as page:
        before = figure(page, "metric")
        drag(page, "metric", (0.3, 0.15), (0.75, 0.8))
        after = figure(page, "metric")
        page.locator("#metric .host").dblclick()
        again = figure(page, "metric")
    (x0, x1), (y0, y1) = before["full"]["x"], before["full"]["y"]
    assert after["view"]["x"] == pytest.approx(
        [x0 + 0.3 * (x1 - x0), x0 + 0.75 * (x1 - x0)], abs=(x1 - x0) / 400
    )
    assert after["view"]["y"] == pytest.approx(
        [y0 + 0.15 * (y1 - y0), y0 + 0.8 * (y1 - y0)], abs=(y1 - y0) / 150
    )
    (a, b), (c, d) = after["view"]["x"], after["view"]["y"]
    analysis = analyse(experiment)
    inside = [
        run
        for run in analysis.runs
        if run.counted and run.point is not None
        if a <= math.log10(int(analysis.points[run.point].factors["clients"])) <= b
        if c <= run.metrics["tps"] <= d
    ]
    assert after["counts"]["inView"] == len(inside)
    assert 0 < len(inside) < before["counts"]["total"]
    assert again["view"] == before["full"]


def test_keys_pan_zoom_and_reset(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        for name in ALL_FIGURES:
            page.locator(f"#{name} .plot").focus()
            full = figure(page, name)["full"]["x"]
            page.keyboard.press("+")
            zoomed = figure(page, name)["view"]["x"]
            page.keyboard.press("ArrowRight")
            right = figure(page, name)["view"]["x"]
            page.keyboard.press("-")
            wider = figure(page, name)["view"]["x"]
            page.keyboard.press("0")
            reset = figure(page, name)["view"]["x"]
            span, narrow = full[1] - full[0], zoomed[1] - zoomed[0]
            assert narrow == pytest.approx(0.6 * span), name
            assert right[0] == pytest.approx(zoomed[0] + 0.15 * narrow), name
            assert wider[1] - wider[0] == pytest.approx(span), name
            assert reset == full, name


def test_the_wheel_zooms_only_when_it_is_meant_to(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.locator("#metric .host").scroll_into_view_if_needed()
        box = page.locator("#metric .host").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.wheel(0, -240)
        assert figure(page, "metric")["zoomed"] is False
        box = page.locator("#metric .host").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.keyboard.down("Control")
        page.mouse.wheel(0, -240)
        page.keyboard.up("Control")
        await_truth(page, "window.nfslab.figures[0].zoomed")


def test_zooming_in_time_is_linked(chromium: Any, report: Path, experiment: Path) -> None:
    with opened(chromium, report) as page:
        drag(page, "timeline", (0.25, 0.5), (0.5, 0.5))
        states = {name: figure(page, name) for name in ("timeline", "heatmap", "evidence")}
    views = [state["view"]["x"] for state in states.values()]
    assert views[0] != states["timeline"]["full"]["x"]
    assert views == [views[0]] * 3
    low, high = (edge * 1e9 for edge in views[0])
    seen = sum(low <= t <= high for t, _ in transactions(experiment, 0))
    # A heat map counts whole cells: those at the two edges may hold some more.
    assert seen <= states["heatmap"]["counts"]["inView"] <= seen * 1.1 + 60


def test_tables_sort_by_click_and_by_key(chromium: Any, report: Path, experiment: Path) -> None:
    values = sorted(run.metrics["tps"] for run in analyse(experiment).runs if run.counted)
    with opened(chromium, report) as page:
        heading = page.locator("#run-table th button", has_text=re.compile(r"^tps"))
        heading.click()
        rising = _column(page, "tps")
        heading.focus()
        page.keyboard.press("Enter")
        falling = _column(page, "tps")
        assert page.locator("#run-table th[aria-sort]").get_attribute("aria-sort") == "descending"
        page.locator("#runs input[type=search]").fill("failed no space")
        page.locator("#runs input[type=search]").fill("server did not start")
        shown = page.locator("#run-table tbody tr:visible").count()
        words = page.locator("#runs .controls .muted").inner_text()
    assert rising == pytest.approx(values)  # the failed run has no value and stands last
    assert falling == pytest.approx(values[::-1])
    assert (shown, words) == (1, "1 of 36 rows")


def _column(page: Any, title: str) -> list[float]:
    return page.evaluate(
        """(title) => {
          const heads = [...document.querySelectorAll('#run-table th')];
          const at = heads.findIndex((cell) => cell.textContent.startsWith(title));
          return [...document.querySelectorAll('#run-table tbody tr')]
            .map((row) => row.cells[at].dataset.value).filter(Boolean).map(Number);
        }""",
        title,
    )


def test_colours_follow_the_system_and_the_button(chromium: Any, report: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    strokes = """[...new Set([...document.querySelectorAll('#metric .surface path')]
      .map((path) => path.getAttribute('stroke')))].sort().join()"""
    with opened(chromium, report) as page:
        light, light_strokes = page.evaluate(background), page.evaluate(strokes)
        page.locator("#theme").click()
        figure(page, "metric")
        dark, dark_strokes = page.evaluate(background), page.evaluate(strokes)
        page.locator("#theme").click()
        assert page.evaluate(background) == light
    with opened(chromium, report, color_scheme="dark") as page:
        assert page.evaluate(background) == dark
        assert page.evaluate(strokes) == dark_strokes
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    assert dark_strokes != light_strokes


def test_paper_is_light_and_has_every_figure(chromium: Any, report: Path) -> None:
    with opened(chromium, report, color_scheme="dark") as page:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        drawn = page.evaluate("document.querySelectorAll('.figure .paper svg').length")
        shade = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bg')")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        left = page.evaluate("document.querySelectorAll('.figure .paper svg').length")
        document = page.pdf(format="A4")
        assert figure(page, "metric")["drawn"]
    assert (drawn, left, shade.strip()) == (len(ALL_FIGURES), 0, "#ffffff")
    assert document.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", document)) >= 4


def test_figures_can_be_saved(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        for name in ALL_FIGURES:
            text = page.evaluate(f"window.nfslab.figure('{name}').svgText()")
            assert text.startswith("<svg"), name
            assert page.evaluate(f"window.nfslab.figure('{name}').pngSize()") > 4000, name
        with page.expect_download() as caught:
            page.locator("#ratio button", has_text="Save SVG").click()
        assert caught.value.suggested_filename == "placement-2001-ratio.svg"


def test_every_choice_can_be_made(chromium: Any, report: Path) -> None:
    """All options of all lists and boxes of all figures: no error, still drawn."""
    with opened(chromium, report) as page:
        for name in ALL_FIGURES:
            for i in range(page.locator(f"#{name} select").count()):
                options = page.locator(f"#{name} select").nth(i).locator("option")
                for value in [o.get_attribute("value") for o in options.all()]:
                    page.locator(f"#{name} select").nth(i).select_option(value)
                    page.evaluate(f"window.nfslab.figure('{name}').drawing")
                    assert figure(page, name)["counts"]["total"] > 0, (name, value)
            for box in page.locator(f"#{name} input[type=checkbox]").all():
                box.click()
            page.locator(f"#{name} details summary").click()
            # The browser tells the page of the opening a moment later.
            page.locator(f"#{name} details tbody tr").first.wait_for(state="attached")


def test_hiding_a_line_takes_its_runs_away(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.locator("#metric .legend button", has_text="log apart").click()
        assert figure(page, "metric")["counts"]["total"] == 18
        pressed = page.locator("#metric .legend button", has_text="log apart")
        assert pressed.get_attribute("aria-pressed") == "false"


def test_a_run_of_the_table_shows_its_evidence(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        row = page.locator("#run-table tbody tr", has_text="b003-").first
        row.locator("button.link").click()
        caption = "document.querySelector('#evidence .caption').textContent"
        await_truth(page, f"{caption}.includes('block 4')")


def test_both_languages_write_numbers_alike(chromium: Any, report: Path) -> None:
    """The median of every point, as Python wrote it and as the page's script writes it."""
    with opened(chromium, report) as page:
        page.locator("#metric details summary").click()
        cells = """([table, title]) => {
          const heads = [...table.tHead.rows[0].cells].map((c) => c.textContent);
          const at = heads.findIndex((text) => text.startsWith(title));
          return [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
        }"""
        written = page.locator("#estimates table").last.element_handle()
        drawn = page.locator("#metric details table").element_handle()
        for title in ("median", "interval", "standard deviation", "least", "most"):
            ours, theirs = (page.evaluate(cells, [table, title]) for table in (written, drawn))
            assert ours == theirs, title


def test_without_scripts_the_tables_are_there(chromium: Any, report: Path) -> None:
    with opened(chromium, report, scripts=False) as page:
        assert page.locator("#estimates tbody tr").count() > 6
        assert "drawn by a script" in page.locator("#figures").inner_text()


def test_narrow_windows_do_not_scroll_sideways(chromium: Any, report: Path) -> None:
    with opened(chromium, report, viewport={"width": 420, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert all(state["drawn"] for state in figures(page).values())


def test_foreign_names_stay_text(chromium: Any, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=window.pwned=1><b>{a|x}"
    recipe = Recipe(
        title=f"Title {evil}",
        placements={"plain": 1.0, evil: 1.2},
        clients=(1, 4),
        repetitions=3,
        flagged={(0, 0): CheckRecord(name=f"n{evil}", verdict="violation", message=evil)},
        durable=False,
    )
    folder = write_pgbench(tmp_path, recipe)
    path = write_html(folder.path, tmp_path / "report.html")
    with opened(chromium, path) as page:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("document.images.length") == 0
        assert page.evaluate("document.querySelectorAll('main b b, h1 b, svg b').length") == 0
        assert page.evaluate("typeof window.pwned") == "undefined"
        assert page.locator("h1").inner_text() == f"Title {evil}"
        assert evil in page.locator("#estimates tbody").first.inner_text()
        drawn = page.evaluate("document.querySelector('#metric .legend').textContent")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert evil in drawn


@pytest.mark.parametrize(
    ("recipe", "absent"),
    [
        (Recipe(repetitions=1, clients=(4,), durable=False), "metric"),
        (Recipe(repetitions=2, samples=False, evidence=False, durable=False), "timeline"),
        (Recipe(placements={"only": 1.0}, clients=(4,), repetitions=2, durable=False), "ratio"),
        (Recipe(repetitions=1, clients=(4,), failed=((0, 0), (0, 1)), durable=False), "metric"),
    ],
    ids=["one run a point", "no samples", "nothing to compare", "every run failed"],
)
def test_sparse_experiments_open(
    chromium: Any, tmp_path: Path, recipe: Recipe, absent: str
) -> None:
    path = write_html(write_pgbench(tmp_path, recipe).path, tmp_path / "report.html")
    with opened(chromium, path) as page:
        states = figures(page)
        assert all(state["drawn"] for state in states.values())
        assert absent not in states


def test_one_panel_a_placement_on_one_scale(chromium: Any, tmp_path: Path) -> None:
    """The four graphs of the 2001 study: placements apart, a line for each length of run."""
    factor = {"together": 1.0, "log apart": 1.3, "log striped": 1.45, "both striped": 1.6}
    folder = write_design(
        tmp_path,
        {"placement": list(factor), "clients": [1, 5, 10, 30], "transactions": [50, 1000]},
        lambda placement, clients, transactions: 100 * factor[placement] * clients**0.6,
        repetitions=3,
    )
    with opened(chromium, write_html(folder, tmp_path / "report.html")) as page:
        state = figure(page, "metric")
        legend = page.locator("#metric .legend button").all_inner_texts()
        drag(page, "metric", (0.5, 0.3), (0.9, 0.9))
        domains = page.evaluate(
            """window.nfslab.figure('metric').scene.panels
              .map((panel) => [panel.x.domain, panel.y.domain].join())"""
        )
    assert [panel["title"] for panel in state["panels"]] == list(factor)
    assert legend == ["transactions 50", "transactions 1000"]
    assert state["counts"]["total"] == 4 * 4 * 2 * 3
    assert len(set(domains)) == 1
    assert domains[0] != ",".join(str(v) for v in state["full"]["x"] + state["full"]["y"])


def test_categories_only_are_drawn_row_by_row(chromium: Any, tmp_path: Path) -> None:
    folder = write_design(
        tmp_path,
        {"kernel": ["2.4.21-pre3", "2.5.49"], "variant": ["cached", "noncached"]},
        lambda kernel, variant: 3000.0 if variant == "cached" else 1000.0,
    )
    with opened(chromium, write_html(folder, tmp_path / "report.html")) as page:
        states = figures(page)
        assert list(states) == ["points", "ratio", "order"]
        assert states["points"]["counts"]["total"] == 16


def test_everything_has_a_name_and_a_place_in_the_tab_order(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        nameless = page.evaluate(
            """[...document.querySelectorAll('input, select')]
              .filter((field) => !field.labels?.length).length"""
        )
        plots = page.evaluate(
            """[...document.querySelectorAll('.plot')].map((plot) =>
              document.getElementById(plot.getAttribute('aria-labelledby')).textContent
              && document.getElementById(plot.getAttribute('aria-describedby')).textContent
              && plot.tabIndex)"""
        )
        levels = page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4')].map((e) => Number(e.tagName[1]))"
        )
        ahead = page.evaluate(
            "document.querySelectorAll('[tabindex]:not([tabindex=\"0\"])').length"
        )
    assert nameless == ahead == 0
    assert plots == [0] * len(ALL_FIGURES)
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_published_figures_lie_beside(chromium: Any, tmp_path: Path) -> None:
    asked = {
        "table": "bonnie_2001",
        "metric": {"output_block_kb_s": "output_block_bytes_per_s"},
        "match": {"file_size_mb": "file_size"},
    }
    path = write_html(write_files(tmp_path, reference=asked).path, tmp_path / "report.html")
    with opened(chromium, path) as page:
        state = figure(page, "reference")
        assert [panel["title"] for panel in state["panels"]] == ["published", "measured here"]
        assert state["counts"]["total"] == 6 * 4 + 2 * 4  # storages x sizes, theirs and ours
        text = page.locator("#reference .caption").inner_text()
        assert "no spread" in text
        page.locator("#reference details summary").click()
        first = page.locator("#reference details tbody tr").first.inner_text()
    assert "221 MiB/s" in first  # 225,896 K/s of the table's first row


def test_a_thousand_runs(chromium: Any, tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, Recipe(repetitions=100, durable=False))
    path = write_html(folder.path, tmp_path / "report.html")
    assert path.stat().st_size <= 10_000_000
    with opened(chromium, path) as page:
        states = figures(page)
        assert states["metric"]["counts"]["total"] == 1000
        assert all(state["drawn"] for state in states.values())
        assert page.locator("#run-table tbody tr").count() == 1000
        assert "1 in 3 blocks" in page.locator("#evidence .caption").inner_text()


@pytest.mark.parametrize(
    "planted",
    ["console.error('planted')", "fetch('https://example.org/')", "throw new Error('planted')"],
)
def test_the_browser_check_finds_an_offence(chromium: Any, report: Path, planted: str) -> None:
    spoilt = report.with_name("spoilt.html")
    spoilt.write_text(report.read_text().replace("</body>", f"<script>{planted}</script></body>"))
    with pytest.raises(AssertionError), opened(chromium, spoilt):
        pass
