"""Calls on data of the kernel's NFS mounts by class of file.

    tracepoints of nfs ───────────────> calls by device and file's number ─┐
    /proc/PID/fd, fdinfo (what is open) ──> its path ──────────────────────┴─> by class

No NFS call is made to find a path. All of /proc is looked through only when calls came, and no
more often than takes a share of 1/PACE of a processor; what was open at neither of the last two
looks has no path.

Source: Documentation/filesystems/proc.rst (fdinfo: mnt_id, ino; Linux 5.14).
"""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.machine.mounts import Mount, mounts
from nfslab.storage.data_calls import DataCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab._core import KernelFiles
    from nfslab.storage.data_calls import ByClass

PROC: Final = Path("/proc")
PACE: Final = 400
"""A look through /proc is followed by a pause of so many times its processor time."""
FILESYSTEMS: Final = ("nfs", "nfs4")

FileKey = tuple[str, int]
"""Device and number."""


class KernelDataCalls:
    """Of all mounts of the kernel's client, from the first question on."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._watch: KernelFiles | None = None
        self._refused = False
        self._by_device: dict[str, DataCalls] = {}
        self._open: list[dict[FileKey, str]] = [{}, {}]
        """Paths of the last two looks."""
        self._next_look_ns = 0

    def by_mount_point(self) -> dict[str, ByClass]:
        """Totals of each mount; none where the tracepoints may not be used."""
        from nfslab._core import CoreError, KernelFiles

        if self._watch is None and not self._refused:
            try:
                self._watch = KernelFiles()
            except CoreError:
                self._refused = True
        if self._watch is None:
            return {}
        there = [one for one in mounts() if one.filesystem in FILESYSTEMS]
        taken = self._watch.take()
        if taken:
            self._look(there)
        rows: dict[str, list[tuple[str | None, Sequence[int]]]] = {}
        for device, number, counted in taken:
            path = self._path((device, number))
            rows.setdefault(device, []).append((path, counted))
        for device in map(device_of, there):
            self._by_device.setdefault(device, DataCalls()).add(rows.get(device, []))
        return {
            str(one.mount_point): deepcopy(self._by_device[device_of(one)].totals) for one in there
        }

    def _path(self, key: FileKey) -> str | None:
        return next((paths[key] for paths in self._open if key in paths), None)

    def _look(self, there: Sequence[Mount]) -> None:
        if clock.monotonic_ns() < self._next_look_ns:
            return
        begun_ns = clock.thread_cpu_ns()
        self._open = [open_files(there, self._proc), self._open[0]]
        took_ns = clock.thread_cpu_ns() - begun_ns
        self._next_look_ns = clock.monotonic_ns() + PACE * took_ns


def device_of(mount: Mount) -> str:
    """As the core names it."""
    return f"{mount.major}:{mount.minor}"


def open_files(there: Sequence[Mount], proc: Path = PROC) -> dict[FileKey, str]:
    """Paths of all files of these mounts that a process has open, as far as it may be seen."""
    devices = {str(one.mount_id): device_of(one) for one in there}
    below = tuple(f"{str(one.mount_point).rstrip('/')}/" for one in there)
    found: dict[FileKey, str] = {}
    for process in filter(str.isdecimal, os.listdir(proc)):
        folder = f"{proc}/{process}"
        try:
            descriptors = os.listdir(f"{folder}/fd")
        except OSError:
            continue  # it has ended, or is another user's
        for descriptor in descriptors:
            try:
                path = os.readlink(f"{folder}/fd/{descriptor}")
                if not path.startswith(below):
                    continue
                about = _fdinfo(f"{folder}/fdinfo/{descriptor}")
            except OSError:
                continue  # it was closed
            device = devices.get(about.get("mnt_id", ""))
            if device is not None and "ino" in about:
                shown = os.fsencode(path).decode(errors="replace")
                found[device, int(about["ino"])] = shown
    return found


def _fdinfo(path: str) -> dict[str, str]:
    with open(path, encoding="ascii", errors="replace") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
