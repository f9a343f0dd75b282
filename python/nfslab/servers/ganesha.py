"""NFS-Ganesha as a server for one run: a folder over NFSv3 on ports of its own.

Ganesha insists on a portmapper for NFSv3. It gets one of its own (`own_folders`); clients are given
the ports. Needs root.

Source: ganesha.nfsd(8), ganesha-core-config(8), ganesha-export-config(8); FSAL VFS exports a
local folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.own_folders import OwnFolders, answers, free_ports, missing
from nfslab.servers.base import Server, ServerParameters
from nfslab.storage.space import free_bytes_of

if TYPE_CHECKING:
    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Resources
    from nfslab.results.records import Level

PLUGIN_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu/ganesha", "/usr/lib/aarch64-linux-gnu/ganesha",
    "/usr/lib64/ganesha", "/usr/lib/ganesha",
)  # fmt: skip
EXPORT = "/export"


class GaneshaParameters(ServerParameters):
    """Its settings; it exports a folder."""

    threads: int | None = Field(default=None, ge=2, le=1024)
    """Workers, as nfsd's threads. It does not start with fewer than 2."""
    server_durability: Literal["stable", "volatile"] | None = None
    """Does it keep what it confirmed?"""


class GaneshaServer(Server):
    """A Ganesha and its portmapper."""

    kind: ClassVar[str] = "ganesha"
    summary: ClassVar[str] = "NFS-Ganesha on a folder (needs root)"
    needs: ClassVar[tuple[str, ...]] = ("root", "NFS-Ganesha")
    Parameters: ClassVar[type[ServerParameters]] = GaneshaParameters
    parameters: GaneshaParameters

    def __init__(self, parameters: ServerParameters, named: str) -> None:
        super().__init__(parameters, named)
        self._own: OwnFolders | None = None

    @classmethod
    def available(cls) -> Availability:
        """Is it installed, and are we root?"""
        if os.geteuid() != 0:
            return Availability(
                False, "NFS-Ganesha needs root", "run as root, or use the embedded one"
            )
        return cls._programs()

    def sound(self) -> Availability:
        """Its programs and its FSAL."""
        return self._programs()

    @classmethod
    def _programs(cls) -> Availability:
        absent = missing(("ganesha.nfsd", "mount"))
        if absent or plugins() is None:
            what = ", ".join(absent) or "its FSAL VFS"
            return Availability(
                False, f"NFS-Ganesha is not whole here: {what} is missing",
                "apt install nfs-ganesha nfs-ganesha-vfs rpcbind iproute2 mount",
            )  # fmt: skip
        return Availability(True)

    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        """Serve the folder `export` to the addresses of `link`."""
        usable, modules = self.available(), plugins()
        if not usable.ok or modules is None:
            raise RunFailed(usable.reason, fix=usable.fix)
        log = folder / "ganesha.log"
        for name in ("recovery", "export"):
            (folder / name).mkdir(mode=0o755, exist_ok=True)
        ports = free_ports(link.server, 2)
        text = configuration(folder, modules, link, ports, self.parameters.threads)
        (folder / "ganesha.conf").write_text(text, encoding="utf-8")
        out = log.with_suffix(".out")
        self._own = own = OwnFolders(
            folder, out, lambda argv: host.spawn(argv, resources=resources, log=out)
        )
        try:
            own.start_portmapper()
            files = '-F -f "$1/ganesha.conf" -L "$1/ganesha.log" -p "$1/ganesha.pid"'
            self.process = own.spawn(f"exec ganesha.nfsd {files}")
            own.wait(
                self.process, lambda: all(answers(link.server, port) for port in ports),
                "ganesha.nfsd", [log],
            )  # fmt: skip
        except BaseException:
            self.stop()
            raise
        self.source = f"{link.server}:{EXPORT}"
        self.options = [f"port={ports[0]}", f"mountport={ports[1]}"]
        self.model = {
            "program": "NFS-Ganesha", "threads": self.parameters.threads, "fsal": "VFS",
        }  # fmt: skip

    def stop(self) -> None:
        """End it, then its portmapper."""
        own, self._own = self._own, None
        if own is not None:
            own.stop()

    def free_bytes(self, directory: Path) -> int | None:
        """Of its folder."""
        return free_bytes_of(directory)

    def data_folder(self, folder: Path) -> Path | None:
        """Its export."""
        return folder / "export"

    @property
    def stated_durability(self) -> Level | None:
        """As given: only its owner knows."""
        return self.parameters.server_durability


def plugins() -> Path | None:
    """The folder of its file system modules, with the one that exports folders."""
    for name in PLUGIN_FOLDERS:
        if (Path(name) / "libfsalvfs.so").exists():
            return Path(name)
    return None


def configuration(
    folder: Path, modules: Path, link: Link, ports: list[int], threads: int | None
) -> str:
    """Returns its configuration file.

    The address to listen on is not enough: where a machine has IPv6, but no address of it besides
    ::1, Ganesha 4.3 listens on all addresses. So the export names its clients.
    """
    limit = "" if threads is None else f"  RPC_Ioq_ThrdMax = {threads};\n"
    return f"""\
NFS_CORE_PARAM {{
  Bind_addr = {link.server}; NFS_Port = {ports[0]}; MNT_Port = {ports[1]};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; Protocols = 3;
  Mount_Path_Pseudo = true; Plugins_Dir = "{modules}";
{limit}}}
NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{folder}/recovery"; }}
EXPORT {{
  Export_Id = 1; Path = "{folder}/export"; Pseudo = {EXPORT}; Access_Type = None;
  Squash = No_Root_Squash; PrivilegedPort = true; Protocols = 3; Transports = TCP; SecType = sys;
  CLIENT {{ Clients = {", ".join(link.addresses)}; Access_Type = RW; }}
  FSAL {{ Name = VFS; }}
}}
"""
