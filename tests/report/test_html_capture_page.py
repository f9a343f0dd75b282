"""The captures' page: what is in it, and that a browser draws it with the network cut."""

from __future__ import annotations

from pathlib import Path

from nfslab.evidence.capture.section import page_sections
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
