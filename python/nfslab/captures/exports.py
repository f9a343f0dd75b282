"""Which server's file system lies behind a device: what joins files here to files on the wire.

NFS clients show the server's number of a file as its inode. That number is one file within one
file system (fsid) of one server: a device of NFS (a super block of the client) is described by the
server's address and port and that fsid. The kernel's client lists all three for each of its
devices (`VOLUMES`). A mount of our own knows address and port; its fsid is not asked for: where it
is the only mount of its server here, all calls to that server are its own.

Limits: pNFS. Its WRITEs go to other servers than the one that is listed.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.captures.places import NFS_FILE_SYSTEMS, nfs_server
from nfslab.machine.mounts import mount_of, mounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.machine.mounts import Mount

VOLUMES: Final = Path("/proc/fs/nfsfs/volumes")
VOLUMES_LIMIT_CHARACTERS: Final = 1 << 20
CUT_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class Export:
    """A file system of a server, as calls on the wire name it."""

    target: str
    address: str
    port: int | None
    """None: not known."""
    fsid: int | None
    """As the captures' column `fsid` has it; None: not known."""
    sole: bool
    """No other mount of that server is here: without a fsid, its calls are this mount's."""


def described_exports(
    places: Mapping[str, Path], facts: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Device ("major:minor") of each target on NFS -> its export, for a run's summary.

    `places`: target's name -> where it is; `facts`: what is known of its NFS mount ("options" in
    effect, "served" where the server is one of this run). Asked while they are mounted.
    """
    volumes = _volumes()
    all_mounts = mounts()
    found = {}
    for target, path in places.items():
        mount = mount_of(path)
        device = _device(mount)
        export = volumes.get(device)
        if export is not None:
            found[device] = asdict(Export(target, *export, sole=False))
        elif (other := _by_mount(target, mount, facts.get(target, {}), all_mounts)) is not None:
            found[device] = asdict(other)
    return found


def _by_mount(
    target: str, mount: Mount, facts: Mapping[str, Any], all_mounts: Sequence[Mount]
) -> Export | None:
    address = _numeric(nfs_server(mount.filesystem, mount.source, mount.options))
    if address is None:
        return None
    port = int(facts.get("options", {}).get("port") or mount.option("port") or 0) or None
    # A server that was started for this run has no other client.
    sole = "served" in facts or not any(
        other.filesystem in NFS_FILE_SYSTEMS
        and _device(other) != _device(mount)
        and _numeric(nfs_server(other.filesystem, other.source, other.options)) == address
        for other in all_mounts
    )
    return Export(target, address, port, None, sole)


def _device(mount: Mount) -> str:
    return f"{mount.major}:{mount.minor}"


def _numeric(server: str | None) -> str | None:
    """An address as the captures spell it; None when a name has several, or none."""
    if server is None:
        return None
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(server.partition("%")[0]))
    try:
        infos = socket.getaddrinfo(server, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    addresses = {str(address[0]).partition("%")[0] for *_, address in infos}
    return addresses.pop() if len(addresses) == 1 else None


def _volumes() -> dict[str, tuple[str, int, int]]:
    try:
        with VOLUMES.open(encoding="ascii") as file:
            return parse_volumes(file.read(VOLUMES_LIMIT_CHARACTERS))
    except OSError:  # the kernel's client is not there
        return {}


def parse_volumes(text: str) -> dict[str, tuple[str, int, int]]:
    """Device -> address, port, fsid, of the kernel's client (nfs_volume_list_show).

    Old kernels cut the text of fsid at 16 characters: one of that length is not believed.

    >>> parse_volumes("NV SERVER PORT DEV FSID FSC\\nv4 0a000007  801 0:46 5:1 no\\n")
    {'0:46': ('10.0.0.7', 2049, 4294967301)}
    """
    found = {}
    for line in text.splitlines():
        fields = line.split()
        with contextlib.suppress(ValueError, IndexError):
            if len(fields[4]) == CUT_CHARACTERS:
                continue
            server, port, device = int(fields[1], 16), int(fields[2], 16), fields[3]
            kind = ipaddress.IPv4Address if len(fields[1]) <= 8 else ipaddress.IPv6Address
            major, minor = (int(part, 16) for part in fields[4].split(":"))
            found[device] = (str(kind(server)), port, mixed_fsid(major, minor))
    return found


def mixed_fsid(major: int, minor: int) -> int:
    """Both numbers of NFSv4 in one, as the core's decoder mixes them (NFSv3: minor is 0)."""
    rotated = (minor << 32 | minor >> 32) & ((1 << 64) - 1)
    return major ^ rotated
