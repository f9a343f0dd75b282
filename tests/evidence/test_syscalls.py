"""System calls and syncs in the report, from planted tables: page, browser, Markdown, JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from nfslab.display.figures import Figure, Heat, Lines, Points, Stacked
from nfslab.display.sections import Section
from nfslab.evidence import found
from nfslab.evidence.syscalls import figures as drawings
from nfslab.evidence.syscalls.accesses import KINDS, accesses_of, as_content
from nfslab.evidence.syscalls.facts import SeriesFacts, facts_of
from nfslab.evidence.syscalls.figures import POINTS_SERIES, drawn_rows
from nfslab.evidence.syscalls.kind import SyscallsEvidence, watch_section
from nfslab.evidence.syscalls.sentences import WAY_NAMES, levels_text
from nfslab.evidence.syscalls.sync_steps import take_apart
from nfslab.evidence.syscalls.tables import sum_up
from nfslab.evidence.syscalls.ways import BLIND, Choice
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.html.section_page import write
from nfslab.report.markdown import render_markdown
from nfslab.results.checksums import write_checksums
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.browser import browser, figures, opened, settled
from tests.report.synthetic import Recipe, write_pgbench
from tests.results.planted_syscalls import (
    BLOCKS,
    CALLS,
    COUNTS,
    EVENTS,
    HEAP,
    MS,
    SECOND,
    WAL,
    access,
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
    return write_pgbench(tmp_path, Recipe(clients=(1, 5), repetitions=1, samples=False))


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
    write_checksums(run)
    return run


def section_of(folder: ExperimentFolder) -> Section:
    kind = SyscallsEvidence()
    section = found.section_of(kind, found.find(kind, analyse(folder.path)))
    assert section is not None
    return section


def test_every_output_says_what_was_planted(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    run = plant(folder)
    shown = nfslab(capsys, "show", folder.path, run.name).out
    for text in (unescape(render_html(folder.path)), render_markdown(folder.path), shown):
        assert re.search(
            r"242 x fdatasync: the first 57 calls take 4\d\d µs, then 5\.\d\d ms", text
        )
        assert re.search(r"50(\.0)? % sending dirty pages, .*25(\.0)? % committing", text)
        assert "75 % the rest (file system, scheduler), 25 % flushing the disk's cache" in text
        assert "planted note" in text
    assert re.search(r"PostgreSQL WAL +1 +242 +0 +242", shown)
    (content,) = json.loads(render_json(folder.path))["system_calls"]
    assert [level["calls"] for level in content["series"][0]["levels"]] == [57, 185]
    assert content["steps"][0]["share"] == pytest.approx([0, 0.5, 0.25, 0.25], abs=1e-4)
    assert content["blocks"][0]["share"] == pytest.approx([0.25, 0, 0, 0.75])
    assert content["run"] == run.name


def test_facts_read_again_are_the_same(folder: ExperimentFolder) -> None:
    plant(folder)
    first = found.find(SyscallsEvidence(), analyse(folder.path)).runs
    assert (folder.path / "facts" / first[0].run.run_id / "syscalls.json").is_file()
    again = found.find(SyscallsEvidence(), analyse(folder.path)).runs
    assert [one.facts for one in again] == [one.facts for one in first]


def test_the_curve_has_each_call_the_levels_and_the_change(folder: ExperimentFolder) -> None:
    run = plant(folder)
    latencies = planted()[1]
    section = section_of(folder)
    by_name = {figure.id: figure for figure in section.figures}
    by_number, by_time, by_quantile = by_name[f"syscalls-{run.name}-syncs"].views
    drawn = by_number.load()
    assert isinstance(drawn, Lines)
    (panel,) = drawn.panels
    log, data = panel.series
    assert np.asarray(log.y) == pytest.approx(latencies / 1e9)
    assert np.asarray(log.x).tolist() == list(range(1, 243))
    assert len(np.asarray(data.x)) == 40
    assert [rule.at for rule in panel.rules] == [57.5]
    assert [(level.low, level.high) for level in panel.levels] == [
        (0.5, 57.5), (57.5, 242.5), (0.5, 40.5),
    ]  # fmt: skip
    timed = by_time.load()
    assert isinstance(timed, Lines)
    assert np.asarray(timed.panels[0].series[0].x) == pytest.approx(np.arange(242) * STEP / 1e9)
    spread = by_quantile.load()
    assert isinstance(spread, Lines)
    assert np.asarray(spread.panels[0].series[0].y)[-1] == latencies.max() / 1e9
    steps = by_name[f"syscalls-{run.name}-steps"].views[0].load()
    assert isinstance(steps, Stacked)
    whole = steps.wholes[0].parts
    assert [part / sum(whole) for part in whole] == pytest.approx([0, 0.5, 0.25, 0.25], abs=1e-4)


def test_syncs_by_point_are_those_of_all_runs(folder: ExperimentFolder) -> None:
    for line in folder.sealed_runs()[:2]:
        write_run(folder.runs_path / line.run_id, tables([sync(SECOND, MS)] * 3), SECOND)
    section = section_of(folder)
    rows = [[cell.value for cell in row[3:7]] for row in section.tables[0].rows]
    assert rows == [[1, 3, 0, MS], [1, 3, 0, MS]]
    assert len(section.parts) == 2


def test_a_run_without_a_watch_has_no_section(folder: ExperimentFolder) -> None:
    assert "syscalls-section" not in render_html(folder.path)
    assert "system_calls" not in json.loads(render_json(folder.path))


def test_tables_that_cannot_be_read_are_named(folder: ExperimentFolder) -> None:
    run = plant(folder)
    (run / "evidence" / "syscall_syncs.parquet").write_bytes(b"PAR1 and nothing more")
    for text in (render_html(folder.path), render_markdown(folder.path)):
        assert "cannot be read" in text


def watched() -> Section:
    """Of a watch of the command, with every figure that there is."""
    whole, latencies = planted()
    rows = [access(SECOND + n * MS, "pwrite64", n * 8192, 8192, file_id=1) for n in range(500)]
    whole = dataclasses.replace(whole, events=table(EVENTS, rows))
    summary = {"way": "ebpf", "level": "events", "notes": [], "disks": {"8:1": ["8:0"]}}
    steps = take_apart(whole, rpc_calls(latencies), TARGETS)
    return watch_section(facts_of(whole, summary, by_file=True, steps=steps), lambda: whole)


@pytest.mark.long
@pytest.mark.system
def test_a_browser_draws_it_without_a_complaint(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write([watched()], path, "calls", command=["nfslab", "syscalls", "<b>"])
    with browser() as chromium, opened(chromium, path) as page:
        names = [f"syscalls-{one}" for one in ("syncs", "steps", "blocks", "accesses")]
        for name in names:
            page.locator(f"#{name}").scroll_into_view_if_needed()
            settled(page)
        drawn = figures(page)
        assert [drawn[name]["drawn"] for name in names] == [True] * 4
        assert page.locator("b").count() == 0


def test_a_long_series_is_thinned_and_keeps_its_slowest() -> None:
    rng = np.random.default_rng(2)
    values = (MS * np.exp(0.2 * rng.standard_normal(100_000))).astype(int)
    values[77_777] = 900 * MS
    rows, stride = drawn_rows(values, POINTS_SERIES)
    assert rows.size <= POINTS_SERIES
    assert stride > 1
    assert 77_777 in rows.tolist()


def test_levels_in_words() -> None:
    def words(*parts: tuple[int, int]) -> str:
        values = [value for n, value in parts for _ in range(n)]
        rows = [sync(i * STEP, value) for i, value in enumerate(values)]
        (one,) = sum_up(tables(rows)).series
        return levels_text(SeriesFacts.of(one))

    assert words((57, 400_000), (100, 5_100_000)) == "the first 57 calls take 400 µs, then 5.10 ms"
    assert words((57, 400_000), (100, 5_100_000), (50, MS)) == (
        "the first 57 calls take 400 µs, the next 100 5.10 ms, then 1 ms"
    )
    assert words((64, MS)) == "1 ms in the median, 1 ms at p99, no change"


PAGE = 8192
SEGMENT = 16 << 20
LOG_CALLS, HEAP_CALLS = 6000, 900
NEXT = file(3, "/pg/pg_wal/000000010000000000000002", WAL["class"])
OTHERS = 9
"""Classes with one call each: not all of them are drawn."""


def planted_accesses() -> list[dict[str, Any]]:
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


ACCESSED = [WAL, HEAP, NEXT, *(file(10 + k, f"/x{k}", f"class {k}") for k in range(OTHERS))]


def accessed() -> Any:
    syncs = [sync(SECOND + n * 10_000_000, 1_000_000) for n in range(100)]
    return tables(syncs, files=ACCESSED, events=table(EVENTS, planted_accesses()))


def access_figure() -> Figure:
    whole = accessed()
    facts = facts_of(whole, {"way": "ebpf", "level": "events"})
    return next(one for one in drawings.figures_of(facts, lambda: whole, "x")
                if one.id == "x-accesses")  # fmt: skip


def test_every_access_is_drawn_as_it_was() -> None:
    figure = access_figure()
    assert [view.choice for view in figure.views[:2]] == [
        (WAL["class"], "calls"), (HEAP["class"], "calls"),
    ]  # fmt: skip
    assert len(figure.views) == 8
    assert "3 calls on 3 others are not drawn" in figure.caption
    log, heap = (view.load() for view in figure.views[:2])
    assert isinstance(log, Points)
    assert isinstance(heap, Points)
    rows = [row for row in planted_accesses() if row["file_id"] in (1, 3)]
    (cloud,) = log.clouds
    assert np.asarray(cloud.y).tolist() == [row["offset"] for row in rows]
    assert np.asarray(cloud.x) == pytest.approx([(r["start_ns"] - SECOND) / 1e9 for r in rows])
    paths = {1: WAL["path"], 3: NEXT["path"]}
    assert list(cloud.extra["file"][0]) == [paths[row["file_id"]] for row in rows]
    reads = [row for row in planted_accesses() if row["file_id"] == 2]
    assert [cloud.label for cloud in heap.clouds] == ["read"]
    assert np.asarray(heap.clouds[0].extra["size"][0]).tolist() == [row["size"] for row in reads]


def test_what_is_too_much_to_draw_is_sampled_and_all_of_it_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawings, "ACCESSES_MOST", 2000)
    sample, cells = access_figure().views[:2]
    assert cells.choice == (WAL["class"], "counts")
    points, heat = sample.load(), cells.load()
    assert isinstance(points, Points)
    assert isinstance(heat, Heat)
    assert (len(points.clouds[0].x), points.drawn_of) == (2000, LOG_CALLS)  # type: ignore[arg-type]
    assert int(np.asarray(heat.cells).sum()) == LOG_CALLS


def test_json_has_single_accesses_within_its_bound() -> None:
    log = as_content(accesses_of(accessed()), 2000)[0]
    assert (log["class"], log["calls"]) == (WAL["class"], LOG_CALLS)
    assert log["kinds"] == {kind: LOG_CALLS * (kind == "write") for kind in KINDS}
    assert sum(log["places"].values()) == LOG_CALLS
    assert log["one_in"] == 3
    assert len(log["t_ns"]) == len(log["offset"]) == len(log["kind"]) == LOG_CALLS // 3
    mine = [row["offset"] for row in planted_accesses() if row["file_id"] in (1, 3)]
    assert log["offset"] == mine[::3]
    assert "t_ns" not in facts_of(accessed(), {}).accesses[0]


def test_the_way_why_not_another_and_what_it_cannot_see_are_said() -> None:
    choice = Choice("shim", [("ebpf", "planted: not permitted")])
    seen = {"way": choice.way, "level": "sync", "why_not": choice.why_not, "notes": [BLIND["shim"]]}
    whole = tables([sync(SECOND, 5)])
    found = watch_section(facts_of(whole, seen), lambda: whole)
    assert f"Watched by {WAY_NAMES['shim']}, level sync." in found.notes
    assert f"Not by {WAY_NAMES['ebpf']}: planted: not permitted." in found.notes
    assert any("static programs" in note for note in found.notes)


def test_a_way_that_is_no_more_is_named_in_results_that_it_made() -> None:
    whole = tables([sync(SECOND, 5)])
    seen = {"way": "strace", "level": "sync", "why_not": [["shim", "no compiler"]]}
    notes = watch_section(facts_of(whole, seen), lambda: whole).notes
    assert "Watched by strace --seccomp-bpf, level sync." in notes


def test_level_counts_says_what_it_has_not() -> None:
    whole = tables([sync(SECOND, 5)])
    section = watch_section(facts_of(whole, {"way": "ebpf", "level": "counts"}), lambda: whole)
    assert any("not over time" in note for note in section.notes)
    assert [figure.id for figure in section.figures] == ["syscalls-syncs"]
