"""The web workload end to end: documents, servers, loads, the record of POSTs."""

from __future__ import annotations

import contextlib
import http.client
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import web_tables
from nfslab.errors import RunFailed
from nfslab.results.records import CheckRecord
from nfslab.workloads.base import Outcome
from nfslab.workloads.web import outcome as web_outcome
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.servers import nginx
from nfslab.workloads.web.workload import WebWorkload

from tests.workloads.run_context import Run, run_of

SERVERS = ["embedded", "nginx"]


def sound(checks: dict[str, CheckRecord], *others: str) -> None:
    """Nothing is wrong; that a generator was late is right to say of a busy machine."""
    broken = {name for name, check in checks.items() if check.verdict == "violation"}
    assert broken <= {"offered_load", *others}, checks


def report_of(run: Run, number: int = 0) -> dict[str, Any]:
    text = (run.context.folder / "logs" / f"load-{number}-report.json").read_text()
    report: dict[str, Any] = json.loads(text)
    return report


@pytest.mark.system
@pytest.mark.parametrize("server", SERVERS)
def test_a_closed_load_is_served_and_accounted_for(scratch: Path, server: str) -> None:
    """Figures, tables, the servers' own counters and logs; a lost POST is found."""
    work = workload(load="closed", server=server, access_log=True, log="logs")
    if not work.check().ok:
        pytest.skip(work.check().reason)
    name = f"web-{uuid.uuid4().hex[:8]}"
    places = {role: scratch / f"{name}-{role}" for role in work.roles}
    with run_of(work, scratch, name=name, places=places) as run:
        work.prepare(run.context)
        # Collectors of system calls watch those who read the documents.
        pids = run.context.services.server_pids()
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
        assert ("nginx" in commands[0]) == (server == "nginx")
        assert any("serving" in command for command in commands)
        if server == "nginx":
            _only_the_run_is_answered(work.endpoint(), run.context.logs)
        outcome = work.measure(run.context)
        checks = {one.name: one for one in outcome.checks + work.verify(run.context, outcome)}
        sound(checks)
        report = report_of(run)
        _figures_are_the_reports(outcome, run, report)
        # The application behind either server counts what it answered.
        counters = json.loads((run.context.folder / "logs" / "server-counters.json").read_text())
        assert counters["post"] >= checks["posts"].values["acknowledged"] > 0
        assert (counters["static_get"] > 0) == (server == "embedded")
        lines = (places["log"] / "web_logs" / "access.log").read_text().splitlines()
        done = sum(report["series"]["done"])
        # Those under way at the end were asked for, and may have been logged.
        assert done <= len(lines) <= done + report["requests"]["left"] + 4
        documents = places["data"] / "documents"
        sizes = [path.stat().st_size for path in documents.rglob("class*")]
        assert (len(sizes), sum(sizes)) == (72, web_tables(2)["bytes"])
        assert not (documents / "web_logs").exists()
        log = places["log"] / "web_logs" / "posts.log"
        _posts_are_logged_once(report, log)
        first, *others = log.read_text().splitlines(keepends=True)
        log.write_text("".join([*others, others[-1]]))
        (check,) = [c for c in work.verify(run.context, outcome) if c.name == "posts"]
        assert check.verdict == "violation", first
        assert (check.values["lost"], check.values["twice"]) == (1, 1)


def _figures_are_the_reports(outcome: Outcome, run: Run, report: dict[str, Any]) -> None:
    seconds = (report["window_end_ns"] - report["window_start_ns"]) / 1e9
    assert outcome.metrics["requests_per_s"].value == report["requests"]["done"] / seconds
    assert outcome.metrics["requests_per_s"].primary
    counts = outcome.samples["histograms"].to_pandas().groupby("phase")["count"].sum()
    assert counts[web_outcome.PHASE] == report["requests"]["done"]
    kinds = outcome.samples["web_kinds"].to_pydict()
    assert sum(kinds["done"]) == report["requests"]["done"]
    assert all(kinds["drawn"][i] for i in range(5) if kinds["share"][i] > 0.04)
    timed = run.context.timed
    assert timed.end_ns - timed.start_ns == 1e8 + WINDOW_S * 1e9, "the warm-up and the window"


def _posts_are_logged_once(report: dict[str, Any], log: Path) -> None:
    (writer,) = report["posts"]
    lines = [line.split()[1] for line in log.read_text().splitlines()]
    assert len(set(lines)) == len(lines), "each once"
    # One that was under way when the load was over may be in the log, or not.
    left = {f"{writer['writer']:08x}-{number:010x}" for number in writer["unacknowledged"]}
    drawn = {f"{writer['writer']:08x}-{number:010x}" for number in range(writer["drawn"])}
    assert len(left) <= 4, "one a connection"
    assert drawn - left <= set(lines) <= drawn


def _only_the_run_is_answered(endpoint: dict[str, Any], logs: Path) -> None:
    """Other users of this machine can connect, but the name that is asked for is not told them."""
    for method, path in (("POST", "/post"), ("GET", "/file_set/dir00000/class0_1")):
        stranger = http.client.HTTPConnection(endpoint["address"])
        with contextlib.closing(stranger):
            stranger.request(method, path, body="x=1" if method == "POST" else None)
            with pytest.raises(http.client.RemoteDisconnected):
                stranger.getresponse()
    with contextlib.closing(http.client.HTTPConnection(endpoint["address"])) as own:
        own.request("GET", path, headers={"Host": endpoint["host"]})
        assert own.getresponse().status == 200
    telling = [file for file in logs.iterdir() if endpoint["host"] in file.read_text()]
    assert [(file.name, file.stat().st_mode & 0o077) for file in telling] == [("nginx.conf", 0)]


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("embedded", marks=pytest.mark.system),
        pytest.param("nginx", marks=pytest.mark.long),
    ],
)
def test_an_open_load_tells_the_rate_it_offered(scratch: Path, server: str) -> None:
    outcome, checks, run = run_web(
        scratch, load="open", server=server, rate=200, arrivals="uniform", connections=50
    )
    sound(checks)
    requests = report_of(run)["requests"]
    assert requests["planned"] == pytest.approx(WINDOW_S * 200, abs=1), "at 200 a second"
    assert outcome.metrics["latency_p99_ms"].primary
    assert outcome.metrics["skipped_share"].value == requests["skipped"] / requests["planned"]


@pytest.mark.system
@pytest.mark.long
def test_so_many_lines_and_how_many_of_them_conform(scratch: Path) -> None:
    # A reply on a line of 8 Mbit/s needs some 15 ms: all lines are busy throughout.
    outcome, checks, run = run_web(
        scratch, load="line_speed", line_bits_per_s=8_000_000, conforming_bits_per_s=1,
    )  # fmt: skip
    sound(checks)
    lines = report_of(run)["connections"]
    assert (lines["asked"], lines["conforming"]) == (4, 4)
    # A line is read an eighth of a second's bytes at a time, of which some came before the window.
    assert max(lines["rates_bits_per_s"]) <= 8_000_000 * (WINDOW_S + 0.125) / WINDOW_S
    assert outcome.metrics["conforming_share"].value == 1
    assert outcome.samples["web_steps"].to_pylist() == [
        {
            "connections": 4,
            "conforming": 4,
            "verdict": outcome.samples["web_steps"]["verdict"][0].as_py(),
            "done": report_of(run)["requests"]["done"],
            "failed": 0,
            "searched": False,
        }
    ]


@pytest.mark.long
def test_several_loads_of_a_search_share_one_log_of_posts(scratch: Path) -> None:
    outcome, checks, run = run_web(
        scratch, load="connections", connections=2, connections_max=4, step="0.2s",
        line_bits_per_s=8_000_000, conforming_bits_per_s=1, mix={"static_get": 0.5, "post": 0.5},
    )  # fmt: skip
    sound(checks, "conforming")  # a step is so short that a busy machine may be late in all of it
    steps = outcome.samples["web_steps"].to_pylist()
    assert [step["searched"] for step in steps] == [True] * (len(steps) - 1) + [False]
    drawn = [report_of(run, i)["posts"][0] for i in range(len(steps))]
    assert len({writer["writer"] for writer in drawn}) == len(steps)
    assert checks["posts"].values["acknowledged"] + sum(
        len(writer["unacknowledged"]) for writer in drawn
    ) == sum(writer["drawn"] for writer in drawn)
    if all(step["verdict"] == "good" for step in steps):
        assert "connections_max" in checks["conforming"].message


@pytest.mark.system
def test_nginx_that_does_not_start_says_its_last_lines(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = nginx.configuration

    def broken(*given: Any, **more: Any) -> str:
        return real(*given, **more) + "no_such_directive on;\n"

    monkeypatch.setattr(nginx, "configuration", broken)
    with pytest.raises(RunFailed) as caught:
        run_web(scratch, load="closed", server="nginx")
    assert "no_such_directive" in caught.value.why


def test_where_nginx_is_missing_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nginx, "program", lambda: None)
    answer = workload(server="nginx").check()
    assert not answer.ok
    assert "nginx-light" in answer.fix
    assert "embedded" in answer.fix
    assert workload().check().ok


def test_more_connections_than_files_can_be_open_are_refused_beforehand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import resource

    asked: list[tuple[int, int]] = []

    def refused(_which: int, limits: tuple[int, int]) -> None:
        """As the kernel does it to a root of a container."""
        asked.append(limits)
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", refused)
    answer = workload(load="closed", connections=2000).check()
    assert not answer.ok
    assert "4,096" in answer.reason
    assert "workload.connections)" in answer.fix
    assert len(asked) == 1
    assert workload(load="closed", connections=200).check().ok
    assert len(asked) == 1, "nothing is tried where the limit is high enough"
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: asked.append(limits))
    assert workload(load="closed", connections=2000).check().ok
    assert asked[-1] == (1024, 4096), "left as it was"


@pytest.mark.system
def test_a_document_root_that_is_full_is_said_before_anything_is_written(scratch: Path) -> None:
    work = workload(load="closed", directories=60_000)
    assert work.estimate_bytes()["data"] > 60_000 * web_tables(1)["bytes"]
    name = f"web-{uuid.uuid4().hex[:8]}"
    with (
        run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run,
        pytest.raises(RunFailed) as caught,
    ):
        work.prepare(run.context)
    assert "bytes" in f"{caught.value.what} {caught.value.why}"


SHORT = {"data": "disk", "directories": 2, "warm_up": "0.1s", "duration": "1s", "connections": 4}
WINDOW_S = 1


def workload(**values: Any) -> WebWorkload:
    return WebWorkload(WebParameters(**(SHORT | values)))


def run_web(scratch: Path, **values: Any) -> tuple[Outcome, dict[str, CheckRecord], Run]:
    """The whole way; skips where the server is not installed."""
    work = workload(**values)
    if not (usable := work.check()).ok:
        pytest.skip(usable.reason)
    name = f"web-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        outcome.checks += work.verify(run.context, outcome)
        return outcome, {check.name: check for check in outcome.checks}, run
