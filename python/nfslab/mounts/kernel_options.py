"""Options of the Linux kernel's NFS client: as asked for, as in effect, and which one is refused.

Source: nfs(5); fs/nfs/fs_context.c (what is parsed), fs/nfs/super.c (nfs_show_mount_options: what
is shown, with all defaults in /proc/self/mountstats); fsopen(2), whose log names the option.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nfslab.storage.mount_options import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.machine.mounts import Mount
    from nfslab.storage.mountstats import MountCounts

OF_MOUNT_NFS: Final = ("retry", "bg", "fg", "nofail", "defaults", "_netdev", "auto", "noauto")
"""Words that mount(8) and mount.nfs(8) keep for themselves."""
OF_MOUNT_PROTOCOL: Final = ("mountport", "mountproto", "mountvers", "mounthost", "mountaddr")
"""Of NFSv3 alone: mount.nfs refuses them beside NFSv4."""
PORTS: Final = ("port", "mountport")
ACTIMEO: Final = ("acregmin", "acregmax", "acdirmin", "acdirmax")
SPELLED: Final = {"lookupcache=positive": "lookupcache=pos"}
"""As asked for -> as shown."""
SYS_FSOPEN: Final = 430
SYS_FSCONFIG: Final = 431
"""The same on all architectures (since Linux 5.2)."""
FSOPEN_CLOEXEC: Final = 1
SET_FLAG: Final = 0
SET_STRING: Final = 1
CMD_CREATE: Final = 6
LOG_BYTES: Final = 4096
LOG_LINES_MAX: Final = 64


def name_of(option: str) -> str:
    """Of "rsize=64k": rsize."""
    return option.partition("=")[0]


def of_the_kernel(options: Iterable[str]) -> list[str]:
    """Without what mount(8) and mount.nfs(8) keep for themselves."""
    return [option for option in options if name_of(option) not in OF_MOUNT_NFS]


def wrong_in_effect(asked: Sequence[str], mount: Mount, counts: MountCounts) -> list[str]:
    """What was asked for and is not in effect, in words; empty when all is.

    `counts` has the options with all defaults; of what neither shows, only a contradiction counts.
    """
    seen = replace(mount, options=counts.options)
    wanted = []
    for option in of_the_kernel(asked):
        name, _, value = option.partition("=")
        if name == "actimeo":
            wanted += [f"{one}={value}" for one in ACTIMEO]
        elif name not in OF_MOUNT_PROTOCOL:
            wanted.append(SPELLED.get(option, option))
    if not any(name_of(option) == "nconnect" for option in wanted):
        # Shared with another mount of the server, if it is more.
        wanted.append("nconnect=1")
    return differences(wanted, seen, transports=len(counts.transports))


def without_ports(options: str) -> str:
    """Options as shown, without the ports that differ from run to run."""
    return ",".join(one for one in options.split(",") if name_of(one) not in PORTS)


def refused_option(filesystem: str, source: str, options: Iterable[str]) -> str:
    """The kernel's own words on the option that it refuses; empty when it says none.

    It is told the options one by one (fsopen(2), fsconfig(2)), then to make the mount of them,
    which is shown nowhere and goes away at once.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    context = libc.syscall(SYS_FSOPEN, filesystem.encode(), FSOPEN_CLOEXEC)
    if context < 0:
        return ""
    try:
        named = [("source", source)]
        for option in of_the_kernel(options):
            name, equals, value = option.partition("=")
            named.append((name, value if equals else ""))
        for name, value in named:
            how = SET_STRING if value else SET_FLAG
            done = libc.syscall(
                SYS_FSCONFIG, context, how, name.encode(), value.encode() if value else None, 0
            )
            if done < 0:
                code = ctypes.get_errno()
                shown = f"{name}={value}" if value else name
                return f"{shown}: {_log(context) or os.strerror(code)}"
        made = libc.syscall(SYS_FSCONFIG, context, CMD_CREATE, None, None, 0)
        return _log(context) if made < 0 and ctypes.get_errno() == errno.EINVAL else ""
    finally:
        os.close(context)


def _log(context: int) -> str:
    """What the kernel wrote to the context's log: lines "e nfs: Unknown parameter 'foo'"."""
    said = []
    with contextlib.suppress(OSError):
        for _ in range(LOG_LINES_MAX):
            said.append(os.read(context, LOG_BYTES).decode(errors="replace").strip())
    return "; ".join(line.removeprefix("e ").removeprefix("w ") for line in said if line)
