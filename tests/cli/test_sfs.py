"""`nfslab sfs`: its points, its table, what it keeps, how it ends.

Whether a point is valid depends on how busy the machine is: here it is asked what points say of
themselves. The generator's own truth is tested in crates/load.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab._core import Histogram
from nfslab.display.figures import Lines, Panel
from nfslab.display.sections import Section
from nfslab.offered.page import RESPONSES, section
from nfslab.quantities import read_duration_s
from nfslab.report.html.section_page import write

from tests.cli.invocation import Said, nfslab
from tests.cli.serving import PATIENCE_S, refusing, serving
from tests.report.browser import browser, figures, opened

SMALL = ("--files", "60", "--time", "0.3s", "--warm-up", "0.1s")
ANSWERED = (*SMALL, "--time", "3s")
"""For what has to be answered in the window: this process may be kept from running for a part."""


def source(port: int) -> list[str]:
    return ["127.0.0.1:/export", "-o", f"port={port},mountport={port}"]


def told(said: Said) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(said.out)
    bad = [point for point in result["points"] if not point["valid"]]
    assert said.code == (1 if bad and "search" not in result else 0)
    return result


def test_a_ladder_is_kept_whole_and_the_set_is_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "points.json"
    with serving("--memory") as served:
        arguments = [*source(served.port), "--load", "300..900:300", "--out", out, "--json"]
        result = told(nfslab(capsys, "sfs", *arguments, *SMALL, "--mix", "laddis"))
    assert json.loads(out.read_text()) == result
    points = result["points"]
    assert [point["offered_ops_per_s"] for point in points] == [300, 600, 900]
    made = [point["mounts"][0] for point in points]
    assert [(one["files_found"], one["files_made"]) for one in made] == [(0, 60), (60, 0), (60, 0)]
    for point in points:
        assert point["unexpected"] == []
        assert point["little"]["residual_ns"] == 0
        by_operation = sum(row["answered"] for row in point["operations"])
        assert by_operation == point["answered"]
        assert {row["operation"] for row in point["operations"]} >= {"LOOKUP", "READ", "READLINK"}
    assert result["curve"].keys() == {
        "highest", "peak", "knee", "saturated", "overall_response_s",
    }  # fmt: skip


def test_the_smallest_set_has_something_for_each_operation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The light ladder of sfs-threads-1999: 47 files, and READLINK has links to read."""
    load = ["--load", "50", "--bytes-per-op", "128k", "--mix", "laddis", "--threads", "2"]
    with serving("--memory") as served:
        times = ["--time", "2s", "--warm-up", "0.1s"]
        result = told(nfslab(capsys, "sfs", *source(served.port), *load, *times, "--json"))
    (point,) = result["points"]
    assert point["mounts"][0]["files_made"] == 48
    assert point["not_drawn"] == 0


def test_the_histograms_are_the_points(capsys: pytest.CaptureFixture[str]) -> None:
    import base64

    said = nfslab(capsys, "sfs", "null", "--load", "500", *SMALL, "--json")
    (point,) = told(said)["points"]
    every = Histogram.from_v2(base64.b64decode(point["histograms"]["all"]))
    assert every.count == point["answered"]


def test_the_table_is_that_of_published_results(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "sfs", "memory", "--load", "200,400", *ANSWERED, "--mode", "closed")
    lines = said.out.splitlines()
    assert lines[0] == "memory: SPEC SFS 3.0, NFS version 3"
    quantiles = ["mean", "p50", "p90", "p99", "p99.9"]
    at = next(n for n, line in enumerate(lines) if line.startswith("offered "))
    assert lines[at].split()[:7] == ["offered", "achieved", *quantiles]
    rows = [re.split(r"  +", line.strip()) for line in lines[at + 1 : at + 3]]
    assert [row[0] for row in rows] == ["200/s", "400/s"]
    assert any("sums to 99" in line for line in lines)
    at = next(n for n, line in enumerate(lines) if line.startswith("operation "))
    assert lines[at].split()[:8] == ["operation", "share", "answered", *quantiles]
    lookup = re.split(r"  +", lines[at + 1])
    assert lookup[0] == "LOOKUP"
    times_s = [read_duration_s(cell.replace("µ", "u").replace(" ", "")) for cell in lookup[4:8]]
    assert times_s[0] > 0
    assert times_s == sorted(times_s)
    assert "[1/2] 200 ops/s: file set, " in said.err
    assert "[2/2] 400 ops/s: measure" in said.err


def test_the_share_of_appending_writes_is_the_achieved_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """70 % are asked for, and no file may grow: none appends."""
    mix = tmp_path / "growing.toml"
    mix.write_text(
        "append_share = 0.7\n[mix]\nWRITE = 1\n[write_sizes_bytes]\n4096 = 1\n"
        "[file_set]\naccessed_share = 1.0\ngrowth_share = 0.0\n"
        "[file_set.file_sizes_bytes]\n65536 = 1\n"
    )
    arguments = ["sfs", "memory", "--load", "300", *ANSWERED, "--mix", mix]
    point = json.loads(nfslab(capsys, *arguments, "--json").out)["points"][0]
    assert (point["append_share"], point["answered"] > 0) == (0.0, True)
    (note,) = re.findall(r"^(.*appended.*)$", nfslab(capsys, *arguments).out, re.MULTILINE)
    assert re.findall(r"(\d+) %", note) == ["0", "70", "0"], "achieved, asked, growth"


def test_the_generators_limit_is_never_taken_for_the_servers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """20 million a second: no machine's one thread does that, and the null store does nothing."""
    absurd = ["null", "--load", "20000k", "--outstanding", "4096", *SMALL]
    said = nfslab(capsys, "sfs", *absurd)
    assert said.code == 1
    (row,) = [line for line in said.out.splitlines() if "INVALID" in line]
    assert re.search(r"INVALID: .*generator_(cpu|late|queue)", row)
    assert "peak" not in row
    assert "\n20,000,000 ops/s " in said.out
    assert "1 of 1 points" in said.err
    found = nfslab(capsys, "sfs", *absurd, "--json")
    assert json.loads(found.out)["curve"]["peak"] is None


def test_every_call_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = tmp_path / "calls.parquet"
    with serving("--memory") as served:
        arguments = [*source(served.port), "--load", "500", "--calls", calls, "--json"]
        (point,) = told(nfslab(capsys, "sfs", *arguments, *SMALL))["points"]
    rows = pq.read_table(calls)
    assert point["calls"] == {"file": str(calls), "rows": rows.num_rows, "lost": 0}
    assert rows.num_rows == sum(row["calls"] for row in point["operations"])


def test_a_server_that_is_gone_fails_its_points_and_the_rest_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with refusing() as port:
        gone = source(port)
        said = nfslab(capsys, "sfs", *gone, "--load", "100,200", *SMALL, "--json")
        table = nfslab(capsys, "sfs", *gone, "--load", "100", *SMALL)
        search = nfslab(capsys, "sfs", *gone, "--find", "mean<1ms", *SMALL)
    result = told(said)
    assert [point["failed"] for point in result["points"]] == ["io", "io"]
    assert "cannot be mounted" in result["points"][0]["reasons"][0]["text"]
    assert "2 of 2 points" in said.err
    assert result["curve"]["peak"] is None
    assert "failed (io)" in table.out
    assert search.code == 1
    assert "mountport" in search.err


def test_a_read_only_export_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--memory", "--read-only") as served:
        said = nfslab(capsys, "sfs", *source(served.port), "--load", "100", *SMALL)
    assert said.code == 1
    assert "read-only" in said.out


def test_a_search_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    # 2 ms for each call on one worker: 500 a second, and no load of 1000 can be good.
    arguments = ["--threads", "1", "--service-time", "2ms"]
    with serving("--memory", *arguments) as served:
        # What waits when a point ends is served first: not more than 200 ms of it.
        found = ["--find", "mean<50ms", "--precision", "50%", "--outstanding", "100", *SMALL]
        result = told(nfslab(capsys, "sfs", *source(served.port), *found, "--json"))
    search = result["search"]
    assert search["goal"] == "mean < 50 ms"
    assert search["points"] == len(result["points"]) <= 12
    assert result["points"][0]["offered_ops_per_s"] == 1000
    assert search["found_ops_per_s"] is None or search["found_ops_per_s"] < 625


def test_an_interrupted_ladder_keeps_its_points(tmp_path: Path) -> None:
    out = tmp_path / "points.json"
    command = [sys.executable, "-m", "nfslab", "sfs", "memory", "--load", "100,200", "--out", out]
    command += ["--files", "60", "--time", "0.2s", "--warm-up", "0s", "--json"]
    command[command.index("100,200")] = "100," + ",".join(["200"] * 900)
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not out.exists():
            assert time.monotonic() < deadline
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    kept = json.loads(out.read_text())
    assert len(kept["points"]) >= 1
    assert json.loads(printed)["points"][: len(kept["points"])] == kept["points"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["host:/a"], "one of --load and --find"),
        (["host:/a", "--load", "0"], "not above 0"),
        (["host:/a", "--load", "1", "--find", "mean<1ms"], "one of --load and --find"),
        (["host:/a", "--find", "fast"], "is no goal"),
        (["host:/a", "--find", "mean<1ms", "--precision", "0"], "above 0"),
        (["host:/a", "--load", "1", "--mix", "sfs4"], "did you mean sfs3"),
        (["nohost", "--load", "1"], "no export"),
        (["null", "memory", "--load", "1"], "stand alone"),
        (["host:/a", "--load", "1,2", "--calls", "x.parquet"], "one load"),
        (["host:/a", "--load", "1", "--files", "1", "--bytes-per-op", "1k"], "exclude"),
        (["127.0.0.1:/a", "-o", "rsiz=1", "--load", "1"], "rsize"),
        (["host:/a", "--load", "1", "--verify", "2"], "between 0 and 1"),
        (["host:/a", "--load", "1", "--out", "/no/such/folder/x"], "/no/such/folder"),
    ],
)
def test_bad_usage(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "sfs", *arguments)
    assert said.code == 2
    assert complaint in said.err


def test_the_page_draws_the_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, out = tmp_path / "load.html", tmp_path / "points.json"
    with serving("--memory") as served:
        arguments = [*source(served.port), "--load", "300,600", "--html", page, "--out", out]
        nfslab(capsys, "sfs", *arguments, *SMALL)
    points = json.loads(out.read_text())["points"]
    content = section(json.loads(out.read_text()))
    table = content.tables[0]
    assert [row[1].value for row in table.rows] == [one["achieved_ops_per_s"] for one in points]
    with browser() as chromium, opened(chromium, page) as shown:
        states = figures(shown)
    assert {name for name, state in states.items() if state["drawn"]} == {
        "load-achieved",
        "load-response",
    }


def panels(made: Section, number: int) -> Sequence[Panel]:
    drawn = made.figures[number].views[0].load()
    assert isinstance(drawn, Lines)
    return drawn.panels


def point(offered: float, achieved: float, *, valid: bool) -> dict[str, Any]:
    reasons = [] if valid else [{"kind": "late", "text": "it was late"}]
    response = dict.fromkeys(RESPONSES.values(), 2000000.0)
    return {
        "offered_ops_per_s": offered, "achieved_ops_per_s": achieved, "response": response,
        "valid": valid, "reasons": reasons, "operations": [], "outstanding_mean": 1.0,
        "notes": [], "processes": [], "mounts": [], "not_sent": 0, "not_drawn": 0,
        "little": {"residual_ns": 0, "rate_times_response": 1.0},
        "touched": dict.fromkeys(
            ("set_files", "set_bytes", "accessed_files", "accessed_bytes", "files", "bytes"), 1
        ),
    }  # fmt: skip


def summary(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    highest = max((i for i, one in enumerate(points) if one["valid"]), default=None)
    curve = {
        "highest": highest, "peak": None, "knee": None, "saturated": [],
        "overall_response_s": 0.002,
    }  # fmt: skip
    return {"targets": ["a:/b"], "mix": "sfs3", "points": points, "curve": curve}


def test_what_does_not_count_is_a_dot_beside_the_curve() -> None:
    points = [point(100, 99, valid=True), point(200, 140, valid=False), point(150, 149, valid=True)]
    made = section(summary(points))
    (panel,) = panels(made, 0)
    drawn = {series.label: (list(series.x), list(series.y)) for series in panel.series}
    assert drawn["achieved"] == ([100, 150], [99, 149])
    assert drawn["does not count"] == ([200], [140])
    assert len(made.problems) == 1
    (panel,) = panels(made, 1)
    assert all(list(series.y) == [2.0, 2.0] for series in panel.series)


def test_a_page_is_drawn_where_nothing_counts(tmp_path: Path) -> None:
    made = section(summary([point(100, 99, valid=False), point(200, 140, valid=False)]))
    assert made.figures[1].views[0].load() is None
    path = tmp_path / "load.html"
    write([made], path, "load")
    with browser() as chromium, opened(chromium, path) as shown:
        panes = {name: len(state["panes"]) for name, state in figures(shown).items()}
    assert panes == {"load-achieved": 1, "load-response": 0}
