"""The machines that client hosts and the server's host are, and how they reach each other."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.errors import RunFailed, UsageError
from nfslab.experiment.failure import CannotGoOn
from nfslab.experiment.guest_section import VM
from nfslab.experiment.host_facts import SERVER_HERE
from nfslab.experiment.sections import CLUSTER
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.addresses import address_towards
from nfslab.machine.availability import Availability
from nfslab.machine.journal import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.cluster.base import Cluster, Member
    from nfslab.cluster.bridge import Seat
    from nfslab.experiment.guest_run import Kernels
    from nfslab.experiment.sections import Client, Server
    from nfslab.experiment.setup import Setup
    from nfslab.machine.resources import Resources

BACK_S: Final = 60.0
"""How long a run waits for machines that are gone when it begins: at most half of its time."""
BACK_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Kind:
    """What client hosts may be."""

    said: str
    connect: Callable[[Setup, Resources, Kernels], tuple[Cluster, Link]]
    """They, then the server's host where that is another one, and the way between them and this
    machine; RunFailed, UsageError."""
    available: Callable[[Setup, int, int], Availability]
    """With so many processes on each, and so many connections of each; RunFailed."""
    is_here: bool = True
    """Their files and programs are this machine's."""


@dataclass(frozen=True, slots=True)
class Members:
    """Holds the hosts of a run; to close the cluster ends them."""

    cluster: Cluster
    clients: Sequence[Member]
    server: Member
    link: Link
    """Of the servers: their address, and all clients'."""


def members_of(asked: Setup, resources: Resources, kernels: Kernels | None = None) -> Members:
    """Connects the hosts that `[client]` and `[server]` ask for, and the way between; RunFailed.

    `kernels`: those of guests, where there are some."""
    cluster, link = KINDS[asked.client.host].connect(asked, resources, kernels or {})
    members = list(cluster.members)
    if not asked.server.is_elsewhere:
        return Members(cluster, members, server_here(resources, link), link)
    *clients, server = members
    around = network_of([member.address for member in clients])
    return Members(cluster, clients, server, Link(server.address, around))


def server_here(resources: Resources, link: Link) -> Member:
    """Makes this machine the host of the server's half, where no other one is named."""
    from nfslab.cluster.here import MemberHere

    return MemberHere(SERVER_HERE, resources, address=link.server)


def awaited_members(
    asked: Setup,
    resources: Resources,
    kernels: Kernels,
    *,
    remaining_s: Callable[[], float],
    show: Callable[[str], object],
) -> Members:
    """Does the same for a run that begins; CannotGoOn: machines that it needs stay away.

    `remaining_s` is its time, and raises when that is over, or when it is to stop. Hosts on this
    machine are made anew for each run, so that one that fails says nothing of the next.
    """
    began = clock.monotonic()
    ends = began + min(BACK_S, remaining_s() / 2)
    while True:
        try:
            return members_of(asked, resources, kernels)
        except (RunFailed, UsageError) as error:
            remaining_s()
            if asked.client.host != CLUSTER:
                raise
            if (now := clock.monotonic()) >= ends:
                raise CannotGoOn(
                    f"the experiment ends: {error.what}",
                    why=f"{error.why or 'no reason is known'}; the run that needs it waited for "
                    f"{now - began:.0f} s",
                    fix=error.fix,
                ) from error
            show(f"waiting for hosts: {error.what}")
        clock.sleep(BACK_POLL_S)


def together(client: str, server: str) -> bool:
    """Can client hosts of that kind and a server's host of that kind reach each other?"""
    return client == server == CLUSTER or (client in SEATS and server in SEATS)


def _servers(asked: Setup) -> list[str]:
    """The server's host, where it is none of ours."""
    return [asked.server.host_name] if asked.server.is_elsewhere else []


def _here(asked: Setup, resources: Resources, kernels: Kernels) -> tuple[Cluster, Link]:
    """Agents on this machine; on a bridge where the server is not."""
    from nfslab.cluster.here import ClusterHere, MemberHere

    if asked.server.is_elsewhere:
        return _bridged(asked, resources, kernels)
    names = asked.client.host_names
    return ClusterHere([MemberHere(name, resources) for name in names]), Link()


def _bridged(asked: Setup, resources: Resources, kernels: Kernels) -> tuple[Cluster, Link]:
    from nfslab.cluster.bridge import BridgedHere

    client, server = asked.client, asked.server
    seats = [_seat(name, client, kernels) for name in client.host_names]
    seats += [_seat(name, server, kernels) for name in _servers(asked)]
    cluster = BridgedHere(seats)
    try:
        cluster.up(resources)
    except BaseException:
        cluster.close()
        raise
    return cluster, cluster.link


SEATS: Final = (LocalHost.kind, "namespace", VM)
"""Kinds of hosts that sit on one bridge of this machine."""


def _seat(name: str, section: Client | Server, kernels: Kernels) -> Seat:
    from nfslab.cluster.bridge import NamespaceSeat, SeatHere
    from nfslab.cluster.guests import GuestSeat, Made

    if (kernel := section.asked_kernel) is not None:
        return GuestSeat(name, Made(kernel[0], kernels[kernel], section.size))
    return SeatHere(name) if section.host == LocalHost.kind else NamespaceSeat(name, section.wire)


def _can_be(asked: Setup, processes: int, connections: int) -> Availability:
    """Can there be such seats? Of guests also: is there such a kernel?"""
    from nfslab.cluster.guests import require_guests
    from nfslab.cluster.identity import limits_here
    from nfslab.experiment.host_facts import room
    from nfslab.hosts.namespace import NamespaceHost
    from nfslab.vm import kernel as kernel_files

    for section in (asked.client, asked.server):
        if section.host == VM:
            require_guests(section.size)
            kernel_files.require(section.kernel or "", section.modules)
        # A bridge is a network of ours, too.
        elif section.host == "namespace" or asked.server.is_elsewhere:
            usable = NamespaceHost.available(section.wire)
            if not usable.ok:
                return usable
    # A guest has limits of its own, and says them when it is there.
    for name in asked.client.host_names if asked.client.host != VM else ():
        room(name, limits_here(), processes, connections)
    return Availability(True)


def _machines(
    asked: Setup,
    _resources: Resources | None = None,
    _kernels: Kernels | None = None,
    *,
    is_first: bool = False,
) -> tuple[Cluster, Link]:
    from nfslab.cluster.settings import connect_some

    assert asked.cluster is not None
    # All have joined before anything runs; a run needs its own hosts alone.
    section = asked.cluster.model_copy(update={} if is_first else {"members": None})
    cluster = connect_some(section, asked.client.hosts or 0, _servers(asked))
    try:
        return cluster, link_to([member.address for member in cluster.members])
    except BaseException:
        cluster.close()
        raise


def _machines_are_there(asked: Setup, processes: int, connections: int) -> Availability:
    """With the same nfslab, and room for so many processes; they are left again."""
    from nfslab.experiment.host_facts import room

    cluster, _ = _machines(asked, is_first=True)
    try:
        clients = cluster.members[: len(asked.client.host_names)]
        for member in clients:
            room(member.name, member.facts(), processes, connections)
        server, *_ = cluster.members[len(clients) :] or (None,)
        boot = boot_id() if server is None else server.facts().get("boot_id")
        both = [one.name for one in clients if boot and one.facts().get("boot_id") == boot]
    finally:
        cluster.close()
    where = "this machine" if server is None else f"the machine of {server.name}"
    how = f"client hosts on {where}, which serves, too: {', '.join(both)}; they take processor "
    how += "time from the server, and no network is between (fix: name others)"
    return Availability(True, how=how if both else "")


KINDS: Final[dict[str, Kind]] = {
    LocalHost.kind: Kind("agents on this machine", _here, _can_be),
    "namespace": Kind("network namespaces on this machine", _bridged, _can_be),
    VM: Kind("virtual machines on this one", _bridged, _can_be, is_here=False),
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
