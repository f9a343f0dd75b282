"""The report in a browser: everything drawn, choices, sorting, colours, paper, foreign names.

What figures say they show is compared with the run folders, read here by other means
(DuckDB over the Parquet files, the analysis), never with what the report's own code says.
What every kind of figure does is tested in `test_html_kinds`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from nfslab.report.analysis import analyse
from nfslab.report.html.content import short_point_label
from nfslab.report.html.document import write_html
from nfslab.report.model import Analysis
from nfslab.results.records import CheckRecord

from tests.report.browser import await_truth, browser, choose, figures, opened, pane, settled
from tests.report.designs import write_design
from tests.report.synthetic import Recipe, write_files, write_pgbench

ALL_FIGURES = [
    "anatomy-parts",
    "metric",
    "ratio",
    "timeline",
    "percentiles",
    "heatmap",
    "evidence",
    "order",
]
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


def test_every_figure_is_drawn_and_holds_all_of_its_data(
    chromium: Any, report: Path, experiment: Path
) -> None:
    analysis = analyse(experiment)
    counted = sum(run.counted for run in analysis.runs)
    with opened(chromium, report) as page:
        states = figures(page)
        painted = page.evaluate(PAINTED)
    assert list(states) == ALL_FIGURES
    assert all(state["drawn"] for state in states.values())
    assert counted == 35
    assert single_values(states["metric"]) == counted
    (order,) = states["order"]["panes"]
    assert sum(series["points"] for series in order["panels"][0]["series"]) == counted
    (ratio,) = states["ratio"]["panes"]
    assert ratio["panels"][0]["series"][0]["points"] == 3
    first = headline(analysis)[0]
    run = next(run for run in analysis.runs if run.point == first and run.block == 0)
    file = str(experiment / "runs" / run.run_id / "samples/transactions.parquet")
    [(done,)] = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [file]).fetchall()
    assert states["heatmap"]["panes"][0]["panels"][0]["total"] == done
    assert {name: n for name, n in painted.items() if n < 8} == {}


def headline(analysis: Analysis) -> tuple[int, int]:
    """The points of the largest change that is shown."""
    rows = [row for row in analysis.comparisons["tps"] if row.result.shown]
    largest = max(rows, key=lambda row: abs(row.result.estimate or 0.0))
    return largest.base_point, largest.point


def single_values(state: dict[str, Any]) -> int:
    """Runs that are drawn one by one."""
    return sum(
        series["points"]
        for panel in state["panes"][0]["panels"]
        for series in panel["series"]
        if series["label"].endswith(", one run")
    )


# Distinct colours of a canvas: an empty frame has few.
PAINTED = """() => Object.fromEntries([...document.querySelectorAll('.figure')].map((figure) => {
  const colours = new Set();
  for (const canvas of figure.querySelectorAll('canvas')) {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4) colours.add(data.slice(i, i + 4).join());
  }
  return [figure.id, colours.size];
}))"""


def test_scales_hold_every_run_and_every_interval(
    chromium: Any, report: Path, experiment: Path
) -> None:
    analysis = analyse(experiment)
    values = [run.metrics["tps"] for run in analysis.runs if run.counted]
    ends = [point.estimates["tps"].interval for point in analysis.points]
    values += [v for end in ends if end is not None for v in (end.low, end.high)]
    with opened(chromium, report) as page:
        linear = pane(page, "metric")["panels"][0]["y"]
        page.locator("#metric").get_by_label("other scale (log or linear)").check()
        logarithmic = pane(page, "metric")["panels"][0]["y"]
    for low, high in (linear, logarithmic):
        assert low <= min(values) < max(values) <= high
    assert linear[0] == 0
    assert logarithmic[0] > 0


def test_tables_sort_by_click_and_by_key(chromium: Any, report: Path, experiment: Path) -> None:
    values = sorted(run.metrics["tps"] for run in analyse(experiment).runs if run.counted)
    with opened(chromium, report) as page:
        page.locator("#all-runs > details > summary").click()
        heading = page.locator("#run-table th button", has_text=re.compile(r"^tps"))
        heading.click()
        rising = _column(page, "tps")
        heading.focus()
        page.keyboard.press("Enter")
        falling = _column(page, "tps")
        assert page.locator("#run-table th[aria-sort]").get_attribute("aria-sort") == "descending"
        page.locator("#run-table input[type=search]").fill("server did not start")
        shown = page.locator("#run-table tbody tr:visible").count()
        words = page.locator("#run-table .controls .muted").inner_text()
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
    picture = "window.nfslab.figure('metric').panes[0].png()"
    with opened(chromium, report) as page:
        light, light_picture = page.evaluate(background), page.evaluate(picture)
        page.locator("#theme").click()
        pane(page, "metric")
        dark, dark_picture = page.evaluate(background), page.evaluate(picture)
        page.locator("#theme").click()
        assert page.evaluate(background) == light
    with opened(chromium, report, color_scheme="dark") as page:
        assert page.evaluate(background) == dark
        assert page.evaluate(picture) == dark_picture
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    assert dark_picture != light_picture


def test_paper_is_light_and_has_every_figure(chromium: Any, report: Path) -> None:
    with opened(chromium, report, color_scheme="dark") as page:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        drawn = page.evaluate("document.querySelectorAll('.figure .paper svg').length")
        shade = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bg')")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        left = page.evaluate("document.querySelectorAll('.figure .paper svg').length")
        document = page.pdf(format="A4")
        assert figures(page)["metric"]["drawn"]
    assert (drawn, left, shade.strip()) == (len(ALL_FIGURES), 0, "#ffffff")
    assert document.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", document)) >= 4


# As a reader's choice is told to the page; lists are made anew by each.
CHOOSE_ALL = """async (name) => {
  const figure = window.nfslab.figure(name);
  const lists = () => [...document.querySelectorAll(`#${name} .pane select`)];
  const made = [];
  for (const i of lists().keys()) {
    for (const value of [...lists()[i].options].map((option) => option.value)) {
      lists()[i].value = value;
      lists()[i].dispatchEvent(new Event('change', { bubbles: true }));
      await figure.panes[0].busy;
      const { choice, panels } = figure.state().panes[0];
      made.push([value, choice, panels.length]);
    }
  }
  return made;
}"""


def test_every_choice_can_be_made(chromium: Any, report: Path) -> None:
    """All options of all lists and boxes of all figures: no error, still drawn."""
    with opened(chromium, report) as page:
        for name in ALL_FIGURES:
            for value, choice, panels in page.evaluate(CHOOSE_ALL, name):
                assert value in choice, (name, value)
                assert panels, (name, value)
            for box in page.locator(f"#{name} input[type=checkbox]").all():
                box.click()
            page.locator(f"#{name} details summary").click()
            # The browser tells the page of the opening a moment later.
            page.locator(f"#{name} details tbody tr").first.wait_for(state="attached")


def test_two_points_stand_beside_each_other(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.locator("#timeline button", has_text="Compare beside").click()
        await_truth(page, "window.nfslab.figure('timeline').panes[1]?.built")
        first, second = figures(page)["timeline"]["panes"]
        page.locator("#timeline button", has_text="One only").click()
        assert len(figures(page)["timeline"]["panes"]) == 1
    assert first["choice"] != second["choice"]


def test_a_run_of_the_table_shows_its_evidence(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.locator("#all-runs > details > summary").click()
        row = page.locator("#run-table tbody tr", has_text="b003-").first
        row.locator("button.link").click()
        await_truth(page, "window.nfslab.figures.find((f) => f.id === 'evidence')"
                    ".panes[0].choice[1] === 'block 4'")  # fmt: skip


def test_without_scripts_the_tables_are_there(chromium: Any, report: Path) -> None:
    with opened(chromium, report, scripts=False) as page:
        assert page.locator("#estimates tbody tr").count() > 6
        assert page.locator("#run-table tbody tr").count() == 36
        assert page.locator(".pending").count() == len(ALL_FIGURES)


def test_the_first_screen_holds_question_answer_figure_and_doubt(
    chromium: Any, report: Path
) -> None:
    wanted = ["#question", "#answer .verdict", "#warnings > summary", "#anatomy-parts .host"]
    with opened(chromium, report, viewport={"width": 1400, "height": 900}) as page:
        bottoms = [page.locator(one).first.bounding_box() for one in wanted]
        assert all(box is not None and box["y"] + box["height"] <= 900 for box in bottoms)
        line = page.locator("#warnings > summary").bounding_box()
        assert line is not None
        assert line["height"] < 30, "warnings are one line"
        closed = page.locator("#all-runs > details, #environment > details, #warnings")
        assert closed.evaluate_all("all => all.map((one) => one.open)") == [False] * 3
        page.locator("#again").scroll_into_view_if_needed()
        contents = page.locator("nav").bounding_box()
        assert contents is not None
        assert contents["y"] == 0, "the table of contents stays"


def test_a_choice_keeps_its_focus(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.locator("#metric select").first.focus()
        page.keyboard.press("ArrowDown")
        settled(page)
        assert page.evaluate("document.activeElement.closest('.figure')?.id") == "metric"
        assert page.evaluate("document.activeElement.tagName") == "SELECT"


def test_points_are_compared_as_in_the_headline(
    chromium: Any, report: Path, experiment: Path
) -> None:
    analysis = analyse(experiment)
    expected = [short_point_label(analysis, at) for at in headline(analysis)]
    with opened(chromium, report) as page:
        page.locator("#heatmap").scroll_into_view_if_needed()
        await_truth(page, "window.nfslab.figures.find((f) => f.id === 'heatmap').drawn")
        page.locator("#heatmap button", has_text="Compare beside").click()
        settled(page)
        assert [pane(page, "heatmap", k)["choice"][1] for k in (0, 1)] == expected


def test_narrow_windows_do_not_scroll_sideways(chromium: Any, report: Path) -> None:
    with opened(chromium, report, viewport={"width": 400, "height": 800}) as page:
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
        page.locator("#metric details summary").click()
        page.locator("#metric details tbody tr").first.wait_for(state="attached")
        assert page.evaluate("typeof window.pwned") == "undefined"
        assert page.locator("h1").inner_text() == f"Title {evil}"
        assert evil in page.locator("#estimates tbody").first.inner_text()
        drawn = page.locator("#metric details tbody").inner_text()
        on_paper = page.evaluate("document.querySelector('#metric .paper svg').textContent")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert evil in drawn
    assert evil in on_paper


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
        state = figures(page)["metric"]
        whole = pane(page, "metric")
        other = choose(page, "metric", Against="transactions", Lines="placement")
    panels = whole["panels"]
    assert [panel["title"] for panel in panels] == list(factor)
    assert [series["label"] for series in panels[0]["series"]] == [
        "transactions 50", "transactions 50, one run",
        "transactions 1000", "transactions 1000, one run",
    ]  # fmt: skip
    assert single_values(state) == 4 * 4 * 2 * 3
    assert len({(*panel["x"], *panel["y"]) for panel in panels}) == 1
    assert [panel["title"] for panel in other["panels"]] == [f"clients {n}" for n in (1, 5, 10, 30)]


def test_categories_only_are_drawn_row_by_row(chromium: Any, tmp_path: Path) -> None:
    folder = write_design(
        tmp_path,
        {"kernel": ["2.4.21-pre3", "2.5.49"], "variant": ["cached", "noncached"]},
        lambda kernel, variant: 3000.0 if variant == "cached" else 1000.0,
    )
    with opened(chromium, write_html(folder, tmp_path / "report.html")) as page:
        states = figures(page)
    assert list(states) == ["points", "ratio", "order"]
    assert states["points"]["panes"][0]["panels"][0]["series"][0]["points"] == 4


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
        curves = pane(page, "reference")["panels"]
        rows = choose(page, "reference", Show="row by row")["panels"][0]["series"]
        page.locator("#reference details summary").click()
        page.locator("#reference details tbody tr").first.wait_for(state="attached")
        table = page.locator("#reference details tbody").inner_text()
    assert [panel["title"] for panel in curves] == ["published", "measured here"]
    values = [sum(series["points"] for series in panel["series"]) for panel in curves]
    assert values == [6 * 4, 2 * 4]  # storages x sizes, theirs and ours
    assert [series["label"] for series in rows] == ["measured here", "published"]
    assert "221 MiB/s" in table  # 225,896 K/s of the table's first row


@pytest.mark.parametrize(
    "blocks", [5, *(pytest.param(n, marks=pytest.mark.long) for n in (20, 100))]
)
def test_many_runs(chromium: Any, tmp_path: Path, blocks: int) -> None:
    folder = write_pgbench(tmp_path, Recipe(repetitions=blocks, durable=False))
    path = write_html(folder.path, tmp_path / "report.html")
    assert path.stat().st_size <= 10_000_000
    with opened(chromium, path) as page:
        states = figures(page)
        assert single_values(states["metric"]) == 10 * blocks
        assert all(state["drawn"] for state in states.values())
        assert page.locator("#run-table tbody tr").count() == 10 * blocks
        whole = "blocks" not in page.locator("#evidence > .caption").inner_text()
        assert whole is (blocks < 50)


@pytest.mark.parametrize(
    "planted",
    ["console.error('planted')", "fetch('https://example.org/')", "throw new Error('planted')"],
)
def test_the_browser_check_finds_an_offence(chromium: Any, report: Path, planted: str) -> None:
    spoilt = report.with_name("spoilt.html")
    before, end, after = report.read_text().rpartition("</body>")
    spoilt.write_text(f"{before}<script>{planted}</script>{end}{after}")
    with pytest.raises(AssertionError), opened(chromium, spoilt):
        pass
