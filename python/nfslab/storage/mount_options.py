"""Were the mount options that somebody asked for really applied?

The kernel changes some silently: NFS rounds rsize to what the server allows, shares
nconnect with an older mount of the same server, drops a version that the server does not
speak. What is in effect is read back and compared; a difference is named with both sides.

    >>> from nfslab.machine.mounts import parse_mountinfo
    >>> line = "40 27 0:38 / /m rw,relatime - nfs4 s:/x rw,vers=4.2,rsize=65536,hard"
    >>> [mount] = parse_mountinfo(line)
    >>> differences(["vers=4.2", "rsize=1M", "hard", "noac"], mount)
    ['rsize=1M: in effect is rsize=65536', 'noac: not in effect']
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nfslab.machine import kernel_settings
from nfslab.machine import mounts as mount_points
from nfslab.quantities import parse_size_bytes
from nfslab.storage.counters import FormError
from nfslab.storage.mountstats import MOUNTSTATS, counts_at, read_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nfslab.machine.mounts import Mount
    from nfslab.storage.mountstats import MountCounts

LOCALIO = {"0": "not in use", "1": "in use"}
KEPT = frozenset(("sec", "nfsv4", "caps", "impl_id"))
"""Lines of mountstats that a run's record keeps as they are."""
SIZES = ("rsize", "wsize", "bsize", "dtsize", "size")
"""Options whose value is a size: `1M` and `1048576` mean the same."""
SILENT_DEFAULTS = {"nconnect": "1", "lookupcache": "all", "xprtsec": "none", "port": "2049"}
"""What the kernel means by not showing an option."""
NEVER_SHOWN = frozenset(
    (
        "defaults", "rw", "suid", "dev", "exec", "async", "auto", "nouser", "loop", "barrier=1",
        "ac", "cto", "lock", "acl", "sharecache", "resvport", "rdirplus",
    )
)  # fmt: skip
"""Options that are in effect when nothing is shown (mount(8)): nothing to compare."""
SAME = {"barrier=0": "nobarrier", "nfsvers": "vers"}
"""Other spellings of what the kernel shows."""


def differences(
    asked: Iterable[str], mount: Mount, *, absent: bool = True, transports: int | None = None
) -> list[str]:
    """What was asked for and is not so, in words; empty when all is.

    `absent`: count an option that the kernel does not show at all as a difference (some
    are never shown: then only a contradiction counts). `transports` is the number of
    connections that an NFS mount really has, for `nconnect`.
    """
    found = []
    for text in asked:
        option = SAME.get(text.strip(), text.strip())
        name, equals, wanted = option.partition("=")
        name = SAME.get(name, name)
        if name == "nconnect" and transports is not None and wanted != str(transports):
            found.append(f"{text}: the mount has {transports} connection(s)")
            continue
        effective = mount.option(name)
        if effective is None:
            effective = SILENT_DEFAULTS.get(name)
        if effective is None:
            if contrary := _contrary(name, mount):
                found.append(f"{text}: in effect is {contrary}")
            elif absent and option not in NEVER_SHOWN:
                found.append(f"{text}: not in effect")
        elif equals and not _same_value(name, wanted, effective):
            found.append(f"{text}: in effect is {name}={effective}")
    return found


def _contrary(name: str, mount: Mount) -> str:
    """The opposite option, when the kernel shows it: `ro` for `rw`, `noac` for `ac`."""
    pairs = {"rw": "ro", "ro": "rw", "hard": "soft", "soft": "hard", "async": "sync"}
    opposites = [pairs.get(name, ""), f"no{name}", name.removeprefix("no")]
    for other in opposites:
        if other and other != name and mount.option(other) is not None:
            return other
    return ""


def _same_value(name: str, wanted: str, effective: str) -> bool:
    if wanted == effective:
        return True
    if name in SIZES:
        with contextlib.suppress(ValueError):
            return parse_size_bytes(_plain(wanted)) == parse_size_bytes(_plain(effective))
    if name == "vers":
        # `vers=4` asks for the highest minor version that both sides speak.
        return wanted == "4" and effective.startswith("4.")
    return False


def _plain(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def nfs_facts(mount: Mount) -> dict[str, Any]:
    """What is known of an NFS mount in effect; empty for other file systems."""
    if mount.filesystem not in ("nfs", "nfs4"):
        return {}
    options = _as_pairs(mount.options)
    local = _localio(mount)
    try:
        counts = counts_at(read_counts([str(mount.mount_point)]), str(mount.mount_point))
    except (OSError, FormError) as error:
        return {"options": options, "unread": f"{MOUNTSTATS}: {error}"} | local
    return {"options": options, **({} if counts is None else facts_of(counts)), **local}


def _localio(mount: Mount) -> dict[str, str]:
    """Do READ, WRITE and COMMIT go past RPC to an nfsd on this machine? Nothing of a kernel that
    cannot (fs/nfs/localio.c, Linux 6.12; fs/nfs/sysfs.c tells of a mount since May 2025)."""
    for file, words in (
        (mount_points.SYS / "fs/nfs" / f"{mount.major}:{mount.minor}/localio", LOCALIO),
        (mount_points.SYS / "module/nfs/parameters/localio_enabled", {"N": LOCALIO["0"]}),
    ):
        with contextlib.suppress(OSError):
            return {"localio": words.get(kernel_settings.read(file), "not told")}
    return {}


def facts_of(counts: MountCounts) -> dict[str, Any]:
    """What a run's record keeps of a mount's part of mountstats.

    `transports` counts its connections, whatever nconnect says.
    """
    facts: dict[str, Any] = {"options_reported": counts.options, "age_s": counts.age_s}
    facts |= {name: value for name, value in counts.facts.items() if name in KEPT}
    if counts.transports:
        facts["transports"] = len(counts.transports)
        facts["transport_protocols"] = sorted({one.protocol for one in counts.transports})
    return facts


def _as_pairs(options: str) -> Mapping[str, str]:
    pairs = (option.partition("=") for option in options.split(","))
    return {name: value for name, _, value in pairs}
