"""NFS-Ganesha as a server for one run: a folder over NFSv3 on ports of its own.

Ganesha insists on a portmapper for NFSv3. It gets one of its own, in namespaces where nothing
else is: rpcbind runs without a network that anybody sees, and both have a /run of their own,
through whose socket they meet. Clients are given the ports. Needs root.

Source: ganesha.nfsd(8), ganesha-core-config(8), ganesha-export-config(8); FSAL VFS exports a
local folder.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.servers.base import Server, ServerParameters
from nfslab.storage.space import free_bytes_of

if TYPE_CHECKING:
    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process
    from nfslab.results.records import Level

PLUGIN_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu/ganesha", "/usr/lib/aarch64-linux-gnu/ganesha",
    "/usr/lib64/ganesha", "/usr/lib/ganesha",
)  # fmt: skip
PROGRAMS = ("ganesha.nfsd", "rpcbind", "unshare", "ip")
READY_LIMIT_S = 60.0
POLL_S = 0.01
LAST_LINES = 5
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
        self._processes: list[Process] = []

    @classmethod
    def available(cls) -> Availability:
        """Is it installed, and are we root?"""
        if os.geteuid() != 0:
            return Availability(
                False, "NFS-Ganesha needs root", "run as root, or use the embedded one"
            )
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing or plugins() is None:
            what = ", ".join(missing) or "its FSAL VFS"
            return Availability(
                False, f"NFS-Ganesha is not whole here: {what} is missing",
                "apt install nfs-ganesha nfs-ganesha-vfs rpcbind iproute2",
            )  # fmt: skip
        return Availability(True)

    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        """Serve the folder `export`. (Addresses of `link` are the only ones that it listens on.)"""
        usable, modules = self.available(), plugins()
        if not usable.ok or modules is None:
            raise RunFailed(usable.reason, fix=usable.fix)
        run, log = folder / "run", folder / "ganesha.log"
        for name in ("run", "recovery", "export"):
            (folder / name).mkdir(mode=0o755, exist_ok=True)
        ports = _free_ports(link.server, 2)
        text = configuration(folder, modules, link.server, ports, self.parameters.threads)
        (folder / "ganesha.conf").write_text(text, encoding="utf-8")

        def spawn(kind: str, program: str) -> Process:
            """A program in a mount namespace (and another one) with `run` as /run."""
            script = f'mount --bind "$1/run" /run && {program}'
            argv = ["unshare", "-m", kind, "sh", "-c", script, "sh", str(folder)]
            process = host.spawn(argv, resources=resources, log=log.with_suffix(".out"))
            self._processes.append(process)
            return process

        portmapper = spawn("-n", "ip link set lo up && exec rpcbind -f")
        try:
            _await(portmapper, log, (run / "rpcbind.sock").exists, "rpcbind")
            files = '-F -f "$1/ganesha.conf" -L "$1/ganesha.log" -p "$1/ganesha.pid"'
            self.process = process = spawn("-m", f"exec ganesha.nfsd {files}")
            _await(
                process, log, lambda: all(_answers(link.server, port) for port in ports),
                "ganesha.nfsd",
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
        while self._processes:
            self._processes.pop().stop()

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
    folder: Path, modules: Path, address: str, ports: list[int], threads: int | None
) -> str:
    """Its configuration file."""
    limit = "" if threads is None else f"  RPC_Ioq_ThrdMax = {threads};\n"
    return f"""\
NFS_CORE_PARAM {{
  Bind_addr = {address}; NFS_Port = {ports[0]}; MNT_Port = {ports[1]};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; Protocols = 3;
  Mount_Path_Pseudo = true; Plugins_Dir = "{modules}";
{limit}}}
NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{folder}/recovery"; }}
EXPORT {{
  Export_Id = 1; Path = "{folder}/export"; Pseudo = {EXPORT}; Access_Type = RW;
  Squash = No_Root_Squash; Protocols = 3; Transports = TCP; SecType = sys;
  FSAL {{ Name = VFS; }}
}}
"""


def _await(process: Process, log: Path, ready: Any, name: str) -> None:
    deadline = time.monotonic() + READY_LIMIT_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            process.stop()
            said = [file for file in (log, log.with_suffix(".out")) if file.exists()]
            lines = [
                line for file in said for line in file.read_text(errors="replace").splitlines()
            ]
            raise RunFailed(
                f"{name} did not start",
                why="; ".join(lines[-LAST_LINES:]) or "it said nothing",
                fix="try it by hand, or use the embedded server",
            )
        time.sleep(POLL_S)


def _answers(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def _free_ports(address: str, count: int) -> list[int]:
    """Free now; another program may take one before Ganesha does, which then does not start."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((address, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
