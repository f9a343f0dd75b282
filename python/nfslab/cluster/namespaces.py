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

from typing import TYPE_CHECKING, Any

from nfslab.cluster.bridge import PREFIX_BITS, Bridge
from nfslab.cluster.here import ClusterHere, MemberHere
from nfslab.errors import RunFailed
from nfslab.hosts import namespace as networks
from nfslab.hosts.base import Link
from nfslab.hosts.namespace import NamespaceHost
from nfslab.machine.undo import NETWORK_NAMESPACES
from nfslab.machine.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nfslab.machine.availability import Availability
    from nfslab.machine.resources import Resources


class NamespacesHere(ClusterHere):
    """Members in namespaces on a bridge. `close` removes them, also when `up` failed half way."""

    def __init__(
        self, names: Sequence[str], wire: Wire | None = None, *, plain: Collection[str] = ()
    ) -> None:
        """`plain`: names of those without the wire."""
        super().__init__([])
        self._names = names
        self._plain = plain
        self._wire = wire or Wire()
        self._bridge = Bridge()
        self.laid: dict[str, Any] = {}
        """The wire in effect, of each way."""

    @classmethod
    def available(cls, wire: Wire | None = None) -> Availability:
        """As of one namespace."""
        return NamespaceHost.available(wire)

    @property
    def link(self) -> Link:
        """Of a server here: its address, and the network of all members."""
        return self._bridge.link

    def up(self, resources: Resources) -> None:
        """The bridge, the namespaces, and a connection from each as proof; RunFailed."""
        usable = self.available(self._wire)
        if not usable.ok:
            raise RunFailed(usable.reason, fix=usable.fix)
        free = self._bridge.up(len(self._names), resources)
        for number, (name, address) in enumerate(zip(self._names, free, strict=True)):
            wire = Wire() if name in self._plain else self._wire
            inside = self._joined(number, address, resources, wire)
            networks.prove(Link(self.link.server, address), NETWORK_NAMESPACES / inside)
            enter = ("nsenter", f"--net={NETWORK_NAMESPACES / inside}", "--")
            self._members.append(MemberHere(name, resources, address=address, before=enter))

    def close(self) -> None:
        """The pairs, the namespaces and the bridge go."""
        self._members.clear()
        self._bridge.close()

    def _joined(self, number: int, address: str, resources: Resources, wire: Wire) -> str:
        """One namespace on the bridge; its name."""
        name, device = self._bridge.device(number, resources)
        networks.join(name, device)
        self._bridge.attach(device)
        networks.give_address(name, f"{address}/{PREFIX_BITS}")
        self.laid = networks.lay_wire(wire, name, device) or self.laid
        return name
