"""Under which circumstances a figure was measured: what another person would have to know.

Called before every run, so it has to be quick (less than 0.1 s) and must never fail: what
cannot be read is listed under `absent` with the reason. Programs' versions and our own
commit are asked once a process. The window in which the load before the start is observed
is the time that the rest takes.

The result is plain JSON. Its sizes are bounded; a bound that was reached is listed too.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nfslab
from nfslab import clock
from nfslab.machine import inventory
from nfslab.machine.load import LoadWindow
from nfslab.machine.mounts import Mount, block_devices_of, mount_of, mounts
from nfslab.machine.readings import Reader, selected
from nfslab.machine.tools import said_by
from nfslab.storage.durability import durability_of
from nfslab.storage.mount_options import nfs_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCHEMA_VERSION = 1
VERSION_LIMIT_S = 2.0
VERSION_CHARACTERS = 200
VERSION = re.compile(r"(?:^|[\s(\"']|[A-Za-z][-/])[vV]?\d+(?:\.\d+)+(?![\w.+~-]*(?:\.so\b|/))")
"""1.2, v1.2, fio-3.33, nginx/1.22.1; no part of a path, no library's (libc-2.31.so)."""
UNDOTTED_VERSION = re.compile(r"\b[Vv]ersion:? v?\d|^[\w.+-]+ (?:\([^)]*\) )?\d+\w*(?:$|[ ,(])")
"""version 12, systemd 252, postgres (PostgreSQL) 18beta1."""
CANNOT_START = (126, 127)
"""Exit codes of a shell or a loader for what cannot be executed, or lacks a library."""
DOES_NOT_START = "it does not start"
MOUNTS_MAX = 256
MEMORY_STEP_BYTES = 64 << 20
"""Kernels of different builds keep slightly different amounts for themselves."""
LIBRARIES = ("numpy", "pyarrow", "duckdb", "pydantic", "psycopg", "click")
ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX")
"""Variables that change what is measured; only those that are set are kept."""
SYSCTLS = (
    "vm/dirty_ratio",
    "vm/dirty_bytes",
    "vm/dirty_background_ratio",
    "vm/dirty_background_bytes",
    "vm/dirty_expire_centisecs",
    "vm/dirty_writeback_centisecs",
    "vm/swappiness",
    "vm/vfs_cache_pressure",
    "vm/overcommit_memory",
    "vm/nr_hugepages",
    "vm/zone_reclaim_mode",
    "kernel/tainted",
    "kernel/numa_balancing",
    "kernel/sched_autogroup_enabled",
    "fs/aio-max-nr",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/somaxconn",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "sunrpc/tcp_slot_table_entries",
    "sunrpc/tcp_max_slot_table_entries",
)
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"
TIME_ERROR = 5
"""adjtimex(2): the clock is not synchronised."""


def provenance(
    paths: Sequence[Path] = (), programs: Iterable[str | Sequence[str]] = (), token: str = ""
) -> dict[str, Any]:
    """All that is known of this machine now; `paths` are the places of the run.

    `programs` are names or paths (asked for `--version`) or whole argument lists.
    """
    begin_ns = clock.monotonic_ns()
    reader = Reader()
    window = reader.section("load", LoadWindow)
    places = reader.section("places", lambda: _places(reader, paths)) or {}
    devices = [name for place in places.values() for name in place.get("devices", [])]
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "taken_unix_ns": clock.wall_ns(),
        "kernel": reader.section("kernel", lambda: _kernel(reader)),
        "cpu": reader.section("cpu", lambda: inventory.cpu(reader)),
        "memory": reader.section("memory", lambda: inventory.memory(reader)),
        "disks": reader.section("disks", lambda: inventory.disks(reader, devices)),
        "places": places,
        "mounts": reader.section("mounts", lambda: _all_mounts(reader)),
        "network": reader.section("network", lambda: inventory.network(reader)),
        "firmware": reader.section("firmware", lambda: inventory.firmware(reader)),
        "virtualisation": reader.section(
            "virtualisation", lambda: inventory.virtualisation(reader)
        ),
        "clock": reader.section("clock", lambda: _clock(reader)),
        "software": reader.section("software", lambda: _software(reader, programs)),
        "nfslab": reader.section("nfslab", lambda: _ourselves(reader)),
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        "user": {"uid": os.geteuid(), "root": os.geteuid() == 0},
        "inventory": reader.section("inventory", lambda: inventory.written_inventory(reader)),
    }
    if window is not None:
        result["load_before"] = reader.section("load", lambda: window.finish(reader, token))
    result["absent"] = reader.absent
    result["took_ns"] = clock.monotonic_ns() - begin_ns
    return result


def fingerprint() -> dict[str, Any]:
    """What has to be the same for runs to belong to one experiment."""
    reader = Reader()
    cpu, memory = inventory.cpu(reader), inventory.memory(reader)
    total = int(memory.get("MemTotal_bytes", 0))
    return {
        "kernel": os.uname().release,
        "architecture": os.uname().machine,
        "cpu_model": cpu["model"] or "unknown",
        "logical_cpus": cpu["logical"],
        "memory_bytes": round(total / MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES,
    }


def _kernel(reader: Reader) -> dict[str, Any]:
    name = os.uname()
    weaknesses = "/sys/devices/system/cpu/vulnerabilities"
    uptime = reader.text("/proc/uptime")
    return {
        "release": name.release,
        "version": name.version,
        "command_line": reader.text("/proc/cmdline"),
        "distribution": _distribution(reader),
        "sysctls": reader.several("/proc/sys", SYSCTLS),
        "transparent_hugepages": selected(reader.text(f"{HUGE_PAGES}/enabled", optional=True)),
        "mitigations": reader.several(weaknesses, reader.names(weaknesses)),
        "uptime_s": float(uptime.split()[0]) if uptime else None,
    }


def _distribution(reader: Reader) -> str | None:
    for line in (reader.text("/etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return None


def _places(reader: Reader, paths: Sequence[Path]) -> dict[str, Any]:
    """Mount options in effect, devices and durability of each place."""
    found = {}
    for path in paths:
        if place := reader.section(f"place {path}", lambda p=path: _place(p)):  # type: ignore[misc]
            found[str(path)] = place
    return found


def _place(path: Path) -> dict[str, Any]:
    mount = mount_of(path)
    devices = block_devices_of(mount)
    place = _mount(mount) | {
        "devices": devices,
        "durability": durability_of(mount, devices).model_dump(),
    }
    if nfs := nfs_facts(mount):
        place["nfs"] = nfs
    return place


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "mount_point": str(mount.mount_point),
        "filesystem": mount.filesystem,
        "source": mount.source,
        "options": mount.options,
    }


def _all_mounts(reader: Reader) -> list[dict[str, Any]]:
    """Mounts that hold data: with a device, or with a source that is a server's."""
    held = [m for m in mounts() if m.major != 0 or "/" in m.source or ":" in m.source]
    if len(held) > MOUNTS_MAX:
        reader.note("mounts", f"more than {MOUNTS_MAX}: the rest is left out")
    return [_mount(mount) for mount in held[:MOUNTS_MAX]]


def _clock(reader: Reader) -> dict[str, Any]:
    folder = "/sys/devices/system/clocksource/clocksource0"
    return {
        "source": reader.text(f"{folder}/current_clocksource"),
        "available": (reader.text(f"{folder}/available_clocksource") or "").split(),
        "monotonic_resolution_s": time.get_clock_info("monotonic").resolution,
        "timezone": time.strftime("%Z"),
        **_synchronisation(),
    }


def _synchronisation() -> dict[str, Any]:
    """What adjtimex(2) says of the wall clock; read only (modes = 0)."""
    # struct timex of 64-bit Linux: modes, then offset, freq, maxerror, esterror.
    fields = (ctypes.c_long * 32)()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(fields))
    if state < 0:
        return {"synchronised": None}
    return {"synchronised": state != TIME_ERROR, "maximum_error_us": int(fields[3])}


def _software(reader: Reader, programs: Iterable[str | Sequence[str]]) -> dict[str, Any]:
    """Versions as the programs themselves print them."""
    asked = [(p, "--version") if isinstance(p, str) else tuple(p) for p in programs]
    versions = {}
    for argv in asked:
        program = shutil.which(argv[0])
        if program is None:
            reader.note(argv[0], "the program is not there")
            continue
        printed, why = program_version((program, *argv[1:]))
        if why:
            reader.note(" ".join(argv), why)
        else:
            versions[argv[0]] = printed
    return {
        "programs": versions,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libc": " ".join(platform.libc_ver()),
        "libraries": _libraries(),
    }


def program_version(argv: tuple[str, ...]) -> tuple[str, str]:
    """(the line with a program's version, ""), or ("", why there is none); asked once as it is."""
    return _version(argv, os.stat(argv[0]).st_mtime_ns)


def version_line(printed: str) -> str:
    """Returns the first line with a version in it, without its surroundings; "" where none has.

    Programs print warnings before it, and some that cannot start print the shell's or the loader's.
    """
    lines = [line.strip() for line in printed.splitlines()]
    for pattern in (VERSION, UNDOTTED_VERSION):
        for line in lines:
            if pattern.search(line):
                return line[:VERSION_CHARACTERS]
    return ""


@functools.lru_cache(maxsize=256)
def _version(argv: tuple[str, ...], modified_ns: int) -> tuple[str, str]:
    """(the version's line, ""), or ("", why not). A changed program is asked again."""
    try:
        completed = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    if line := version_line(completed.stdout.decode(errors="replace")):
        return line, ""
    if completed.returncode < 0 or completed.returncode in CANNOT_START:
        return "", f"{DOES_NOT_START}: exit code {completed.returncode}"
    return "", "no version told"


@functools.lru_cache(maxsize=1)
def _libraries() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def _ourselves(reader: Reader) -> dict[str, Any]:
    commit, why = source_commit()
    if why:
        reader.note("commit", why)
    return {
        "version": nfslab.__version__,
        "commit": commit,
        "core": reader.section("core", lambda: dict(import_module("nfslab._core").build_info())),
        "executable": sys.executable,
    }


_told_commit: tuple[str, str] | None = None


def take_commit(told: tuple[str, str]) -> None:
    """What `source_commit` says from now on.

    For guests, which read the files of the machine that tells: git asks for the state of each file,
    which takes them longer than they are given."""
    global _told_commit
    _told_commit = told


def source_commit() -> tuple[str, str]:
    """(commit of the checkout that this code is in, "-dirty" appended; why it is unknown)."""
    return _asked_commit() if _told_commit is None else _told_commit


@functools.lru_cache(maxsize=1)
def _asked_commit() -> tuple[str, str]:
    root = Path(nfslab.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "", "not run from a git checkout"
    git = ["git", "-C", str(root)]
    answers = []
    for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
        try:
            completed = said_by([*git, *arguments], VERSION_LIMIT_S)
        except (OSError, subprocess.SubprocessError) as error:
            return "", str(error)
        if completed.returncode != 0:
            return "", completed.stderr.strip()[:200]
        answers.append(completed.stdout.strip())
    return answers[0] + ("-dirty" if answers[1] else ""), ""
