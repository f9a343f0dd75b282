"""Several hosts on this machine: who sees whom at which address, and what is left of them."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

import pytest
from nfslab.cluster.base import Agent, Member
from nfslab.cluster.bridge import BridgedHere, NamespaceSeat
from nfslab.cluster.here import AgentHere
from nfslab.errors import RunFailed
from nfslab.hosts.namespace import NamespaceHost
from nfslab.machine.resources import Resources
from nfslab.machine.undo import LINK_TOKEN_DIGITS, NETWORK_NAMESPACES

from tests.cluster.test_here import Heard

usable = NamespaceHost.available()
needs_namespaces = pytest.mark.skipif(not usable.ok, reason=usable.reason)


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    return Resources("hosts", state=tmp_path)


def traces(resources: Resources) -> list[str]:
    """Namespaces and devices that carry the run's token."""
    there = [*NETWORK_NAMESPACES.glob("*"), *Path("/sys/class/net").iterdir()]
    return [one.name for one in there if resources.token[:LINK_TOKEN_DIGITS] in one.name]


def network_of(agent: Agent) -> int:
    assert isinstance(agent, AgentHere)
    return os.stat(f"/proc/{agent._child.process.pid}/ns/net").st_ino


@pytest.mark.system
@needs_namespaces
def test_each_has_an_address_and_a_network_of_its_own(resources: Resources) -> None:
    cluster = BridgedHere([NamespaceSeat(name) for name in "abc"])
    try:
        cluster.up(resources)
        members: list[Member] = list(cluster.members)
        assert [one.name for one in members] == ["a", "b", "c"]
        allowed = ipaddress.ip_network(cluster.link.client)
        addresses = {ipaddress.ip_address(one.address) for one in members}
        assert len(addresses) == 3
        assert all(one in allowed for one in addresses)
        with socket.create_server((cluster.link.server, 0)):
            pass  # ours, as they see us
        said = [Heard() for _ in members]
        agents = [
            one.begin("nfslab.experiment.in_part", heard.put)
            for one, heard in zip(members, said, strict=True)
        ]
        for heard in said:
            heard.next("ready")  # it has entered its network before it speaks
        ours = os.stat("/proc/self/ns/net").st_ino
        assert len({ours, *map(network_of, agents)}) == 4
        for agent in agents:
            agent.end()
        assert len(traces(resources)) == 1 + 2 * 3, "a bridge; of each a device and a namespace"
    finally:
        cluster.close()
    assert traces(resources) == []
    assert resources.close() == []


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch, resources: Resources) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RunFailed, match="root"):
        BridgedHere([NamespaceSeat("a")]).up(resources)
    assert resources.close() == []
