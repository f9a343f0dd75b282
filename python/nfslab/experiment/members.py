"""The machines that client hosts are, and how they reach servers of this one."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab.errors import RunFailed
from nfslab.experiment.guest_section import VM
from nfslab.experiment.sections import CLUSTER
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.addresses import address_towards
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.cluster.base import Cluster
    from nfslab.cluster.guests import GuestsHere
    from nfslab.cluster.namespaces import NamespacesHere
    from nfslab.experiment.guest_run import Kernels
    from nfslab.experiment.setup import Setup
    from nfslab.machine.resources import Resources


@dataclass(frozen=True, slots=True)
class Kind:
    """What client hosts may be."""

    said: str
    connect: Callable[[Setup, Resources, Kernels], tuple[Cluster, Link]]
    """They, and the way between them and servers of this machine; RunFailed, UsageError."""
    available: Callable[[Setup], Availability]
    is_here: bool = True
    """Their limits, files and programs are this machine's."""


def members_of(setup: Setup, resources: Resources, kernels: Kernels) -> tuple[Cluster, Link]:
    """The hosts that `[client]` asks for, and the way between them and this one; RunFailed."""
    return KINDS[setup.client.host].connect(setup, resources, kernels)


def _agents_here(setup: Setup, resources: Resources, _kernels: Kernels) -> tuple[Cluster, Link]:
    from nfslab.cluster.here import ClusterHere, MemberHere

    names = setup.client.host_names
    return ClusterHere([MemberHere(name, resources) for name in names]), Link()


def _namespaces(setup: Setup, resources: Resources, _kernels: Kernels) -> tuple[Cluster, Link]:
    from nfslab.cluster.namespaces import NamespacesHere

    return _up(NamespacesHere(setup.client.host_names, setup.client.wire), resources)


def _up(cluster: NamespacesHere | GuestsHere, resources: Resources) -> tuple[Cluster, Link]:
    """Brought up, or removed again."""
    try:
        cluster.up(resources)
    except BaseException:
        cluster.close()
        raise
    return cluster, cluster.link


def _namespaces_can_be(setup: Setup) -> Availability:
    from nfslab.cluster.namespaces import NamespacesHere

    return NamespacesHere.available(setup.client.wire)


def _guests(setup: Setup, resources: Resources, kernels: Kernels) -> tuple[Cluster, Link]:
    from nfslab.cluster.guests import GuestsHere, Made

    client = setup.client
    asked = client.asked_kernel
    assert asked is not None
    made = Made(asked[0], kernels[asked], client.size)
    return _up(GuestsHere(client.host_names, made), resources)


def _guests_can_be(setup: Setup) -> Availability:
    from nfslab.cluster.guests import require_guests
    from nfslab.vm import kernel as kernel_files

    client = setup.client
    require_guests(client.size)
    kernel_files.require(client.kernel or "", client.modules)
    return Availability(True)


def _machines(
    setup: Setup, _resources: Resources | None = None, _kernels: Kernels | None = None
) -> tuple[Cluster, Link]:
    from nfslab.cluster.settings import connect_some

    assert setup.cluster is not None
    cluster = connect_some(setup.cluster, setup.client.hosts or 0)
    try:
        return cluster, link_to([member.address for member in cluster.members])
    except BaseException:
        cluster.close()
        raise


def _machines_are_there(setup: Setup) -> Availability:
    """With the same nfslab; they are left again."""
    cluster, _ = _machines(setup)
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
    networks = [ipaddress.ip_network(address) for address in addresses]
    around = networks[0]
    while not all(one.subnet_of(around) for one in networks):  # type: ignore[arg-type]
        around = around.supernet()
    return Link(next(iter(ours)), addresses[0] if len(set(addresses)) == 1 else str(around))


def _towards(address: str) -> str:
    """Which of our addresses a host at that one sees; RunFailed where no way leads there."""
    try:
        return address_towards(address)
    except OSError as error:
        raise RunFailed(
            f"no way leads to {address}", why=str(error), fix="see `ip route`, and its name"
        ) from error
