"""System calls and syncs in the report, from planted tables: page, browser, Markdown, JSON."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from nfslab.evidence.syscalls.sync_steps import take_apart
from nfslab.evidence.syscalls.tables import sum_up
from nfslab.report.analysis import render_json
from nfslab.report.html import render_html
from nfslab.report.html.columns import unpack
from nfslab.report.html.syscall_page import write
from nfslab.report.html.syscalls import POINTS_SERIES
from nfslab.report.markdown import render_markdown
from nfslab.report.syscalls import WatchedCalls, levels_text, read_run_calls
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.browser import browser, figures, opened
from tests.report.synthetic import Recipe, write_pgbench
from tests.results.planted_syscalls import (
    BLOCKS,
    CALLS,
    COUNTS,
    MS,
    SECOND,
    count,
    file,
    sync,
    table,
    tables,
    write_run,
)

FILES = [
    file(1, "/mnt/pg_wal/1", "PostgreSQL WAL", device="0:50", inode=77),
    file(2, "/srv/base/1", "PostgreSQL tables and indexes", device="8:1"),
]
TARGETS = {"0:50": "filer"}
STEP = 6 * MS


def planted() -> Any:
    """242 fdatasyncs of the log, the first 57 fast; 40 fsyncs of a table; calls and requests."""
    rng = np.random.default_rng(1)
    latencies = np.concatenate(
        [0.4 * MS * np.exp(0.1 * rng.standard_normal(57)),
         5.1 * MS * np.exp(0.05 * rng.standard_normal(185))]
    ).astype(int)  # fmt: skip
    rows = [sync(SECOND + i * STEP, int(n)) for i, n in enumerate(latencies)]
    rows += [sync(SECOND + i * STEP, MS, 2, call="fsync") for i in range(40)]
    counts = table(COUNTS, [
        count(1, "write", 242, bytes=242 * 8192, places=[1, 100, 141, 0, 0]),
        count(1, "fdatasync", 242, latency_sum_ns=int(latencies.sum())),
        count(2, "fsync", 40, latency_sum_ns=40 * MS),
    ])  # fmt: skip
    blocks = table(BLOCKS, [
        {"issue_ns": SECOND + i * STEP, "latency_ns": MS // 4, "device": "8:0", "kind": "flush",
         "fua": False, "sector": 0, "size": 0, "pid": 1} for i in range(40)
    ])  # fmt: skip
    return tables(rows, files=FILES, counts=counts, blocks=blocks), latencies


def rpc_calls(latencies: Any) -> Any:
    """A WRITE for the first half of each of the log's syncs, a COMMIT for the next quarter."""
    rows = []
    for i, latency in enumerate(latencies.tolist()):
        at = SECOND + i * STEP
        for name, begin, end in (
            ("WRITE", 0, latency // 2),
            ("COMMIT", latency // 2, latency * 3 // 4),
        ):
            rows.append({"operation": name, "enqueued_ns": at + begin, "completed_ns": at + end,
                         "file_id": 77, "count": 8192, "target": "filer"})  # fmt: skip
    return table(CALLS, rows)


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return write_pgbench(
        tmp_path, Recipe(clients=(1, 5), repetitions=1, samples=False, durable=False)
    )


def plant(folder: ExperimentFolder) -> Path:
    """Into the first run, with the summary of its collector."""
    run = folder.runs_path / folder.sealed_runs()[0].run_id
    whole, latencies = planted()
    write_run(run, whole, SECOND)
    pq.write_table(rpc_calls(latencies), run / "evidence" / "rpc_calls.parquet")
    record = json.loads((run / "run.json").read_text("utf-8"))
    record["evidence"].append({
        "collector": "syscalls", "status": "ok",
        "summary": {
            "way": "ebpf", "level": "counts", "why_not": [], "known_cost": "little",
            "figures": {}, "notes": ["a planted note"], "targets": TARGETS,
            "disks": {"8:1": ["8:0"]}, "timed_ns": 2 * SECOND,
        },
    })  # fmt: skip
    (run / "run.json").write_text(json.dumps(record), "utf-8")
    return run


def text_of(page: str) -> str:
    section = page[page.index('<section id="syscalls-section"') :]
    section = section[: section.index("</section>")]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", section)))


def test_the_page_says_what_was_planted(folder: ExperimentFolder) -> None:
    plant(folder)
    page = render_html(folder.path)
    text = text_of(page)
    assert re.search(r"242 x fdatasync: the first 57 calls take 4\d\d µs, then 5\.\d\d ms", text)
    assert re.search(r"50 % sending dirty pages, .*25 % committing", text)
    assert "75 % the rest (file system, scheduler), 25 % flushing the disk's cache" in text
    assert "A planted note." in text
    found = re.search(r'id="data-syncs-0">([^<]*)<', page)
    assert found
    curve = json.loads(unpack(found[1]))["syncs"]
    log, data = curve["series"]
    assert (len(log["y"]), log["stride"], data["calls"]) == (242, 1, 40)
    assert [change["call"] for change in log["changes"]] == [57.5]
    assert data["changes"] == []
    assert 'href="#syscalls-section"' in page


def test_markdown_json_and_the_terminal_say_it_too(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    run = plant(folder)
    assert "the first 57 calls take" in render_markdown(folder.path)
    (content,) = json.loads(render_json(folder.path))["system_calls"]
    assert [level["calls"] for level in content["series"][0]["levels"]] == [57, 185]
    assert content["steps"][0]["share"] == pytest.approx([0, 0.5, 0.25, 0.25], abs=1e-4)
    assert content["blocks"][0]["share"] == pytest.approx([0.25, 0, 0, 0.75])
    said = nfslab(capsys, "show", folder.path, run.name)
    assert said.code == 0
    assert "the first 57 calls take" in said.out
    assert re.search(r"PostgreSQL WAL +1 +242 +0 +242", said.out)


def test_a_run_without_a_watch_has_no_section(folder: ExperimentFolder) -> None:
    page = render_html(folder.path)
    assert "syscalls-section" not in page
    assert "system_calls" not in json.loads(render_json(folder.path))
    assert read_run_calls(folder.runs_path / folder.sealed_runs()[0].run_id) is None


def test_tables_that_cannot_be_read_are_named(folder: ExperimentFolder) -> None:
    run = plant(folder)
    (run / "evidence" / "syscall_syncs.parquet").write_bytes(b"PAR1 and nothing more")
    assert "cannot be read" in text_of(render_html(folder.path))
    assert "cannot be read" in render_markdown(folder.path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_it_without_a_complaint(tmp_path: Path, scheme: str) -> None:
    whole, latencies = planted()
    summary = {"way": "ebpf", "level": "counts", "notes": []}
    calls = WatchedCalls(sum_up(whole, by_file=True), summary, whole)
    calls.steps = take_apart(whole, rpc_calls(latencies), TARGETS)
    path = tmp_path / "page.html"
    write(calls, path, by_file=True, command=["nfslab", "syscalls", "<b>"])
    with browser() as chromium, opened(chromium, path, color_scheme=scheme) as page:
        drawn = figures(page)
        assert all(one["drawn"] for one in drawn.values())
        curve = drawn["syncs-syncs"]
        assert curve["counts"]["total"] == 282
        select = page.locator("figure select, .figure select, select").first
        select.select_option("t")
        again = figures(page)["syncs-syncs"]
        assert again["full"]["x"][1] < 2, "seconds, not numbers of calls"
        assert page.locator("b").count() == 0


def test_a_long_series_is_thinned_and_keeps_its_slowest(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    values = (MS * np.exp(0.2 * rng.standard_normal(100_000))).astype(int)
    values[77_777] = 900 * MS
    rows = [sync(SECOND + i * STEP, int(n)) for i, n in enumerate(values)]
    calls = WatchedCalls(sum_up(tables(rows)), {"way": "ebpf", "level": "sync"})
    path = tmp_path / "page.html"
    write(calls, path)
    found = re.search(r'id="data-syncs">([^<]*)<', path.read_text("utf-8"))
    assert found
    (series,) = json.loads(unpack(found[1]))["syncs"]["series"]
    assert len(series["y"]) <= POINTS_SERIES
    assert series["stride"] > 1
    assert 77_778 in series["call"]
    assert max(series["y"]) == pytest.approx(np.log10(0.9), abs=1e-3)


def test_levels_in_words() -> None:
    def words(*parts: tuple[int, int]) -> str:
        values = [value for n, value in parts for _ in range(n)]
        rows = [sync(i * STEP, value) for i, value in enumerate(values)]
        (one,) = sum_up(tables(rows)).series
        return levels_text(one)

    assert words((57, 400_000), (100, 5_100_000)) == "the first 57 calls take 400 µs, then 5.10 ms"
    assert words((57, 400_000), (100, 5_100_000), (50, MS)) == (
        "the first 57 calls take 400 µs, the next 100 5.10 ms, then 1 ms"
    )
    assert words((64, MS)) == "1 ms in the median, 1 ms at p99, no change"
