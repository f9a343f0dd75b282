"""Three workers, each in a network namespace with an address of its own: links, clocks, deaths."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab.cluster.base import Clocks
from nfslab.cluster.link import Link, members_at
from nfslab.cluster.loop import Loop
from nfslab.cluster.remote import AgentThere, ClusterThere, MemberThere
from nfslab.cluster.settings import ClusterSection, connect_some
from nfslab.errors import RunFailed
from nfslab.experiment.host_facts import room
from nfslab.hosts.base import Link as Addresses
from nfslab.hosts.namespace import NamespaceHost
from nfslab.results.records import ClockRecord

from tests.cluster.clusters import (
    DELAY_S,
    PART,
    QUIET_S,
    Cluster,
    SlowWire,
    Watched,
    children_of,
    device_of,
    patient,
    three_namespaces,
)
from tests.cluster.hearing import heard
from tests.stopping import stop

usable = NamespaceHost.available()
pytestmark = pytest.mark.skipif(not usable.ok, reason=usable.reason)
AHEAD_NS = 2_000_000_000
NAMES = ["one", "three", "two"]
Places = dict[str, tuple[list[str], Addresses]]


def has_time_namespaces() -> bool:
    tried = ["unshare", "--time", "--monotonic", "2", "--fork", "true"]
    return Path("/proc/self/ns/time").exists() and not subprocess.run(tried, check=False).returncode


@pytest.fixture
def places(state: Path) -> Iterator[Places]:
    with three_namespaces() as found:
        yield found


@pytest.fixture
def cluster(places: Places, tmp_path: Path) -> Iterator[Cluster]:
    """Its scheduler listens on all addresses: each namespace reaches it by another one."""
    made = Cluster(tmp_path, host="")
    yield made
    made.close()


def all_join(cluster: Cluster, places: Places) -> None:
    for name, (before, addresses) in places.items():
        cluster.worker(name, before=before, addresses=addresses)


def only_child(cluster: Cluster, name: str) -> Watched:
    (pid,) = children_of(cluster.workers[name].pid)
    return Watched(pid)


def begun(connected: ClusterThere) -> dict[str, AgentThere]:
    return {member.name: member.begin(PART) for member in connected.members}


def test_each_is_reached_at_its_address(cluster: Cluster, places: Places) -> None:
    all_join(cluster, places)
    with cluster.connected() as connected:
        found = {member.name: member.address for member in connected.members}
        assert found == {name: addresses.client for name, (_, addresses) in places.items()}
        agents = begun(connected)
        for name in NAMES:
            # It is in that namespace: its devices are those of the pair alone.
            pid = only_child(cluster, name).pid
            assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
            agents[name].tell("plan", plan={})
        assert [heard(agents[name], "error")["kind"] for name in NAMES] == ["config"] * 3


def test_a_dropped_link_a_frozen_and_a_killed_worker(
    cluster: Cluster, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient(monkeypatch, QUIET_S)
    cluster.silence_s = QUIET_S
    all_join(cluster, places)
    with cluster.connected() as connected:
        agents = begun(connected)
        alone = only_child(cluster, "one")
        # An agent whose own input would tell it nothing.
        stop(alone.pid)
        device = device_of(places["one"][1].server)
        subprocess.run(["ip", "link", "set", device, "down"], check=True)
        why = heard(agents["one"], "lost")["why"]
        assert why.startswith(f"one gave no sign of life for {QUIET_S:g} s")
        assert "the network between is gone" in why
        # The worker lost its prime, too.
        assert alone.ends()
        # Others go on, also when the scheduler has missed it.
        other = agents["two"].member.begin(PART)
        other.tell("plan", plan={})
        assert heard(other, "error")["kind"] == "config"
        stop(cluster.workers["two"].pid)
        assert heard(agents["two"], "lost")["why"].startswith("two gave no sign of life")
        orphan = only_child(cluster, "three")
        cluster.workers["three"].kill()
        assert "three ended its connection" in heard(agents["three"], "lost")["why"]
        assert orphan.ends()


def test_when_one_dies_the_scheduler_keeps_the_others(cluster: Cluster, places: Places) -> None:
    all_join(cluster, places)
    cluster.workers["one"].kill()
    cluster.workers["one"].wait()
    loop = Loop()
    # It misses it when the connection ends, which it does with the process.
    while len(members := cluster.joined(loop)) > 2:
        pass
    assert [member.name for member in members] == ["three", "two"]
    for member in members:
        member.connect()
        assert cluster.workers[member.name].poll() is None
    # A name that is free again can be joined again.
    before, addresses = places["one"]
    assert cluster.worker("one", before=before, addresses=addresses)["event"] == "up"
    ClusterThere(members, loop).close()


def test_one_behind_a_link_that_is_cut_is_no_harm_where_it_is_not_needed(
    cluster: Cluster, places: Places
) -> None:
    """Its scheduler still lists it: its connection does not end."""
    all_join(cluster, places)
    device = device_of(places["two"][1].server)
    subprocess.run(["ip", "link", "set", device, "down"], check=True)
    section = ClusterSection(scheduler=cluster.address, certificates=str(cluster.folder))
    found = connect_some(section, ["three", "one"])
    found.close()
    assert [member.name for member in found.members] == ["three", "one"]


def test_a_host_has_room_for_as_many_connections_as_it_has_ports(
    cluster: Cluster, places: Places
) -> None:
    before, addresses = places["one"]
    ports = "echo 40000 40009 > /proc/sys/net/ipv4/ip_local_port_range"
    few = ["sh", "-c", f'{ports}; exec "$@"', "-"]
    cluster.worker("one", before=[*before, *few], addresses=addresses)
    with cluster.connected() as connected:
        facts = connected.members[0].facts()
    assert facts["ports"] == 10
    room("one", facts, 5, 10)
    with pytest.raises(RunFailed, match="5 processes are more than the ports of host one") as said:
        room("one", facts, 5, 11)
    assert "11 connections" in said.value.why
    assert "ip_local_port_range" in said.value.fix


def within(record: ClockRecord, truth_ns: int) -> bool:
    return abs(record.offset_ns - truth_ns) <= record.error_ns


def clocks_of(cluster: Cluster) -> Clocks:
    with cluster.connected() as connected:
        (member,) = connected.members
        return member.clocks()


def test_one_machine_has_one_clock(cluster: Cluster, places: Places) -> None:
    before, addresses = places["one"]
    cluster.worker("one", before=before, addresses=addresses)
    found = clocks_of(cluster)
    assert within(found.monotonic, 0)
    assert within(found.realtime, 0)
    assert 0 < found.monotonic.error_ns < 1_000_000_000


@pytest.mark.skipif(usable.ok and not has_time_namespaces(), reason="no time namespaces here")
def test_a_monotonic_clock_two_seconds_ahead(cluster: Cluster, places: Places) -> None:
    before, addresses = places["one"]
    shifted = ["unshare", "--time", "--monotonic", "2", "--fork", "--kill-child"]
    cluster.worker("one", before=[*before, *shifted], addresses=addresses)
    found = clocks_of(cluster)
    assert within(found.monotonic, AHEAD_NS)
    assert within(found.realtime, 0)


def test_a_wall_clock_two_seconds_ahead(cluster: Cluster, places: Places) -> None:
    before, addresses = places["two"]
    cluster.worker(
        "two", before=before, addresses=addresses, env={"ODD_WALL_NS": str(AHEAD_NS)}
    )  # fmt: skip
    found = clocks_of(cluster)
    assert within(found.realtime, AHEAD_NS)
    assert within(found.monotonic, 0)


@pytest.mark.parametrize("delayed", ["there", "back"])
def test_a_delay_on_one_way_is_within_the_error(
    cluster: Cluster, places: Places, delayed: str
) -> None:
    """The worst case for the middle of a round trip: all of the delay is on one way."""
    before, addresses = places["one"]
    cluster.worker("one", before=before, addresses=addresses)
    loop = Loop()
    ((name, where),) = loop.call(members_at(cluster.address, cluster.papers()))
    slow = SlowWire(where, delayed)
    member = MemberThere(Link(name, slow.address, cluster.papers(), loop), loop)
    member.connect()
    found = member.clocks()
    ClusterThere([member], loop, slow.close).close()
    assert within(found.monotonic, 0)
    assert within(found.realtime, 0)
    # It was there, and half of it is the error, as it cannot be less.
    assert found.monotonic.error_ns >= 1e9 * DELAY_S / 2
    assert abs(found.monotonic.offset_ns) >= 1e9 * DELAY_S / 4


def test_a_clock_that_drifts_is_seen_to(cluster: Cluster, places: Places) -> None:
    """It gains a tenth: what two comparisons differ by is a tenth of the time between them."""
    before, addresses = places["three"]
    cluster.worker(
        "three", before=before, addresses=addresses, env={"ODD_DRIFT_PPM": "100000"}
    )  # fmt: skip
    loop = Loop()
    (member,) = cluster.joined(loop)
    member.connect()
    first_ns = time.monotonic_ns()
    first = member.clocks().realtime
    second_ns = time.monotonic_ns()
    began_ns = second_ns
    while began_ns - second_ns < 500_000_000:
        began_ns = time.monotonic_ns()
        second = member.clocks().realtime
    third_ns = time.monotonic_ns()
    ClusterThere([member], loop).close()
    gained_ns = second.offset_ns - first.offset_ns
    slack_ns = first.error_ns + second.error_ns
    # The second reading began half a second after the first ended, or later.
    assert gained_ns >= 0.1 * (began_ns - second_ns) - slack_ns
    assert gained_ns <= 0.1 * (third_ns - first_ns) + slack_ns
