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
from nfslab.report.html.document import render_html, write_html
from nfslab.report.model import Analysis
from nfslab.results.records import CheckRecord

from tests.report import packed
from tests.report.browser import await_truth, browser, figures, opened, pane, settled
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
    name="not_steady",
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
        measured_s=1.0,
    )
    return write_pgbench(tmp_path_factory.mktemp("results"), recipe).path


@pytest.fixture(scope="module")
def analysis(experiment: Path) -> Analysis:
    return analyse(experiment)


@pytest.fixture(scope="module")
def report(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_html(experiment, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def page(chromium: Any, report: Path) -> Iterator[Any]:
    """The report, which is opened once for the tests that leave it whole."""
    with opened(chromium, report) as shown:
        yield shown


@pytest.mark.system
def test_every_figure_is_drawn_and_holds_all_of_its_data(
    page: Any, experiment: Path, analysis: Analysis
) -> None:
    counted = sum(run.counted for run in analysis.runs)
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


@pytest.mark.system
def test_scales_hold_every_run_and_every_interval(page: Any, analysis: Analysis) -> None:
    values = [run.metrics["tps"] for run in analysis.runs if run.counted]
    ends = [point.estimates["tps"].interval for point in analysis.points]
    values += [v for end in ends if end is not None for v in (end.low, end.high)]
    linear = pane(page, "metric")["panels"][0]["y"]
    other = page.locator("#metric").get_by_label("log or linear scale")
    other.check()
    logarithmic = pane(page, "metric")["panels"][0]["y"]
    other.uncheck()
    for low, high in (linear, logarithmic):
        assert low <= min(values) < max(values) <= high
    assert linear[0] == 0
    assert logarithmic[0] > 0


@pytest.mark.long
@pytest.mark.system
def test_tables_sort_by_click_and_by_key_and_lead_to_evidence(
    page: Any, analysis: Analysis
) -> None:
    values = sorted(run.metrics["tps"] for run in analysis.runs if run.counted)
    page.locator("#all-runs > details > summary").click()
    heading = page.locator("#run-table th button", has_text=re.compile(r"^tps"))
    heading.click()
    rising = _column(page, "tps")
    heading.focus()
    page.keyboard.press("Enter")
    falling = _column(page, "tps")
    assert page.locator("#run-table th[aria-sort]").get_attribute("aria-sort") == "descending"
    search = page.locator("#run-table input[type=search]")
    search.fill("server did not start")
    shown = page.locator("#run-table tbody tr:visible").count()
    words = page.locator("#run-table .controls .muted").inner_text()
    search.fill("")
    assert rising == pytest.approx(values)  # the failed run has no value and stands last
    assert falling == pytest.approx(values[::-1])
    assert (shown, words) == (1, "1 of 36 rows")
    page.locator("#run-table tbody tr", has_text="b003-").first.locator("button.link").click()
    await_truth(page, "window.nfslab.figures.find((f) => f.id === 'evidence')"
                ".panes[0].choice[1] === 'repetition 4'")  # fmt: skip
    page.locator("#all-runs > details > summary").click()


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


# As a reader's choice is told to the page; lists are made anew by each.
CHOOSE_ALL = """async (name) => {
  const figure = window.nfslab.figure(name);
  const lists = () => [...document.querySelectorAll(`#${name} .pane select`)];
  const made = [];
  for (const i of lists().keys()) {
    for (const value of [...lists()[i].options].slice(0, 2).map((option) => option.value)) {
      lists()[i].value = value;
      lists()[i].dispatchEvent(new Event('change', { bubbles: true }));
      await figure.panes[0].busy;
      const { choice, panels } = figure.state().panes[0];
      made.push([value, choice, panels.length]);
    }
  }
  return made;
}"""


@pytest.mark.system
@pytest.mark.long
def test_choices_keep_the_focus_and_points_stand_beside_each_other(
    page: Any, analysis: Analysis
) -> None:
    """Two options of each list of each figure; the points of the headline are compared first."""
    for name in ALL_FIGURES:
        for value, choice, panels in page.evaluate(CHOOSE_ALL, name):
            assert value in choice, (name, value)
            assert panels, (name, value)
    page.locator("#metric select").first.focus()
    page.keyboard.press("ArrowDown")
    settled(page)
    assert page.evaluate("document.activeElement.closest('.figure')?.id") == "metric"
    page.reload()
    page.evaluate("window.nfslab.ready")
    page.locator("#heatmap").scroll_into_view_if_needed()
    await_truth(page, "window.nfslab.figures.find((f) => f.id === 'heatmap').drawn")
    page.locator("#heatmap button", has_text="Side by side").click()
    await_truth(page, "window.nfslab.figure('heatmap').panes[1]?.built")
    expected = [short_point_label(analysis, at) for at in headline(analysis)]
    assert [pane(page, "heatmap", k)["choice"][1] for k in (0, 1)] == expected
    page.locator("#heatmap button", has_text="One only").click()
    assert len(figures(page)["heatmap"]["panes"]) == 1


@pytest.mark.long
@pytest.mark.system
def test_dark_follows_the_system_and_the_button_and_paper_is_light(
    chromium: Any, page: Any, report: Path
) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.locator("#theme").click()
    pane(page, "metric")
    dark = page.evaluate(background)
    page.locator("#theme").click()
    assert page.evaluate(background) == light == "rgb(255, 255, 255)" != dark
    look = {"color_scheme": "dark", "viewport": {"width": 400, "height": 800}}
    with opened(chromium, report, **look) as other:
        assert other.evaluate(background) == dark
        assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
        other.evaluate("dispatchEvent(new Event('beforeprint'))")
        drawn = other.evaluate("document.querySelectorAll('.figure .paper svg').length")
        shade = other.evaluate(
            "getComputedStyle(document.documentElement).getPropertyValue('--bg')"
        )
        other.evaluate("dispatchEvent(new Event('afterprint'))")
        left = other.evaluate("document.querySelectorAll('.figure .paper svg').length")
        assert all(state["drawn"] for state in figures(other).values())
    assert (drawn, left, shade.strip()) == (len(ALL_FIGURES), 0, "#ffffff")


@pytest.mark.long
@pytest.mark.system
def test_without_scripts_the_tables_are_there(chromium: Any, report: Path) -> None:
    with opened(chromium, report, scripts=False) as shown:
        assert shown.locator("#estimates tbody tr").count() > 6
        assert shown.locator("#run-table tbody tr").count() == 36
        assert shown.locator(".pending").count() == len(ALL_FIGURES)


@pytest.mark.system
def test_the_first_screen_holds_question_answer_figure_and_doubt(page: Any) -> None:
    wanted = ["#question", "#answer .verdict", "#warnings > summary", "#anatomy-parts .host"]
    page.reload()
    page.evaluate("window.nfslab.ready")
    page.set_viewport_size({"width": 1400, "height": 900})
    settled(page)
    page.evaluate("scrollTo(0, 0)")
    bottoms = [page.locator(one).first.bounding_box() for one in wanted]
    assert all(box is not None and box["y"] + box["height"] <= 900 for box in bottoms)
    assert page.locator("#warnings > summary").bounding_box()["height"] < 30, "one line"
    closed = page.locator("#all-runs > details, #environment > details, #warnings")
    assert closed.evaluate_all("all => all.map((one) => one.open)") == [False] * 3
    page.locator("#again").scroll_into_view_if_needed()
    assert page.locator("nav").bounding_box()["y"] == 0, "the table of contents stays"


@pytest.mark.system
def test_everything_has_a_name_and_a_place_in_the_tab_order(page: Any) -> None:
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
    ahead = page.evaluate("document.querySelectorAll('[tabindex]:not([tabindex=\"0\"])').length")
    assert nameless == ahead == 0
    assert plots == [0] * len(ALL_FIGURES)
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


@pytest.mark.system
@pytest.mark.long
def test_foreign_names_stay_text(chromium: Any, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=window.pwned=1><b>{a|x}"
    recipe = Recipe(
        title=f"Title {evil}",
        placements={"plain": 1.0, evil: 1.2},
        clients=(1, 4),
        repetitions=3,
        flagged={(0, 0): CheckRecord(name=f"n{evil}", verdict="violation", message=evil)},
        samples=False,
        evidence=False,
    )
    path = write_html(write_pgbench(tmp_path, recipe).path, tmp_path / "report.html")
    with opened(chromium, path) as shown:
        shown.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert shown.evaluate("document.images.length") == 0
        assert shown.evaluate("document.querySelectorAll('main b b, h1 b, svg b').length") == 0
        shown.locator("#metric details summary").click()
        shown.locator("#metric details tbody tr").first.wait_for(state="attached")
        assert shown.evaluate("typeof window.pwned") == "undefined"
        assert shown.locator("h1").inner_text() == f"Title {evil}"
        assert evil in shown.locator("#estimates tbody").first.inner_text()
        drawn = shown.locator("#metric details tbody").inner_text()
        on_paper = shown.evaluate("document.querySelector('#metric .paper svg').textContent")
        shown.evaluate("dispatchEvent(new Event('afterprint'))")
    assert evil in drawn
    assert evil in on_paper


@pytest.mark.parametrize(
    ("recipe", "absent"),
    [
        (Recipe(repetitions=1, clients=(4,)), "metric"),
        (Recipe(repetitions=2, clients=(1, 4), samples=False, evidence=False), "timeline"),
        (Recipe(placements={"only": 1.0}, clients=(4,), repetitions=2), "ratio"),
        (Recipe(repetitions=1, clients=(4,), failed=((0, 0), (0, 1))), "metric"),
    ],
    ids=["one run a point", "no samples", "nothing to compare", "every run failed"],
)
def test_sparse_experiments_have_a_page(tmp_path: Path, recipe: Recipe, absent: str) -> None:
    text = render_html(write_pgbench(tmp_path, recipe).path)
    assert absent not in packed.figures(text)


def test_one_panel_a_placement(tmp_path: Path) -> None:
    """The four graphs of the 2001 study: placements apart, a line for each length of run."""
    factor = {"together": 1.0, "log apart": 1.3, "log striped": 1.45, "both striped": 1.6}
    folder = write_design(
        tmp_path,
        {"placement": list(factor), "clients": [1, 30], "transactions": [50, 1000]},
        lambda placement, clients, transactions: 100 * factor[placement] * clients**0.6,
        repetitions=2,
    )
    views = packed.figures(render_html(folder))["metric"]["views"]
    panels = views[0]["drawing"]["panels"]
    assert [panel["title"] for panel in panels] == list(factor)
    assert [series["label"] for series in panels[0]["series"]] == [
        "transactions 50", "transactions 50, one run",
        "transactions 1000", "transactions 1000, one run",
    ]  # fmt: skip
    single = [s for panel in panels for s in panel["series"] if s["label"].endswith(", one run")]
    assert sum(len(series["y"]) for series in single) == 4 * 2 * 2 * 2
    other = packed.view(render_html(folder), "metric", "tps", "transactions", "placement")
    assert [panel["title"] for panel in other["panels"]] == ["clients 1", "clients 30"]


def test_categories_only_are_drawn_row_by_row(tmp_path: Path) -> None:
    folder = write_design(
        tmp_path,
        {"kernel": ["2.4.21-pre3", "2.5.49"], "variant": ["cached", "noncached"]},
        lambda kernel, variant: 3000.0 if variant == "cached" else 1000.0,
    )
    found = packed.figures(render_html(folder))
    assert list(found) == ["points", "ratio", "order"]
    assert len(found["points"]["views"][0]["drawing"]["bars"]) == 4


def test_published_figures_lie_beside(tmp_path: Path) -> None:
    asked = {
        "table": "bonnie_2001",
        "metric": {"output_block_kb_s": "output_block_bytes_per_s"},
        "match": {"file_size_mb": "file_size"},
    }
    text = render_html(write_files(tmp_path, reference=asked).path)
    views = packed.figures(text)["reference"]["views"]
    curves = views[0]["drawing"]["panels"]
    assert [panel["title"] for panel in curves] == ["published", "measured here"]
    values = [sum(len(series["y"]) for series in panel["series"]) for panel in curves]
    assert values == [6 * 4, 2 * 4]  # storages x sizes, theirs and ours
    theirs = [value for series in curves[0]["series"] for value in series["y"]]
    assert 225_896 * 1024 in theirs, "the table's first row"


@pytest.mark.long
def test_many_runs(chromium: Any, tmp_path: Path) -> None:
    path = write_html(write_pgbench(tmp_path, Recipe(repetitions=50)).path, tmp_path / "it.html")
    assert path.stat().st_size <= 10_000_000
    with opened(chromium, path) as shown:
        states = figures(shown)
        assert single_values(states["metric"]) == 500
        assert all(state["drawn"] for state in states.values())
        assert shown.locator("#run-table tbody tr").count() == 500
        assert "blocks" in shown.locator("#evidence > .caption").inner_text()
