"""Where a call's time goes: the page's section, Markdown and the terminal, from planted parts."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from nfslab.evidence.nfs_server.breakdown import PARTS
from nfslab.report.analysis import analyse
from nfslab.report.call_parts import read_parts, sentences
from nfslab.report.html import render_html
from nfslab.report.html.columns import unpack
from nfslab.report.markdown import render_markdown
from nfslab.report.shown_runs import RUNS_MOST
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.browser import browser, figures, opened
from tests.report.synthetic import Recipe, write_pgbench
from tests.results.planted_calls import both, write_calls

MS = 1_000_000
RECIPE = Recipe(clients=(1, 5), repetitions=2, samples=False, durable=False)
SLOW_SERVICE = (0, 1 * MS, 0, 6 * MS, 1 * MS, 2 * MS)
WAITING = (0, 0, 3 * MS, 1 * MS, 0, 0)


def planted(folder: ExperimentFolder) -> list[Path]:
    """Every run of the first point: ten READs of 10 ms, one GETATTR that waits, one sent twice."""
    first = folder.sealed_runs()[0].point_id
    runs = [folder.runs_path / line.run_id for line in folder.sealed_runs()
            if line.point_id == first]  # fmt: skip
    calls = [both(n, n, *SLOW_SERVICE) for n in range(10)]
    calls += [both(0, 10, *WAITING, operation="GETATTR", procedure=1)]
    calls += [both(0, 11, *WAITING, sends=2)]
    for _, server in calls:
        server.pop("sends", None)
    for run in runs:
        write_calls(run, calls)
    return runs


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return write_pgbench(tmp_path, RECIPE)


def payload(page: str, name: str) -> Any:
    found = re.search(rf'id="data-{name}">([^<]*)<', page)
    assert found, name
    return json.loads(unpack(found[1]))


def test_the_page_says_what_was_planted(folder: ExperimentFolder) -> None:
    planted(folder)
    page = render_html(folder.path)
    section = page[page.index('<section id="call-parts-section"') :]
    section = section[: section.index("</section>")]
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", section)))
    assert "The largest part of the calls' time is service: 59 %" in text
    assert "READ 10 10 ms 0 ns (0.0 %) 1 ms (10 %) 0 ns (0.0 %) 6 ms (60 %) 1 ms (10 %)" in text
    assert "GETATTR 1 4 ms 0 ns (0.0 %) 0 ns (0.0 %) 3 ms (75 %) 1 ms (25 %)" in text
    assert "Left out: 1 sent more than once." in text
    split = payload(page, "call-parts-0")["split"]
    assert [part["label"] for part in split["parts"]] == list(PARTS)
    assert [row["label"] for row in split["rows"]] == ["all calls", "READ", "GETATTR"]
    assert split["rows"][1]["shares"] == pytest.approx([0, 0.1, 0, 0.6, 0.1, 0.2])
    assert split["rows"][1]["means_s"][3] == pytest.approx(0.006)
    overview = payload(page, "call-parts")["split"]["rows"]
    assert len(overview) == 2, "both blocks of the point"
    assert {part["colour"] for part in split["parts"]} == {"c8", "c1", "c5", "c3", "c4", "c6"}


def test_markdown_and_the_terminal_say_it_too(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    run = planted(folder)[0]
    text = render_markdown(folder.path)
    row = next(line for line in text.splitlines() if line.startswith("| placement=")
               and "909 µs" in line)  # fmt: skip
    # Both runs of the point: 2 x (10 x 10 ms + 4 ms) over 22 calls.
    assert [cell.strip() for cell in row.split("|")][3:8] == [
        "2", "22", "9.45 ms", "0 ns (0 %)", "909 µs (9.62 %)",
    ]  # fmt: skip
    assert "Left out: 1 sent more than once" in text
    said = nfslab(capsys, "show", folder.path, run.name)
    assert said.code == 0
    assert "The largest part of the calls' time is service" in said.out
    assert re.search(r"GETATTR +1 +4 ms .* waiting \(75 %\)", said.out)


def test_without_both_records_nothing_is_said(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = planted(folder)
    for run in runs:
        (run / "evidence" / "nfs_server_calls.parquet").unlink()
    assert "call-parts-section" not in render_html(folder.path)
    assert "call's time" not in render_markdown(folder.path)
    assert "call's time" not in nfslab(capsys, "show", folder.path, runs[0].name).out


def test_what_cannot_be_read_or_joined_is_named(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, empty = planted(folder)
    (broken / "evidence" / "rpc_calls.parquet").write_bytes(b"PAR1 and nothing more")
    client, _ = both(0, 1, *WAITING)
    _, server = both(0, 2, *WAITING)
    write_calls(empty, [(client, server)])
    page = unescape(render_html(folder.path))
    assert f"{broken.name}: " in page
    assert "no call could be taken apart. Left out: 1 not in the server's record." in page
    assert f"{broken.name}: ".replace("_", "\\_") in render_markdown(folder.path)
    assert (
        "rpc_calls.parquet cannot be read" in nfslab(capsys, "show", folder.path, broken.name).out
    )
    assert "no call could be taken apart" in nfslab(capsys, "show", folder.path, empty.name).out


def test_more_runs_than_are_shown_are_counted(tmp_path: Path) -> None:
    folder = write_pgbench(
        tmp_path, Recipe(clients=(1,), repetitions=RUNS_MOST + 2, samples=False, evidence=False,
                         durable=False)
    )  # fmt: skip
    planted(folder)
    found = read_parts(analyse(folder.path))
    assert (len(found.runs), found.left_out) == (RUNS_MOST, 2)
    assert "2 more runs with both records are not in this file" in render_html(folder.path)


def test_two_targets_have_a_sentence_each(folder: ExperimentFolder) -> None:
    run = planted(folder)[0]
    calls = [
        both(0, 1, *SLOW_SERVICE, target="data"),
        both(0, 2, *WAITING, target="log"),
    ]
    write_calls(run, calls)
    found = next(one for one in read_parts(analyse(folder.path)).runs if one.run_id == run.name)
    of_data, of_log = sentences(found.found)
    assert of_data.startswith("The largest part of the calls' time of data is service: 60 %")
    assert of_log.startswith("The largest part of the calls' time of log is waiting: 75 %")


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 420, "height": 800}}])
def test_the_bars_are_drawn(
    folder: ExperimentFolder, tmp_path: Path, options: dict[str, Any]
) -> None:
    planted(folder)
    path = tmp_path / "page.html"
    path.write_text(render_html(folder.path))
    with browser() as chromium, opened(chromium, path, **options) as page:
        page.locator("#call-parts-split").scroll_into_view_if_needed()
        page.locator("#call-parts-0-split").scroll_into_view_if_needed()
        drawn = figures(page)
        for name, bars in (("call-parts-split", 2), ("call-parts-0-split", 3)):
            assert drawn[name]["counts"]["total"] == bars
            assert page.locator(f"#{name} .host svg path").count() >= bars * len(PARTS) / 2
        if options:
            # The legend does not fit the title's line: it stands above.
            entries = page.locator("#call-parts-0-split .legend .entry").all_inner_texts()
            assert entries == list(PARTS)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= options["viewport"]["width"]
