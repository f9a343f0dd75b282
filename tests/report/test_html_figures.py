"""Figures as chunks of a page: arrays come back as they were, and room is shared by rank."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from nfslab.display.figures import (
    Axis,
    Bar,
    Bars,
    Cloud,
    Figure,
    Flame,
    Heat,
    Lines,
    Panel,
    Points,
    Series,
    View,
)
from nfslab.errors import ResultsError
from nfslab.report.html.figures import PageFigures, packed

from tests.report.packed import drawing_of, inflated

RANDOM = np.random.default_rng(3)


def test_short_arrays_and_exact_ones_come_back() -> None:
    y = RANDOM.normal(size=1500)
    y[7] = np.nan
    drawing = Lines(
        Axis("x", "s", low=0.0),
        [
            Panel(
                "", Axis("y"), [Series("a", np.arange(1500), y, low=[1.5] * 4, hints=["h"] * 1500)]
            )
        ],
    )
    found = drawing_of(packed(drawing))
    series = found["panels"][0]["series"][0]
    assert found["kind"] == "lines"
    assert found["x"] == {"name": "x", "unit": "s", "scale": "linear", "low": 0.0}
    np.testing.assert_array_equal(series["y"], y)
    np.testing.assert_array_equal(series["x"], np.arange(1500))
    assert series["low"] == [1.5] * 4
    assert series["hints"] == ["h"] * 1500


def test_large_arrays_keep_what_their_use_needs() -> None:
    n = 50_000
    t_s = np.sort(RANDOM.random(n)) * 3600
    latency_s = RANDOM.lognormal(-7, 2, n)
    noise = RANDOM.normal(5, 1, n)
    xid = RANDOM.integers(0, 2**40, n)
    found = drawing_of(
        packed(
            Points(
                Axis("time", "s"),
                Axis("latency", "s", "log"),
                [
                    Cloud(
                        "READ",
                        t_s,
                        latency_s,
                        length=noise,
                        extra={"xid": (xid, "#"), "file": (["/a", "/b"] * (n // 2), "")},
                    )
                ],
            )
        )
    )["clouds"][0]
    assert np.abs(found["x"] - t_s).max() <= 3600 / 2**32
    assert (np.abs(found["y"] - latency_s) / latency_s).max() <= 1 / 8000
    assert np.abs(found["length"] - noise).max() <= noise.max() / 4000
    np.testing.assert_array_equal(found["extra"]["xid"][0], xid)
    assert found["extra"]["file"][0] == ["/a", "/b"] * (n // 2)


def test_missing_values_and_matrices_survive() -> None:
    values = RANDOM.lognormal(0, 3, 9000)
    values[::3] = np.nan
    cells = RANDOM.integers(0, 300, (40, 25))
    found = drawing_of(
        packed(
            Heat(Axis("t"), Axis("l"), np.arange(26.0), np.arange(41.0), cells, "calls", most=300.0)
        )
    )
    np.testing.assert_array_equal(found["cells"].reshape(40, 25), cells)
    series = Series("a", np.arange(9000), values)
    line = drawing_of(packed(Lines(Axis("x"), [Panel("", Axis("y"), [series])])))
    back = line["panels"][0]["series"][0]["y"]
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))


def test_what_is_not_known_is_absent() -> None:
    bar = drawing_of(packed(Bars(Axis("y"), [Bar("a", None), Bar("b", float("nan"))])))["bars"]
    assert bar == [{"label": "a"}, {"label": "b", "value": None}]
    empty = drawing_of(packed(Lines(Axis("x"), [Panel("", Axis("y"), [Series("a", [], [])])])))
    (series,) = empty["panels"][0]["series"]
    assert (series["x"], series["y"]) == ([], [])
    tree = Flame([0, 1], [0, 1], ["a", "b"], [4, 1], [0, 0], [("user", "cpu-user")])
    assert drawing_of(packed(tree))["colours"] == [["user", "cpu-user"]]


def bars(n: int) -> Callable[[], Bars]:
    return lambda: Bars(Axis("y"), [Bar(f"row {RANDOM.random()}", float(k)) for k in range(n)])


def test_room_is_given_by_rank_and_by_order_of_views() -> None:
    page = PageFigures("x")
    wide = Figure("wide", "", "", [View(bars(40), (str(k),)) for k in range(4)], ("V",))
    late = Figure("late", "", "", [View(bars(40))], rank=2)
    other = Figure("other", "", "", [View(bars(40))])
    for figure in (wide, late, other):
        page.place(figure)
    whole = page.chunks(10**6)
    one = len(whole["f0.0"])
    assert set(whole) == {"f0", "f1", "f2", "f0.0", "f0.1", "f0.2", "f0.3", "f1.0", "f2.0"}
    room = sum(len(whole[name]) for name in ("f0", "f1", "f2")) + int(one * 3.5)
    tight = page.chunks(room)
    assert {name for name in tight if "." in name} == {"f0.0", "f0.1", "f2.0"}
    indexes = {name: json.loads(inflated(tight[name])) for name in ("f0", "f1", "f2")}
    assert {name: index["left_out"] for name, index in indexes.items()} == {
        "f0": 2,
        "f1": 1,
        "f2": 0,
    }
    assert [view["choice"] for view in indexes["f0"]["views"]] == [["0"], ["1"]]
    assert sum(map(len, tight.values())) <= room


def test_a_view_that_cannot_be_read_says_why_and_an_empty_one_is_gone() -> None:
    def unreadable() -> Bars:
        raise ResultsError("samples of b000-1 are damaged", why="not Parquet", fix="-")

    page = PageFigures("x")
    page.place(Figure("f", "", "", [View(unreadable, ("a",)), View(lambda: None, ("b",))], ("V",)))
    index = json.loads(inflated(page.chunks(10**6)["f0"]))
    assert [view["choice"] for view in index["views"]] == [["a"]]
    assert "damaged" in index["views"][0]["problem"]


def test_titles_are_escaped() -> None:
    html = PageFigures("x").place(Figure('a"b', "<b>t</b>", "<i>", []))
    assert "<b>" not in html
    assert "<i>" not in html
    assert 'id="a&#34;b"' in html


@pytest.mark.parametrize("values", [np.array([-1, 2]), np.arange(-4000, 5000)])
def test_negative_whole_numbers_are_kept(values: np.ndarray) -> None:
    series = Series("a", np.arange(values.size), values)
    found = drawing_of(packed(Lines(Axis("x"), [Panel("", Axis("y"), [series])])))
    back = np.array(found["panels"][0]["series"][0]["y"])
    assert np.abs(back - values).max() <= (values.max() - values.min()) / 4000
