"""A bridge with an address of this machine: what hosts that are on this machine are joined by.

    host1 (.2) ── its device ══╗
    host2 (.3) ── its device ══ bridge (.1) ── servers, here
    host3 (.4) ── its device ══╝

Its devices' names hold the run's token, and are in the journal before they are made. Needs root.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from nfslab.hosts import namespace as networks
from nfslab.hosts.base import Link
from nfslab.hosts.namespace import LINK_NAME_CHARACTERS

if TYPE_CHECKING:
    from nfslab.machine.resources import Entry, Resources

HOSTS_MAX: Final = 32
"""Their devices' names have one character for the number, their network 62 addresses."""
PREFIX_BITS: Final = 26
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"


class Bridge:
    """One of a run. `close` removes it and what sits on it, also when `up` failed half way."""

    def __init__(self) -> None:
        self.link = Link()
        """Of a server here: its address, and the network of all hosts."""
        self._entries: list[Entry] = []
        self._device = ""

    def up(self, hosts: int, resources: Resources) -> list[str]:
        """Make it; the addresses of so many hosts. RunFailed."""
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
        """A device and a namespace about to be made for a host: names of both, journalled."""
        name, device = f"{resources.name}-h{number}", _name("h", _DIGITS[number], resources)
        self._entries.append(resources.network(name, device))
        return name, device

    def attach(self, device: str) -> None:
        """It is there now: put it on the bridge; RunFailed."""
        networks.ip("link", "set", device, "master", self._device)
        networks.ip("link", "set", device, "up")

    def close(self) -> None:
        """The devices, the namespaces and the bridge go."""
        while self._entries:
            self._entries.pop().undo()


def _name(kind: str, number: str, resources: Resources) -> str:
    return f"{kind}{number}{resources.token}"[:LINK_NAME_CHARACTERS]
