"""The Linux kernel's NFS server (nfsd) on a folder, for one run.

    nfsd (threads of the kernel, listening on `link.server`) ── rpc.mountd, rpcbind (of the run)

There is one nfsd in a network namespace, so one that runs already is somebody else's: refused. What
the run needs beside it is its own: rpc.mountd, exportfs and rpc.nfsd see a /var/lib/nfs, an
/etc/nfs.conf and a /run of the run, so that the machine's exports and portmapper are neither read
nor changed. What belongs to the kernel (versions, lease and grace time, the program that tracks
NFSv4 clients) is journalled, and as before afterwards.

The folder is exported once, as "/", with fsid=0: the path is the same for NFSv3 and NFSv4 then. The
other end of the link alone may mount it. The grace period of NFSv4 is ended at once: no client has
anything to reclaim. Limits: rpc.mountd and lockd listen on all addresses; a file system that cannot
be exported (overlay) is refused by exportfs.

Source: nfsd(7), rpc.nfsd(8), exports(5), nfs.conf(5); fs/nfsd/nfsctl.c.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field, field_validator, model_validator

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine import kernel_settings, nfsd_threads, processes
from nfslab.machine.availability import Availability
from nfslab.machine.mounts import SYS, block_devices_of, mount_of
from nfslab.machine.own_folders import OwnFolders, answers, free_ports, missing
from nfslab.results.records import DurabilityRecord
from nfslab.servers.base import Server, ServerParameters
from nfslab.servers.knfsd_records import KernelServerRecords
from nfslab.storage.block_layers import kernel_has
from nfslab.storage.durability import durability_of, weakest
from nfslab.storage.space import free_bytes_of

if TYPE_CHECKING:
    from nfslab.context import Services
    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Entry, Resources

PROGRAMS: Final = ("rpc.nfsd", "rpc.mountd", "exportfs", "mount")
ANSWERERS: Final = ("rpc.mountd", "nfsv4.exportd")
"""Programs that tell the kernel of a network namespace what is exported."""
Version = Literal["3", "4.0", "4.1", "4.2"]
VERSIONS: Final[tuple[Version, ...]] = ("3", "4.0", "4.1", "4.2")
THREADS: Final = 8
"""As rpc.nfsd starts unless told otherwise."""
SECONDS: Final = 10
"""Lease and grace time of NFSv4: the shortest that the kernel takes."""
GRACE_LIMIT_S: Final = 20.0
POLL_S: Final = 0.05
TRACKER: Final = SYS / "module" / "nfsd" / "parameters" / "cltrack_prog"
"""What the kernel starts to track NFSv4 clients: it would write to the machine's /var/lib/nfs."""
IO_MODES: Final = SYS / "kernel" / "debug" / "nfsd"
"""Documentation/filesystems/nfs/nfsd-io-modes.rst (Linux 6.18; experimental)."""
Mode = Literal["buffered", "dontcache", "direct"]
MODES: Final[tuple[Mode, ...]] = ("buffered", "dontcache", "direct")
"""In the order of the kernel's numbers."""
ALWAYS: Final = ("rw", "fsid=0", "no_subtree_check", "no_root_squash", "secure")
"""Root is believed, and must speak from a port below 1024."""
NOT_EXPORTABLE: Final = "does not support NFS export"


class KernelServerParameters(ServerParameters):
    """Its settings; it exports a folder."""

    threads: int | None = Field(default=None, ge=1, le=1024)
    """Threads of nfsd; 8 unless given, as rpc.nfsd."""
    min_threads: int | None = Field(default=None, ge=1, le=1024)
    """Linux's nfsd, later ones: threads of a pool that stay; up to `threads` come with the load."""
    export_sync: bool = True
    """Linux's nfsd: false exports `async`, which confirms what is not on the disk yet."""
    export_wdelay: bool = True
    """Linux's nfsd: wait a moment for further writes to sync with one; false: no_wdelay."""
    export_options: list[str] = Field(default_factory=list, max_length=32)
    """Linux's nfsd: further options of exports(5), one an entry."""
    io_read: Mode | None = None
    """Linux's nfsd (6.18, debugfs): how it reads files, of the whole machine."""
    io_write: Mode | None = None
    """Linux's nfsd (6.18, debugfs): how it writes files, of the whole machine."""
    nfs_versions: list[Version] = Field(default_factory=lambda: [*VERSIONS])
    """Linux's nfsd: versions that it speaks."""

    @field_validator("export_options")
    @classmethod
    def _single(cls, options: list[str]) -> list[str]:
        for one in options:
            if not one or any(character in " \t\n,()" for character in one):
                raise ValueError("export_options: one option an entry, without commas and blanks")
            if one in ("sync", "async", "wdelay", "no_wdelay") or one.startswith("fsid="):
                raise ValueError(f"{one}: use export_sync, export_wdelay; fsid is 0")
        return options

    @model_validator(mode="after")
    def _possible(self) -> KernelServerParameters:
        if not self.nfs_versions:
            raise ValueError("nfs_versions: at least one")
        if (self.min_threads or 0) > (self.threads or THREADS):
            raise ValueError(f"min_threads: at most threads ({self.threads or THREADS})")
        return self

    def exported(self) -> list[str]:
        """Options of exports(5) asked for."""
        sync = "sync" if self.export_sync else "async"
        wdelay = "wdelay" if self.export_wdelay else "no_wdelay"
        return [*ALWAYS, sync, wdelay, *self.export_options]


class KernelServer(Server):
    """An nfsd and its rpc.mountd."""

    kind: ClassVar[str] = "knfsd"
    summary: ClassVar[str] = "the Linux kernel's server on a folder (needs root)"
    needs: ClassVar[tuple[str, ...]] = ("root", "the kernel's NFS server")
    Parameters: ClassVar[type[ServerParameters]] = KernelServerParameters
    parameters: KernelServerParameters

    def __init__(self, parameters: ServerParameters, named: str) -> None:
        super().__init__(parameters, named)
        self._own: OwnFolders | None = None
        self._entries: list[Entry] = []
        self._control: Path | None = None

    @classmethod
    def available(cls) -> Availability:
        """Root, a kernel with nfsd, its programs."""
        if os.geteuid() != 0:
            return Availability(
                False, "the kernel's NFS server needs root", "run as root, or use the embedded one"
            )
        if not kernel_has("nfsd"):
            return Availability(
                False, f"this kernel ({os.uname().release}) has no NFS server",
                "use another server, or a stock kernel: nfslab vm run -- nfslab run ...",
            )  # fmt: skip
        return cls._programs()

    def sound(self) -> Availability:
        """Its programs."""
        return self._programs()

    @classmethod
    def _programs(cls) -> Availability:
        if absent := missing(PROGRAMS):
            return Availability(
                False, f"the kernel's NFS server needs {', '.join(absent)}",
                "apt install nfs-kernel-server rpcbind iproute2 (elsewhere: nfs-utils)",
            )  # fmt: skip
        return Availability(True)

    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        """Export `export` in the folder to the other end of the link."""
        if not (usable := self.available()).ok:
            raise RunFailed(usable.reason, fix=usable.fix)
        try:
            self._start(folder, resources, host, link)
        except BaseException:
            # What cannot be undone now stays in the journal; the first error matters.
            with contextlib.suppress(Exception):
                self.stop()
            raise

    def _start(self, folder: Path, resources: Resources, host: Host, link: Link) -> None:
        wanted = self.parameters
        # Named by the token, as what the journal finds again.
        control = folder / f"{resources.name}-nfsd"
        for name in ("export", "state", "state/v4recovery", control.name):
            (folder / name).mkdir(mode=0o755, exist_ok=True)
        for name in ("state/etab", "state/rmtab"):
            (folder / name).touch()
        (folder / "nfs.conf").write_text(f"[exports]\nrootdir={folder}/export\n", encoding="utf-8")
        self._entries.append(resources.mount(control))
        host.run(["mount", "-t", "nfsd", "nfsd", str(control)], resources=resources, timeout_s=60)
        self._control = control
        _refuse_others(control)
        if TRACKER.exists():
            entry = kernel_settings.change(resources, TRACKER, "")
            self._entries += [entry] if entry is not None else []
        splice = IO_MODES / "disable-splice-read"
        if (wanted.io_read or wanted.io_write) and splice.exists():
            # The kernel switches it on with modes that need it, and leaves it on.
            self._entries.append(resources.setting(splice, kernel_settings.read(splice)))
        for name in ("read", "write"):
            if (mode := getattr(wanted, f"io_{name}")) is not None:
                file, number = IO_MODES / f"io_cache_{name}", str(MODES.index(mode))
                entry = kernel_settings.change(resources, file, number)
                self._entries += [entry] if entry is not None else []
        self._entries += _stay(wanted.min_threads, resources)
        settings = []
        for name in ("versions", "nfsv4leasetime", "nfsv4gracetime"):
            file = control / name
            settings.append((file, resources.setting(file, kernel_settings.read(file))))
        self._entries += [entry for _, entry in settings]
        ports = free_ports(link.server, 2)
        log = folder / "nfsd.log"
        self._own = own = OwnFolders(
            folder, log, lambda argv: host.spawn(argv, resources=resources, log=log)
        )
        own.start_portmapper()
        self._entries.append(resources.nfsd(control, ports[0]))
        mountd = own.spawn(_script(wanted, link, ports))

        def ready() -> bool:
            return answers(link.server, ports[0]) and answers(link.server, ports[1])

        try:
            own.wait(mountd, ready, "the kernel's NFS server", [])
        finally:
            for file, entry in settings:
                entry.bind(after=kernel_settings.read(file))
        if any(NOT_EXPORTABLE in line for line in own.said()):
            raise RunFailed(
                f"{folder} cannot be exported",
                why=f"{mount_of(folder).filesystem} does not support NFS export",
                fix="give a `directory` on ext4, xfs, btrfs or tmpfs",
            )
        self.model = self._in_effect(control, folder / "state" / "etab")
        self._end_grace(control)
        self.source = f"{link.server}:/"
        self.options = [f"port={ports[0]}", f"mountport={ports[1]}"]

    def stop(self) -> None:
        """End nfsd, then its programs; the kernel's settings are then as before."""
        self._control = None
        if self._entries and self._entries[-1].what.get("port"):
            self._entries.pop().undo()
        own, self._own = self._own, None
        if own is not None:
            own.stop()
        while self._entries:
            self._entries.pop().undo()

    def offer(self, target: str, services: Services) -> None:
        """Its requests, by tracepoints."""
        if self._control is not None:
            services.nfs_servers[target] = KernelServerRecords(self.model or {})

    def free_bytes(self, directory: Path) -> int | None:
        """Of its folder."""
        return free_bytes_of(directory)

    def data_folder(self, folder: Path) -> Path | None:
        """Its export."""
        return folder / "export"

    def durability(self, folder: Path) -> DurabilityRecord | None:
        """Of its folder, unless the kernel's own table of exports says `async`. RunFailed."""
        options = self._exported_now()
        sync = "sync" if self.parameters.export_sync else "async"
        if options is not None and sync not in options:
            raise RunFailed(
                "the export options in effect differ from those requested",
                why=f"asked {sync}, in effect {','.join(options)}",
                fix="see that no other program exports it (exportfs -v)",
            )
        mount = mount_of(folder)
        below = durability_of(mount, block_devices_of(mount))
        if sync == "sync":
            return below
        reason = "the export is async: the server confirms what is not on the disk yet"
        return weakest([below, DurabilityRecord(level="volatile", reasons=[reason])])

    def _exported_now(self) -> list[str] | None:
        """The export's options in the kernel's table; None before a client has asked for it."""
        if self._control is None:
            return None
        for line in (self._control / "exports").read_text(errors="replace").splitlines():
            path, _, rest = line.partition("\t")
            if path.endswith("/export"):
                return rest.partition("(")[2].rpartition(")")[0].split(",")
        return None

    def _in_effect(self, control: Path, table: Path) -> dict[str, Any]:
        """Threads, versions, options of the export as read back; RunFailed where they differ."""
        wanted = self.parameters
        asked = {
            "threads": str(wanted.threads or THREADS),
            "nfs_versions": ",".join(one for one in VERSIONS if one in wanted.nfs_versions),
        }
        found = {
            "threads": kernel_settings.read(control / "threads"),
            "nfs_versions": ",".join(spoken(kernel_settings.read(control / "versions"))),
        }
        exported = exported_options(table.read_text(encoding="utf-8", errors="replace"))
        wrong = [
            f"{name}: asked {value}, in effect {found[name]}"
            for name, value in asked.items()
            if value != found[name] and not (name == "threads" and wanted.min_threads)
        ]
        wrong += [
            f"{one}: not in effect ({','.join(exported)})"
            for one in wanted.exported()
            if one not in exported
        ]
        if wrong:
            raise RunFailed(
                "the kernel's NFS server has not taken what was asked for",
                why="; ".join(wrong),
                fix="ask for what is in effect",
            )
        return {
            "program": "Linux nfsd", "threads": int(found["threads"]),
            **({"min_threads": wanted.min_threads} if wanted.min_threads else {}),
            "nfs_versions": spoken(kernel_settings.read(control / "versions")),
            "export": ",".join(dict.fromkeys(exported)),
            "lease_s": int(kernel_settings.read(control / "nfsv4leasetime")),
        }  # fmt: skip

    def _end_grace(self, control: Path) -> None:
        """No client of an earlier life has anything to reclaim; RunFailed when it does not end."""
        if self.parameters.nfs_versions == ["3"]:
            return
        file = control / "v4_end_grace"
        deadline = clock.monotonic() + GRACE_LIMIT_S
        while kernel_settings.read(file) != "Y":
            # EBUSY: it has not begun, or has ended since; the kernel ends it some time later.
            with contextlib.suppress(OSError):
                file.write_text("Y\n", encoding="ascii")
            if clock.monotonic() > deadline:
                raise RunFailed(
                    "the grace period of the kernel's NFS server does not end",
                    why=f"{file.name} says {kernel_settings.read(file)}",
                    fix='serve NFSv3 alone: nfs_versions = ["3"]',
                )
            clock.sleep(POLL_S)


def _script(wanted: KernelServerParameters, link: Link, ports: list[int]) -> str:
    """What is run in the server's own folders: exports, nfsd, then rpc.mountd for good."""
    options = ",".join(wanted.exported())
    off = [one for one in VERSIONS if one not in wanted.nfs_versions]
    words = [f"-N {one}" for one in off] + [f"-V {one}" for one in wanted.nfs_versions]
    return " && ".join(
        [
            'mount --bind "$1/state" /var/lib/nfs',
            'mount --bind "$1/nfs.conf" /etc/nfs.conf',
            "{ test -e /proc/fs/nfsd/threads || mount -t nfsd nfsd /proc/fs/nfsd; }",
            f"exportfs -i -o {options} {_client(link.client)}:/",
            f"rpc.nfsd -H {link.server} -p {ports[0]} -U -L {SECONDS} -G {SECONDS} "
            f"{' '.join(words)} {wanted.threads or THREADS}",
            f"exec rpc.mountd -F -u -p {ports[1]}",
        ]
    )


def _client(address: str) -> str:
    """As exports(5) writes an address."""
    return f"[{address}]" if ":" in address else address


def _stay(threads: int | None, resources: Resources) -> list[Entry]:
    """So many threads of a pool are to stay; RunFailed where all do."""
    if threads is None:
        return []
    before = nfsd_threads.least_threads()
    if before is None:
        raise RunFailed(
            "min_threads: the threads of this kernel's NFS server do not come and go",
            why=f"this is Linux {os.uname().release}, whose nfsd is not told such a number",
            fix="leave min_threads out, or take a kernel that has it (docs/vm.md)",
        )
    if before == threads:
        return []
    entry = resources.nfsd_threads(before, threads)
    nfsd_threads.set_least_threads(threads)
    if (now := nfsd_threads.least_threads()) != threads:
        entry.undo()
        raise RunFailed(
            f"min_threads: asked {threads}, in effect {now}",
            fix="give a number that the kernel takes",
        )
    return [entry]


def _refuse_others(control: Path) -> None:
    """RunFailed when nfsd runs already, or a program tells the kernel of its own exports."""
    threads = kernel_settings.read(control / "threads")
    listens = kernel_settings.read(control / "portlist")
    if threads != "0" or listens:
        raise RunFailed(
            "the kernel's NFS server runs already, for somebody else",
            why=f"{threads} threads, listening on {', '.join(listens.split(chr(10))) or 'nothing'}",
            fix="stop it (systemctl stop nfs-server), or measure it: server = HOST:/EXPORT",
        )
    ours = os.readlink("/proc/self/ns/net")
    for status in processes.all_statuses():
        pid = status.identity.pid
        with contextlib.suppress(OSError):
            if status.name in ANSWERERS and os.readlink(f"/proc/{pid}/ns/net") == ours:
                raise RunFailed(
                    f"{status.name} runs already, for somebody else (process {pid})",
                    why="the kernel would ask it for exports, which it knows nothing of",
                    fix="stop it: systemctl stop nfs-mountd nfs-server",
                )


def spoken(text: str) -> list[str]:
    """Versions of /proc/fs/nfsd/versions ("+3 +4 -4.0 +4.1 +4.2") that are on."""
    signs = {word[1:]: word[:1] == "+" for word in text.split()}
    found = ["3"] if signs.get("3") else []
    if signs.get("4"):
        # 4.0 is named only where it is off.
        found += [one for one in VERSIONS[1:] if signs.get(one, one == "4.0")]
    return found


def exported_options(table: str) -> list[str]:
    """Options of the first export in /var/lib/nfs/etab: "/<TAB>CLIENT(rw,sync,...)"."""
    line = table.partition("\n")[0]
    return line.partition("(")[2].rpartition(")")[0].split(",")
