"""`web` from several client hosts against the prime's server: sums, one search, ways to fail."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from nfslab._core import WebServer, write_web_files
from nfslab.context import HostPart, Share
from nfslab.errors import RunFailed
from nfslab.experiment import run_hosts, spread_run
from nfslab.experiment.run_hosts import SAID_BYTES_MAX, RunHost, RunHosts
from nfslab.hosts.base import Link
from nfslab.machine.processes import all_statuses
from nfslab.workloads.web import hosts
from nfslab.workloads.web.generators import Generators
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.search import Found, together
from nfslab.workloads.web.servers.base import let_in
from nfslab.workloads.web.servers.nginx import NginxServing
from nfslab.workloads.web.workload import WebWorkload

from tests.experiment.session_support import (
    PATIENCE_S,
    left_behind,
    left_running,
    only_folder,
    records,
    run,
)
from tests.experiment.spread_support import (
    KINDS,
    OF_A_BUSY_MACHINE,
    Meddling,
    check,
    clocks_told,
    made,
    pid_of,
    written,
)
from tests.workloads.web.running import require_the_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nfslab.results.records import CheckRecord, RunRecord

nginx = NginxServing.available()
SERVERS = [
    "embedded",
    pytest.param("nginx", marks=pytest.mark.skipif(not nginx.ok, reason=nginx.reason or "there")),
]
WORKLOAD = """[workload]
kind = "web"
data = "disk"
directories = 2
warm_up = "0.2s"
mix = {static_get = 0.5, dynamic_get = 0.1, cgi_get = 0.1, ad_get = 0.1, post = 0.2}
"""
CLOSED = 'load = "closed"\nconnections = 7\nduration = "1s"\n'
ENDLESS = 'load = "closed"\nconnections = 4\nduration = "600s"\n'
MEET_S = 2.0
"""Between steps of a search: so long the word to begin may take to each process."""
FAST_LINES = "line_bits_per_s = 8000000\nconforming_bits_per_s = 1\n"


@pytest.fixture
def tmp_path(scratch: Path) -> Path:
    """nginx's user has to get there."""
    return scratch


def on_hosts(tmp_path: Path, more: str, host: str = "local", **client: Any) -> Path:
    """An experiment file: two hosts with two processes each, the web server here."""
    path = written(tmp_path, host=host, **client)
    head, _, rest = path.read_text().partition("[targets.server]")
    head = head.replace('collectors = ["nfs_server"]', "collectors = []")
    client_section = rest[rest.index("[client]") : rest.index("[workload]")]
    places = tmp_path / "places"
    places.chmod(0o755)
    target = f'[targets.disk]\nkind = "local"\npath = "{places}"\n'
    path.write_text(head + target + client_section + WORKLOAD + more)
    return path


def require_measured(record: RunRecord) -> None:
    """It went to its end; what is against it is at most that this machine has other work, and then
    it is said of which host's generator."""
    violated = {one.name for one in record.checks if one.verdict == "violation"}
    assert record.status == "ok" or violated, record.reason
    assert violated <= OF_A_BUSY_MACHINE | {"conforming"}, record.reason
    if "offered_load" in violated:
        said = check(record, "offered_load").message
        assert re.match(r"host[12], generator process [123] of [123]: ", said), said
    if "conforming" in violated:
        said = check(record, "conforming").message
        assert "the generator was the limit" in said or "the edge moved meanwhile" in said


def whole_of(sealed: Path) -> dict[str, Any]:
    """The report of all hosts."""
    report: dict[str, Any] = json.loads((sealed / "logs" / hosts.REPORT).read_bytes())
    return report


def reports_of(record: RunRecord, sealed: Path) -> list[dict[str, Any]]:
    """Those of each process of each host, of all loads, in order."""
    return [
        json.loads(file.read_bytes())
        for one in record.client_hosts
        for file in sorted((sealed / one.folder / "logs").glob("load-*-report.json"))
    ]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("host", KINDS)
def test_requests_of_all_hosts_are_what_the_server_counted(
    host: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    verify = WebWorkload.verify

    def verified(self: WebWorkload, context: Any, outcome: Any) -> list[CheckRecord]:
        found = verify(self, context, outcome)
        assert self._served is not None
        logged.extend(self._served.access_log.read_text().splitlines())
        return found

    monkeypatch.setattr(WebWorkload, "verify", verified)
    more = f'{CLOSED}server = "{server}"\naccess_log = true\n'
    record, sealed = made(on_hosts(tmp_path, more, host))
    require_measured(record)
    whole, own = whole_of(sealed), reports_of(record, sealed)
    assert len(own) == 4
    assert whole["requests"]["done"] == sum(one["requests"]["done"] for one in own)
    assert record.metrics["requests_per_s"].value == whole["requests"]["done"]
    assert whole["requests"]["failed"] == 0
    # A process that had no processor at its end took no more replies, which the server had sent.
    unfinished = whole["requests"]["unfinished"]
    assert unfinished <= 7, "one a connection"
    # All that was asked for, warm-up included, and what the application behind nginx saw of it.
    done = sum(whole["series"]["done"])
    counters = json.loads((sealed / "logs" / "server-counters.json").read_text())
    kinds = [counters[name] for name in ("dynamic_get", "cgi_get", "ad_get", "post")]
    for kind, count in zip(whole["kinds"][1:], kinds, strict=True):
        assert kind["done"] <= count > 0
    assert check(record, "posts").verdict == "ok"
    posts = check(record, "posts").values
    assert 0 <= counters["post"] - posts["acknowledged"] <= unfinished
    assert posts["lines"] == counters["posts_written"] >= counters["post"]
    if server == "embedded":
        assert 0 <= sum(kinds) + counters["static_get"] - done <= unfinished
        assert whole["kinds"][0]["done"] <= counters["static_get"]
    clients = Counter(line.split()[0] for line in logged)
    assert 0 <= sum(clients.values()) - done <= unfinished
    by_host = {one.address: one.operations for one in record.client_hosts}
    if host == "namespace":
        # One that had no processor in its 1.2 s asked for nothing.
        assert {one for one, operations in by_host.items() if operations} <= set(clients)
        assert set(clients) <= set(by_host)
        assert whole["config"]["address"].partition(":")[0] not in ("127.0.0.1", "0.0.0.0")
        for address, operations in by_host.items():
            assert operations is not None
            assert operations <= clients[address]
    else:
        assert set(clients) == {"127.0.0.1"}
    # 7 connections of four processes: 2, 2, 2 and 1.
    assert [one.planned_share for one in record.client_hosts] == [4 / 7, 3 / 7]
    assert sum(one.operations or 0 for one in record.client_hosts) == whole["requests"]["done"]
    assert all(one.mean_latency_ns for one in record.client_hosts if one.operations)
    series = pq.read_table(sealed / "samples" / "series.parquet")
    assert sum(series["operations"].to_pylist()) == done
    assert len({writer["writer"] for writer in whole["posts"]}) == 4
    assert left_running(tmp_path / "state") == []


@contextmanager
def running(root: Path) -> Iterator[WebServer]:
    """A server that is there already, with its documents."""
    root.mkdir()
    write_web_files(json.dumps({"root": str(root), "file_set": {"seed": 1, "directories": 2}}))
    log = str(root / "posts.log")
    config = {"listen": "127.0.0.1:0", "root": str(root), "post_log": log}
    with WebServer(json.dumps(config)) as server:
        yield server


def test_a_server_that_runs_already_answered_what_all_hosts_counted(tmp_path: Path) -> None:
    with running(tmp_path / "there") as server:
        path = on_hosts(tmp_path, f'{CLOSED}server = "http://localhost:{server.port}"\n')
        record, sealed = made(path)
        counters = server.stop()
    require_measured(record)
    whole = whole_of(sealed)
    assert whole["config"]["address"] == f"127.0.0.1:{server.port}", "as this machine sees it"
    answered = [counters[one["kind"]] for one in whole["kinds"]]
    unfinished = whole["requests"]["unfinished"]
    assert 0 <= sum(answered) - sum(whole["series"]["done"]) <= unfinished <= 7, "one a connection"
    for kind, count in zip(whole["kinds"], answered, strict=True):
        assert 0 < kind["done"] <= count
    assert 0 <= whole["connections"]["connects"] - counters["connections"] <= unfinished
    drawn = sum(one["drawn"] for one in whole["posts"])
    assert 0 <= drawn - counters["posts_written"] <= unfinished
    assert check(record, "posts").verdict == "unknown", "its log is not ours"


@pytest.mark.parametrize("host", KINDS[1:])
def test_hosts_are_not_sent_to_a_loopback_of_their_own(host: str, tmp_path: Path) -> None:
    with running(tmp_path / "there") as server:
        address = f"http://localhost:{server.port}"
        record = failed(on_hosts(tmp_path, f'{CLOSED}server = "{address}"\n', host))
        assert record.failure_phase == "prepare/server"
        assert f"{address} is another server on the client's host" in record.reason
        assert server.stop()["connections"] == 0
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("host", KINDS[1:])
def test_the_server_is_there_for_the_hosts_alone(
    host: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine is none of them: from its own address on their network it gets no document."""
    told: list[str] = []
    handed_on = WebWorkload.handed_on

    def seen(self: WebWorkload) -> dict[str, Any]:
        found = handed_on(self)
        told.append(found["address"])
        return found

    replies: list[bytes] = []

    def ask(_clients: RunHosts) -> None:
        address, _, port = told[0].partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))
        with (
            socket.create_connection((address, int(port))) as asking,
            contextlib.suppress(ConnectionError),
        ):
            asking.sendall(b"GET /file_set/dir00000/class0_1 HTTP/1.0\r\n\r\n")
            replies.append(asking.recv(1 << 16))

    monkeypatch.setattr(WebWorkload, "handed_on", seen)
    Meddling(monkeypatch, ask)
    record, _sealed = made(on_hosts(tmp_path, f'{CLOSED}server = "{server}"\n', host))
    require_measured(record)
    assert record.metrics["failed_share"].value == 0
    if server == "nginx":
        assert replies[0].startswith(b"HTTP/1.1 403 ")
    else:
        assert b"".join(replies) == b""


def test_an_open_load_is_dealt_out_to_the_last_request(tmp_path: Path) -> None:
    more = 'load = "open"\nrate = 201\narrivals = "uniform"\nconnections = 60\nduration = "1s"\n'
    record, sealed = made(on_hosts(tmp_path, more, processes=3))
    require_measured(record)
    requests = whole_of(sealed)["requests"]
    assert requests["offered_per_s"] == 201
    assert abs(requests["planned"] - 201) <= 1
    planned = [one["requests"]["planned"] for one in reports_of(record, sealed)]
    assert sum(planned) == requests["planned"]
    assert max(planned) - min(planned) <= 1
    assert [one.planned_share for one in record.client_hosts] == [0.5, 0.5]


def test_all_hosts_search_together_and_no_post_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two connections are fewer than processes after the first step went wrong; all are once in
    the log, whichever step and host they are of."""
    monkeypatch.setattr(run_hosts, "MEET_S", MEET_S)
    more = f'connections = 4\nconnections_max = 8\nstep = "0.3s"\nduration = "0.5s"\n{FAST_LINES}'
    record, sealed = made(on_hosts(tmp_path, more))
    require_measured(record)
    handed = [
        json.loads(file.read_bytes())
        for one in record.client_hosts
        for file in sorted((sealed / one.folder / "parts").iterdir())
    ]
    assert [one["index"] for one in handed] == [0, 1, 2, 3]
    assert len({json.dumps(one["found"]) for one in handed}) == 1
    steps = pq.read_table(sealed / "samples" / "web_steps.parquet").to_pylist()
    assert [step["searched"] for step in steps] == [True] * (len(steps) - 1) + [False]
    for number, step in enumerate(steps):
        of = [
            json.loads(file.read_bytes())
            for one in record.client_hosts
            for file in (sealed / one.folder / "logs").glob(f"load-{number}-*-report.json")
        ]
        assert sum(one["connections"]["asked"] for one in of) == step["connections"]
        assert sum(one["connections"]["conforming"] for one in of) == step["conforming"]
        assert sum(one["requests"]["done"] for one in of) == step["done"]
        begins = {one["start_monotonic_ns"] for one in of}
        assert len(begins) == 1, "one kernel, one clock: one instant"
    writers = [writer["writer"] for one in handed for writer in one["posts"]]
    assert len(set(writers)) == len(writers)
    assert check(record, "posts").verdict == "ok"
    drawn = sum(writer["drawn"] for one in handed for writer in one["posts"])
    left = sum(len(writer["unacknowledged"]) for one in handed for writer in one["posts"])
    assert check(record, "posts").values["acknowledged"] == drawn - left > 0


@pytest.mark.long
def test_the_search_of_two_hosts_finds_the_limit_that_was_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """25 connections get 320,000 bit/s each of 1,020,000 bytes/s, 26 do not."""
    monkeypatch.setattr(run_hosts, "MEET_S", MEET_S)
    more = 'bandwidth = 1020000\nconnections = 20\nstep = "4s"\nduration = "4s"\n'
    path = on_hosts(tmp_path, more.replace("0.2s", "2s"))
    lines = [line for line in path.read_text().splitlines() if not line.startswith("mix")]
    path.write_text("\n".join(lines).replace('warm_up = "0.2s"', 'warm_up = "2s"') + "\n")
    record, sealed = made(path)
    require_measured(record)
    found = record.metrics["conforming_connections"].value
    steps = pq.read_table(sealed / "samples" / "web_steps.parquet").to_pylist()
    # A machine with other work bounds a search by the generator, which is said.
    if check(record, "conforming").values["limit"] != "generator":
        require_the_limit(found, 25, steps)


def test_the_load_lies_on_the_axis_of_the_prime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that host2's clock is 60 ms ahead, it begins so much later, and says that it did not."""
    clocks_told(monkeypatch, {"host2": 60_000_000})
    record, sealed = made(on_hosts(tmp_path, CLOSED, processes=1))
    require_measured(record)
    begins = [one["start_monotonic_ns"] for one in reports_of(record, sealed)]
    assert begins[1] - begins[0] == 60_000_000
    assert whole_of(sealed)["start_monotonic_ns"] == begins[0]


def begun_by(agent: int, module: str) -> list[int]:
    """Processes of that module of ours that an agent started."""
    found = []
    for one in all_statuses():
        if one.parent == agent and one.alive:
            with (
                contextlib.suppress(OSError),  # ended meanwhile
                open(f"/proc/{one.identity.pid}/cmdline", encoding="utf-8") as file,
            ):
                found += [one.identity.pid] if module in file.read() else []
    return found


def failed(path: Path) -> RunRecord:
    run(path)
    (record,) = records(only_folder(path))
    assert record.status == "failed"
    return record


def test_a_killed_generator_names_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(clients: RunHosts) -> None:
        os.kill(begun_by(pid_of(clients.hosts[1].agent), "web.generating")[1], signal.SIGKILL)

    meddling = Meddling(monkeypatch, kill)
    record = failed(on_hosts(tmp_path, ENDLESS))
    assert record.failure_phase == "measure"
    assert "client host host2: " in record.reason
    assert "(load-0-3) was ended by SIGKILL" in record.reason
    meddling.assert_none_is_left()
    assert left_running(tmp_path / "state") == []
    assert left_behind(tmp_path) == []


def test_a_server_that_dies_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[int] = []
    prepare = WebWorkload.prepare

    def prepared(self: WebWorkload, context: Any) -> None:
        prepare(self, context)
        servers.extend(context.services.web_server_pids)

    monkeypatch.setattr(WebWorkload, "prepare", prepared)
    monkeypatch.setattr(spread_run, "DEATH_WAIT_S", PATIENCE_S)
    Meddling(monkeypatch, lambda _: os.kill(servers[0], signal.SIGKILL))
    record = failed(on_hosts(tmp_path, ENDLESS))
    assert record.failure_phase == "measure"
    assert "the web server was ended by SIGKILL in the middle of the run" in record.reason
    assert left_running(tmp_path / "state") == []


@pytest.mark.parametrize(
    ("given", "hosts", "processes", "says"),
    [
        ({}, 4, 2, ""),
        ({}, 3, 3, "3 client hosts with 3 processes of 1 threads are 9, the load begins with 8"),
        ({"threads": 2}, 4, 1, ""),
        ({"threads": 2}, 4, 2, "4 client hosts with 2 processes of 2 threads are 16"),
        ({"connections": 100_000, "connections_max": 100_000}, 8, 200, "8 client hosts with 200"),
    ],
)
def test_what_cannot_be_is_refused(
    given: dict[str, Any], hosts: int, processes: int, says: str
) -> None:
    answer = WebWorkload(WebParameters(**({"data": "d", "connections": 8} | given)))
    usable = answer.check_hosts(hosts, processes)
    assert usable.ok == (not says)
    assert usable.reason.startswith(says)


class _Folder:
    """As much of a run as processes need to be named."""

    def __init__(self, share: Share | None) -> None:
        self.share = share


@pytest.mark.parametrize(
    ("share", "connections", "names"),
    [
        (None, 1, {0: (0, 1, 5)}),
        (Share(0, 2, 2), 9, {0: (0, 4, 20), 1: (1, 4, 21)}),
        (Share(1, 2, 2), 3, {2: (2, 3, 22)}),
        (Share(1, 2, 2), 2, {}),
    ],
)
def test_a_load_of_few_connections_is_made_by_the_first_processes(
    share: Share | None, connections: int, names: dict[int, tuple[int, int, int]]
) -> None:
    load = {"load": {"connections": connections}}
    made = Generators(_Folder(share), 5, load, 3, sums=False)  # type: ignore[arg-type]
    told = {
        index: (one["part"]["index"], one["part"]["of"], one["process"])
        for index, one in made._loads.items()
    }
    assert told == names
    assert all(one["threads"] <= connections // one["part"]["of"] for one in made._loads.values())


def test_hosts_sums_decide_a_step() -> None:
    def report(asked: int, conforming: int | None, *kinds: str) -> dict[str, Any]:
        return {
            "connections": {"asked": asked, "conforming": conforming, "connects": 9},
            "requests": {"done": 10, "failed": 1, "drawn": 12},
            "reasons": [{"kind": kind, "text": "..."} for kind in kinds],
        }

    one = together([report(4, 3), report(3, 3, "generator_cpu", "nothing_done")])
    assert together([one, together([report(2, 2, "generator_cpu")]), together([])]) == {
        "connections": {"asked": 9, "conforming": 8},
        "requests": {"done": 30, "failed": 3},
        "reasons": [{"kind": "generator_cpu"}, {"kind": "nothing_done"}],
    }


def test_what_a_host_hands_over_is_looked_at(tmp_path: Path) -> None:
    parts = [HostPart(f"host{n + 1}", Share(n, 2, 1), tmp_path / f"run{n}", None, 0)  # type: ignore[arg-type]
             for n in range(2)]  # fmt: skip
    for number, part in enumerate(parts):
        one = hosts.Handed(index=number, sums="{}", posts=[], found=Found())
        (part.folder / "parts").mkdir(parents=True)
        (part.folder / "parts" / f"{number}.json").write_text(one.model_dump_json())
    with pytest.raises(RunFailed, match="not one load"):
        hosts.merged(parts)
    other = hosts.Handed(index=1, sums="{}", posts=[], found=Found(most=3))
    (parts[1].folder / "parts" / "1.json").write_text(other.model_dump_json())
    with pytest.raises(RunFailed, match="host2 came to another end of the search than host1"):
        hosts.merged(parts)
    (parts[1].folder / "parts" / "1.json").write_text('{"index": 1}')
    with pytest.raises(RunFailed, match="process 2 measured on host2"):
        hosts.merged(parts)


class _Member:
    """A host as `RunHosts` sees it, which keeps what it is told."""

    def __init__(self, number: int) -> None:
        self.name = f"host{number}"
        self.told: list[dict[str, Any]] = []

    def tell(self, name: str, **content: Any) -> None:
        self.told.append({"do": name, **content})

    def clocks(self) -> Any:
        from nfslab.cluster.base import Clocks
        from nfslab.results.records import ClockRecord

        return Clocks(ClockRecord(), ClockRecord())


def some_hosts(count: int) -> tuple[RunHosts, list[_Member]]:
    found, members = RunHosts(lambda _: None, lambda: None), [_Member(n) for n in range(count)]
    found.hosts.extend(RunHost(member, member) for member in members)  # type: ignore[arg-type]
    return found, members


def test_where_hosts_meet_all_hear_what_each_says() -> None:
    found, members = some_hosts(3)
    for number, host in enumerate(found.hosts):
        assert not any(member.told for member in members)
        found._hear(host, {"event": "meet", "gate": "load 1", "said": {"done": number}})
        found._let_meet()
    for member in members:
        (told,) = member.told
        assert told["said"] == [{"done": 0}, {"done": 1}, {"done": 2}]
    with pytest.raises(RunFailed, match="client host host1: it tells the others too much"):
        found._hear(found.hosts[1], {"event": "meet", "gate": "x", "said": "y" * SAID_BYTES_MAX})


def test_a_host_that_is_armed_meets_nobody_before_the_load() -> None:
    found, _ = some_hosts(2)
    found.hosts[0].gate = "load 1"
    found._let_meet()  # the other one may still come
    found.hosts[1].said["armed"] = {}
    with pytest.raises(RunFailed, match="host0 waits for host1 at 'load 1' in vain"):
        found._let_meet()
    found.hosts[0].said["armed"] = {}
    found._let_meet()  # both are in the timed part


def test_only_the_hosts_of_the_run_are_let_in() -> None:
    assert let_in(Link()) == ()
    assert let_in(Link("10.9.0.1", "10.9.0.0/26", ("10.9.0.2", "10.9.0.7"))) == (
        "10.9.0.2",
        "10.9.0.7",
    )
