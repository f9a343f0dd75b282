"""What hosts of a run may be, how a load is dealt out to them, and what they say of themselves."""

from __future__ import annotations

import contextlib
import queue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab import clock
from nfslab.cluster import identity
from nfslab.cluster.base import Clocks, Patience
from nfslab.context import HostPart, Share
from nfslab.databases.postgres.server import _write_access
from nfslab.errors import RunFailed, UsageError
from nfslab.evidence.clocks import on_clock_of
from nfslab.experiment.dry_run import dry_run, dry_run_lines
from nfslab.experiment.host_checks import start_skew
from nfslab.experiment.members import network_of
from nfslab.experiment.preflight import Obstacle, preflight
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.run_hosts import SAID_BYTES_MAX, RunHost, RunHosts, told_by_agent
from nfslab.experiment.session import Options
from nfslab.hosts.base import Link
from nfslab.results.records import ClockRecord, HostRecord, RunHostRecord
from nfslab.results.taken_tables import take_table
from nfslab.results.upgrade import stamp_table
from nfslab.workloads.command import CommandWorkload
from nfslab.workloads.files import FilesParameters, FilesWorkload
from nfslab.workloads.pgbench.hosts import part_of
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.tpcc.parameters import TpccParameters
from nfslab.workloads.tpcc.postgres.workload import TpccOnPostgres
from nfslab.workloads.web import hosts
from nfslab.workloads.web.generators import Generators
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.search import Found, together
from nfslab.workloads.web.servers.base import let_in
from nfslab.workloads.web.workload import WebWorkload

from tests.cli.invocation import nfslab
from tests.experiment.multi_host_support import written
from tests.simulated_clock import SimulatedClock

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
BLOCK = 4096
SIZE = 1 << 20
CLIENT = '[client]\nhost = "local"\nhosts = ["load1", "load2"]\nprocesses = 2\n'
SERVER = '[server]\nhost = "namespace"\nname = "filer"\n[workload]\nkind = "sfs"'


def told(name: str, skew_ns: int | None, error_ns: int = 0) -> RunHostRecord:
    return RunHostRecord(name=name, skew_ns=skew_ns, clock=ClockRecord(error_ns=error_ns))


@pytest.mark.parametrize(
    ("hosts", "verdict", "says"),
    [
        ([told("a", 1_000_000), told("b", 9_900_000)], "ok", "b began 9.90 ms behind"),
        ([told("a", 10_000_001), told("b", 0)], "violation", "a began 10.00 ms behind"),
        ([told("a", 0), told("b", 9_000_000, 1_500_000)], "violation", "compared to 1.50 ms"),
        ([told("a", -16_000_000)], "violation", "a began 16.00 ms before"),
        ([told("a", 0), told("b", None)], "violation", "b: nobody knows when"),
    ],
)
def test_skew_counts_with_the_error_of_the_clocks(
    hosts: list[RunHostRecord], verdict: str, says: str
) -> None:
    found = start_skew(hosts, 1_000_000_000)
    assert found.verdict == verdict
    assert says in found.message


def test_skew_is_judged_by_the_share_of_the_timed_part() -> None:
    late = [told("a", 13_000_000), told("b", 0)]
    assert start_skew(late, 10_000_000_000).verdict == "ok", "0.13 % of ten seconds"
    assert start_skew(late, 1_000_000_000).verdict == "violation"
    assert start_skew(late, 0).verdict == "unknown"


class _Member:
    """A host as `RunHosts` sees it, which keeps what it is told."""

    def __init__(self, number: int) -> None:
        self.name = f"host{number}"
        self.told: list[dict[str, Any]] = []

    def tell(self, name: str, **content: Any) -> None:
        self.told.append({"do": name, **content})

    def clocks(self) -> Any:
        from nfslab.results.records import ClockRecord

        return Clocks(ClockRecord(), ClockRecord())


def some_hosts(count: int) -> tuple[RunHosts, list[_Member]]:
    found, members = RunHosts(lambda _: None, lambda: None), [_Member(n) for n in range(count)]
    for member in members:
        found.hosts.append(host := RunHost(member))  # type: ignore[arg-type]
        host.agent = member  # type: ignore[assignment]
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


def test_a_host_that_waits_in_vain_is_told_of() -> None:
    class Silent:
        name = "host"

    hosts = RunHosts(lambda _: None, lambda: None)
    for number, gate in enumerate(["rewrite: start", "seeks: start"]):
        member = Silent()
        member.name = f"host{number}"
        hosts.hosts.append(RunHost(member, gate=gate))  # type: ignore[arg-type]
    with pytest.raises(RunFailed, match="host0 waits for host1 at 'rewrite: start' in vain"):
        hosts._let_meet()
    hosts.hosts[1].gate = None
    hosts._let_meet()  # it may still come
    hosts.hosts[1].said["measured"] = {}
    with pytest.raises(RunFailed, match="that one is at 'its end'"):
        hosts._let_meet()


def test_a_host_that_says_nothing_of_its_server_is_named() -> None:
    class Silent:
        name = "filer"

    host = RunHost(Silent(), serves=True)  # type: ignore[arg-type]
    for said in ({}, {"serves": {"endpoint": None}}, {"serves": {"endpoint": ["127.0.0.1"]}}):
        host.said = said
        with pytest.raises(RunFailed, match="server host filer did not say"):
            told_by_agent(host, "serves", "endpoint", dict)
    host.said = {"serves": {"endpoint": {"port": 1}}}
    assert told_by_agent(host, "serves", "endpoint", dict) == {"port": 1}


@pytest.mark.parametrize(
    ("scripts", "has_our_files", "is_possible"),
    [([], True, True), ([], False, True), (["own.sql"], True, True), (["own.sql"], False, False)],
)
def test_own_scripts_have_to_be_there(
    scripts: list[str], has_our_files: bool, is_possible: bool
) -> None:
    given = PgbenchParameters(data="d", clients=3, duration=1, socket="tcp", scripts=scripts)
    answer = PgbenchWorkload(given).check_server(has_our_files=has_our_files)
    assert answer.ok == is_possible
    assert is_possible or "own scripts" in answer.reason


def test_others_have_their_server_here() -> None:
    """Whoever has a server of its own says itself that it may be on another host."""
    answer = CommandWorkload.check_server(CommandWorkload, has_our_files=True)  # type: ignore[arg-type]
    assert not answer.ok
    assert "brings up a server of its own" in answer.reason


@pytest.mark.parametrize(
    ("parameters", "hosts", "ok"),
    [
        ({}, 64, True),
        ({}, 65, False),
        ({"threads": 2}, 32, True),
        ({"threads": 2}, 33, False),
        ({"threads": 2, "seek_threads": 3}, 16, True),
        ({"threads": 2, "seek_threads": 3}, 17, False),
        ({"files": 257}, 2, False),
    ],
)
def test_blocks_have_to_suffice(parameters: dict[str, Any], hosts: int, ok: bool) -> None:
    """256 blocks, four processes on each host."""
    given = {"data": "d", "file_size": SIZE, "block": BLOCK} | parameters
    answer = FilesWorkload(FilesParameters(**given)).check_hosts(hosts, 4)
    assert answer.ok == ok
    assert ok or "larger workload.file_size" in answer.fix


def test_clients_and_rate_are_dealt_out() -> None:
    whole = PgbenchParameters(data="d", clients=8, threads=3, duration=5, rate=100.0, socket="tcp")
    parts = [part_of(whole, Share(host, 3, 1)) for host in range(3)]
    assert [part.clients for part in parts] == [3, 3, 2]
    assert [part.rate for part in parts] == [37.5, 37.5, 25.0]
    assert [part.effective_threads for part in parts] == [3, 3, 2]
    assert part_of(whole, Share(0, 1, 1)).rate == 100


@pytest.mark.parametrize(
    ("changes", "hosts", "processes", "says"),
    [
        ({}, 3, 1, ""),
        ({}, 4, 1, "3 clients are too few for 4 client hosts"),
        ({}, 2, 2, "pgbench runs once on each client host"),
        ({"socket": "unix"}, 2, 1, "client hosts reach the server over a network"),
    ],
)
def test_pgbench_says_what_cannot_be(
    changes: dict[str, Any], hosts: int, processes: int, says: str
) -> None:
    given = {"data": "d", "clients": 3, "duration": 1, "socket": "tcp"} | changes
    answer = PgbenchWorkload(PgbenchParameters(**given)).check_hosts(hosts, processes)
    assert (answer.ok, answer.reason) == (not says, answer.reason)
    assert answer.reason.startswith(says)


def test_tpcc_is_still_one_hosts() -> None:
    work = TpccOnPostgres(TpccParameters(data="d", duration=1))
    assert not work.check_hosts(2, 1).ok


def test_only_the_hosts_of_the_run_may_connect(tmp_path: Path) -> None:
    link = Link("10.9.0.1", "10.9.0.0/26", ("10.9.0.2", "10.9.0.7"))
    lines = _write_access(tmp_path, None, link).read_text().splitlines()
    assert lines == [
        "local all all trust",
        *(f"host all all {one}/32 scram-sha-256" for one in ("10.9.0.2", "10.9.0.7", "10.9.0.1")),
    ]


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
def test_web_says_what_cannot_be(
    given: dict[str, Any], hosts: int, processes: int, says: str
) -> None:
    answer = WebWorkload(WebParameters(**({"data": "d", "connections": 8} | given)))
    usable = answer.check_hosts(hosts, processes)
    assert usable.ok == (not says)
    assert usable.reason.startswith(says)


class _Folder:
    """As much of a run as processes need to be named."""

    def __init__(self, share: Share) -> None:
        self.share = share


@pytest.mark.parametrize(
    ("share", "connections", "names"),
    [
        (Share(0, 1, 1), 1, {0: (0, 1, 5)}),
        (Share(0, 2, 2), 9, {0: (0, 4, 20), 1: (1, 4, 21)}),
        (Share(1, 2, 2), 3, {2: (2, 3, 22)}),
        (Share(1, 2, 2), 2, {}),
    ],
)
def test_a_load_of_few_connections_is_made_by_the_first_processes(
    share: Share, connections: int, names: dict[int, tuple[int, int, int]]
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
            "requests": {
                "done": 10,
                "failed": 1,
                "unfinished": 2,
                "verified_replies": 5,
                "drawn": 19,
            },
            "errors": {"wrong_bytes": 1, "reset": 2},
            "reasons": [{"kind": kind, "text": "..."} for kind in kinds],
        }

    one = together([report(4, 3), report(3, 3, "generator_cpu", "nothing_done")])
    assert together([one, together([report(2, 2, "generator_cpu")]), together([])]) == {
        "connections": {"asked": 9, "conforming": 8},
        "requests": {"done": 30, "failed": 3, "unfinished": 6, "verified_replies": 15},
        "errors": {"wrong_bytes": 3},
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


def test_only_the_hosts_of_the_run_get_documents() -> None:
    assert let_in(Link()) == ()
    assert let_in(Link("10.9.0.1", "10.9.0.0/26", ("10.9.0.2", "10.9.0.7"))) == (
        "10.9.0.2",
        "10.9.0.7",
    )


def test_a_server_that_runs_already_is_on_no_host_of_the_run() -> None:
    workload = WebWorkload(
        WebParameters(data="disk", server="http://192.0.2.1:80", load="closed", connections=8)
    )
    answer = workload.check_server(has_our_files=True)
    assert not answer.ok
    assert "runs already" in answer.reason


def apart(tmp_path: Path, *changes: tuple[str, str], hosts: object = 2) -> Path:
    """The file of runs on several hosts, its server on a host of its own."""
    served = ('[workload]\nkind = "sfs"', SERVER)
    return written(tmp_path, served, *changes, host="namespace", hosts=hosts, processes=1)


def test_a_taken_table_is_on_the_clock_of_the_runs_client(tmp_path: Path) -> None:
    """A sample 5 s after a start that the client's clock calls 100 s, and the server's 172 s."""
    there, home = tmp_path / "there.parquet", tmp_path / "home.parquet"
    client = HostRecord(name="load1", clock=ClockRecord(offset_ns=40, error_ns=2))
    server = HostRecord(name="filer", clock=ClockRecord(offset_ns=112, error_ns=3))
    table = pa.table({"t_ns": pa.array([5, -1, 7], pa.int64()), "at_ns": [177, 171, 179]})
    pq.write_table(stamp_table(table), there, row_group_size=2)
    take_table(there, home, server, server.clock.offset_ns - client.clock.offset_ns)
    assert not there.exists()
    taken = pq.read_table(home)
    assert taken["host"].to_pylist() == ["filer"] * 3
    assert pq.ParquetFile(home).num_row_groups == 2, "in pieces"
    seen, error_ns = on_clock_of(client, taken, ("t_ns", "at_ns"))
    assert seen["t_ns"].to_pylist() == [5, -1, 7]
    assert seen["at_ns"].to_pylist() == [105, 99, 107]
    assert error_ns == 5


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('host = "local"\nname = "filer"', "which has a name"),
        ('host = "cluster"', "say which machine of the cluster"),
        ('host = "somewhere"', "is no host"),
        ('host = "namespace"\nname = "host2"', "'host2' is a client host, too"),
        ('host = "cluster"\nname = "load1"', "of a kind that cannot reach it"),
        ('host = "namespace"\nname = "a b"', "cannot name a host"),
    ],
)
def test_a_servers_host_that_cannot_be_is_refused_at_once(
    section: str, words: str, tmp_path: Path
) -> None:
    path = apart(tmp_path, ('host = "namespace"\nname = "filer"', section))
    with pytest.raises(UsageError, match=words):
        read_experiment(path)


def test_a_server_elsewhere_needs_client_hosts(tmp_path: Path) -> None:
    path = apart(tmp_path, ("hosts = 2\nprocesses = 1\n", ""))
    with pytest.raises(UsageError, match="there are none"):
        read_experiment(path)


def file(tmp_path: Path, section: str, hosts: str = '["load1", "load2"]') -> Path:
    client = f"[cluster]\n{section}\n[client]\nhosts = {hosts}\nprocesses = 2\n"
    return written(tmp_path, (CLIENT, client), hosts='["load1", "load2"]')


def test_more_connections_than_ports_are_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = tmp_path / "ip_local_port_range"
    ports.write_text("40000 40001\n")
    monkeypatch.setattr(identity, "PORTS", ports)

    def obstacles(processes: int) -> list[Obstacle]:
        path = written(tmp_path, host="local", processes=processes)
        return [found for found, _ in preflight(read_experiment(path).points).obstacles()]

    assert obstacles(2) == []
    (found,) = obstacles(3)
    assert "3 processes are more than the ports of host host1 allow" in found.reason
    assert "they need 3 connections, it has 2 ports" in found.reason
    assert "ip_local_port_range" in found.fix


def test_the_number_of_client_hosts_is_an_axis(tmp_path: Path) -> None:
    path = written(tmp_path, host="local", hosts=3)
    axis = '[[axes]]\nparameter = "client.hosts"\nvalues = [1, 2]\n'
    path.write_text(path.read_text() + axis)
    experiment = read_experiment(path)
    points = experiment.points
    assert {one.settings["client.hosts"]: one.setup.client.host_names for one in points} == {
        1: ["host1"], 2: ["host1", "host2"],
    }  # fmt: skip
    assert len({one.point_id for one in points}) == 2
    plan = dry_run(experiment, Options(file=path, results=tmp_path / "results"))
    assert sorted(run.point.setup.client.hosts for run in plan.planned) == [1, 2]
    lines = "\n".join(dry_run_lines(plan))
    assert "client hosts: 1 (host1)" in lines
    assert "client hosts: 2 (host1, host2)" in lines


@pytest.mark.parametrize(
    ("section", "hosts", "words"),
    [
        ('hosts = ["localhost"]', '["localhost"]', "'localhost' is this machine, where"),
        ('hosts = ["a@localhost"]', '["a@localhost"]', "'a@localhost' is this machine, where"),
        ('hosts = ["127.0.0.1"]', '["127.0.0.1"]', "'127.0.0.1' is this machine, where"),
        ('hosts = ["a@127.9.0.1"]', '["a@127.9.0.1"]', "'a@127.9.0.1' is this machine, where"),
        ('hosts = ["load1"]', '["load2"]', "'load2' is no host of the cluster"),
        ('hosts = ["load1"]', "2", "2 hosts are asked for, the cluster has 1"),
        ("hosts = []", "1", "no host"),
        ('hosts = ["load1", "load1"]', "1", "load1"),
        ("", "1", "either hosts"),
        ('hosts = ["load1", "a"]\n[server]\nname = "a"', "2", "has 1 beside that of the server"),
        ('hosts = ["load1", "a"]\n[server]\nname = "b"', "1", "'b' is no host of the cluster"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    section: str, hosts: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        read_experiment(file(tmp_path, section, hosts))
    assert "there is no section" not in str(raised.value), "one fault is told once"


def test_client_hosts_of_a_cluster_need_one(tmp_path: Path) -> None:
    path = written(tmp_path, host="cluster", hosts='["load1"]')
    with pytest.raises(UsageError, match=r"there is no section \[cluster\]"):
        read_experiment(path)


@pytest.mark.parametrize(
    ("addresses", "network"),
    [
        (["127.0.0.1"], "127.0.0.1"),
        (["127.0.0.1", "127.0.0.1"], "127.0.0.1"),
        (["127.0.0.2", "127.0.0.3"], "127.0.0.2/31"),
        (["127.0.0.2", "127.0.0.4", "127.0.0.9"], "127.0.0.0/28"),
    ],
)
def test_a_server_lets_in_the_smallest_network_that_has_them_all(
    addresses: list[str], network: str
) -> None:
    assert network_of(addresses) == network


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--namespaces",), "--namespaces says what hosts are"),
        (("--cluster", "tls://x:1"), "--cluster says what hosts are"),
        (("--hosts", "2", "--namespaces", "--cluster", "tls://x:1"), "exclude each other"),
        (("--hosts", "2", "--prepare-only"), "of this process"),
    ],
)
def test_sfs_refuses_what_cannot_be(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "sfs", "memory", "--load", "100", *arguments)
    assert said.code == UsageError.exit_code
    assert says in said.err


@pytest.mark.parametrize(
    ("slices_s", "is_lost"),
    [([3.0], False), ([0.1] * 15 + [3.0], False), ([0.1] * 21, True)],
)
def test_time_in_which_we_stood_still_is_nobodys_silence(
    slices_s: list[float], is_lost: bool
) -> None:
    """As where the machine was taken away: what hosts said meanwhile is not in the queue yet."""

    class Standing(SimulatedClock):
        def get(self, source: Any, seconds: float) -> Any:
            if not slices_s:
                return host, {"event": "measured"}
            self.advance(slices_s.pop(0))
            raise queue.Empty

    with clock.replaced(Standing()):
        member = SimpleNamespace(name="host1", patience=Patience(load_s=2.0))
        hosts = RunHosts(lambda _: None, lambda: None)
        host = RunHost(member)  # type: ignore[arg-type]
        hosts.hosts.append(host)
        with pytest.raises(RunFailed, match="was lost") if is_lost else contextlib.nullcontext():
            hosts.await_all("measured", "load_s")
