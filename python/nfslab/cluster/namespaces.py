"""Several hosts on this one machine: network namespaces, each with an address of its own.

    agents of host1 ── eth0 (.2) ══ veth ══╗
    agents of host2 ── eth0 (.3) ══ veth ══ bridge (.1) ── servers, here
    agents of host3 ── eth0 (.4) ══ veth ══╝

They share processors, memory, files and clocks of this machine: for trying out what several hosts
will do, and for tests. What they say to a server goes through two devices, a bridge and IP. Bridge,
pairs and namespaces are in the journal before they are made; their names hold the run's token.
Needs root. Who is to reach a server here is told by `link`: its address, and all of theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.cluster.bridge import PREFIX_BITS, BridgedHere
from nfslab.cluster.here import MemberHere
from nfslab.errors import RunFailed
from nfslab.hosts import namespace as networks
from nfslab.hosts.base import Link
from nfslab.hosts.namespace import NamespaceHost
from nfslab.machine.undo import NETWORK_NAMESPACES
from nfslab.machine.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.cluster.bridge import Bridge
    from nfslab.machine.availability import Availability
    from nfslab.machine.resources import Resources


class NamespaceSeat:
    """A network namespace."""

    def __init__(self, name: str, wire: Wire | None = None) -> None:
        self.name = name
        self._wire = wire or Wire()

    def require(self) -> None:
        """As of one namespace."""
        usable = NamespaceHost.available(self._wire)
        if not usable.ok:
            raise RunFailed(usable.reason, fix=usable.fix)

    def taken(self, bridge: Bridge, number: int, address: str, resources: Resources) -> MemberHere:
        """The namespace, and a connection from it as proof; RunFailed."""
        name, device = bridge.device(number, resources)
        networks.join(name, device)
        bridge.attach(device)
        networks.give_address(name, f"{address}/{PREFIX_BITS}")
        networks.lay_wire(self._wire, name, device)
        networks.prove(Link(bridge.link.server, address), NETWORK_NAMESPACES / name)
        enter = ("nsenter", f"--net={NETWORK_NAMESPACES / name}", "--")
        return MemberHere(self.name, resources, address=address, before=enter)


class NamespacesHere(BridgedHere):
    """Members in namespaces on a bridge."""

    def __init__(self, names: Sequence[str], wire: Wire | None = None) -> None:
        super().__init__([NamespaceSeat(name, wire) for name in names])

    @classmethod
    def available(cls, wire: Wire | None = None) -> Availability:
        """As of one namespace."""
        return NamespaceHost.available(wire)
