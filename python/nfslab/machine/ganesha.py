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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.host import local_host

if TYPE_CHECKING:
    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process

PLUGIN_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu/ganesha", "/usr/lib/aarch64-linux-gnu/ganesha",
    "/usr/lib64/ganesha", "/usr/lib/ganesha",
)  # fmt: skip
PROGRAMS = ("ganesha.nfsd", "rpcbind", "unshare", "ip")
READY_LIMIT_S = 60.0
POLL_S = 0.01
LAST_LINES = 5
EXPORT = "/export"


@dataclass(slots=True)
class GaneshaServer:
    """A Ganesha that is up. Made by `start`; `stop` ends it and its portmapper."""

    process: Process
    portmapper: Process
    port: int
    mount_port: int
    model: dict[str, Any] = field(default_factory=dict)
    """Its version and the settings given to it."""

    @property
    def source(self) -> str:
        """HOST:/EXPORT, as it is mounted."""
        return f"127.0.0.1:{EXPORT}"

    def stop(self) -> dict[str, int]:
        """End both. (Ganesha has no counters to hand over.)"""
        self.process.stop()
        self.portmapper.stop()
        return {}


def available() -> Availability:
    """Is it installed, and are we root?"""
    if os.geteuid() != 0:
        return Availability(False, "NFS-Ganesha needs root", "run as root, or use the embedded one")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or plugins() is None:
        what = ", ".join(missing) or "its FSAL VFS"
        return Availability(
            False, f"NFS-Ganesha is not whole here: {what} is missing",
            "apt install nfs-ganesha nfs-ganesha-vfs rpcbind iproute2",
        )  # fmt: skip
    return Availability(True)


def plugins() -> Path | None:
    """The folder of its file system modules, with the one that exports folders."""
    for name in PLUGIN_FOLDERS:
        if (Path(name) / "libfsalvfs.so").exists():
            return Path(name)
    return None


def start(export: Path, folder: Path, resources: Resources, threads: int | None) -> GaneshaServer:
    """Serve `export`; its files go to `folder`. Journalled; RunFailed with its last words."""
    usable = available()
    modules = plugins()
    if not usable.ok or modules is None:
        raise RunFailed(usable.reason, fix=usable.fix)
    run, log = folder / "run", folder / "ganesha.log"
    for name in ("run", "recovery"):
        (folder / name).mkdir()
    port, mount_port = _free_ports(2)
    text = configuration(export, folder, modules, (port, mount_port), threads)
    (folder / "ganesha.conf").write_text(text, encoding="utf-8")
    portmapper = _spawn("-n", run, "ip link set lo up && exec rpcbind -f", resources, log)
    _await(portmapper, log, (run / "rpcbind.sock").exists, "rpcbind")
    arguments = '-F -f "$1/ganesha.conf" -L "$1/ganesha.log" -p "$1/ganesha.pid"'
    try:
        process = _spawn("-m", run, f"exec ganesha.nfsd {arguments}", resources, log)
        ports = (port, mount_port)
        _await(process, log, lambda: all(map(_answers, ports)), "ganesha.nfsd")
    except BaseException:
        portmapper.stop()
        raise
    model = {"program": "NFS-Ganesha", "threads": threads, "fsal": "VFS"}
    return GaneshaServer(process, portmapper, port, mount_port, model)


def configuration(
    export: Path, folder: Path, modules: Path, ports: tuple[int, int], threads: int | None
) -> str:
    """Its configuration file."""
    limit = "" if threads is None else f"  RPC_Ioq_ThrdMax = {threads};\n"
    return f"""\
NFS_CORE_PARAM {{
  Bind_addr = 127.0.0.1; NFS_Port = {ports[0]}; MNT_Port = {ports[1]};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; Protocols = 3;
  Mount_Path_Pseudo = true; Plugins_Dir = "{modules}";
{limit}}}
NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{folder}/recovery"; }}
EXPORT {{
  Export_Id = 1; Path = "{export}"; Pseudo = {EXPORT}; Access_Type = RW;
  Squash = No_Root_Squash; Protocols = 3; Transports = TCP; SecType = sys;
  FSAL {{ Name = VFS; }}
}}
"""


def _spawn(kind: str, run: Path, program: str, resources: Resources, log: Path) -> Process:
    """A program in a mount namespace (and another one) with `run` as /run."""
    script = f'mount --bind "$1/run" /run && {program}'
    argv = ["unshare", "-m", kind, "sh", "-c", script, "sh", str(run.parent)]
    return local_host().spawn(argv, resources=resources, log=log.with_suffix(".out"))


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


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(count: int) -> list[int]:
    """Free now; another program may take one before Ganesha does, which then does not start."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
