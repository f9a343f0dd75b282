"""Runs of several hosts, by the runner and the agents' own program, on a simulated clock."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from nfslab import clock
from nfslab.errors import Interrupted, ResultsError, RunFailed, UsageError
from nfslab.experiment import members
from nfslab.experiment.run_hosts import MEET_S, RunHosts
from nfslab.machine.journal import boot_id
from nfslab.storage import page_cache

from tests.experiment import fakes
from tests.experiment.fakes import EVENTS, MET
from tests.experiment.session_support import left_behind, only_folder, records, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nfslab.results.records import CheckRecord, RunRecord

    from tests.experiment.agents_in_memory import HostsInMemory

    Write = Callable[..., Path]

MS = 1_000_000
TICKS_NS = 200_000
"""What all looks at the clock of a start cost together, at a microsecond each."""
FILE = """\
[experiment]
name = "test"
repetitions = 1
seed = 7
collectors = ["watcher"]
[limits]
drop_page_cache = false
[targets.one]
kind = "folder"
path = "{folder}"
[client]
host = "local"
hosts = 3
processes = 2
[workload]
kind = "formula"
data = "one"
clients = 2
measure_s = 2.0
"""
APART = ("[workload]", '[server]\nhost = "namespace"\nname = "filer"\n[workload]')
OWN_SERVER = ("clients = 2", "clients = 2\nserves = true")
SHARED = ('path = "', 'shared = true\npath = "')
TWO_RUNS = ("repetitions = 1", "repetitions = 2")


@pytest.fixture
def written(experiment_file: Write) -> Write:
    """Writes the file above, with texts replaced."""
    return lambda *changes: experiment_file(*changes, text=FILE)


def workload(text: str) -> tuple[str, str]:
    return ("clients = 2", f"clients = 2\n{text}")


def made(path: Path) -> tuple[RunRecord, Path]:
    """The record of the only run, and its folder."""
    run(path)
    folder = only_folder(path)
    (record,) = records(folder)
    return record, folder.runs_path / record.run_id


def failed(path: Path) -> RunRecord:
    record, _ = made(path)
    assert record.status == "failed"
    return record


def check(record: RunRecord, name: str) -> CheckRecord:
    (found,) = [one for one in record.checks if one.name == name]
    return found


def at(
    patch: pytest.MonkeyPatch, event: str, act: Callable[[RunHosts], object], wait: str = ""
) -> None:
    """Acts once when the prime begins to wait for this event of its hosts."""
    waits, done = RunHosts.await_all, []

    def meddled(clients: RunHosts, waited: str, kind: Any = "busy_s", of: Any = None) -> None:
        if waited == event and kind == (wait or kind) and not done:
            done.append(True)
            act(clients)
        waits(clients, waited, kind, of)

    patch.setattr(RunHosts, "await_all", meddled)


def test_a_run_is_put_together_of_what_all_hosts_did(
    hosts: HostsInMemory, written: Write, tmp_path: Path
) -> None:
    record, sealed = made(written())
    assert record.status == "ok", record.reason
    assert record.metrics["rate_per_s"].value == 200 + 201 + 202
    found = record.client_hosts
    assert [one.name for one in found] == ["host1", "host2", "host3"]
    assert [one.operations for one in found] == [200, 201, 202]
    assert [one.share for one in found] == [200 / 603, 201 / 603, 202 / 603]
    assert [one.planned_share for one in found] == [1 / 3] * 3
    assert [one.processes for one in found] == [2] * 3
    assert [one.address for one in found] == [hosts[one.name].address for one in found]
    assert {one.facts["boot_id"] for one in found} == {boot_id()}
    for one in found:
        assert one.skew_ns is not None
        assert 0 <= one.skew_ns < TICKS_NS
        assert 0 < one.silence_ns < 0.6e9, "it gives a sign of life twice a second"
        part = json.loads((sealed / one.folder / "run.json").read_text())
        assert part["status"] == "ok"
        assert part["metrics"]["rate_per_s"]["value"] == one.operations
    assert check(record, "start_skew").verdict == "ok"
    assert check(record, "start_skew").values["effect_share"] < 2 * TICKS_NS / 2e9
    assert check(record, "hosts_alike").verdict == "ok"
    # All are there before the first begins to prepare; then the others do.
    assert EVENTS.count("prepare") == EVENTS.count("measure") == EVENTS.count("finish") == 3
    assert EVENTS.index("measure") > 5
    assert not any(agent.folder.exists() for agent in hosts.agents)
    assert [one.is_closed for one in hosts.clusters] == [True]
    assert left_behind(tmp_path) == []


def test_one_host_prepares_before_the_others(
    hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[tuple[str, int]] = []
    prepare = fakes.FormulaWorkload.prepare

    def seen(self: fakes.FormulaWorkload, context: Any) -> None:
        number = context.share.host
        prepared.append(("begins", number))
        clock.sleep(1.0)
        prepare(self, context)
        prepared.append(("ends", number))

    monkeypatch.setattr(fakes.FormulaWorkload, "prepare", seen)
    record, _ = made(written())
    assert record.status == "ok"
    assert prepared[:2] == [("begins", 0), ("ends", 0)]
    assert {entry[0] for entry in prepared[2:4]} == {"begins"}, "the others side by side"


def test_hosts_whose_clocks_differ_begin_together_and_are_put_on_one_axis(
    hosts: HostsInMemory, written: Write
) -> None:
    hosts["host2"].clock.ahead_ns, hosts["host2"].error_ns = 72 * 10**12, 30_000
    hosts["host3"].clock.ahead_ns, hosts["host3"].clock.drift_ppm = -5 * 10**11, 40.0
    record, sealed = made(written())
    assert record.status == "ok", record.reason
    one, two, three = record.client_hosts
    assert (one.clock.offset_ns, two.clock.offset_ns) == (0, 72 * 10**12)
    assert (one.drift_ppm, two.drift_ppm) == (0, 0)
    assert three.drift_ppm == pytest.approx(40, rel=0.01)
    assert three.clock_after.offset_ns - three.clock.offset_ns == pytest.approx(100_000, rel=0.02)
    for host in record.client_hosts:
        assert host.skew_ns is not None
        assert abs(host.skew_ns) < TICKS_NS
        assert abs(host.t0_ns) < 2 * TICKS_NS
    skew = check(record, "start_skew")
    assert skew.verdict == "ok"
    assert skew.values["hosts"]["host2"]["error_ns"] == 30_000
    measured = next(phase for phase in record.phases if phase.name == "measure")
    assert measured.duration_ns == pytest.approx(2.5e9, rel=0.05), "0.5 s for the word, 2 s"
    del sealed


@pytest.mark.parametrize(
    ("late_s", "error_ns", "verdict"),
    [(0.49, 0, "ok"), (0.51, 0, "ok"), (0.53, 0, "violation"), (0.0, 21 * MS, "violation")],
)
def test_hosts_that_did_not_begin_together_make_the_run_invalid(
    late_s: float, error_ns: int, verdict: str, hosts: HostsInMemory, written: Write
) -> None:
    """They are told half a second before, and begin at once if the word comes too late."""
    hosts["host2"].orders_take_s, hosts["host2"].error_ns = late_s, error_ns
    record, _ = made(written())
    skew = check(record, "start_skew")
    assert skew.verdict == verdict
    assert record.status == ("ok" if verdict == "ok" else "failed")
    late_ns = max(0, round((late_s - 0.5) * 1e9))
    assert record.client_hosts[1].skew_ns == pytest.approx(late_ns, abs=TICKS_NS)
    assert skew.values["hosts"]["host2"]["error_ns"] == error_ns


@pytest.mark.parametrize(
    ("how", "why", "after_s"),
    [("kill", "killed by SIGKILL", 0.5), ("hang", "no sign of life for 2.", 3.0)],
)
def test_a_lost_host_fails_the_run_with_its_name_and_the_experiment_goes_on(
    how: str,
    why: str,
    after_s: float,
    hosts: HostsInMemory,
    written: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at(monkeypatch, "measured", lambda _: getattr(hosts.agent("host2"), how)())
    path = written(TWO_RUNS, ("measure_s = 2.0", "measure_s = 6.0"))
    run(path)
    first, second = records(only_folder(path))
    assert (first.status, first.failure_phase) == ("failed", "measure")
    assert first.reason.startswith("client host host2 was lost")
    assert why in first.reason
    measured = next(phase for phase in first.phases if phase.name == "measure")
    assert measured.duration_ns < after_s * 1e9, "it is found out soon"
    assert (second.status, len(second.client_hosts)) == ("ok", 3)
    assert len(hosts.agents) == 8


@pytest.mark.parametrize(
    ("event", "patience_s"), [("ready", 60.0), ("at prepare", 4.0), ("armed", 4.0), ("sealed", 4.0)]
)
def test_a_host_may_be_silent_for_as_long_as_its_work_takes(
    event: str,
    patience_s: float,
    hosts: HostsInMemory,
    written: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at(monkeypatch, event, lambda _: hosts.agent("host3").hang())
    record = failed(written())
    said = f"client host host3 was lost\n  why: it gave no sign of life for {patience_s:.0f}."
    assert record.reason.startswith(said)
    assert record.duration_ns > patience_s * 1e9


def test_a_host_that_says_nothing_for_a_while_is_not_lost(
    hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped half a second into the load, for 1.5 s."""
    listened = RunHosts._listened
    began: list[int] = []

    def stopped_for_a_while(clients: RunHosts) -> Any:
        if began:
            passed_s = (hosts.clock.monotonic_ns() - began[0]) / 1e9
            stopped = hosts.clock.of_host(hosts.agent("host2").clock)
            hosts.clock.hold(stopped if 1.0 < passed_s < 2.5 else [])
        return listened(clients)

    at(monkeypatch, "measured", lambda _: began.append(hosts.clock.monotonic_ns()))
    monkeypatch.setattr(RunHosts, "_listened", stopped_for_a_while)
    record, _ = made(written(("measure_s = 2.0", "measure_s = 4.0")))
    assert record.status == "ok", record.reason
    one, two, _ = record.client_hosts
    assert one.silence_ns < 0.6e9
    assert 1.4e9 < two.silence_ns < 2e9


@pytest.mark.parametrize("fail", ["prepare", "measure", "verify", "violate", "defect", "enospc"])
def test_a_host_that_fails_is_named_and_what_it_left_is_kept(
    fail: str, hosts: HostsInMemory, written: Write, tmp_path: Path
) -> None:
    record, sealed = made(written(workload(f'fail = "{fail}"\nfails_on = 1')))
    assert record.status == "failed"
    assert record.reason.startswith("client host host2: ")
    alone = json.loads((sealed / "hosts" / "host2" / "run.json").read_text())
    assert alone["status"] == "failed"
    assert alone["reason"].split("\n")[0] in record.reason
    assert not (sealed / "hosts" / "host1").exists(), "it was given up"
    assert left_behind(tmp_path) == []


def test_a_host_without_room_is_refused_by_its_name(hosts: HostsInMemory, written: Write) -> None:
    hosts["host2"].facts_told["files"] = 10
    record = failed(written())
    assert record.failure_phase == "hosts up"
    assert "2 processes are more than the open files of host host2 allow" in record.reason
    assert EVENTS == []


def test_hosts_meet_at_one_instant_and_hear_each_other(
    hosts: HostsInMemory, written: Write
) -> None:
    ahead_ns = 90 * 10**9
    hosts["host2"].clock.ahead_ns = ahead_ns
    record, _ = made(written(workload('gates = ["step 1", "step 2"]')))
    assert record.status == "ok", record.reason
    assert len(MET) == 6
    for number in (0, 1):
        met = MET[3 * number : 3 * number + 3]
        (common_ns,) = {one.common_ns for one in met}
        assert sorted(one.at_ns - common_ns for one in met) == [0, 0, ahead_ns]
        for one in met:
            assert one.said == ({"host": 0}, {"host": 1}, {"host": 2})
    first, second = MET[0].common_ns, MET[3].common_ns
    # The slowest of them takes 0.9 s from one gate to the next.
    assert second - first == pytest.approx((0.9 + MEET_S) * 1e9, abs=0.2e9)


def test_hosts_on_other_machines_are_judged_as_such(hosts: HostsInMemory, written: Write) -> None:
    hosts["host2"].facts_told |= {"boot_id": "another", "kernel": "9.9", "emulated": True}
    record, _ = made(written())
    assert [one.facts["boot_id"] == boot_id() for one in record.client_hosts] == [True, False, True]
    assert check(record, "start_skew").verdict == "unknown"
    assert "host2: emulated" in check(record, "start_skew").message
    assert [one.name for one in record.checks if "emulat" in one.name] != []


def test_the_servers_host_makes_what_clients_share(
    hosts: HostsInMemory, written: Write, tmp_path: Path
) -> None:
    hosts["filer"].clock.ahead_ns = 50 * 10**9
    record, sealed = made(written(APART, SHARED))
    assert record.status == "ok", record.reason
    server = record.server_host
    assert server is not None
    assert (server.name, server.kind, server.processes) == ("filer", "namespace", 0)
    assert server.clock.offset_ns == 50 * 10**9
    assert record.hosts["server"].name == "filer"
    assert [one.name for one in record.client_hosts] == ["host1", "host2", "host3"]
    theirs = json.loads((sealed / "hosts" / "filer" / "run.json").read_text())
    shared = theirs["places"]["data"]["path"]
    for one in record.client_hosts:
        part = json.loads((sealed / one.folder / "run.json").read_text())
        assert part["places"]["data"]["path"].startswith(f"{shared}/")
    # The server's has no part of the load.
    assert EVENTS.count("measure") == 3
    assert EVENTS[-1] == "down one"
    assert left_behind(tmp_path) == []


def test_targets_that_nobody_shares_are_each_hosts_own(
    hosts: HostsInMemory, written: Write
) -> None:
    record, sealed = made(written(APART))
    assert record.status == "ok", record.reason
    paths = {
        json.loads((sealed / one.folder / "run.json").read_text())["places"]["data"]["path"]
        for one in record.client_hosts
    }
    assert len(paths) == 3
    assert EVENTS.count("up one") == 3


@pytest.mark.parametrize("where", ["here", "apart"])
def test_the_workloads_own_server_is_verified_with_what_all_hosts_did(
    where: str, hosts: HostsInMemory, written: Write, tmp_path: Path
) -> None:
    changes = [OWN_SERVER, *([APART] if where == "apart" else [])]
    record, sealed = made(written(*changes))
    assert record.status == "ok", record.reason
    assert check(record, "server").message == "served 603"
    assert record.metrics["rate_per_s"].value == 603
    assert EVENTS.count("up one") == 1, "where the server is"
    assert EVENTS.count("prepare") == 4
    for one in record.client_hosts:
        part = json.loads((sealed / one.folder / "run.json").read_text())
        assert part["places"] == {}
    assert record.places["data"].target == "one"
    assert (record.server_host is not None) == (where == "apart")
    of_server = {one.name for one in record.phases if one.name.startswith("server/")}
    assert ("server/prepare" in of_server) == (where == "here"), "else they are in its own record"
    assert left_behind(tmp_path) == []


def test_logs_of_servers_here_are_kept_of_a_run_that_fails(
    hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = fakes.FormulaWorkload.prepare

    def logging(self: fakes.FormulaWorkload, context: Any) -> None:
        if not self.served:
            (context.logs / "server.log").write_text("why")
        prepare(self, context)

    monkeypatch.setattr(fakes.FormulaWorkload, "prepare", logging)
    record, sealed = made(written(OWN_SERVER, workload('fail = "measure"\nfails_on = 1')))
    assert record.reason.startswith("client host host2: ")
    assert (sealed / "logs" / "server.log").read_text() == "why"


def test_the_server_here_shares_what_it_loaded_with_the_next_run(
    hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = []
    prepare = fakes.FormulaWorkload.prepare

    def seen(self: fakes.FormulaWorkload, context: Any) -> None:
        if not self.served:
            caches.append(context.cache)
        prepare(self, context)

    monkeypatch.setattr(fakes.FormulaWorkload, "prepare", seen)
    run(written(OWN_SERVER, TWO_RUNS))
    assert len(caches) == 2
    assert caches[0] == caches[1]


def test_page_caches_are_dropped_when_all_is_prepared(
    hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose it is alone by whoever may drop all of this machine's, else by each of its own."""
    monkeypatch.setattr(page_cache, "drop_page_cache", lambda _: EVENTS.append("drop") or {})
    record, _ = made(written(OWN_SERVER, ("drop_page_cache = false", "drop_page_cache = true")))
    assert record.status == "ok", record.reason
    assert EVENTS.count("drop") == (1 if os.geteuid() == 0 else 4)
    assert EVENTS.index("drop") > max(i for i, one in enumerate(EVENTS) if one == "prepare")


@pytest.mark.parametrize("where", ["here", "apart"])
def test_a_server_that_dies_is_the_reason_and_not_those_who_miss_it(
    where: str, hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "measured", lambda _: fakes.SERVERS_DIE.append(where))
    changes = [OWN_SERVER, *([APART] if where == "apart" else [])]
    record = failed(written(*changes))
    host = "server host filer: " if where == "apart" else "server: "
    assert record.reason.startswith(f"{host}the fake server died")


@pytest.mark.parametrize("how", ["kill", "hang"])
def test_a_servers_host_that_is_lost_is_named(
    how: str, hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "measured", lambda _: getattr(hosts.agent("filer"), how)())
    record = failed(written(APART, SHARED))
    assert record.reason.startswith("server host filer was lost")


def test_evidence_of_the_only_client_host_is_the_runs_and_on_its_clock(
    hosts: HostsInMemory, written: Write
) -> None:
    hosts["host1"].clock.ahead_ns, hosts["host1"].error_ns = 10**12, 77
    record, sealed = made(written(("hosts = 3", "hosts = 1")))
    assert record.status == "ok", record.reason
    assert record.hosts["client"].name == "host1"
    assert record.hosts["client"].clock.offset_ns == 10**12
    assert record.hosts["client"].clock.error_ns == 77
    (evidence,) = record.evidence
    table = pq.read_table(sealed / evidence.tables[0])
    assert set(table["host"].to_pylist()) == {"host1"}
    assert not (sealed / "hosts" / "host1" / evidence.tables[0]).exists(), "it was moved"


def test_evidence_of_the_servers_host_is_moved_by_its_start(
    hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fakes.WatcherCollector, "side", "server")
    hosts["filer"].clock.ahead_ns = -(10**12)
    record, sealed = made(written(APART, SHARED))
    assert record.status == "ok", record.reason
    assert record.server_host is not None
    (evidence,) = record.evidence
    table = pq.read_table(sealed / evidence.tables[0])
    assert set(table["host"].to_pylist()) == {"filer"}
    moved_ns = record.server_host.t0_ns + record.hosts["server"].clock.offset_ns
    assert table["t_ns"].to_pylist() == [moved_ns, moved_ns + 1]


def test_a_run_that_is_given_up_leaves_nothing(
    hosts: HostsInMemory, written: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(clients: RunHosts) -> None:
        clients._check.__self__.stop.request("a test")  # type: ignore[attr-defined]

    at(monkeypatch, "measured", stopped)
    path = written()
    with pytest.raises(Interrupted):
        run(path)
    assert records(only_folder(path)) == []
    assert not any(agent.folder.exists() for agent in hosts.agents)
    assert EVENTS.count("finish") == 3, "each host takes down what it had made"
    assert left_behind(tmp_path) == []


def test_machines_that_are_away_are_waited_for(
    hosts: HostsInMemory, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(CLUSTER, ('host = "local"', 'host = "cluster"'))
    hosts.away = [RunFailed("host2 is away")] * 20
    record, _ = made(path)
    assert record.status == "ok", record.reason
    up = next(phase for phase in record.phases if phase.name == "hosts up")
    assert up.duration_ns == pytest.approx(20e9, rel=0.05), "asked once a second"


CLUSTER = (
    "[client]",
    '[cluster]\nhosts = ["host1", "host2", "host3"]\n[client]',
)


def test_an_experiment_ends_when_a_machine_stays_away(hosts: HostsInMemory, written: Write) -> None:
    path = written(CLUSTER, ('host = "local"', 'host = "cluster"'))
    hosts.away = [RunFailed("host2 is away", why="its power")] * 1000
    with pytest.raises(ResultsError) as raised:
        run(path)
    assert raised.value.exit_code == 1
    assert "host2 is away" in raised.value.what
    assert len(hosts.away) == pytest.approx(1000 - members.BACK_S, abs=2)
    assert records(only_folder(path)) == []


def test_hosts_of_this_machine_are_not_waited_for(hosts: HostsInMemory, written: Write) -> None:
    hosts.away = [UsageError("no namespaces")]
    record = failed(written())
    assert record.reason.startswith("no namespaces")
    assert (record.failure_phase, hosts.agents) == ("hosts up", [])
