"""`nfslab sfs`: its points, its table, what it keeps, how it ends.

Most of it with a planted load in place of the core's, whose server answers so many a second. The
generator's own truth is tested in crates/load.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from nfslab import _core
from nfslab._core import CoreError, Histogram, Server
from nfslab.cli import sfs
from nfslab.display.figures import Lines, Panel
from nfslab.display.sections import Section
from nfslab.machine.emulation import SENTENCE
from nfslab.offered.page import RESPONSES, section

from tests.cli.invocation import nfslab
from tests.waiting import until

Capture = pytest.CaptureFixture[str]
SMALL = ("--files", "60", "--time", "0.3s", "--warm-up", "0.1s")
CAPACITY = 500.0
EXPORT = "127.0.0.1:/export"


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


def operation(name: str, answered: int, mean_ms: float) -> dict[str, Any]:
    response = dict.fromkeys(RESPONSES.values(), mean_ms * 1e6)
    return {
        "operation": name, "calls": answered, "answered": answered, "share": 0.5, "failed": 0,
        "asked_share": 0.5, "retransmissions": 0, "response": response, "statuses": {},
    }  # fmt: skip


class PlantedLoad:
    """In place of the core's: a server that answers 500 a second, in 2 ms below that, else 80."""

    def __init__(self, plan: str) -> None:
        self.asked = json.loads(plan)
        self.rate: float = self.asked["load"]["rate_ops_per_s"]

    def prepare(self, show: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
        show({"stage": "prepare", "step": "files", "mount": 0, "mounts": 1, "done": 60,
              "total": 60, "written_bytes": 1 << 20})  # fmt: skip
        return [{"server": "127.0.0.1", "files_found": 1000, "files_made": 60}]

    def run(self, show: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        show({"stage": "run", "phase": "warm_up", "elapsed_ns": 1, "total_ns": 2, "answered": 7,
              "outstanding": 3})  # fmt: skip
        made = point(self.rate, min(self.rate, CAPACITY), valid=self.rate < 2000)
        if self.rate > CAPACITY:
            made["response"] = dict.fromkeys(RESPONSES.values(), 80e6)
        window = {"window_start_ns": 0, "window_end_ns": 10**9, "arrivals": round(self.rate)}
        return made | window | {"plan": self.asked, "answered": 1}

    def histograms(self) -> dict[str, Histogram]:
        one = Histogram()
        one.record(1)
        return {"all": one}


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "Load", PlantedLoad)


def source(port: int) -> list[str]:
    return [EXPORT, "-o", f"port={port},mountport={port}"]


@pytest.mark.usefixtures("planted")
def test_a_ladder_is_kept_and_shown(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "points.json"
    asked = ("sfs", EXPORT, "--load", "200..600:200", "--out", out, *SMALL)
    said = nfslab(capsys, *asked, "--json")
    result = json.loads(said.out)
    assert (said.code, json.loads(out.read_text())) == (0, result)
    assert [one["offered_ops_per_s"] for one in result["points"]] == [200, 400, 600]
    assert (result["curve"]["highest"], result["curve"]["saturated"]) == (2, [2])
    for one in result["points"]:
        every = Histogram.from_v2(base64.b64decode(one["histograms"]["all"]))
        assert every.count == one["answered"]
        assert (one["plan"]["measure_s"], one["plan"]["warm_up_s"]) == (0.3, 0.1)
        assert one["plan"]["file_set"]["files"] == 60
    said = nfslab(capsys, *asked)
    assert said.out.splitlines()[0] == f"{EXPORT}: SPEC SFS 3.0, NFS version 3"
    lines = said.out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("offered "))
    quantiles = ["mean", "p50", "p90", "p99", "p99.9"]
    assert lines[at].split()[:7] == ["offered", "achieved", *quantiles]
    rows = [re.split(r"  +", line.strip())[:3] for line in lines[at + 1 : at + 4]]
    assert rows == [["200/s", "200/s", "2 ms"], ["400/s", "400/s", "2 ms"],
                    ["600/s", "500/s", "80 ms"]]  # fmt: skip
    assert "[1/3] 200 ops/s: file set, " in said.err
    assert "[3/3] 600 ops/s: warm up" in said.err


@pytest.mark.usefixtures("planted")
def test_a_search_says_what_it_found(capsys: Capture) -> None:
    found = ("sfs", EXPORT, "--find", "mean<50ms", "--precision", "10%", *SMALL)
    said = nfslab(capsys, *found, "--json")
    search = json.loads(said.out)["search"]
    assert (said.code, search["goal"]) == (0, "mean < 50 ms")
    assert CAPACITY / 1.1 <= search["found_ops_per_s"] <= CAPACITY < search["missed_at_ops_per_s"]
    assert search["points"] == len(json.loads(said.out)["points"])


@pytest.mark.usefixtures("planted")
def test_points_that_do_not_count_are_exit_code_1(capsys: Capture) -> None:
    """And the generator's limit is never taken for the server's."""
    said = nfslab(capsys, "sfs", EXPORT, "--load", "400,3000", *SMALL)
    assert (said.code, "1 of 2 points" in said.err) == (1, True)
    (row,) = [line for line in said.out.splitlines() if "INVALID" in line]
    assert "peak" not in row
    alone = nfslab(capsys, "sfs", EXPORT, "--load", "3000", *SMALL, "--json")
    assert (alone.code, json.loads(alone.out)["curve"]["peak"]) == (1, None)


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.usefixtures("planted")
def test_an_emulated_processor_is_told(
    here: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sfs, "is_emulated", lambda: here)
    asked = ("sfs", EXPORT, "--load", "100", *SMALL)
    assert nfslab(capsys, *asked).out.startswith(SENTENCE) is here
    assert (json.loads(nfslab(capsys, *asked, "--json").out)["emulated"] == SENTENCE) is here


@pytest.mark.usefixtures("planted")
def test_a_file_set_alone_is_made_and_told(capsys: Capture) -> None:
    said = nfslab(capsys, "sfs", EXPORT, "--load", "100", *SMALL, "--prepare-only")
    assert said.out == "for 100 ops/s: 127.0.0.1: 1,000 files found, 60 made\n"


def test_a_server_that_is_gone_fails_its_points_and_the_rest_goes_on(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: PlantedLoad, show: object) -> None:
        error = CoreError(f"{EXPORT} cannot be mounted")
        error.kind, error.what, error.why, error.fix = "io", str(error), "it is away", "start it"
        raise error

    monkeypatch.setattr(_core, "Load", PlantedLoad)
    monkeypatch.setattr(PlantedLoad, "prepare", gone)
    said = nfslab(capsys, "sfs", EXPORT, "--load", "100,200", *SMALL, "--json")
    result = json.loads(said.out)
    assert [one["failed"] for one in result["points"]] == ["io", "io"]
    assert result["points"][0]["reasons"][0]["text"] == f"{EXPORT} cannot be mounted: it is away"
    assert (said.code, "2 of 2 points" in said.err, "fix: start it" in said.err) == (1, True, True)
    assert result["curve"]["peak"] is None
    assert "failed (io)" in nfslab(capsys, "sfs", EXPORT, "--load", "100", *SMALL).out
    search = nfslab(capsys, "sfs", EXPORT, "--find", "mean<1ms", *SMALL)
    assert (search.code, "it is away" in search.err) == (1, True)


@pytest.mark.system
def test_a_real_ladder_and_its_page(tmp_path: Path, capsys: Capture) -> None:
    """Whether its points are valid is the machine's; that all adds up is not."""
    page, out = tmp_path / "load.html", tmp_path / "points.json"
    with Server(json.dumps({"store": "memory"})) as server:
        load = ["--load", "300,600", "--mix", "laddis", "--html", page, "--out", out]
        nfslab(capsys, "sfs", *source(server.port), *load, *SMALL)
        mounted = server.counters()
    points = json.loads(out.read_text())["points"]
    made = [one["mounts"][0] for one in points]
    assert [(one["files_found"], one["files_made"]) for one in made] == [(0, 60), (60, 0)]
    for one in points:
        assert (one["unexpected"], one["little"]["residual_ns"]) == ([], 0)
        assert sum(row["answered"] for row in one["operations"]) == one["answered"]
        assert {row["operation"] for row in one["operations"]} >= {"LOOKUP", "READ", "READLINK"}
    assert mounted["calls"] >= sum(row["calls"] for one in points for row in one["operations"])
    content = section(json.loads(out.read_text()))
    shown_rates = [row[1].value for row in content.tables[0].rows]
    assert shown_rates == [one["achieved_ops_per_s"] for one in points]
    text = page.read_text()
    assert all(f'id="{name}"' in text for name in ("load-achieved", "load-response"))


@pytest.mark.long
def test_an_interrupted_ladder_keeps_its_points(tmp_path: Path) -> None:
    out = tmp_path / "points.json"
    loads = ",".join(["100", *["200"] * 900])
    command = [sys.executable, "-m", "nfslab", "sfs", "memory", "--load", loads, "--out", str(out)]
    command += ["--files", "60", "--time", "0.2s", "--warm-up", "0s", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        until(lambda: out.exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate()
    assert process.returncode == 130
    kept = json.loads(out.read_text())
    assert len(kept["points"]) >= 1
    assert json.loads(printed)["points"][: len(kept["points"])] == kept["points"]


def panels(made: Section, number: int) -> Sequence[Panel]:
    drawn = made.figures[number].views[0].load()
    assert isinstance(drawn, Lines)
    return drawn.panels


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
    nothing = section(summary([point(100, 99, valid=False), point(200, 140, valid=False)]))
    assert nothing.figures[1].views[0].load() is None
