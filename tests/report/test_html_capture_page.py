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


@pytest.mark.system
def test_several_captures_are_drawn_offline(tmp_path: Path) -> None:
    calls = make_calls(5_000, stalls=[(360.0, 2.5)], unanswered=0.001, again=0.002)
    one = analysis_of(calls, "before.pcap", gaps=[STALL])
    many = analysis_of(calls, "after.pcap", points=density_section(calls, 14))
    wanted = {
        "all-latencies",
        *(f"capture-0-{kind}" for kind in ("calls", "rpcstat", "latencies")),
        *(f"capture-1-{kind}" for kind in ("calls", "density", "rpcstat", "latencies")),
    }
    file = tmp_path / "two.html"
    write(page_sections([one, many], None), file, "two")
    with browser() as chromium, opened(chromium, file) as page:
        assert {key for key, state in figures(page).items() if state["drawn"]} == wanted


@pytest.mark.system
@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.system
def test_held_values_rules_and_bands_are_where_they_were_asked_for(tmp_path: Path) -> None:
    """10 s at 1, 50 s at 0: the line falls after a sixth of its way, and is nowhere aslant. A
    median of 63 us and one of 1.2 s lie on a log axis from 10 us to 10 s. Labels of bands do not
    cover each other.
    """
    held = Series("calls", [0.0, 10.0, 60.0], [1.0, 0.0, 0.0], draw="held")
    rules = [Rule(63e-6, "x", "p50"), Rule(1.2, "x", "p99")]
    ruled = Series("calls", [1e-5, 10.0], [0.0, 1.0])
    bands = [Band(t, t + 2.0, f"S{t:.0f} stalled") for t in (20.0, 23.0, 45.0)]
    flat = Series("calls", [0.0, 60.0], [0.0, 1.0])
    time, latency = (
        Axis("time", "s", low=0.0, high=60.0),
        Axis("latency", "s", "log", low=1e-5, high=10.0),
    )
    drawings = {
        "held": Lines(time, [Panel("", Axis("", "1"), [held])]),
        "ruled": Lines(latency, [Panel("", Axis("", "1"), [ruled], rules=rules)]),
        "bands": Lines(time, [Panel("", Axis("", "1"), [flat], bands=bands)]),
    }
    file = tmp_path / "page.html"
    shown = [Figure.of(name, name, "c", drawing) for name, drawing in drawings.items()]
    write([Section("S", figures=shown)], file, "made")
    with browser() as chromium, opened(chromium, file) as page:
        svg = {
            name: page.evaluate(f"window.nfslab.figure('{name}').panes[0].svg()")
            for name in drawings
        }
        (rect,) = figures(page)["ruled"]["panes"][0]["rects"]
    (path,) = (d for d in re.findall(r'<path d="([^"]+)"[^>]*stroke-width="1.5"', svg["held"]))
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path)]
    places = list(zip(numbers[::2], numbers[1::2], strict=True))
    first, last = places[0][0], places[-1][0]
    falls = [x for (x, y), (_, after) in pairwise(places) if after > y]
    assert len(falls) == 1
    assert abs((falls[0] - first) / (last - first) - 1 / 6) < 0.01
    lines = re.findall(r'<path d="M([\d.]+) [\d.]+L\1 [\d.]+"[^>]*stroke-dasharray', svg["ruled"])
    shares = sorted((float(place) - rect["left"]) / rect["width"] for place in lines)
    wanted = [(math.log10(rule.at) + 5) / 6 for rule in rules]
    assert shares == pytest.approx(wanted, abs=0.002)
    labels = re.findall(r">(S\d+[^<]*)<", svg["bands"])
    assert labels == [bands[0].label, "S23", bands[2].label]
