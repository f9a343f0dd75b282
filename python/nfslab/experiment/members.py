"""The machines that client hosts are, and how they reach servers of this one."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from nfslab.errors import RunFailed
from nfslab.experiment.sections import CLUSTER
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost

if TYPE_CHECKING:
    from nfslab.cluster.base import Cluster
    from nfslab.experiment.setup import Setup
    from nfslab.machine.resources import Resources


def members_of(setup: Setup, resources: Resources) -> tuple[Cluster, Link]:
    """The hosts that `[client]` asks for, and the way between them and this one; RunFailed."""
    from nfslab.cluster.here import ClusterHere, MemberHere
    from nfslab.cluster.namespaces import NamespacesHere

    client = setup.client
    if client.host == LocalHost.kind:
        return ClusterHere([MemberHere(name) for name in client.host_names]), Link()
    if client.host == CLUSTER:
        return _of_cluster(setup)
    cluster = NamespacesHere(client.host_names, client.wire)
    try:
        cluster.up(resources)
    except BaseException:
        cluster.close()
        raise
    return cluster, cluster.link


def _of_cluster(setup: Setup) -> tuple[Cluster, Link]:
    from nfslab.cluster.settings import connect_some

    assert setup.cluster is not None
    cluster = connect_some(setup.cluster, setup.client.hosts or 0)
    try:
        return cluster, link_to([member.address for member in cluster.members])
    except BaseException:
        cluster.close()
        raise


def link_to(addresses: list[str]) -> Link:
    """To hosts with these addresses: ours as all of them see it, and a network that has theirs."""
    ours = {_towards(address): address for address in addresses}
    if len(ours) > 1:
        raise RunFailed(
            "the client hosts do not see this machine under one address",
            why=", ".join(f"{there} as {here}" for here, there in ours.items()),
            fix="use hosts of one network: a server listens on one address",
        )
    networks = [ipaddress.ip_network(address) for address in addresses]
    around = networks[0]
    while not all(one.subnet_of(around) for one in networks):  # type: ignore[arg-type]
        around = around.supernet()
    return Link(next(iter(ours)), addresses[0] if len(set(addresses)) == 1 else str(around))


def _towards(address: str) -> str:
    """Which of our addresses a host at that one sees; RunFailed where no way leads there."""
    try:
        family, kind, protocol, _, there = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as one:
            one.connect(there)
            return str(one.getsockname()[0])
    except OSError as error:
        raise RunFailed(
            f"no way leads to {address}", why=str(error), fix="see `ip route`, and its name"
        ) from error
