"""Opening a report as a person would: headless Chromium, with the network cut.

    with browser() as chromium, opened(chromium, path) as page: ...

Any console error or warning, any uncaught error and any request that is not the file itself
(or a blob or data of its own) fails the test when the page is closed. Debian's Chromium is
used; `--disable-gpu`, because software WebGL and GPU canvases distort what is drawn.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
OWN = ("file:", "data:", "blob:")

_kept = contextlib.ExitStack()
_running: list[Any] = []


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A running Chromium; skips the test where there is none.

    It runs on for the tests after this one, since its start takes longer than most pages: each
    page has a context of its own (`opened`). `end_browser` ends it.
    """
    if CHROMIUM is None:
        pytest.skip("no chromium in PATH (Debian: apt-get install chromium)")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright (pip, group checks)")
    if _running and not _running[0].is_connected():
        end_browser()
    if not _running:
        playwright = _kept.enter_context(api.sync_playwright())
        arguments = ["--disable-gpu"] + ["--no-sandbox"] * (os.geteuid() == 0)
        _running.append(
            playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=0)
        )
        _kept.callback(_running[0].close)
    yield _running[0]


def end_browser() -> None:
    """At the end of all tests; harmless where none was started."""
    _running.clear()
    _kept.close()


@contextlib.contextmanager
def opened(chromium: Any, path: Path, *, scripts: bool = True, **options: Any) -> Iterator[Any]:
    """The report at `path`, drawn wholly; fails on anything that went wrong meanwhile."""
    options = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options}
    context = chromium.new_context(offline=True, java_script_enabled=scripts, **options)
    context.set_default_timeout(0)
    page = context.new_page()
    wrong: list[str] = []

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning"):
            wrong.append(f"console {message.type}: {message.text}")

    def on_request(request: Any) -> None:
        if not request.url.startswith(OWN):
            wrong.append(f"request: {request.url[:200]}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("request", on_request)
    try:
        page.goto(path.as_uri())
        if scripts:
            page.evaluate("window.nfslab.ready")
        yield page
        page.evaluate("0")  # what is still on its way arrives before this answer
    finally:
        context.close()
    assert wrong == [], wrong


def await_truth(page: Any, expression: str) -> None:
    """Return when it is true. Playwright's own waiting evaluates within the page, which the page's
    Content-Security-Policy refuses unless it is true at once."""
    while not page.evaluate(expression):
        settled(page)


def figures(page: Any) -> dict[str, dict[str, Any]]:
    """State of every figure by id: drawn, views left out, panes (choice, kind, panels, zoom)."""
    return {state["id"]: state for state in page.evaluate("window.nfslab.figures")}


def settled(page: Any) -> None:
    """Return when all frames that are due have been drawn."""
    page.evaluate("new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")


def pane(page: Any, name: str, number: int = 0) -> dict[str, Any]:
    """State of a figure's pane after all frames that are due have been drawn."""
    settled(page)
    found: dict[str, Any] = figures(page)[name]["panes"][number]
    return found


def choose(page: Any, name: str, **choice: str) -> dict[str, Any]:
    """Choose in the lists of a figure by their labels (_ for a blank); the pane's state then."""
    for label, value in choice.items():
        place = page.locator(f"#{name}").get_by_label(label.replace("_", " "), exact=True).first
        place.select_option(value)
        page.evaluate(f"window.nfslab.figure('{name}').panes[0].busy")
    return pane(page, name)


def drag(page: Any, name: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag a box in the first panel of a figure; corners as shares of the panel, y upwards."""
    page.locator(f"#{name} .host").first.scroll_into_view_if_needed()
    rect = pane(page, name)["rects"][0]
    page.evaluate(
        "([name, y]) => scrollBy(0, document.querySelector(`#${name} .host`)"
        ".getBoundingClientRect().top - y)",
        [name, 120],
    )
    box = page.locator(f"#{name} .host").first.bounding_box()

    def at(share: tuple[float, float]) -> tuple[float, float]:
        return (
            box["x"] + rect["left"] + share[0] * rect["width"],
            box["y"] + rect["top"] + (1 - share[1]) * rect["height"],
        )

    page.mouse.move(*at(start))
    page.mouse.down()
    page.mouse.move(*at(end), steps=4)
    page.mouse.up()
    settled(page)
