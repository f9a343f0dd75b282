"""The machines that client hosts and the server's host are, and how they reach each other."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from nfslab.errors import RunFailed
from nfslab.experiment.guest_section import VM
from nfslab.experiment.sections import CLUSTER
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.addresses import address_towards
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.cluster.base import Cluster, Member
    from nfslab.cluster.guests import GuestsHere
    from nfslab.cluster.namespaces import NamespacesHere
    from nfslab.cluster.settings import ClusterSection
    from nfslab.experiment.guest_run import Kernels
    from nfslab.experiment.sections import Client, Server
    from nfslab.machine.resources import Resources


class Asked(Protocol):
    """Sections of an experiment file, or the like of them."""

    @property
    def client(self) -> Client:
        """Which client hosts."""

    @property
    def server(self) -> Server:
        """Which server's host."""

    @property
    def cluster(self) -> ClusterSection | None:
        """Their machines."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What client hosts may be."""

    said: str
    connect: Callable[[Asked, Resources, Kernels], tuple[Cluster, Link]]
    """They, then the server's host where that is another one, and the way between them and this
    machine; RunFailed, UsageError."""
    available: Callable[[Asked], Availability]
    is_here: bool = True
    """Their limits, files and programs are this machine's."""


@dataclass(frozen=True, slots=True)
class Members:
    """The hosts of a run; to close the cluster ends them."""

    cluster: Cluster
    clients: Sequence[Member]
    server: Member | None
    """None: this machine."""
    link: Link
    """Of the servers: their address, and all clients'."""


def members_of(asked: Asked, resources: Resources, kernels: Kernels | None = None) -> Members:
    """The hosts that `[client]` and `[server]` ask for, and the way between them; RunFailed.

    `kernels`: those of guests, where there are some."""
    cluster, link = KINDS[asked.client.host].connect(asked, resources, kernels or {})
    members = list(cluster.members)
    if not asked.server.is_elsewhere:
        return Members(cluster, members, None, link)
    *clients, server = members
    around = network_of([member.address for member in clients])
    return Members(cluster, clients, server, Link(server.address, around))


def _servers(asked: Asked) -> list[str]:
    """The server's host, where it is none of ours."""
    return [asked.server.host_name] if asked.server.is_elsewhere else []


def _agents_here(asked: Asked, resources: Resources, _kernels: Kernels) -> tuple[Cluster, Link]:
    from nfslab.cluster.here import ClusterHere, MemberHere

    names = asked.client.host_names
    return ClusterHere([MemberHere(name, resources) for name in names]), Link()


def _namespaces(asked: Asked, resources: Resources, _kernels: Kernels) -> tuple[Cluster, Link]:
    from nfslab.cluster.namespaces import NamespacesHere

    servers = _servers(asked)
    names, wire = [*asked.client.host_names, *servers], asked.client.wire
    return _up(NamespacesHere(names, wire, plain=servers), resources)


def _up(cluster: NamespacesHere | GuestsHere, resources: Resources) -> tuple[Cluster, Link]:
    """Brought up, or removed again."""
    try:
        cluster.up(resources)
    except BaseException:
        cluster.close()
        raise
    return cluster, cluster.link


def _namespaces_can_be(asked: Asked) -> Availability:
    from nfslab.cluster.namespaces import NamespacesHere

    return NamespacesHere.available(asked.client.wire)


def _guests(asked: Asked, resources: Resources, kernels: Kernels) -> tuple[Cluster, Link]:
    from nfslab.cluster.guests import GuestsHere, Made

    client = asked.client
    kernel = client.asked_kernel
    assert kernel is not None
    made = Made(kernel[0], kernels[kernel], client.size)
    return _up(GuestsHere(client.host_names, made), resources)


def _guests_can_be(asked: Asked) -> Availability:
    from nfslab.cluster.guests import require_guests
    from nfslab.vm import kernel as kernel_files

    client = asked.client
    require_guests(client.size)
    kernel_files.require(client.kernel or "", client.modules)
    return Availability(True)


def _machines(
    asked: Asked, _resources: Resources | None = None, _kernels: Kernels | None = None
) -> tuple[Cluster, Link]:
    from nfslab.cluster.settings import connect_some

    assert asked.cluster is not None
    cluster = connect_some(asked.cluster, asked.client.hosts or 0, _servers(asked))
    try:
        return cluster, link_to([member.address for member in cluster.members])
    except BaseException:
        cluster.close()
        raise


def _machines_are_there(asked: Asked) -> Availability:
    """With the same nfslab; they are left again."""
    cluster, _ = _machines(asked)
    cluster.close()
    return Availability(True)


KINDS: Final[dict[str, Kind]] = {
    LocalHost.kind: Kind("agents on this machine", _agents_here, lambda _: Availability(True)),
    "namespace": Kind("network namespaces on this machine", _namespaces, _namespaces_can_be),
    VM: Kind("virtual machines on this one", _guests, _guests_can_be, is_here=False),
    CLUSTER: Kind("machines of [cluster]", _machines, _machines_are_there, is_here=False),
}
"""By `client.host`."""


def link_to(addresses: list[str]) -> Link:
    """To hosts with these addresses: ours as all of them see it, and a network that has theirs."""
    ours = {_towards(address): address for address in addresses}
    if len(ours) > 1:
        raise RunFailed(
            "the client hosts do not see this machine under one address",
            why=", ".join(f"{there} as {here}" for here, there in ours.items()),
            fix="use hosts of one network: a server listens on one address",
        )
    return Link(next(iter(ours)), network_of(addresses))


def network_of(addresses: Sequence[str]) -> str:
    """The smallest network that has them all; of one address that address."""
    networks = [ipaddress.ip_network(address) for address in addresses]
    around = networks[0]
    while not all(one.subnet_of(around) for one in networks):  # type: ignore[arg-type]
        around = around.supernet()
    return addresses[0] if len(set(addresses)) == 1 else str(around)


def _towards(address: str) -> str:
    """Which of our addresses a host at that one sees; RunFailed where no way leads there."""
    try:
        return address_towards(address)
    except OSError as error:
        raise RunFailed(
            f"no way leads to {address}", why=str(error), fix="see `ip route`, and its name"
        ) from error
