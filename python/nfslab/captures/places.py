"""Where a run's NFS passes: its servers, the interface towards them, the filter for it."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import subprocess
from typing import TYPE_CHECKING, Final, NamedTuple

from nfslab.captures.tool import EVERY_INTERFACE, FRAGMENTS, LOOPBACK, NFS_PORTS
from nfslab.machine.fuse_mounts import FILESYSTEM as OUR_FILE_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NFS_FILE_SYSTEMS = frozenset({"nfs", "nfs4", OUR_FILE_SYSTEM})
PORT_OPTIONS: Final = ("port", "mountport")
IP_LIMIT_S: Final = 10.0
DISCARD_PORT = 9
"""Any port: nothing is sent, the kernel is only asked for its route."""


class Server(NamedTuple):
    """A server that a run speaks to."""

    address: str
    ports: tuple[int, ...] = ()
    """All that it is spoken to on, NFS first; empty: not known."""


def server_of(
    filesystem: str, source: str, options: str, effective: Mapping[str, str]
) -> Server | None:
    """The server of a mount; None for other file systems.

    Of a mount of our own all ports are known (`effective`: its options), unless a port mapper
    told them. The kernel's client speaks to its server on others, too: locks, recovery.

    >>> server_of("fuse.nfslab", "127.0.0.1:/e", "rw", {"port": "4711", "mountport": "4711"})
    Server(address='127.0.0.1', ports=(4711,))
    """
    address = nfs_server(filesystem, source, options)
    if address is None:
        return None
    known = [int(effective.get(name) or 0) for name in PORT_OPTIONS]
    ours = filesystem == OUR_FILE_SYSTEM and all(known)
    return Server(address, tuple(dict.fromkeys(known)) if ours else ())


def server_at(source: str, options: Sequence[str]) -> Server:
    """The server of an export that is not mounted; `options` of nfs(5), its ports among them.

    >>> server_at("[::1]:/e", ["port=4711", "mountport=4712", "rw"])
    Server(address='::1', ports=(4711, 4712))
    """
    named = dict(one.split("=", 1) for one in options if "=" in one)
    known = [int(named.get(name) or 0) for name in PORT_OPTIONS]
    address = source.rpartition(":/")[0].strip("[]")
    return Server(address, tuple(dict.fromkeys(known)) if all(known) else ())


def nfs_server(filesystem: str, source: str, options: str) -> str | None:
    """Address of the server of a mount; None for other file systems.

    >>> nfs_server("nfs4", "nas:/export", "rw,vers=4.2,addr=10.0.0.7")
    '10.0.0.7'
    >>> nfs_server("nfs", "[fe80::1]:/export", "rw")
    'fe80::1'
    """
    if filesystem not in NFS_FILE_SYSTEMS:
        return None
    for option in options.split(","):
        name, _, value = option.partition("=")
        if name == "addr" and value:
            return value
    host = source.rpartition(":/")[0]
    return host.strip("[]") or None


def filter_for(servers: Sequence[Server]) -> str:
    """All that goes to and from these servers; without any, NFS's well-known ports.

    By address, since NFS may be on any port, and so are MOUNT and the lock managers; where all
    ports are known, by them, too (other servers may be on this machine), and fragments behind
    the first one, which carry none.

    >>> filter_for([Server("10.0.0.7"), Server("10.0.0.8")])
    'host 10.0.0.7 or host 10.0.0.8'
    """
    if not servers:
        return NFS_PORTS
    return " or ".join(_passing(server) for server in dict.fromkeys(servers))


def _passing(server: Server) -> str:
    if not server.ports:
        return f"host {server.address}"
    ports = " or ".join(f"port {port}" for port in server.ports)
    return f"(host {server.address} and ({ports} or {FRAGMENTS}))"


def interface_for(servers: Sequence[str]) -> str:
    """The loopback interface if every server is this machine, else all interfaces at once."""
    if servers and all(is_local(server) for server in servers):
        return LOOPBACK
    return EVERY_INTERFACE


def interface_of(address: str) -> str:
    """Where packets to this address of ours come in: its interface, else all at once."""
    if ipaddress.ip_address(address).is_loopback:
        return LOOPBACK
    try:
        words = ["ip", "-json", "address", "show", "to", address]
        said = subprocess.run(words, capture_output=True, check=True, timeout=IP_LIMIT_S).stdout
        (found,) = {str(one["ifname"]) for one in json.loads(said or b"[]") if "ifname" in one}
    except (OSError, subprocess.SubprocessError, ValueError):
        return EVERY_INTERFACE
    return found


def is_local(server: str) -> bool:
    """Is this an address of ours? Then its packets pass the loopback interface."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(server.partition("%")[0]).is_loopback:
            return True
    found = _addresses(server)
    return bool(found) and all(_own(family, address) for family, address in found)


def _addresses(server: str) -> Iterable[tuple[int, tuple[object, ...]]]:
    try:
        found = socket.getaddrinfo(server, DISCARD_PORT, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    return [(family, address) for family, _, _, _, address in found]


def _own(family: int, address: tuple[object, ...]) -> bool:
    """A packet to one of our own addresses leaves from that very address."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return bool(probe.getsockname()[0] == address[0])
    except OSError:
        return False
