"""Mounts of the kernel's NFS client: which there are of a server, and taking one away.

The kernel keeps one client (nfs_client) for each server, protocol and network namespace; mounts of
the same server share its connections. Such a client outlives what can be seen: a mount that was
taken out of sight lazily, or one in another mount namespace. `clients` sees those, too.

Source: fs/nfs/client.c (nfs_match_client, nfs_server_list_show), umount2(2);
/sys/fs/nfs/MAJOR:MINOR/shutdown of Linux 6.5 and later (fs/nfs/sysfs.c).
"""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.machine.mounts import SYS, mounts

if TYPE_CHECKING:
    from collections.abc import Collection

    from nfslab.machine.mounts import Mount

KERNEL_NFS: Final = ("nfs", "nfs4")
CLIENTS: Final = "/proc/thread-self/net/nfsfs/servers"
"""Of the network namespace that the calling thread is in."""
NFS_PORT: Final = 2049
ANSWER_LIMIT_S: Final = 10.0
"""For the server to take what was written, before it is taken to be gone."""
FORCED_LIMIT_S: Final = 5.0
POLL_S: Final = 0.1
_left_waiting: list[subprocess.Popen[bytes]] = []


def mounts_of_server(addresses: Collection[str], port: int) -> list[Mount]:
    """Mounts that this process sees, of a server at one of these addresses."""
    return [
        mount
        for mount in mounts()
        if mount.filesystem in KERNEL_NFS
        and mount.option("addr") in addresses
        and int(mount.option("port") or NFS_PORT) == port
    ]


def has_client(addresses: Collection[str], port: int) -> bool:
    """Does the kernel hold a client of this server in the thread's network namespace?"""
    try:
        text = Path(CLIENTS).read_text(encoding="ascii", errors="replace")
    except OSError:
        return False  # no NFS client is loaded
    wanted = {str(ipaddress.ip_address(one)) for one in addresses}
    return any(one in wanted and there in (port, 0) for one, there in parse_clients(text))


def parse_clients(text: str) -> list[tuple[str, int]]:
    """Address and port of every client in /proc/net/nfsfs/servers: "v4 7f000001  801 1 host"."""
    found = []
    for line in text.splitlines():
        words = line.split()
        with contextlib.suppress(ValueError, IndexError):
            raw = bytes.fromhex(words[1])
            found.append((str(ipaddress.ip_address(raw)), int(words[2], 16)))
    return found


def unmount(mount: Mount) -> bool:
    """Unmount; by force, then lazily, where its server is gone. True: lazily. OSError.

    umount2(2) waits for a server that does not answer, and cannot be killed then: it is done by a
    process that nobody waits for longer than a bound. -i: umount.nfs would ask the server's mountd.
    """
    _left_waiting[:] = [one for one in _left_waiting if one.poll() is None]
    for words, limit_s in (
        ([], ANSWER_LIMIT_S),
        (["-f"], FORCED_LIMIT_S),
        (["-fl"], FORCED_LIMIT_S),
    ):
        if _asked(mount, words, limit_s):
            return words == ["-fl"]
        _shut_down(mount)
    raise OSError(f"{mount.mount_point} cannot be unmounted: its server does not answer")


def _asked(mount: Mount, words: list[str], limit_s: float) -> bool:
    """umount(8), again and again while it is busy; is it gone?"""
    until = clock.monotonic() + limit_s
    while True:
        process = subprocess.Popen(
            ["umount", "-i", "-c", *words, "--", str(mount.mount_point)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        try:
            process.wait(max(POLL_S, until - clock.monotonic()))
        except subprocess.TimeoutExpired:
            _give_up(process, mount)
        if not any(one.mount_id == mount.mount_id for one in mounts()):
            return True
        if clock.monotonic() > until:
            return False
        clock.sleep(POLL_S)


def _give_up(process: subprocess.Popen[bytes], mount: Mount) -> None:
    """It waits for the server, perhaps with the mount out of sight already."""
    _shut_down(mount)
    try:
        process.wait(FORCED_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _left_waiting.append(process)


def _shut_down(mount: Mount) -> None:
    """All calls of the mount end with EIO, now and later; only Linux 6.5 and later can."""
    switch = SYS / "fs" / "nfs" / f"{mount.major}:{mount.minor}" / "shutdown"
    with contextlib.suppress(OSError):
        switch.write_text("1\n", encoding="ascii")
