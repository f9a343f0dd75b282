"""The captures' page: what is in it, and that a browser draws it with the network cut."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path

import pytest
from nfslab.captures.analysis import Asked, read_captures
from nfslab.display.figures import Axis, Band, Figure, Lines, Panel, Rule, Series
from nfslab.display.sections import Section
from nfslab.evidence.capture.section import facts, page_sections
from nfslab.report.html.section_page import render, write

from tests.evidence.made_captures import analysis_of, density_section, gap, make_calls
from tests.report.browser import browser, figures, opened

STALL = gap("server_stalled", 360.0, 2.5)


def test_foreign_text_becomes_no_markup() -> None:
    name = '<img src=x onerror="alert(1)">.pcap'
    evil = gap("server_stalled", 1.0, 2.0, evidence="</script><b>x</b>")
    page = render(page_sections([analysis_of(make_calls(100), name, gaps=[evil])], None), name)
    assert "<img src=x" not in page
    assert "<b>x" not in page
    assert "&lt;img src=x onerror=" in page


def test_one_and_several_captures_are_drawn_offline(tmp_path: Path) -> None:
    calls = make_calls(5_000, stalls=[(360.0, 2.5)], unanswered=0.001, again=0.002)
    one = analysis_of(calls, "before.pcap", gaps=[STALL])
    many = analysis_of(calls, "after.pcap", points=density_section(calls, 14))
    pages = {
        "one": ([one], {"capture-calls", "capture-rpcstat", "capture-latencies"}),
        "two": (
            [one, many],
            {
                "all-latencies",
                *(f"capture-0-{kind}" for kind in ("calls", "rpcstat", "latencies")),
                *(f"capture-1-{kind}" for kind in ("calls", "density", "rpcstat", "latencies")),
            },
        ),
    }
    with browser() as chromium:
        for name, (captures, wanted) in pages.items():
            file = tmp_path / f"{name}.html"
            write(page_sections(captures, None), file, name)
            with opened(chromium, file) as page:
                drawn = {key for key, state in figures(page).items() if state["drawn"]}
            assert drawn == wanted


def test_a_page_as_wide_as_a_telephone_does_not_scroll_sideways(tmp_path: Path) -> None:
    """The name of the capture, of which titles and facts are made, is longer than the page."""
    capture = Path(__file__).parents[1] / "captures" / "v3_udp_stalls_retrans.pcap.gz"
    found = read_captures([capture], Asked())
    file = tmp_path / "page.html"
    said = {f"{capture}.{name}": text for name, text in facts(found).items()}
    write(page_sections([found], None), file, "made", title=str(capture), facts={"of": said})
    look = {"viewport": {"width": 400, "height": 900}, "color_scheme": "dark"}
    with browser() as chromium, opened(chromium, file, **look) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        widths = page.evaluate(
            "[...document.querySelectorAll('.facts dd')].map(e => e.clientWidth)"
        )
        assert min(widths) > 200


def drawn(tmp_path: Path, panel: Panel, width: int = 1280) -> str:
    """A figure of one panel as SVG."""
    file = tmp_path / "page.html"
    drawing = Lines(Axis("time", "s", low=0.0, high=60.0), [panel])
    write([Section("S", figures=[Figure.of("it", "It", "c", drawing)])], file, "made")
    with (
        browser() as chromium,
        opened(chromium, file, viewport={"width": width, "height": 900}) as page,
    ):
        svg: str = page.evaluate("window.nfslab.figure('it').panes[0].svg()")
    return svg


def test_a_held_value_ends_at_the_next_place(tmp_path: Path) -> None:
    """10 s at 1, 50 s at 0: the line falls after a sixth of its way, and is nowhere aslant."""
    series = Series("calls", [0.0, 10.0, 60.0], [1.0, 0.0, 0.0], draw="held")
    svg = drawn(tmp_path, Panel("", Axis("", "1"), [series]))
    (path,) = (d for d in re.findall(r'<path d="([^"]+)"[^>]*stroke-width="1.5"', svg))
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path)]
    places = list(zip(numbers[::2], numbers[1::2], strict=True))
    first, last = places[0][0], places[-1][0]
    falls = [x for (x, y), (_, after) in pairwise(places) if after > y]
    assert len(falls) == 1
    assert abs((falls[0] - first) / (last - first) - 1 / 6) < 0.01


def test_rules_are_where_they_were_asked_for(tmp_path: Path) -> None:
    """A median of 63 us and one of 1.2 s on a log axis from 10 us to 10 s."""
    file = tmp_path / "page.html"
    x = Axis("latency", "s", "log", low=1e-5, high=10.0)
    rules = [Rule(63e-6, "x", "p50"), Rule(1.2, "x", "p99")]
    panel = Panel("", Axis("", "1"), [Series("calls", [1e-5, 10.0], [0.0, 1.0])], rules=rules)
    write([Section("S", figures=[Figure.of("it", "It", "c", Lines(x, [panel]))])], file, "made")
    with browser() as chromium, opened(chromium, file) as page:
        svg = page.evaluate("window.nfslab.figure('it').panes[0].svg()")
        (rect,) = page.evaluate("window.nfslab.figures[0].panes[0].rects")
    lines = re.findall(r'<path d="M([\d.]+) [\d.]+L\1 [\d.]+"[^>]*stroke-dasharray', svg)
    shares = sorted((float(place) - rect["left"]) / rect["width"] for place in lines)
    wanted = [(math.log10(rule.at) + 5) / 6 for rule in rules]
    assert shares == pytest.approx(wanted, abs=0.002)


def test_labels_of_bands_do_not_cover_each_other(tmp_path: Path) -> None:
    bands = [Band(t, t + 2.0, f"S{t:.0f} stalled") for t in (20.0, 23.0, 45.0)]
    panel = Panel("", Axis("", "1"), [Series("calls", [0.0, 60.0], [0.0, 1.0])], bands=bands)
    first, _, last = (band.label for band in bands)
    labels = re.compile(r">(S\d+[^<]*)<")
    assert labels.findall(drawn(tmp_path, panel)) == [first, "S23", last]
    assert labels.findall(drawn(tmp_path, panel, 400)) == [first, last]
