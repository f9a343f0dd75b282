"""The captures' page in a browser: decoded exactly, zoomed exactly, linked, printed, exported.

Every count that the page shows is computed here a second time from the calls themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.report.html.capture import write_capture_page

from tests.report.browser import browser, drag, figure, figures, opened, settled
from tests.report.made_captures import (
    AGAIN,
    NAMES,
    PANELS,
    STEP_NS,
    STEPS,
    UNANSWERED,
    Calls,
    analysis_of,
    density_section,
    gap,
    make_calls,
)

STALLS = [(120.0, 1.2), (360.0, 2.5), (480.0, 0.7)]
CALLS = make_calls(30_000, stalls=STALLS, unanswered=0.001, again=0.002)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


def gaps() -> list[dict[str, Any]]:
    return [gap("server_stalled", begin, length) for begin, length in STALLS]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / "page.html"
    return write_capture_page([analysis_of(CALLS, gaps=gaps())], path)


@pytest.fixture(scope="module")
def two_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("captures") / "page.html"
    slow = make_calls(6_000, duration_s=300.0, seed=2, slower=3.0)
    both = [
        analysis_of(CALLS, "before.pcap", gaps=gaps()),
        analysis_of(slow, "after.pcap", duration_s=300.0),
    ]
    return write_capture_page(both, path)


def in_view(calls: Calls, view: dict[str, list[float]]) -> int:
    """Calls whose point lies in the view; those without a reply have no latency."""
    (x0, x1), (y0, y1) = view["x"], view["y"]
    seconds = calls.step * (STEP_NS / 1e9)
    position = -6 + (calls.code - 0.5) * 8 / STEPS
    unanswered = calls.code == UNANSWERED
    inside = (seconds >= x0) & (seconds <= x1)
    return int((inside & (unanswered | ((position >= y0) & (position <= y1)))).sum())


DECODED = """() => window.nfslab.figure('calls').spec.decoded().map(([panel]) => ({
  name: panel.info.name, step: [...panel.calls.step], word: [...panel.calls.word],
  frame: Array.from(panel.calls.step, (_, i) => panel.calls.frame(i)),
  operation: panel.calls.operation && [...panel.calls.operation],
}))"""


def test_everything_is_drawn_offline_and_every_call_is_decoded(
    chromium: Any, page_file: Path
) -> None:
    with opened(chromium, page_file) as page:
        states = figures(page)
        decoded = page.evaluate(DECODED)
    assert list(states) == ["calls", "rpcstat", "latencies"]
    assert all(state["drawn"] for state in states.values())
    counts = states["calls"]["counts"]
    assert counts["total"] == counts["inView"] == CALLS.step.size
    assert [panel["name"] for panel in decoded] == list(PANELS)
    for index, panel in enumerate(decoded):
        mine = CALLS.panel == index
        assert np.array_equal(panel["step"], CALLS.step[mine])
        words = CALLS.code[mine] | np.where(CALLS.again[mine], AGAIN, 0)
        assert np.array_equal(panel["word"], words)
        assert np.array_equal(panel["frame"], CALLS.frame[mine])
        if panel["name"] == "others":
            assert np.array_equal(panel["operation"], CALLS.operation[mine])
        else:
            assert panel["operation"] is None


def test_dragging_and_keys_show_exactly_the_calls_of_the_view(
    chromium: Any, page_file: Path
) -> None:
    with opened(chromium, page_file) as page:
        seen = [figure(page, "calls")]
        drag(page, "calls", (0.55, 0.05), (0.7, 0.9))
        seen.append(figure(page, "calls"))
        page.locator("#calls .plot").focus()
        for key in ("+", "+", "ArrowRight", "ArrowUp", "-", "ArrowLeft", "ArrowDown", "+"):
            page.keyboard.press(key)
            seen.append(figure(page, "calls"))
        linked = figure(page, "rpcstat")
        page.keyboard.press("0")
        again = figure(page, "calls")
    views = [(state["view"], state["counts"]["inView"]) for state in seen]
    assert [shown for _, shown in views] == [in_view(CALLS, view) for view, _ in views]
    assert len({shown for _, shown in views}) >= 6, "each step shows something else"
    (x0, x1), first = seen[0]["full"]["x"], seen[1]["view"]["x"]
    wanted = [x0 + 0.55 * (x1 - x0), x0 + 0.7 * (x1 - x0)]
    assert first == pytest.approx(wanted, abs=(x1 - x0) / 300)
    assert linked["view"]["x"] == seen[-1]["view"]["x"]
    assert again["counts"]["inView"] == CALLS.step.size


def test_stalls_are_bands_and_a_closer_look_zooms_all_figures(
    chromium: Any, page_file: Path
) -> None:
    bands = """() => window.nfslab.figure('calls').scene.panels[0].layers
      .filter((layer) => layer.kind === 'shades').flatMap((layer) => layer.items)"""
    with opened(chromium, page_file) as page:
        found = page.evaluate(bands)
        row = page.locator("#captures-gaps tbody tr").nth(1)
        assert row.locator("td").nth(3).text_content() == "2.50 s"
        row.get_by_role("button", name="closer look").click()
        calls, rpcstat = figure(page, "calls"), figure(page, "rpcstat")
    lengths = [round(band["to"] - band["from"], 6) for band in found]
    assert [(band["label"], band["from"]) for band in found] == [
        ("S1", 120.0),
        ("S2", 360.0),
        ("S3", 480.0),
    ]
    assert lengths == [1.2, 2.5, 0.7]
    assert calls["view"]["x"] == pytest.approx([360 - 0.625, 362.5 + 0.625])
    assert rpcstat["view"]["x"] == calls["view"]["x"]
    assert calls["counts"]["inView"] == in_view(CALLS, calls["view"])


def test_the_pointer_tells_of_a_single_call(chromium: Any, page_file: Path) -> None:
    """The slowest LOOKUP: zoomed in around it, the pointer on its place."""
    others = (CALLS.operation == NAMES.index("LOOKUP")) & (CALLS.latency_ns >= 0)
    which = int(np.argmax(np.where(others, CALLS.latency_ns, -1)))
    at = float(CALLS.step[which]) * STEP_NS / 1e9
    with opened(chromium, page_file) as page:
        zoom = "([a, b]) => window.nfslab.figure('calls').viewport.set([a, b], null)"
        page.evaluate(zoom, [at - 0.01, at + 0.03])
        state = figure(page, "calls")
        rect = state["panels"][4]["rect"]
        y0, y1 = state["view"]["y"]
        position = -6 + (CALLS.code[which] - 0.5) * 8 / STEPS
        page.locator("#calls .host").scroll_into_view_if_needed()
        page.evaluate("scrollBy(0, document.querySelector('#calls .tools')"
                      ".getBoundingClientRect().top - innerHeight + 40)")  # fmt: skip
        box = page.locator("#calls .host").bounding_box()
        x = box["x"] + rect["x"] + rect["w"] * 0.25
        y = box["y"] + rect["y"] + rect["h"] * (1 - (position - y0) / (y1 - y0))
        page.mouse.move(x + 3, y + 2)
        settled(page)
        tip = page.locator(".tip").inner_text()
        ring = page.locator(".ring").bounding_box()
    assert f"frame {CALLS.frame[which]}" in tip
    assert "LOOKUP" in tip
    assert f"at {at:.5f} s" in tip
    shown = re.match(r"([\d.]+) (s|ms)", tip)
    assert shown
    seconds = float(shown[1]) * {"s": 1, "ms": 1e-3}[shown[2]]
    assert seconds == pytest.approx(CALLS.latency_ns[which] / 1e9, rel=0.006)
    assert abs(ring["x"] + ring["width"] / 2 - x) < 1
    assert abs(ring["y"] + ring["height"] / 2 - y) < 1


def test_two_captures_share_their_scales(chromium: Any, two_file: Path) -> None:
    scales = """() => window.nfslab.figure('calls').scene.panels
      .map(({ x, y, title }) => [title, x.domain, y.domain])"""
    with opened(chromium, two_file) as page:
        panels = page.evaluate(scales)
        drag(page, "calls", (0.1, 0.0), (0.4, 1.0))
        state = figure(page, "calls")
        zoomed = page.evaluate(scales)
    assert [title for title, _, _ in panels[:2]] == ["READ · before.pcap", "READ · after.pcap"]
    assert len(panels) == 2 * len(PANELS)
    for found in (panels, zoomed):
        assert all(domains == found[0][1:] for _, *domains in found)
    slow = make_calls(6_000, duration_s=300.0, seed=2, slower=3.0)
    wanted = in_view(CALLS, state["view"]) + in_view(slow, state["view"])
    assert state["counts"]["inView"] == wanted


def test_cells_count_exactly_and_single_calls_appear(chromium: Any, tmp_path: Path) -> None:
    shift = 14
    column_s = (1 << shift) * STEP_NS / 1e9
    calls = make_calls(30_000, stalls=STALLS, unanswered=0.001, again=0.002)
    analysis = analysis_of(calls, points=density_section(calls, shift))
    path = write_capture_page([analysis], tmp_path / "page.html")
    zoom = "(x) => window.nfslab.figure('calls').viewport.set(x, null)"
    with opened(chromium, path) as page:
        whole = figure(page, "calls")
        from_s, to_s = 700 * column_s, 1500 * column_s
        page.evaluate(zoom, [from_s, to_s])
        part = figure(page, "calls")
        caption = page.locator("#calls .caption").inner_text()
        dots = page.evaluate(
            "() => window.nfslab.figure('calls').spec.decoded().map(([p]) => p.sample.n)"
        )
    assert whole["counts"]["inView"] == whole["counts"]["total"] == 30_000
    column = calls.step >> shift
    assert part["counts"]["inView"] == int(((column >= 700) & (column < 1500)).sum())
    assert "1 in 64" in caption
    assert sum(dots) == -(-30_000 // 64)


def test_colours_follow_the_theme_and_paper_is_light(chromium: Any, page_file: Path) -> None:
    painted = """() => [...document.querySelectorAll('#calls canvas')].map((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] === 255) seen.add(data.slice(i, i + 3).join());
      return [...seen]; })"""
    with opened(chromium, page_file) as page:
        light = page.evaluate(painted)
        page.locator("#theme").click()
        dark = page.evaluate(painted)
        printed = page.pdf()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        images = page.locator("#calls .paper svg image").count()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(light) == len(dark) == len(PANELS)
    assert all(len(colours) > 8 for colours in light), "nothing is painted"
    assert all(set(a).isdisjoint(b) or set(a) != set(b) for a, b in zip(light, dark, strict=True))
    assert images == len(PANELS)
    assert len(printed) > 50_000


def test_figures_are_saved_with_their_calls(chromium: Any, page_file: Path) -> None:
    with opened(chromium, page_file) as page:
        svg = page.evaluate("window.nfslab.figure('calls').svgText()")
        size = page.evaluate("window.nfslab.figure('calls').pngSize()")
    assert svg.count("<image") == len(PANELS)
    assert "READ" in svg
    assert ">S2<" in svg
    assert size > 30_000


def test_a_long_capture_loses_no_step(chromium: Any, tmp_path: Path) -> None:
    """Beyond 2^32 steps (12 hours), gaps of three and more bytes."""
    step = np.array([0, 1, 127, 128, 16_384, 2**31, 2**32 + 5, 2**33])
    n = step.size
    calls = Calls(step * STEP_NS, np.full(n, 250_000), np.zeros(n, dtype=np.int64),
                  np.zeros(n, dtype=bool),
                  np.array([9, 5, 7, 7, 2**31, 3, 2**32 - 1, 1]))  # fmt: skip
    analysis = analysis_of(calls, duration_s=2**33 * STEP_NS / 1e9)
    path = write_capture_page([analysis], tmp_path / "page.html")
    with opened(chromium, path) as page:
        (panel,) = page.evaluate(DECODED)
        state = figure(page, "calls")
    assert panel["step"] == step.tolist()
    assert panel["frame"] == calls.frame.tolist()
    assert state["counts"]["inView"] == n
