"""Reasons for which a test cannot run on a machine; each is printed with the skip."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from nfslab.evidence.syscalls.ways import ebpf_grants
from nfslab.machine.cgroup import memory_cgroup_available


def program(*names: str) -> pytest.MarkDecorator:
    """These programs are on PATH."""
    missing = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def mounting_refused() -> str:
    """Why no FUSE file system can be mounted by a test here; empty where it can."""
    if os.geteuid() != 0:
        return "mounting in a test needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    return ""


def ipv6_address() -> bool:
    """Is there an address of IPv6 besides those of the loopback device?"""
    devices = Path("/proc/net/if_inet6")
    return devices.exists() and any(
        not line.endswith("lo") for line in devices.read_text().splitlines()
    )


root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
fuse = pytest.mark.skipif(bool(mounting_refused()), reason=mounting_refused() or "it can")
mount = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None or shutil.which("umount") is None,
    reason="needs root, mount and umount",
)
loop = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("losetup") is None,
    reason="needs root, loop devices and losetup",
)
_memory = memory_cgroup_available()
memory_limit = pytest.mark.skipif(not _memory.ok, reason=f"memory limit: {_memory.reason}")
setpriv = program("setpriv")
_ebpf = ebpf_grants()
ebpf = pytest.mark.skipif(not _ebpf["ok"], reason=f"eBPF: {_ebpf['what']}: {_ebpf['why']}")
