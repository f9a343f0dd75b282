"""Every kind of figure in a browser: what is drawn, zoomed, linked, told as a table, saved."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.display.figures import (
    Axis,
    Band,
    Bar,
    Bars,
    Cloud,
    Drawing,
    Figure,
    Flame,
    Heat,
    Level,
    Lines,
    Panel,
    Part,
    Points,
    Rule,
    Series,
    Stacked,
    View,
    Whole,
)
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.report.html.section_page import write

from tests.report.browser import browser, choose, drag, figures, opened, pane, settled

NUMBERS = Path(__file__).parents[1] / "display" / "numbers.json"
TIME = Axis("time", "s", low=0.0, high=60.0)
T = np.arange(0.0, 60.0, 0.25)
RANDOM = np.random.default_rng(1)
LATENCY = RANDOM.lognormal(-6, 1, 6000)
CELLS = RANDOM.poisson(2, (16, 60))


def lines() -> Lines:
    throughput = Panel(
        "Throughput",
        Axis("rate", "1/s", low=0.0, high=1500.0),
        [Series("transactions", T, 1000 + 50 * np.sin(T))],
        rules=[Rule(8.0, label="steady from here")],
        bands=[Band(20.0, 24.0, "stalled", "severe")],
        levels=[Level(0.0, 60.0, 1000.0, "1,000/s")],
    )
    cpu = Panel(
        "CPU",
        Axis("", "share", low=0.0, high=1.0),
        [
            Series("user", T, 0.4 + 0 * T, draw="stack", colour="cpu-user"),
            Series("system", T, 0.2 + 0 * T, draw="stack", colour="cpu-system"),
        ],
    )
    tasks = Panel("Tasks", Axis("", "#"), [Series("running", T, T // 20, draw="step")])
    return Lines(TIME, [throughput, cpu, tasks])


def medians() -> Lines:
    x = Axis("clients", scale="log", levels=["1", "10", "30"], at=[1, 10, 30], low=0.8, high=38.0)
    y = Axis("tps", "1/s", log_choice=True)
    series = [
        Series("wal local", [1, 10, 30], [100.0, 400.0, 700.0], [95.0, 380.0, 640.0],
               [105.0, 430.0, 760.0], group="wal local", hints=["median of 6 runs"] * 3),
        Series("wal local, one run", [1, 10, 30, 30], [99.0, 401.0, 690.0, 20.0], draw="dots",
               group="wal local"),
    ]  # fmt: skip
    return Lines(x, [Panel("together", y, series), Panel("apart", y, series[:1])], columns=2)


DRAWN: dict[str, Drawing] = {
    "lines": lines(),
    "medians": medians(),
    "percentiles": Lines(
        Axis("share", scale="nines", low=0.0, high=0.99999),
        [
            Panel(
                "",
                Axis("latency", "s", "log"),
                [Series("block 1", [0, 0.5, 0.9, 0.999], [1e-3, 2e-3, 4e-3, 0.2])],
            )
        ],
    ),
    "ratios": Bars(
        Axis("ratio", scale="log"),
        [
            Bar("apart", 1.25, 1.2, 1.31, "good", "1.250 × faster"),
            Bar("striped", 0.9, 0.8, 1.02, "faint", "inconclusive", dots=[0.85, 0.95]),
            Bar("unknown", None),
        ],
        reference=1.0,
        marks=True,
    ),
    "bars": Bars(
        Axis("tps", "1/s"),
        [Bar("a", 100.0, group="published"), Bar("a", 120.0, 110.0, 130.0, group="measured")],
    ),
    "stacked": Stacked(
        Axis("mean", "s"),
        [Part("queue", "c5"), Part("server")],
        [Whole("READ", [1e-3, 3e-3], "100 calls"), Whole("WRITE", [2e-3, 0.0])],
    ),
    "points": Points(
        TIME,
        Axis("latency", "s", "log"),
        [
            Cloud("READ", np.linspace(0, 60, 6000), LATENCY, extra={"xid": (np.arange(6000), "#")}),
            Cloud("WRITE", [10.0, 40.0], [0.1, 0.2], shape="triangle", length=[1.0, 2.0]),
        ],
        drawn_of=1_000_000,
    ),
    "rows": Points(
        TIME, Axis("", scale="ordinal", levels=["READ", "WRITE"]), [Cloud("ok", [1, 2], [0, 1])]
    ),
    "heat": Heat(
        TIME, Axis("latency", "s", "log"), np.arange(61.0), 10.0 ** np.linspace(-5, -1, 17),
        CELLS, "operations",
    ),
    "flame": Flame(
        [0, 1, 2, 1, 0], [0, 1, 2, 3, 4], ["postgres", "exec", "read", "commit", "idle"],
        [80, 50, 20, 30, 20], [0, 0, 1, 1, 2],
        [("user", "cpu-user"), ("kernel", "cpu-system"), ("idle", "cpu-iowait")],
    ),
}  # fmt: skip
ROWS = {
    "lines": 4 * T.size, "medians": 3 + 4 + 3, "percentiles": 4, "ratios": 3, "bars": 2,
    "stacked": 2, "points": 2000, "rows": 2, "heat": int((CELLS > 0).sum()), "flame": 5,
}  # fmt: skip
pytestmark = pytest.mark.system
LINKED = ("lines", "points", "rows", "heat")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def gallery_page(chromium: Any, gallery: Path) -> Iterator[Any]:
    with opened(chromium, gallery) as shown:
        yield shown


@pytest.fixture
def page(gallery_page: Any) -> Iterator[Any]:
    """The gallery, which is opened once for all tests, and whole again behind each."""
    yield gallery_page
    for name in ("lines", "medians", "flame"):
        gallery_page.locator(f"#{name} .plot").first.focus()
        gallery_page.keyboard.press("0")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shown = [
        Figure.of(name, f"Kind {name}", "c", drawing, link="time" if name in LINKED else "")
        for name, drawing in DRAWN.items()
    ]
    views = [View(lambda d=d: d, (name,)) for name, d in DRAWN.items()]  # type: ignore[misc]
    shown.append(Figure("choice", "Choice", "", views, ("What",)))
    table = Table(
        "Stalls",
        [Column("at", numeric=False), Column("what", numeric=False)],
        [
            [Cell("second 20", "20..24"), Cell("stall")],
            [Cell("nothing"), Cell("none", tone="faint")],
        ],
        look=(0, "lines"),
    )
    part = Section("One run", sentences=["inside"])
    section = Section(
        "Gallery", "gallery", "intro", ["first"], [table], shown, ["note"], ["problem"],
        [part, part],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("gallery") / "page.html"
    write([section], path, "made")
    return path


def test_every_kind_is_drawn_with_its_data_in_a_table(page: Any) -> None:
    states = figures(page)
    rows = {}
    for name in DRAWN:
        page.locator(f"#{name} details summary").click()
        page.locator(f"#{name} details tbody tr").first.wait_for(state="attached")
        rows[name] = page.locator(f"#{name} details tbody tr").count()
    pixels = {name: png_size(page, name) for name in DRAWN}
    first = page.locator("#medians details tbody tr").first.inner_text().split("\t")
    told = page.locator("#points details").inner_text()
    assert {name: state["panes"][0]["kind"] for name, state in states.items() if name in DRAWN} == {
        name: drawing.kind for name, drawing in DRAWN.items()
    }
    assert all(state["drawn"] and not state["left_out"] for state in states.values())
    assert rows == ROWS
    assert first == ["together", "wal local", "1", "100/s", "95/s", "105/s", "median of 6 runs"]
    assert "The first 2,000 of 6,002 rows." in told
    assert all(width > 1000 and height > 100 for width, height in pixels.values())


def png_size(page: Any, name: str) -> tuple[int, int]:
    """Width and height in the header of the picture that would be saved."""
    url = page.evaluate(f"window.nfslab.figure('{name}').panes[0].png()")
    content = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


@pytest.mark.long
def test_axes_are_those_asked_for_or_hold_the_data(page: Any) -> None:
    states = {name: state["panes"][0] for name, state in figures(page).items()}
    panels = {name: state["panels"] for name, state in states.items()}
    assert panels["lines"][0]["x"] == [0, 60]
    assert panels["lines"][0]["y"] == [0, 1500]
    assert [panel["title"] for panel in panels["lines"]] == ["Throughput", "CPU", "Tasks"]
    low, high = panels["medians"][0]["y"]
    assert low == 0
    assert high >= 760
    assert panels["medians"][1]["y"] == [low, high], "one scale for panels side by side"
    low, high = panels["points"][0]["y"]
    assert 0 < low <= LATENCY.min() < max(LATENCY.max(), 0.2) <= high
    assert panels["heat"][0]["total"] == CELLS.sum()
    assert panels["ratios"][0]["x"][0] < 0.8
    assert panels["ratios"][0]["x"][1] > 1.31


@pytest.mark.long
def test_an_interval_of_decades_does_not_make_the_axis(chromium: Any, tmp_path: Path) -> None:
    """Values of 100 to 700, one of them with an interval of twelve decades."""
    y, low, high = [100.0, 400.0, 700.0], [95.0, 4e-4, 640.0], [105.0, 4e8, 760.0]
    series = Series("wal local", [1.0, 10.0, 30.0], y, low, high)
    bars = [Bar(f"{k}", *ends) for k, ends in enumerate(zip(y, low, high, strict=True))]
    drawings: dict[str, Drawing] = {}
    for scale in ("linear", "log"):
        axis = Axis("tps", "1/s", scale)
        drawings[f"lines-{scale}"] = Lines(Axis("clients"), [Panel("", axis, [series])])
        drawings[f"bars-{scale}"] = Bars(axis, bars, marks=True)
    shown = [Figure.of(name, name, "", drawing) for name, drawing in drawings.items()]
    write([Section("Wide", "wide", figures=shown)], tmp_path / "page.html", "made")
    with opened(chromium, tmp_path / "page.html") as page:
        panels = {name: state["panes"][0]["panels"][0] for name, state in figures(page).items()}
    for name, panel in panels.items():
        ends = panel["y" if name.startswith("lines") else "x"]
        placed = np.log if name.endswith("log") else np.asarray
        assert ends[0] <= 95 < 760 <= ends[1], "the other intervals are whole"
        begin, least, most, end = placed([ends[0], y[0], y[-1], ends[1]])
        assert (most - least) / (end - begin) > 1 / 6, "the values are no line"


@pytest.mark.long
def test_a_drag_zooms_and_what_is_linked_follows(page: Any) -> None:
    assert pane(page, "lines")["zoom"] is None
    drag(page, "lines", (0.25, 0.8), (0.5, 0.3))
    zooms = {name: pane(page, name)["zoom"] for name in (*LINKED, "percentiles")}
    page.locator("#lines .host").dblclick()
    after = {name: pane(page, name)["zoom"] for name in LINKED}
    assert zooms["lines"] == pytest.approx([15, 30], abs=0.2)
    assert all(zooms[name] == pytest.approx(zooms["lines"], abs=0.2) for name in LINKED)
    assert zooms["percentiles"] is None
    assert set(after.values()) == {None}


@pytest.mark.long
def test_a_log_axis_zooms_in_its_own_unit(page: Any) -> None:
    drag(page, "medians", (0.5, 0.9), (0.9, 0.1))
    zoom = pane(page, "medians")["zoom"]
    low, high = (0.8 * (38 / 0.8) ** share for share in (0.5, 0.9))
    assert zoom == pytest.approx([low, high], rel=0.03)


@pytest.mark.long
def test_ticks_of_counts_are_whole_and_ticks_follow_a_zoom(page: Any) -> None:
    def ticks(axis: str) -> list[float]:
        option = "window.nfslab.figure('lines').panes[0].chart.getOption()"
        found: list[float] = page.evaluate(f"{option}.{axis}.axisLabel.customValues")
        return found

    tasks, whole = ticks("yAxis[2]"), ticks("xAxis[2]")
    drag(page, "lines", (0.25, 0.8), (0.5, 0.3))
    low, high = pane(page, "lines")["zoom"]
    part = ticks("xAxis[2]")
    assert tasks == [0, 1, 2]
    assert (whole[0], whole[-1]) == (0, 60)
    assert low <= part[0] < part[-1] <= high
    assert len(part) >= 4


TEXTS = """window.nfslab.figure('long').panes[0].chart.getZr().storage.getDisplayList(true)
    .map((one) => one.style.text).filter(Boolean)"""


@pytest.mark.long
def test_long_labels_of_rows_are_broken_and_not_cut(chromium: Any, tmp_path: Path) -> None:
    labels = [f"placement=data and log apart, clients={n}" for n in (10, 20)]
    labels.append("averyveryverylongword" * 2)
    wholes = [Whole(label, [1e-3]) for label in labels]
    drawing = Stacked(Axis("mean", "s"), [Part("server")], wholes, shares=False)
    section = Section("Long", "top", figures=[Figure.of("long", "Long", "", drawing)])
    write([section], tmp_path / "page.html", "made")
    with opened(chromium, tmp_path / "page.html", viewport={"width": 400, "height": 900}) as page:
        settled(page)
        drawn = page.evaluate(TEXTS)
        height = pane(page, "long")["rects"][0]["height"]
    assert not [text for text in drawn if text.endswith(("...", "…"))]
    words = " ".join(drawn)
    assert "clients=10" in words
    assert "clients=20" in words
    assert height > 3 * 30, "each row has room for its lines"


def test_keys_zoom_pan_and_reset(page: Any) -> None:
    page.locator("#points .plot").focus()
    seen = []
    for key in ("+", "ArrowRight", "-", "0"):
        page.keyboard.press(key)
        seen.append(pane(page, "points")["zoom"])
    assert seen[0] == pytest.approx([12, 48], abs=0.1)
    assert seen[1] == pytest.approx([12 + 5.4, 48 + 5.4], abs=0.1)
    assert seen[2] is not None
    assert seen[3] is None


@pytest.mark.long
def test_a_cell_leads_to_its_range(page: Any) -> None:
    page.locator("button[data-look=lines]", has_text="second 20").click()
    zoom = pane(page, "lines")["zoom"]
    assert page.locator("button[data-look]").count() == 1
    assert zoom == pytest.approx([19, 25], abs=0.2)


@pytest.mark.long
def test_the_scale_can_be_changed(page: Any) -> None:
    other = page.locator("#medians").get_by_label("log or linear scale")
    other.check()
    low, high = pane(page, "medians")["panels"][0]["y"]
    other.uncheck()
    assert 0 < low <= 20
    assert high >= 760


def test_one_figure_draws_any_kind(page: Any) -> None:
    for name, drawing in DRAWN.items():
        assert choose(page, "choice", What=name)["kind"] == drawing.kind


@pytest.mark.long
def test_a_flame_graph_is_searched_and_fitted(page: Any) -> None:
    page.locator("#flame").get_by_label("Find").fill("E")
    said = page.locator("#flame .control .muted").inner_text()
    rect = pane(page, "flame")["rects"][0]
    box = page.locator("#flame .host").bounding_box()
    page.mouse.click(
        box["x"] + rect["left"] + 0.1 * rect["width"], box["y"] + rect["top"] + 1.5 * 18
    )
    settled(page)
    zoom = pane(page, "flame")["zoom"]
    assert said == "4 frames, 100 %"  # postgres with what it calls, and idle
    assert zoom == pytest.approx([0, 0.5], abs=0.01)


@pytest.mark.long
def test_pictures_are_saved_under_names_of_page_and_figure(page: Any) -> None:
    for kind in ("PNG", "SVG"):
        with page.expect_download() as caught:
            page.locator("#heat button", has_text=f"Save {kind}").click()
        assert caught.value.suggested_filename == f"made-heat.{kind.lower()}"
    texts = {name: page.evaluate(f"window.nfslab.figure('{name}').panes[0].svg()")
             for name in DRAWN}  # fmt: skip
    assert all(text.startswith("<svg") for text in texts.values())
    assert "1.250 × faster" in texts["ratios"]


@pytest.mark.long
def test_a_section_appears_whole(chromium: Any, gallery: Path) -> None:
    look = {"viewport": {"width": 420, "height": 800}, "color_scheme": "dark"}
    with opened(chromium, gallery, **look) as page:
        section = page.locator("section#gallery")
        for text in ("Gallery", "intro", "first", "note", "problem", "Stalls"):
            assert text in section.inner_text()
        assert page.locator("details.part").count() == 2
        assert page.locator("details.part[open]").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert all(state["drawn"] for state in figures(page).values())


def test_numbers_are_written_by_the_rule_of_python(page: Any) -> None:
    names = ("number", "count", "quantity", "percent", "quantileName")
    all_cases = json.loads(NUMBERS.read_text())
    cases = {name: all_cases[name] for name in names}
    wrong = page.evaluate(
        """(cases) => {
          const back = { NaN, Infinity, '-Infinity': -Infinity };
          return Object.entries(cases).flatMap(([name, list]) => list.flatMap(
            ([values, wanted]) => {
              const made = values.map((v) => (v in back ? back[v] : v));
              const got = window.nfslab.numbers[name](...made);
              return got === wanted ? [] : [[name, values, got, wanted]];
            }));
        }""",
        cases,
    )
    assert wrong == []
