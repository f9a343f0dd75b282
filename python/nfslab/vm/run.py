"""Run one command in a virtual machine: prepare, boot, attend, clean up."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nfslab.errors import RunFailed, Unavailable, UsageError
from nfslab.machine.emulation import SENTENCE
from nfslab.machine.journal import state_folder
from nfslab.machine.processes import TOKEN_VARIABLE
from nfslab.machine.resources import Resources
from nfslab.vm import kernel as kernels
from nfslab.vm import qemu
from nfslab.vm.guest import SLIPPED, Guest, Limits, NoSignOfLife
from nfslab.vm.initramfs import Archive
from nfslab.vm.modules import NEEDED, NETWORK, needed
from nfslab.vm.packages import STOCK
from nfslab.vm.shares import Share, find_virtiofsd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nfslab.machine.resources import Entry
    from nfslab.vm.kernel import Kernel

HERE = Path(__file__).parent
COVERED = (Path("/proc"), Path("/sys"), Path("/dev"), Path("/run"))
"""Folders of this machine that a guest has of its own."""
NOT_FOR_A_GUEST = ("DBUS_", "SSH_", "DISPLAY", "WAYLAND_", "XDG_RUNTIME_DIR", "XAUTHORITY", "TMUX")
"""Beginnings of variables that point at a session of this machine."""
VARIABLE = re.compile(rf"(?!({TOKEN_VARIABLE}|E?UID|PPID|(SHELL|BASH)OPTS)$)[A-Za-z_][A-Za-z0-9_]*")
"""Names that a shell can export; some shells refuse their own."""
GUEST_STATE = "/run/nfslab/state"
BOOTS_MOST = 3
SOCKET_PATH_MAX = 56
"""Of the folder that guests' folders lie in: unix(7) allows 108 bytes in all."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    command: Sequence[str]
    kernel: str = STOCK
    """A version, or a path."""
    modules: Path | None = None
    size: qemu.Size = field(default_factory=lambda: qemu.Size(2 << 30, 2))
    work: Path = field(default_factory=Path.cwd)
    """Shared for writing; the command runs there."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Boot:
    """What a guest is made of, and what it runs."""

    command: Sequence[str]
    work: Path
    """Shared for writing; the command runs there."""
    kernel: Kernel
    size: qemu.Size
    limits: Limits = field(default_factory=Limits)
    wiring: qemu.Wiring = qemu.PLAIN
    resources: Resources | None = None
    """The run's that it is a part of; None: it has its own."""


def run(request: Request, out: IO[bytes], err: IO[bytes], say: Callable[[str], None]) -> int:
    """Run a command in a guest of its own; its exit code. UsageError, Unavailable, RunFailed.

    `out` and `err` get the command's outputs as they come, `say` what nfslab does, by the line.
    """
    work = _checked(request)
    kernel = kernels.find(request.kernel, request.modules, say)

    def attend(guest: Guest) -> int:
        how = "KVM" if guest.kvm else SENTENCE
        say(f"Linux {kernel.release} in a virtual machine ({how})")
        return guest.attend({"stdout": out, "stderr": err}, say)

    boot = Boot(request.command, work, kernel, request.size, request.limits)
    return attended(boot, say, attend)


def attended(boot: Boot, say: Callable[[str], None], attend: Callable[[Guest], int]) -> int:
    """What `attend` makes of the guest; RunFailed, UsageError.

    One in which QEMU slipped before its kernel was up has run nothing, and is booted again.
    """
    for number in range(1, BOOTS_MOST + 1):
        with _booted(boot, say) as guest:
            try:
                return attend(guest)
            except RunFailed:
                if number == BOOTS_MOST or guest.ready or not guest.slipped():
                    raise
        say(f"{SLIPPED}; booted again")
    raise AssertionError("the last one returned or raised")


@contextmanager
def _booted(boot: Boot, say: Callable[[str], None]) -> Iterator[Guest]:
    """A guest that boots, and will run its command; ended with the block."""
    archive = initramfs(boot, dict(os.environ))
    with ExitStack() as stack:
        resources = boot.resources or stack.enter_context(Resources("virtual machine"))
        place = stack.enter_context(_place(resources)).path
        (place / "initramfs").write_bytes(archive)
        yield stack.enter_context(_started(boot, place, resources, say))


def _started(boot: Boot, place: Path, resources: Resources, say: Callable[[str], None]) -> Guest:
    """With KVM where that works, else emulated."""
    cache = kernels.cache_folder()
    shares = [Share("root", Path("/"), False), Share("work", boot.work, True)]

    def begun(kvm: bool) -> Guest:
        own = place / ("kvm" if kvm else "emulated")
        own.mkdir()
        return Guest.boot(
            own, boot.kernel.vmlinux, boot.size, shares, resources,
            kvm=kvm, limits=boot.limits, wiring=boot.wiring,
        )  # fmt: skip

    tried = qemu.kvm_may_work(cache)
    if tried:
        try:
            guest = begun(True)
            try:
                guest.await_sign_of_life()
            except BaseException:
                guest.__exit__()
                raise
            qemu.remember_kvm(cache, works=True)
            return guest
        except (NoSignOfLife, RunFailed):
            say("KVM boots no kernel here (remembered until this machine's next boot)")
    guest = begun(False)
    if tried:
        # Not before: what keeps an emulated guest from starting is no fault of KVM's.
        qemu.remember_kvm(cache, works=False)
    return guest


def initramfs(boot: Boot, environment: Mapping[str, str]) -> bytes:
    """The archive that the guest starts from; UsageError, Unavailable."""
    kernel, work, nic = boot.kernel, boot.work, boot.wiring.nic
    modules = needed(kernel.modules, NEEDED if nic is None else (*NEEDED, NETWORK))
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "lower", "over", "new", "modules"):
        archive.folder(name)
    archive.character_device("dev/console", 5, 1)
    archive.file("bin/busybox", _busybox(), 0o755)
    archive.file("init", (HERE / "init.sh").read_bytes(), 0o755)
    archive.file("session.sh", (HERE / "session.sh").read_bytes())
    archive.file("command.sh", _command(boot.command, work, environment), 0o600)
    back = [str(one) for one in _covered([kernel.modules, Path(sys.prefix), Path(sys.base_prefix)])]
    config = {
        "MODULES": " ".join(module.name for module in modules),
        "MODULES_FOLDER": str(kernel.modules.resolve()),
        "WORK": str(work),
        "BACK": shlex.join(back),
        "ADDRESS": "" if nic is None else nic.address,
        "STDIN": qemu.STDIN if boot.wiring.stdin else "",
    }
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in config.items()]
    archive.file("config", os.fsencode("".join(lines)))
    for module in modules:
        archive.file(f"modules/{module.name}.ko", module.content)
    return archive.content()


def as_made(asked: str, kernel: Kernel, size: qemu.Size, kvm: bool | None) -> dict[str, Any]:
    """What its maker knows of a guest, for a record (JSON); `kvm` None: it did not come up."""
    return {
        "kernel_asked": asked,
        "kernel": kernel.release,
        "memory_bytes": size.memory_bytes,
        "cpus": size.cpus,
        "processor": {None: "unknown", True: "KVM", False: "emulated"}[kvm],
    }


def _command(command: Sequence[str], work: Path, environment: Mapping[str, str]) -> bytes:
    """A script that becomes the command: everything in it is quoted."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(NOT_FOR_A_GUEST) and VARIABLE.fullmatch(name)
    }
    kept.setdefault("PATH", os.defpath)
    kept |= {"NFSLAB_STATE": GUEST_STATE, "PWD": str(work)}
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in kept.items()]
    lines += [f"cd {shlex.quote(str(work))} || exit 126\n", f"exec {shlex.join(command)}\n"]
    return os.fsencode("".join(lines))


def _busybox() -> bytes:
    """One program that is a shell and mount(8), and needs no library; Unavailable."""
    found = shutil.which("busybox", path=os.environ.get("PATH", "") + ":/bin:/usr/bin")
    if found is None:
        raise _no_busybox("the program busybox is missing")
    content = Path(found).read_bytes()
    if b"/ld-linux-" in content or b"/ld-musl-" in content:
        raise _no_busybox(f"{found} is not static: it needs libraries")
    return content


def _no_busybox(why: str) -> Unavailable:
    return Unavailable(
        "no virtual machine can be started", why=why, fix="apt install busybox-static"
    )


def _covered(folders: Sequence[Path]) -> list[Path]:
    """Those that the guest would not see, and that have to be brought back."""
    found = {one.resolve() for one in folders}
    return sorted(one for one in found if any(one.is_relative_to(cover) for cover in COVERED))


def _checked(request: Request) -> Path:
    """The working folder, when a guest can be made at all; UsageError, Unavailable."""
    if not request.command:
        raise UsageError("no command is given", fix="for instance: nfslab vm run -- uname -r")
    if any("\0" in word for word in request.command):
        raise UsageError("a word of the command holds a zero byte", fix="leave it out")
    work = request.work.resolve()
    if work == Path("/") or any(work.is_relative_to(one) for one in COVERED[:3]):
        raise UsageError(
            f"the working folder {work} cannot be shared with a virtual machine",
            why="the guest may write to it, and has a root, /proc, /sys and /dev of its own",
            fix="start it in the folder that results are to be written to",
        )
    require(request.size)
    return work


def require(size: qemu.Size) -> None:
    """What every guest needs of this machine; UsageError, Unavailable."""
    memory = size.memory_bytes
    if not qemu.MEMORY_MIN_BYTES <= memory <= qemu.MEMORY_MAX_BYTES:
        raise UsageError(
            f"a virtual machine cannot have {memory} bytes of memory",
            why="the kernel and the files it keeps need 256 MiB at least",
            fix="give --memory 2G",
        )
    if os.geteuid() != 0:
        raise Unavailable(
            "only root can run a command in a virtual machine",
            why="virtiofsd serves the root of this machine to it, and as an ordinary user it could "
            "start no program of another owner there",
            fix="run it as root (sudo)",
        )
    qemu.find_qemu()
    find_virtiofsd()
    _busybox()


def _place(resources: Resources) -> Entry:
    """A folder for sockets, console and initramfs."""
    folders = [Path(tempfile.gettempdir()), state_folder(), Path("/tmp")]
    parent = next(one for one in folders if len(os.fsencode(one)) <= SOCKET_PATH_MAX)
    # A run may have several.
    return resources.make_directory(parent / f"{resources.name}-{next(_numbers)}")
