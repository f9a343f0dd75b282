"""Sizes and offsets over time: what the page decodes, counts and draws, against the calls planted.

Every count that the page shows is made here a second time from the planted calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.evidence.syscalls.accesses import KINDS, PLACE_NAMES, accesses_of
from nfslab.evidence.syscalls.tables import sum_up
from nfslab.report.html import accesses as page_accesses
from nfslab.report.html.columns import unpack
from nfslab.report.html.syscall_page import write
from nfslab.report.syscall_text import content
from nfslab.report.syscalls import WatchedCalls

from tests.report.browser import browser, drag, figure, figures, opened, settled
from tests.results.planted_syscalls import (
    EVENTS,
    HEAP,
    SECOND,
    WAL,
    access,
    file,
    sync,
    table,
    tables,
)

PAGE = 8192
SEGMENT = 16 << 20
LOG_CALLS, HEAP_CALLS = 6000, 900
NEXT = file(3, "/pg/pg_wal/000000010000000000000002", WAL["class"])
FIGURE = "syncs-accesses-accesses"
OTHERS = 9
"""Classes with one call each: not all of them have a panel."""


def planted() -> list[dict[str, Any]]:
    """Two segments of a log, every third page written again; a table read from end to end."""
    rows = []
    at = SECOND
    for n in range(LOG_CALLS):
        page = n * 2 // 3
        number, offset = (1, page * PAGE) if page * PAGE < SEGMENT else (3, page * PAGE - SEGMENT)
        rows.append(access(at, "pwrite64", offset, PAGE, file_id=number))
        at += 1_000_000
    for n in range(HEAP_CALLS):
        start_ns = 3 * SECOND + n * 400_000
        rows.append(access(start_ns, "pread64", n * PAGE, 40 * PAGE if n % 9 == 0 else PAGE, 2))
    rows += [access(4 * SECOND, "pread64", 0, 1, file_id=10 + k) for k in range(OTHERS)]
    return sorted(rows, key=lambda row: row["start_ns"])


FILES = [WAL, HEAP, NEXT, *(file(10 + k, f"/x{k}", f"class {k}") for k in range(OTHERS))]


def watched(rows: list[dict[str, Any]] | None = None) -> WatchedCalls:
    syncs = [sync(SECOND + n * 10_000_000, 1_000_000) for n in range(100)]
    whole = tables(syncs, files=FILES, events=table(EVENTS, planted() if rows is None else rows))
    return WatchedCalls(sum_up(whole), {"way": "ebpf", "level": "events"}, whole)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accesses") / "page.html"
    write(watched(), path)
    return path


@pytest.fixture
def sampled_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log has more calls than there is room for."""
    monkeypatch.setattr(page_accesses, "POINTS_ALL", 2000)
    monkeypatch.setattr("nfslab.report.html.syscalls.ACCESSES_ALL", 2000)
    path = tmp_path / "page.html"
    write(watched(), path)
    return path


DECODED = """(name) => window.nfslab.figure(name).spec.decoded().map(({ info, list, paths }) => ({
  label: info.label, top: info.top, step: [...list.step], offset: [...list.offset],
  size: [...list.size], word: [...list.word], path: [...list.file].map((k) => paths[k]),
}))"""


def test_every_call_is_decoded_as_it_was(chromium: Any, page_file: Path) -> None:
    with opened(chromium, page_file) as page:
        decoded = page.evaluate(DECODED, FIGURE)
        state = figures(page)[FIGURE]
        told = page.locator(f"#{FIGURE} .caption").inner_text()
    assert state["drawn"]
    assert state["counts"]["total"] == LOG_CALLS + HEAP_CALLS + 6
    log, heap = decoded[:2]
    assert (log["label"], heap["label"]) == (WAL["class"], HEAP["class"])
    assert len(decoded) == 8
    assert "3 calls on 3 others are not drawn" in told
    found = accesses_of(watched().tables)  # type: ignore[arg-type]
    words = found.groups[0].kind + 4 * found.groups[0].place
    assert log["word"] == words.tolist()
    rows = [row for row in planted() if row["file_id"] in (1, 3)]
    path_of = {1: WAL["path"], 3: NEXT["path"]}
    assert log["offset"] == [row["offset"] for row in rows]
    assert log["step"] == [(row["start_ns"] - SECOND) // 1000 for row in rows]
    assert log["path"] == [path_of[row["file_id"]] for row in rows]
    assert log["top"] == SEGMENT
    reads = [row for row in planted() if row["file_id"] == 2]
    assert heap["size"] == [row["size"] for row in reads]
    assert {KINDS[word % 4] for word in heap["word"]} == {"read"}


def to_first_panel(page: Any) -> None:
    """The figure is taller than the window."""
    page.evaluate(
        "(name) => scrollBy(0, document.querySelector(`#${name} .host`)"
        ".getBoundingClientRect().top - 60)", FIGURE,
    )  # fmt: skip
    settled(page)


def in_view(view: dict[str, list[float]], wanted: str = "") -> int:
    """Calls of the panels that are drawn whose time and offset lie in the view."""
    (x0, x1), (y0, y1) = view["x"], view["y"]
    n = 0
    for one in accesses_of(watched().tables).groups[:8]:  # type: ignore[arg-type]
        share = one.offset / max((one.offset + one.size).max(), 1)
        seconds = one.t_ns // 1000 * 1e-6
        inside = (seconds >= x0) & (seconds <= x1) & (share >= y0) & (share <= y1)
        if wanted:
            inside &= one.kind != KINDS.index(wanted)
        n += int(inside.sum())
    return n


def test_zooming_and_hiding_show_exactly_the_calls_of_the_view(
    chromium: Any, page_file: Path
) -> None:
    with opened(chromium, page_file) as page:
        seen = [figure(page, FIGURE)]
        to_first_panel(page)
        drag(page, FIGURE, (0.3, 0.05), (0.6, 0.7))
        seen.append(figure(page, FIGURE))
        page.locator(f"#{FIGURE} .plot").focus()
        for key in ("+", "ArrowRight", "ArrowUp", "+", "-", "ArrowDown", "-"):
            page.keyboard.press(key)
            seen.append(figure(page, FIGURE))
        page.locator(f"#{FIGURE} .legend button", has_text="read (").click()
        hidden = figure(page, FIGURE)
        page.locator(f"#{FIGURE} select").select_option("place")
        again = figure(page, FIGURE)
    shown = [state["counts"]["inView"] for state in seen]
    assert shown == [in_view(state["view"]) for state in seen]
    assert len(set(shown)) >= 5, "each step shows something else"
    assert hidden["counts"]["inView"] == in_view(hidden["view"], "read")
    assert 0 < hidden["counts"]["inView"] < shown[-1]
    assert again["counts"]["inView"] == shown[-1], "another colouring hides nothing"


def test_the_pointer_tells_of_a_single_call(chromium: Any, page_file: Path) -> None:
    """The last write of the first segment, zoomed in around it."""
    rows = [row for row in planted() if row["file_id"] == 1]
    last = rows[-1]
    at = (last["start_ns"] - SECOND) / SECOND
    with opened(chromium, page_file) as page:
        zoom = "([name, a, b]) => window.nfslab.figure(name).viewport.set([a, b], null)"
        page.evaluate(zoom, [FIGURE, at - 0.01, at + 0.03])
        state = figure(page, FIGURE)
        rect = state["panels"][0]["rect"]
        y0, y1 = state["view"]["y"]
        to_first_panel(page)
        box = page.locator(f"#{FIGURE} .host").bounding_box()
        share = last["offset"] / SEGMENT
        x = box["x"] + rect["x"] + rect["w"] * 0.25
        y = box["y"] + rect["y"] + rect["h"] * (1 - (share - y0) / (y1 - y0))
        page.mouse.move(x + 1, y + 2)
        settled(page)
        tip = page.locator(".tip").inner_text()
    assert f"at {at:.6f} s, offset {last['offset']:,}" in tip
    assert WAL["path"] in tip
    assert re.search(r"8 KiB write, (sequential|rewrite)", tip)


def test_cells_count_what_is_too_much_to_hold_and_a_sample_is_drawn(
    chromium: Any, sampled_file: Path
) -> None:
    with opened(chromium, sampled_file) as page:
        told = page.locator(f"#{FIGURE} .caption").inner_text()
        whole = figure(page, FIGURE)
        page.locator(f"#{FIGURE} .legend button", has_text="write (").click()
        hidden = figure(page, FIGURE)
    text = sampled_file.read_text("utf-8")
    found = re.search(rf'id="data-{FIGURE.removesuffix("-accesses")}-0">([^<]*)<', text)
    assert found
    chunk = unpack(found[1])
    size = int.from_bytes(chunk[:4], "little")
    header, rest = json.loads(chunk[4 : 4 + size]), chunk[4 + size :]

    def column(spec: dict[str, Any]) -> Any:
        width = {"u8": 1, "u16": 2, "u32": 4}[spec["kind"]]
        planes = np.frombuffer(rest[spec["offset"] :][: width * spec["n"]], np.uint8)
        joined = planes.reshape(width, -1).T.copy().view(f"<u{width}").ravel()
        return joined.astype(np.int64) * spec["step"]

    cells = header["cells"]
    log = accesses_of(watched().tables).groups[0]  # type: ignore[arg-type]
    place, n, word = (column(cells[name]) for name in ("place", "n", "word"))
    wide_ns, tall = round(cells["column_s"] * 1e9), SEGMENT / cells["rows"]
    by_hand: dict[tuple[int, int, str, str], int] = {}
    for t_ns, offset, kind, where in zip(
        log.t_ns.tolist(), log.offset.tolist(), log.kind, log.place, strict=True
    ):
        key = (t_ns // wide_ns, int(offset // tall), KINDS[kind], PLACE_NAMES[where])
        by_hand[key] = by_hand.get(key, 0) + 1
    told_cells = {
        (p // cells["rows"], p % cells["rows"], KINDS[w % 4], PLACE_NAMES[w // 4]): count
        for p, w, count in zip(place.tolist(), word.tolist(), n.tolist(), strict=True)
    }
    assert told_cells == by_hand
    one_in = int(re.findall(r"dots show 1 in (\d+)", told)[0])
    assert header["list"]["n"] == -(-LOG_CALLS // one_in)
    assert f"{LOG_CALLS:,} are too many to hold each" in told
    assert whole["counts"]["inView"] == LOG_CALLS + HEAP_CALLS + 6
    assert hidden["counts"]["inView"] == HEAP_CALLS + 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [480, 1280])
def test_the_saw_of_the_log_and_the_line_of_the_table_are_where_they_are(
    chromium: Any, page_file: Path, scheme: str, width: int
) -> None:
    """Pixels: along the line something is drawn, and beside it nothing."""
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    ink = """([name, k, x, share]) => {
      const fig = window.nfslab.figure(name);
      const { rect } = fig.scene.panels[k];
      const [y0, y1] = fig.viewport.y;
      const canvas = fig.plot.canvases[k];
      const sharp = canvas.width / rect.w;
      const px = ((x - fig.viewport.x[0]) / (fig.viewport.x[1] - fig.viewport.x[0])) * rect.w;
      const py = rect.h * (1 - (share - y0) / (y1 - y0));
      const data = canvas.getContext('2d')
        .getImageData((px - 3) * sharp, (py - 3) * sharp, 6 * sharp, 6 * sharp).data;
      const colours = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0) colours.add(data.slice(i, i + 3).join());
      return colours.size;
    }"""  # noqa: E501
    with opened(chromium, page_file, **options) as page:
        settled(page)

        def drawn(panel: int, x: float, share: float) -> int:
            return int(page.evaluate(ink, [FIGURE, panel, x, share]))

        # The log: half of the first segment after 1.536 s, and of the second after 4.608 s.
        along = [drawn(0, 0.768, 0.25), drawn(0, 1.536, 0.5), drawn(0, 4.3, 0.4)]
        beside = [drawn(0, 0.768, 0.65), drawn(0, 4.3, 0.75)]
        heap = [drawn(1, 2.0 + n * 0.0004, n * PAGE / (933 * PAGE)) for n in (100, 450, 800)]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert all(along), along
    assert all(heap), heap
    assert not any(beside), beside


def test_json_has_the_series_within_its_bound() -> None:
    rows = content(watched())["accesses"]
    log = rows[0]
    assert (log["class"], log["calls"]) == (WAL["class"], LOG_CALLS)
    assert log["kinds"] == {"read": 0, "write": LOG_CALLS, "synchronous write": 0,
                            "sync_file_range": 0}  # fmt: skip
    assert sum(log["places"].values()) == LOG_CALLS
    assert log["one_in"] == 3
    assert len(log["t_ns"]) == len(log["offset"]) == len(log["kind"]) == LOG_CALLS // 3
    mine = [row["offset"] for row in planted() if row["file_id"] in (1, 3)]
    assert log["offset"] == mine[::3]
    assert "t_ns" not in content(watched(), accesses_most=0)["accesses"][0]


def test_small_ones_keep_all_and_large_ones_share_what_is_left() -> None:
    class Sized:
        def __init__(self, calls: int) -> None:
            self.calls = calls

    groups: Any = [Sized(n) for n in (5000, 900, 10, 3000)]
    assert page_accesses.shares(groups, 10_000) == [5000, 900, 10, 3000]
    assert page_accesses.shares(groups, 3000) == [1045, 900, 10, 1045]


def test_level_counts_says_what_it_has_not(tmp_path: Path) -> None:
    whole = tables([sync(SECOND, 5)])
    calls = WatchedCalls(sum_up(whole), {"way": "ebpf", "level": "counts"}, whole)
    path = tmp_path / "page.html"
    write(calls, path)
    text = path.read_text("utf-8")
    assert "not over time: level events has each of them" in text
    assert 'data-figure="accesses"' not in text
