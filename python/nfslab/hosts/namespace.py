"""A network namespace of our own on this machine, joined to it by a veth pair.

    programs of the host ── eth0 (client address) ══ veth ══ (server address) ── servers, here

It has the files, processes and clock of this machine, and a network of its own: what its programs
say to the servers goes through two devices and IP, not through loopback; with a `wire`, delayed,
lost and slowed. Limits: no second machine; the bytes are copied by the same processors.

The addresses are a /30 of a private range (RFC 1918) that no address and no route of this machine
touches; looking and taking are one step for all runs of this machine. Namespace and veth pair are
in the journal before they are made; their names hold the run's token. Needs root.

Source: ip-netns(8), veth(4), setns(2): a thread that is started inherits its starter's namespaces.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import ipaddress
import json
import os
import shutil
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.errors import RunFailed
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine import wire as wires
from nfslab.machine.availability import Availability
from nfslab.machine.tools import said_by
from nfslab.machine.undo import NETWORK_NAMESPACES
from nfslab.machine.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.machine.resources import Entry, Resources

PROGRAMS: Final = ("ip", "nsenter", "tc", "unshare")
RANGES: Final = ("10.213.0.0/20", "172.28.208.0/20", "192.168.208.0/20")
"""Parts of the private ranges (RFC 1918) in which a free /30 is looked for."""
PREFIX_BITS: Final = 30
LINK_NAME_CHARACTERS: Final = 15
"""IFNAMSIZ without its end."""
ADDRESSES_LOCK: Final = Path("/run/nfslab-addresses.lock")
"""Where root alone makes files: what others can open they can lock."""
INSIDE: Final = "eth0"
COMMAND_LIMIT_S: Final = 20.0
CONNECT_LIMIT_S: Final = 5.0
CLONE_NEWNET: Final = 0x40000000


class NamespaceHost(LocalHost):
    """This machine's files and clock, a network of its own."""

    kind: ClassVar[str] = "namespace"
    summary: ClassVar[str] = "a network namespace on this machine, joined by a veth pair"
    has_our_files: ClassVar[bool] = True

    def __init__(self, wire: Wire | None = None) -> None:
        super().__init__()
        self._wire = wire or Wire()
        self._laid: dict[str, Any] = {}
        self._entry: Entry | None = None
        self._link: Link | None = None

    @classmethod
    def available(cls, wire: Wire | None = None) -> Availability:
        """Root, ip(8), a kernel or container that allows it, and netem for a wire."""
        if os.geteuid() != 0:
            return Availability(False, "a network namespace needs root", "run nfslab as root")
        if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
            return Availability(
                False, f"{', '.join(missing)} is missing", "apt install iproute2 util-linux"
            )
        tried = said_by(["unshare", "--net", "true"], COMMAND_LIMIT_S)
        if tried.returncode != 0:
            return Availability(
                False, f"no network namespace can be made: {tried.stderr.strip()}",
                "let the container have CAP_SYS_ADMIN",
            )  # fmt: skip
        if wire:
            tried = said_by(["unshare", "--net", "sh", "-c", wires.TRIED], COMMAND_LIMIT_S)
        return Availability(True) if tried.returncode == 0 else wires.missing(tried.stderr)

    def up(self, resources: Resources) -> None:
        """The namespace, the pair, and a connection through it as proof; RunFailed."""
        usable = self.available(self._wire)
        if not usable.ok:
            raise RunFailed(usable.reason, fix=usable.fix)
        name = resources.name
        device = f"nl{resources.token}"[:LINK_NAME_CHARACTERS]
        self._entry = resources.network(name, device)
        self._network = NETWORK_NAMESPACES / name
        join(name, device)
        with addresses_lock():
            network = free_network(PREFIX_BITS)
            server, client = map(str, network.hosts())
            ip("address", "add", f"{server}/{PREFIX_BITS}", "dev", device)
        ip("link", "set", device, "up")
        give_address(name, f"{client}/{PREFIX_BITS}")
        self._laid = lay_wire(self._wire, name, device)
        self._link = Link(server, client)
        prove(self._link, self._network)

    def down(self) -> None:
        """The pair and the namespace go."""
        entry, self._entry = self._entry, None
        self._link = self._network = None
        if entry is not None:
            entry.undo()

    @property
    def link(self) -> Link:
        """The two ends of the pair; RunFailed before `up`."""
        if self._link is None:
            raise RunFailed("the network namespace is not up", fix="Please report this.")
        return self._link

    def facts(self) -> dict[str, Any]:
        """Its kernel and both addresses."""
        network: dict[str, Any] = {
            "kind": "veth", "server_address": self.link.server, "client_address": self.link.client,
        }  # fmt: skip
        if self._laid:
            network["wire"] = self._laid
        return super().facts() | {"network": network}

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This thread, and those that it starts, are in the namespace."""
        with entered_network(self._network or Path("/")):
            yield


def join(name: str, device: str) -> None:
    """A new namespace, and a veth pair between it and this machine; RunFailed."""
    ip("netns", "add", name)
    ip("link", "add", device, "type", "veth", "peer", "name", INSIDE, "netns", name)


def give_address(name: str, address: str) -> None:
    """Its loopback and its end of the pair are up, with this address."""
    ip("-n", name, "link", "set", "lo", "up")
    ip("-n", name, "address", "add", address, "dev", INSIDE)
    ip("-n", name, "link", "set", INSIDE, "up")


def lay_wire(wire: Wire, name: str, device: str) -> dict[str, Any]:
    """Delay, loss and rate on both ends of the pair, as read back; empty without."""
    if not wire:
        return {}
    laid = wires.lay(wire, device, run)
    wires.lay(wire, INSIDE, lambda *argv: run("ip", "netns", "exec", name, *argv))
    return laid


@contextlib.contextmanager
def entered_network(network: Path) -> Iterator[None]:
    """This thread, and those that it starts, are in that namespace."""
    with (
        open(f"/proc/self/task/{threading.get_native_id()}/ns/net", "rb") as before,
        network.open("rb") as there,
    ):
        _set_network(there.fileno())
        try:
            yield
        finally:
            _set_network(before.fileno())


def prove(link: Link, network: Path) -> None:
    """One connection: a firewall that drops it would show as a benchmark that hangs."""
    with socket.create_server((link.server, 0)) as listener, entered_network(network):
        port = listener.getsockname()[1]
        try:
            socket.create_connection((link.server, port), CONNECT_LIMIT_S).close()
        except OSError as error:
            raise RunFailed(
                f"nothing comes through from {link.client} to {link.server}",
                why=str(error),
                fix="let the firewall of this machine accept what its veth devices bring",
            ) from error


def _set_network(descriptor: int) -> None:
    """setns(2) of the calling thread (`os.setns` came with Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise RunFailed(
            "the network namespace cannot be entered", why=os.strerror(code), fix="run as root"
        )


@contextlib.contextmanager
def addresses_lock() -> Iterator[None]:
    """One run at a time chooses addresses, whatever their state folders are; root's alone."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(ADDRESSES_LOCK, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def free_network(prefix_bits: int) -> ipaddress.IPv4Network:
    """The first network of `RANGES` of that size that nothing here touches; RunFailed."""
    taken = networks_in_use()
    for one in RANGES:
        for network in ipaddress.IPv4Network(one).subnets(new_prefix=prefix_bits):
            if not any(network.overlaps(other) for other in taken):
                return network
    raise RunFailed(
        "no private network is free for a namespace",
        why=f"something here uses each part of {', '.join(RANGES)}",
        fix="free one of them: ip route, ip address",
    )


def networks_in_use() -> list[ipaddress.IPv4Network]:
    """Every IPv4 network that an address or a route of this machine names, but the default."""
    found = []
    for row in json.loads(ip("-json", "-4", "route", "show", "table", "all") or "[]"):
        if (there := row.get("dst", "default")) != "default":
            found.append(ipaddress.IPv4Network(there, strict=False))
    for row in json.loads(ip("-json", "-4", "address", "show") or "[]"):
        for address in row.get("addr_info", []):
            text = f"{address['local']}/{address['prefixlen']}"
            found.append(ipaddress.IPv4Network(text, strict=False))
    return found


def ip(*arguments: str) -> str:
    """ip(8); RunFailed in its words."""
    return run("ip", *arguments)


def run(*argv: str) -> str:
    """ip(8), tc(8); RunFailed in their words."""
    done = said_by(argv, COMMAND_LIMIT_S)
    if done.returncode != 0:
        raise RunFailed(
            f"{' '.join(argv)} failed",
            why=done.stderr.strip(),
            fix="see that the kernel has veth devices, and that a container may make them",
        )
    return done.stdout
