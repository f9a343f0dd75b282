"""Reasons for which a test cannot run on a machine; each is printed with the skip."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from nfslab.machine.cgroup import memory_cgroup_available
from nfslab.machine.syscall_ways import ebpf_grants

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
loop = pytest.mark.skipif(
    os.geteuid() != 0
    or not Path("/dev/loop-control").exists()
    or shutil.which("losetup") is None
    or shutil.which("mkfs.ext4") is None,
    reason="needs root, loop devices, losetup and mkfs.ext4",
)
_memory = memory_cgroup_available()
memory_limit = pytest.mark.skipif(not _memory.ok, reason=f"memory limit: {_memory.reason}")
setpriv = pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
_ebpf = ebpf_grants()
ebpf = pytest.mark.skipif(not _ebpf["ok"], reason=f"eBPF: {_ebpf['what']}: {_ebpf['why']}")
