"""One run whose load several client hosts make together: sums, records, and every way to fail."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from nfslab.evidence.base import SealedRun
from nfslab.evidence.nfs_server.served import served
from nfslab.evidence.over_time import read_rows
from nfslab.experiment.host_checks import start_skew
from nfslab.experiment.run_hosts import RunHosts
from nfslab.experiment.spread_run import SpreadExecution
from nfslab.machine.processes import status_of
from nfslab.machine.resources import recover
from nfslab.machine.undo import LINK_TOKEN_DIGITS, NETWORK_NAMESPACES
from nfslab.mounts.fuse import FuseMount
from nfslab.results.records import ClockRecord, RunHostRecord

from tests.experiment.session_support import (
    PATIENCE_S,
    journal_tokens,
    left_behind,
    left_running,
    only_folder,
    processes_of_state,
    records,
    run,
)
from tests.experiment.spread_support import (
    KINDS,
    SILENT,
    Meddling,
    calls_sent,
    check,
    clocks_told,
    lose,
    made,
    pid_of,
    require_measured,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.experiment.in_part import AskedPart

LAUNCHER = Path(__file__).with_name("launcher.py")


@pytest.mark.parametrize("host", KINDS)
def test_what_all_hosts_sent_is_what_the_server_counted(host: str, tmp_path: Path) -> None:
    record, sealed = made(written(tmp_path, host=host))
    require_measured(record)
    sent = calls_sent(sealed)
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    counted = Counter(served["operation"].to_pylist())
    assert {name: counted[name] for name in sent} == sent, "operation by operation"
    assert sum(sent.values()) > 300
    # Of each host: the sums that it handed over, read without us.
    by_host = Counter(
        {
            one.name: sum(
                row["measured"]
                for file in (sealed / one.folder / "parts").iterdir()
                for row in json.loads(json.loads(file.read_bytes())["sums"])["measured"][
                    "operations"
                ]
            )
            for one in record.client_hosts
        }
    )
    assert {one.name: one.operations for one in record.client_hosts} == by_host
    rows = pq.read_table(sealed / "samples" / "operations.parquet").to_pylist()
    assert sum(by_host.values()) == sum(row["answered"] for row in rows)
    assert sum(one.share or 0 for one in record.client_hosts) == pytest.approx(1)
    if host == "namespace":
        seen = Counter(text.rpartition(":")[0] for text in served["client"].to_pylist())
        assert set(seen) == {one.address for one in record.client_hosts}, "as the server saw them"
    assert left_behind(tmp_path) == []


def test_each_host_is_in_the_record_and_its_part_in_the_folder(tmp_path: Path) -> None:
    record, sealed = made(written(tmp_path))
    assert [one.name for one in record.client_hosts] == ["host1", "host2"]
    assert [one.processes for one in record.client_hosts] == [2, 2]
    require_measured(record)
    skew, most_ns = check(record, "start_skew"), max(one.skew_ns for one in record.client_hosts)
    assert skew.verdict == ("violation" if most_ns > 5_000_000 else "ok"), skew.message
    # The timed part takes 2.5 s; replies that come late make it longer.
    assert 0 <= skew.values["effect_share"] <= 1.01 * most_ns / 2.5e9
    assert check(record, "hosts_alike").verdict == "ok"
    for one in record.client_hosts:
        assert one.skew_ns is not None
        assert one.skew_ns >= 0, "none may begin before its time"
        assert (one.clock.offset_ns, one.clock_after.offset_ns, one.drift_ppm) == (0, 0, 0), "ours"
        part = json.loads((sealed / one.folder / "run.json").read_text())
        assert part["status"] == "ok"
        assert (sealed / one.folder / "provenance.json").stat().st_size > 1000
    point = json.loads((sealed / "logs" / "sfs.json").read_text())
    assert len({one["pid"] for one in point["processes"]}) == 4
    assert record.places["data"].durability.level == "volatile", "as the server is"


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (signal.SIGKILL, "killed by SIGKILL"),
        (signal.SIGSTOP, SILENT),
    ],
)
def test_a_lost_host_fails_the_run_with_its_name_and_the_experiment_goes_on(
    number: signal.Signals, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[int] = []

    def once(clients: RunHosts) -> None:
        if not lost:
            lost.append(pid_of(clients.hosts[1].agent))
            lose(clients.hosts[1], number, monkeypatch)

    meddling = Meddling(monkeypatch, once)
    path = written(tmp_path, ("repetitions = 1", "repetitions = 2"), processes=1)
    run(path)
    first, second = records(only_folder(path))
    assert (first.status, first.failure_phase) == ("failed", "measure")
    assert re.search("client host host2 was lost", first.reason)
    assert re.search(why, first.reason)
    require_measured(second)
    meddling.assert_none_is_left()
    with pytest.raises(ProcessLookupError):
        os.kill(lost[0], 0)
    monkeypatch.undo()
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    recover()
    assert left_behind(tmp_path) == [], "the next start removes what the lost agent had made"


def test_a_host_that_fails_is_named_and_what_it_left_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = SpreadExecution._asked

    def misled(self: SpreadExecution, number: int, host: Any, taken: dict[str, Any]) -> AskedPart:
        if number == 1:
            options = ["port=1", "mountport=1"]
            taken = {"server": taken["server"] | {"options": options}}
        return asked(self, number, host, taken)

    monkeypatch.setattr(SpreadExecution, "_asked", misled)
    record, sealed = made(written(tmp_path, processes=1))
    assert record.status == "failed"
    assert record.failure_phase == "prepare"
    assert record.reason.startswith("client host host2: 127.0.0.1:/export cannot be mounted")
    part = json.loads((sealed / "hosts" / "host2" / "run.json").read_text())
    assert (part["status"], part["failure_phase"]) == ("failed", "prepare/file set")
    assert not (sealed / "hosts" / "host1").exists(), "it was given up"
    assert left_behind(tmp_path) == []


def test_hosts_whose_clocks_differ_are_put_on_one_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that host2's clock is 60 ms ahead, it begins so much later, and says that it did not."""
    ahead_ns = 60_000_000
    clocks_told(monkeypatch, {"host2": ahead_ns})
    record, sealed = made(written(tmp_path, processes=1))
    require_measured(record)
    assert [one.clock.offset_ns for one in record.client_hosts] == [0, ahead_ns]
    begins = [
        json.loads(json.loads(file.read_bytes())["sums"])["times"]["start_ns"]
        for file in sorted((sealed / "hosts").glob("*/parts/*.json"))
    ]
    assert begins[1] - begins[0] == ahead_ns
    point = json.loads((sealed / "logs" / "sfs.json").read_text())
    assert point["start_monotonic_ns"] == begins[0], "on the prime's clock"
    assert point["little"]["residual_ns"] == 0
    assert all(one.skew_ns is not None and one.skew_ns >= 0 for one in record.client_hosts)
    assert check(record, "start_skew").values["hosts"]["host2"]["error_ns"] == 7


def test_what_the_server_saw_here_is_on_the_clock_of_the_only_client_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that its clock is 60 ms ahead: what is read of the timed part does not move by that."""
    clocks_told(monkeypatch, {"host1": 60_000_000}, error_ns=5)
    record, sealed = made(written(tmp_path, hosts=1, processes=1))
    assert record.hosts["client"].clock.offset_ns == 60_000_000
    sealed_run = SealedRun(sealed, record)
    raw = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    seen = read_rows(sealed_run, "nfs_server_calls", ["t_ns"])
    assert seen is not None
    assert raw.num_rows > 100
    zero_ns = set(pc.subtract(raw["received_ns"].cast(pa.int64()), seen["t_ns"]).to_pylist())
    point = json.loads((sealed / "logs" / "sfs.json").read_text())
    assert zero_ns == {point["start_monotonic_ns"]}, "where the load began, by our clock"
    timed_ns = max(seen["t_ns"].to_pylist()) + 1
    between = served(sealed_run, 0, timed_ns)
    assert between is not None
    later = pc.greater_equal(seen["t_ns"], 0)
    assert sum(one.calls for one in between.calls) == seen.filter(later).num_rows


def test_a_host_that_is_told_too_late_makes_the_run_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks_told(monkeypatch, {"host2": -20_000_000_000}, error_ns=0)
    record, _ = made(written(tmp_path, processes=1))
    assert record.status == "failed"
    load, skew = check(record, "offered_load"), check(record, "start_skew")
    assert (load.verdict, skew.verdict) == ("violation", "violation")
    assert "host2, generator process 1 of 1 ended before its time" in load.message
    assert "not ready for the common start" in load.message
    assert skew.message == "host2: nobody knows when its programs began"
    assert record.client_hosts[0].skew_ns is not None


def told(name: str, skew_ns: int | None, error_ns: int = 0) -> RunHostRecord:
    return RunHostRecord(name=name, skew_ns=skew_ns, clock=ClockRecord(error_ns=error_ns))


@pytest.mark.parametrize(
    ("hosts", "verdict", "says"),
    [
        ([told("a", 1_000_000), told("b", 4_900_000)], "ok", "b began 4.90 ms behind"),
        ([told("a", 5_000_001), told("b", 0)], "violation", "a began 5.00 ms behind"),
        ([told("a", 0), told("b", 4_000_000, 1_500_000)], "violation", "compared to 1.50 ms"),
        ([told("a", -6_000_000)], "violation", "a began 6.00 ms before"),
        ([told("a", 0), told("b", None)], "violation", "b: nobody knows when"),
    ],
)
def test_skew_counts_with_the_error_of_the_clocks(
    hosts: list[RunHostRecord], verdict: str, says: str
) -> None:
    found = start_skew(hosts, 1_000_000_000)
    assert found.verdict == verdict
    assert says in found.message


COMMAND = """
kind = "command"
data = "server"
argv = [
    "sh", "-c",
    "echo rate $((100 + {host})) level {host}.5 of {hosts}; echo {host} > {data}/{host}",
]
clean = ["sh", "-c", "ls {data} >&2"]
[[workload.metrics]]
name = "rate"
pattern = 'rate ([0-9]+)'
unit = "1/s"
primary = true
[[workload.metrics]]
name = "level"
pattern = "level ([0-9.]+)"
unit = "ms"
[[workload.metrics]]
name = "hosts"
pattern = 'of ([0-9]+)'
"""


@pytest.mark.long
def test_a_program_runs_once_on_each_host_on_one_shared_mount(tmp_path: Path) -> None:
    if not FuseMount.available().ok:
        pytest.skip(FuseMount.available().reason)
    path = written(tmp_path, ('client = "none"\n', ""), hosts=3, processes=1)
    head, _, _ = path.read_text().partition("[workload]")
    path.write_text(head + "[workload]" + COMMAND)
    record, sealed = made(path)
    violated = {one.name for one in record.checks if one.verdict == "violation"}
    assert violated <= {"start_skew"}, record.reason
    values = {name: metric.value for name, metric in record.metrics.items()}
    assert values["rate"] == 303
    assert set(values) == {"rate", "wall_s", "user_s", "system_s"}, "no mean of anything"
    assert "level is each client host's own: hosts/NAME/run.json" in record.notes
    assert [one.share for one in record.client_hosts] == [100 / 303, 101 / 303, 102 / 303]
    walls = []
    for number, one in enumerate(record.client_hosts):
        part = json.loads((sealed / one.folder / "run.json").read_text())
        walls.append(part["metrics"]["wall_s"]["value"])
        assert part["metrics"]["level"]["value"] == number + 0.5
        assert part["places"]["data"]["facts"]["nfs"]["client"] == "user"
    assert values["wall_s"] == max(walls)
    assert record.places["data"].filesystem.startswith("fuse"), "as the client hosts see it"
    seen = {
        name
        for one in record.client_hosts
        for name in (sealed / one.folder / "logs" / "command-beside.log").read_text().split()
    }
    assert {"0", "1", "2"} <= seen, "one folder for all"
    assert left_behind(tmp_path) == []


def processes_of(module: str, state: Path) -> list[int]:
    """Those of ours with that module in their words, but no child of one that has been forked for
    another program."""
    found = {}
    for pid in processes_of_state(state):
        with contextlib.suppress(OSError):
            if module in Path(f"/proc/{pid}/cmdline").read_text():
                status = status_of(pid)
                found[pid] = status.parent if status is not None else 0
    return [pid for pid, parent in found.items() if parent not in found]


def wait_until(what: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, f"{process.args} is at {process.poll()}"
        time.sleep(0.02)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("host", KINDS)
def test_a_run_that_is_ended_leaves_no_agent_and_no_host(
    host: str, number: signal.Signals, tmp_path: Path
) -> None:
    changes = [('duration = "2s"', 'duration = "600s"')]
    path = written(tmp_path, *changes, host=host, processes=2)
    state = tmp_path / "state"
    command = [sys.executable, str(LAUNCHER), "run", str(path), "--results"]
    with subprocess.Popen(
        [*command, str(tmp_path / "results")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"NFSLAB_STATE": str(state), "NFSLAB_TURN": ""},
    ) as process:
        wait_until(lambda: len(processes_of("nfslab.offered.part", state)) == 4, process)
        agents = processes_of("nfslab.experiment.in_part", state)
        folders = [Path(os.readlink(f"/proc/{pid}/cwd")) for pid in agents]
        tokens = journal_tokens(tmp_path)
        process.send_signal(number)
        code = process.wait(PATIENCE_S)
        assert code == (130 if number == signal.SIGINT else -signal.SIGKILL)
        wait_until(lambda: not processes_of("nfslab.experiment.in_part", state), process)
        wait_until(lambda: not processes_of("nfslab.offered.part", state), process)
    assert len(agents) == 2
    assert not any(folder.exists() for folder in folders)
    if number == signal.SIGKILL:
        recover()
        shutil.rmtree(only_folder(path).path)  # the next call would remove what is half written
    assert left_running(state) == []
    assert left_behind(tmp_path) == []
    networks = [*NETWORK_NAMESPACES.glob("*"), *Path("/sys/class/net").iterdir()]
    assert tokens
    assert not [
        one for one in networks for token in tokens if token[:LINK_TOKEN_DIGITS] in one.name
    ]
