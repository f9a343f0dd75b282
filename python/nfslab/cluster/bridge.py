"""A bridge with an address of this machine: what hosts that are on this machine are joined by.

    host1 (.2) ── its device ══╗
    host2 (.3) ── its device ══ bridge (.1) ── servers, here
    host3 (.4) ── its device ══╝

Who sits there may be of several kinds: network namespaces, virtual machines, this machine itself.
Devices' names hold the run's token, and are in the journal before they are made. Needs root.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from nfslab.cluster.here import ClusterHere, MemberHere
from nfslab.errors import RunFailed
from nfslab.hosts import namespace as networks
from nfslab.hosts.base import Link
from nfslab.hosts.namespace import LINK_NAME_CHARACTERS, NamespaceHost
from nfslab.machine.undo import NETWORK_NAMESPACES
from nfslab.machine.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.cluster.base import Member
    from nfslab.machine.resources import Entry, Resources

HOSTS_MAX: Final = 32
"""Their devices' names have one character for the number, their network 62 addresses."""
PREFIX_BITS: Final = 26
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"


class Bridge:
    """Joins the hosts of a run. `close` removes it and what is on it, also when `up` failed."""

    def __init__(self) -> None:
        self.link = Link()
        """Of a server here: its address, and the network of all hosts."""
        self._entries: list[Entry] = []
        self._device = ""

    def up(self, hosts: int, resources: Resources) -> list[str]:
        """Makes it, and returns the addresses of so many hosts. RunFailed."""
        self._device = _name("b", "r", resources)
        self._entries.append(resources.network(f"{resources.name}-bridge", self._device))
        networks.ip("link", "add", self._device, "type", "bridge")
        with networks.addresses_lock():
            network = networks.free_network(PREFIX_BITS)
            server, *free = map(str, itertools.islice(network.hosts(), hosts + 1))
            networks.ip("address", "add", f"{server}/{PREFIX_BITS}", "dev", self._device)
        networks.ip("link", "set", self._device, "up")
        self.link = Link(server, str(network))
        return free

    def device(self, number: int, resources: Resources) -> tuple[str, str]:
        """Names a device and a namespace about to be made for a host, in the journal."""
        name, device = f"{resources.name}-h{number}", _name("h", _DIGITS[number], resources)
        self._entries.append(resources.network(name, device))
        return name, device

    def attach(self, device: str) -> None:
        """Puts a device that was made on the bridge; RunFailed."""
        networks.ip("link", "set", device, "master", self._device)
        networks.ip("link", "set", device, "up")

    def close(self) -> None:
        """The devices, the namespaces and the bridge go."""
        while self._entries:
            self._entries.pop().undo()


class Seat(ABC):
    """Is a host's place on the bridge."""

    def __init__(self, name: str) -> None:
        self.name = name

    def require(self) -> None:  # noqa: B027
        """Raises where this machine lacks what it needs: RunFailed, Unavailable, UsageError."""

    @abstractmethod
    def join(self, bridge: Bridge, number: int, address: str, resources: Resources) -> Member:
        """Puts the host on the bridge; RunFailed."""


class SeatHere(Seat):
    """Is this machine itself: no device, the bridge's own address."""

    def join(self, bridge: Bridge, number: int, address: str, resources: Resources) -> Member:
        """Returns a member as any on this machine."""
        return MemberHere(self.name, resources, address=bridge.link.server)


class NamespaceSeat(Seat):
    """Is a network namespace with an address of its own; its processors, memory, files and clocks
    are this machine's: for trying out what several hosts will do, and for tests."""

    def __init__(self, name: str, wire: Wire | None = None) -> None:
        super().__init__(name)
        self._wire = wire or Wire()

    def require(self) -> None:
        """Asks as for one namespace."""
        usable = NamespaceHost.available(self._wire)
        if not usable.ok:
            raise RunFailed(usable.reason, fix=usable.fix)

    def join(self, bridge: Bridge, number: int, address: str, resources: Resources) -> Member:
        """Makes the namespace, and a connection from it as proof; RunFailed."""
        name, device = bridge.device(number, resources)
        networks.join(name, device)
        bridge.attach(device)
        networks.give_address(name, f"{address}/{PREFIX_BITS}")
        networks.lay_wire(self._wire, name, device)
        networks.prove(Link(bridge.link.server, address), NETWORK_NAMESPACES / name)
        enter = ("nsenter", f"--net={NETWORK_NAMESPACES / name}", "--")
        return MemberHere(self.name, resources, address=address, before=enter)


class BridgedHere(ClusterHere):
    """Joins hosts by a bridge. `close` removes all of it, also when `up` failed half way."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        super().__init__([])
        self._seats = seats
        self._bridge = Bridge()

    @property
    def link(self) -> Link:
        """Returns the address of a server here, and the network of all members."""
        return self._bridge.link

    def up(self, resources: Resources) -> None:
        """Makes the bridge and all seats; RunFailed."""
        for seat in self._seats:
            seat.require()
        free = self._bridge.up(len(self._seats), resources)
        for number, (seat, address) in enumerate(zip(self._seats, free, strict=True)):
            self._members.append(seat.join(self._bridge, number, address, resources))

    def close(self) -> None:
        """Members have ended with their agents; their devices and the bridge go."""
        self._members.clear()
        self._bridge.close()


def _name(kind: str, number: str, resources: Resources) -> str:
    return f"{kind}{number}{resources.token}"[:LINK_NAME_CHARACTERS]
