"""The Linux kernel's own NFS client: mount.nfs(8), every option read back.

The kernel takes some options otherwise than they were asked for without a word: it rounds rsize,
it gives a second mount of a server the connections of the first. So nothing else may have this
server mounted, and what is in effect (mountinfo, mountstats, read-ahead, slot tables) is compared
with what was asked for: a difference fails the run.

Limits: a mount of the server in another network namespace is not seen, and shares nothing. NFSv3
locks are local (`nolock`) unless `mount_options` has "lock": rpc.statd is not started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from nfslab import clock
from nfslab.errors import RunFailed, UsageError, system_errors
from nfslab.machine import kernel_settings
from nfslab.machine.availability import Availability
from nfslab.machine.mounts import SYS, mounts
from nfslab.machine.nfs_mounts import NFS_PORT, has_client, mounts_of_server
from nfslab.machine.trees import names_token
from nfslab.mounts import kernel_options
from nfslab.mounts.base import FLAGS, OPTIONS, Mounting, MountParameters
from nfslab.mounts.kernel_recorder import KernelRecorder, connections
from nfslab.quantities import Size
from nfslab.storage.block_layers import kernel_has_filesystem
from nfslab.storage.counters import FormError
from nfslab.storage.mount_options import nfs_facts
from nfslab.storage.mountstats import counts_at, read_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.context import Services
    from nfslab.hosts.base import Completed, Host
    from nfslab.machine.mounts import Mount
    from nfslab.machine.resources import Entry, Resources
    from nfslab.storage.mountstats import MountCounts

PROGRAM: Final = "mount.nfs"
MOUNT_LIMIT_S: Final = 60.0
"""For a server that says nothing; hard mounts would wait for minutes."""
CLIENT_GONE_LIMIT_S: Final = 5.0
"""The kernel frees its client of a server a moment after the last unmount."""
POLL_S: Final = 0.02
SLOT_SETTINGS: Final = {
    "tcp_slot_table_entries": "sunrpc",
    "tcp_max_slot_table_entries": "sunrpc",
    "max_session_slots": "nfs",
}
"""Parameter of a module -> the module."""
REFUSED: Final = ("incorrect mount option", "Invalid argument")
"""mount.nfs's words for EINVAL."""
ADVICE: Final = {
    "Connection refused": "start the server there, or correct `port`: nothing listens",
    "Connection timed out": "see that the server is up and that no firewall drops its packets",
    "No route to host": "see that the network reaches the server",
    "access denied": "export it to this machine (exportfs -v there shows to whom it is)",
    "No such file or directory": "correct the export's path (NFSv4: below the one of fsid=0)",
    "Failed to resolve": "correct the host's name",
    "busy or already mounted": "unmount what is there",
    "No such process": "start tlshd (ktls-utils), which does TLS's handshake",
    "rpc.statd": 'leave "lock" out, or start rpc.statd',
    "Protocol not supported": "choose a `vers` and `proto` that the server and this kernel have",
    "Operation not permitted": "the server refuses a source port above 1023 (insecure), or `sec`",
}
"""In mount.nfs's words -> what to do."""


def _text(value: object) -> object:
    """4.1 and 3 of TOML as nfs(5) writes them."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class KernelParameters(MountParameters):
    """Options of the kernel's client (nfs(5)), and what belongs to it beside them."""

    named: ClassVar[tuple[str, ...]] = (
        "vers", *(name for name in OPTIONS if name != "call_delay"),
        "actimeo", "lookupcache", "sec", "xprtsec",
    )  # fmt: skip
    flags: ClassVar[tuple[tuple[str, str], ...]] = (*FLAGS, ("cto", "nocto"))

    vers: Annotated[Literal["3", "4.0", "4.1", "4.2"] | None, BeforeValidator(_text)] = None
    """NFS version. Unless given: 3 of a server of nfslab's own, of others what both sides speak."""
    actimeo: int | None = Field(default=None, ge=0, le=86400)
    """Kernel's client: seconds that attributes are believed, files' and directories'."""
    lookupcache: Literal["all", "none", "pos", "positive"] | None = None
    """Kernel's client: which names it keeps."""
    cto: bool | None = None
    """Kernel's client: close-to-open consistency; false: nocto."""
    sec: Literal["sys", "none", "krb5", "krb5i", "krb5p"] | None = None
    """Kernel's client: RPC security."""
    xprtsec: Literal["none", "tls", "mtls"] | None = None
    """Kernel's client (Linux 6.5): transport security."""
    read_ahead: Size | None = Field(default=None, ge=0)
    """Kernel's client: read-ahead of this mount (read_ahead_kb), a multiple of 4k."""
    tcp_slot_table_entries: int | None = Field(default=None, ge=2, le=65536)
    """Kernel's client: calls at once on a connection, to begin with (of the whole machine)."""
    tcp_max_slot_table_entries: int | None = Field(default=None, ge=2, le=65536)
    """Kernel's client: calls at once on a connection, at most (of the whole machine)."""
    max_session_slots: int | None = Field(default=None, ge=1, le=1024)
    """Kernel's client, NFSv4.1 and later: slots asked for in a session (of the whole machine)."""

    @model_validator(mode="after")
    def _possible(self) -> KernelParameters:
        if self.call_delay is not None:
            raise ValueError('call_delay is planted by client = "user" only')
        if self.nconnect is not None and not 1 <= self.nconnect <= 16:
            raise ValueError("nconnect is 1 to 16 (nfs(5))")
        if self.read_ahead is not None and self.read_ahead % os.sysconf("SC_PAGE_SIZE"):
            raise ValueError("read_ahead is a multiple of 4k: the kernel counts pages")
        if self.vers in ("3", "4.0") and self.max_session_slots is not None:
            raise ValueError("max_session_slots goes with vers 4.1 and later")
        return self


class KernelMount(Mounting):
    """A mount by the kernel."""

    kind: ClassVar[str] = "kernel"
    summary: ClassVar[str] = "the Linux kernel's client (needs root): NFSv3 to NFSv4.2"
    Parameters: ClassVar[type[MountParameters]] = KernelParameters
    needs: ClassVar[tuple[str, ...]] = ("root", "the kernel's NFS client")
    parameters: KernelParameters

    def __init__(self, parameters: MountParameters, target: str) -> None:
        super().__init__(parameters, target)
        self._entries: list[Entry] = []
        self._facts: dict[str, Any] = {}
        self._server: tuple[set[str], int] = (set(), NFS_PORT)

    @classmethod
    def available(cls) -> Availability:
        """Root, a kernel with NFS, mount.nfs."""
        if os.geteuid() != 0:
            return Availability(
                False, "only root can mount NFS by the kernel", 'run as root, or client = "user"'
            )
        if not kernel_has_filesystem("nfs"):
            return Availability(
                False, f"this kernel ({os.uname().release}) has no NFS client",
                'use client = "user", or a stock kernel: nfslab vm run -- nfslab run ...',
            )  # fmt: skip
        return cls._programs()

    def sound(self) -> Availability:
        """mount.nfs."""
        return self._programs()

    @classmethod
    def _programs(cls) -> Availability:
        if shutil.which(PROGRAM) is None:
            return Availability(
                False, f"the program {PROGRAM} is missing",
                "apt install nfs-common (elsewhere: nfs-utils)",
            )  # fmt: skip
        return Availability(True)

    def up(
        self,
        source: str,
        options: Sequence[str],
        point: Path,
        resources: Resources,
        *,
        host: Host,
        is_calibration: bool,
    ) -> None:
        """Mount it, see that all is in effect; nothing is left where that fails."""
        if not (usable := self.available()).ok:
            raise RunFailed(f"target {self.target!r}: {usable.reason}", fix=usable.fix)
        asked = self._asked(options)
        addresses = self._addresses(source)
        port = next((int(one[5:]) for one in asked if one.startswith("port=")), NFS_PORT)
        self._server = (addresses, port)
        try:
            with host.entered():
                self._refuse_shared(addresses, port, resources.token)
            self._set_slots(resources)
            self._entries.append(resources.mount(point))
            self._mount(source, asked, point, resources, host)
            mount = self._seen(point)
            self._read_ahead(mount)
            counts = self._counts(mount)
            if wrong := kernel_options.wrong_in_effect(asked, mount, counts):
                raise RunFailed(
                    f"target {self.target!r}: options of {source} in effect differ from those "
                    "requested",
                    why="; ".join(f"asked {one}" for one in wrong),
                    fix="ask for what is in effect, or set the server so that it can be",
                )
            self._facts |= _facts(mount, counts)
        except BaseException:
            # What cannot be undone now stays in the journal; the first error matters.
            with contextlib.suppress(Exception):
                self.down()
            raise

    def down(self) -> None:
        """Unmount (by force where the server is gone), then the settings as before."""
        while self._entries:
            self._entries.pop().undo()

    def facts(self) -> dict[str, Any]:
        """Options in effect as the kernel shows them, read-ahead and slot tables as read back."""
        return self._facts

    def offer(self, target: str, services: Services) -> None:
        """The record of its RPCs, where the kernel tells whose they are."""
        alone = len(mounts_of_server(*self._server)) == 1
        if alone and connections(*self._server):
            services.rpc_recorders[target] = KernelRecorder(*self._server)

    def _asked(self, options: Sequence[str]) -> list[str]:
        """All options, the server's ports first."""
        asked = [*options, *self.parameters.options()]
        names = {kernel_options.name_of(one) for one in asked}
        if not names & {"vers", "nfsvers"} and "mountport" in names:
            asked.append("vers=3")  # a server of ours
        version = next((one for one in asked if one.startswith(("vers=", "nfsvers="))), "")
        if version.endswith("=3"):
            if "mountport" in names:
                # Else mount.nfs tries UDP, which a server of ours does not have.
                missing = {"proto": "tcp", "mountproto": "tcp", "mountvers": "3"}
                asked += [f"{key}={value}" for key, value in missing.items() if key not in names]
            if not names & {"lock", "nolock", "local_lock"}:
                asked.append("nolock")
        elif version:
            own = kernel_options.OF_MOUNT_PROTOCOL
            asked = [one for one in asked if kernel_options.name_of(one) not in own]
        return asked

    def _addresses(self, source: str) -> set[str]:
        """Of the server; RunFailed when its name is not known."""
        name = source.rpartition(":/")[0].strip("[]")
        what = f"target {self.target!r}: the server {name!r} is not known"
        with system_errors(what, "correct the name, or give its address", RunFailed):
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        return {str(address[0]) for *_, address in found}

    def _refuse_shared(self, addresses: set[str], port: int, token: str) -> None:
        """RunFailed when somebody else has this server mounted: connections would be shared."""
        seen = mounts_of_server(addresses, port)
        theirs = [one for one in seen if not names_token(one.mount_point, token)]
        why = f"mounted already: {theirs[0].source} at {theirs[0].mount_point}" if theirs else ""
        if not seen:
            until = clock.monotonic() + CLIENT_GONE_LIMIT_S
            while has_client(addresses, port):
                if clock.monotonic() > until:
                    why = (
                        "a mount that is not seen here: in another mount namespace, or unmounted "
                        "lazily and still used"
                    )
                    break
                clock.sleep(POLL_S)
        if why:
            raise RunFailed(
                f"target {self.target!r}: somebody else has mounted this server",
                why=f"{why}; the kernel would share its connections and nconnect with ours",
                fix="unmount it, or measure there with a target of kind path",
            )

    def _set_slots(self, resources: Resources) -> None:
        """The slot tables' sizes, journalled: connections made from now on have them."""
        for name, module in SLOT_SETTINGS.items():
            if (value := getattr(self.parameters, name)) is None:
                continue
            file = SYS / "module" / module / "parameters" / name
            if not file.exists():
                # The module comes with the first mount; its settings are wanted before.
                _load(module)
            entry = kernel_settings.change(resources, file, str(value))
            self._entries += [entry] if entry is not None else []
            self._facts[name] = int(kernel_settings.read(file))

    def _mount(
        self, source: str, asked: list[str], point: Path, resources: Resources, host: Host
    ) -> None:
        """mount.nfs, its words as our errors."""
        argv = [PROGRAM, source, str(point), "-o", ",".join([*asked, "retry=0"])]
        try:
            done = host.run(
                argv, resources=resources, timeout_s=MOUNT_LIMIT_S, check=False,
                env={"LC_ALL": "C"},
            )  # fmt: skip
        except RunFailed as error:
            raise RunFailed(
                f"target {self.target!r}: {source} was not mounted",
                why=f"{error.what}; its server does not answer",
                fix="see that the server is up and that no firewall drops its packets",
            ) from error
        if done.returncode != 0:
            with host.entered():
                raise self._refusal(source, asked, done)

    def _refusal(self, source: str, asked: list[str], done: Completed) -> RunFailed | UsageError:
        """What mount.nfs said, with the option that the kernel refuses where it is one."""
        said = " ".join(f"{done.stderr} {done.stdout}".replace(f"{PROGRAM}: ", "").split())
        if any(words in said for words in REFUSED):
            v4 = any(one.startswith(("vers=4", "nfsvers=4")) for one in asked)
            given = [one for one in asked if kernel_options.name_of(one) != "addr"]
            address = min(self._addresses(source))
            told = kernel_options.refused_option(
                "nfs4" if v4 else "nfs", source, [*given, f"addr={address}"]
            )
            if told:
                return UsageError(
                    f"target {self.target!r}: the kernel refuses an option of the mount",
                    why=told,
                    fix="nfs(5) has the options and their values; this kernel may lack one",
                )
        fix = next((fix for words, fix in ADVICE.items() if words in said), "try it by hand")
        return RunFailed(
            f"target {self.target!r}: {source} was not mounted",
            why=f"{PROGRAM}: {said or f'exit code {done.returncode}'} ({','.join(asked)})",
            fix=fix,
        )

    def _seen(self, point: Path) -> Mount:
        """Its line of mountinfo."""
        here = Path(os.path.realpath(point.parent)) / point.name
        found = [one for one in mounts() if one.mount_point == here]
        if not found:
            raise RunFailed(
                f"target {self.target!r}: {PROGRAM} is content, but nothing is mounted at {here}",
                fix="try it by hand",
            )
        return found[-1]

    def _counts(self, mount: Mount) -> MountCounts:
        """Its part of mountstats; RunFailed."""
        point = str(mount.mount_point)
        try:
            counts = counts_at(read_counts([point]), point)
        except (OSError, FormError) as error:
            raise RunFailed(
                f"target {self.target!r}: the options in effect cannot be read",
                why=f"/proc/self/mountstats: {error}",
                fix="mount /proc, and please report this with that file",
            ) from error
        if counts is None:
            raise RunFailed(
                f"target {self.target!r}: /proc/self/mountstats does not show {point}",
                fix="mount /proc",
            )
        return counts

    def _read_ahead(self, mount: Mount) -> None:
        """Set and read back; it goes with the mount."""
        file = SYS / "class" / "bdi" / f"{mount.major}:{mount.minor}" / "read_ahead_kb"
        wanted = self.parameters.read_ahead
        try:
            if wanted is not None:
                file.write_text(f"{wanted >> 10}\n", encoding="ascii")
            self._facts["read_ahead_kb"] = now = int(kernel_settings.read(file))
        except OSError as error:
            if wanted is None:
                return
            raise RunFailed(
                f"target {self.target!r}: the read-ahead cannot be set",
                why=f"{file}: {error.strerror}",
                fix="leave read_ahead out",
            ) from error
        if wanted is not None and now << 10 != wanted:
            raise RunFailed(
                f"target {self.target!r}: options in effect differ from those requested",
                why=f"asked read_ahead={wanted >> 10}k: in effect is {now}k",
                fix="ask for what is in effect",
            )


def _facts(mount: Mount, counts: MountCounts) -> dict[str, Any]:
    """For the record; ports differ from run to run, and are in `options` alone."""
    options = kernel_options.without_ports(counts.options)
    return nfs_facts(mount) | {"options_reported": options}


def _load(module: str) -> None:
    """modprobe(8), as the mount would; what fails shows when the setting is read."""
    import subprocess

    if (program := shutil.which("modprobe")) is not None:
        subprocess.run([program, module], capture_output=True, check=False, timeout=MOUNT_LIMIT_S)
