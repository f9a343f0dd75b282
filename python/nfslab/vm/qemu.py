"""The machine that is emulated: QEMU's arguments, and which processor it uses.

KVM boots a stock kernel on most machines, and not where the machine is itself a guest of some
kinds: there QEMU aborts, or the guest never says a word. So the first guest of a boot of this
machine tries it, for seconds, and what came of it is kept in the cache until the next boot.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.errors import Unavailable
from nfslab.machine.emulation import MARK
from nfslab.machine.journal import boot_id, machine_id

if TYPE_CHECKING:
    from nfslab.vm.shares import Share

PROGRAM = "qemu-system-x86_64"
PORTS = ("control", "stdout", "stderr")
STDIN = "stdin"
"""A fourth port, of guests whose command is told something."""
MEMORY_MIN_BYTES, MEMORY_MAX_BYTES = 256 << 20, 1 << 40
CPUS_MAX = 64
QUEUE_ENTRIES = 1024
"""Of a shared folder: the largest that virtiofsd takes."""
KERNEL_WORDS = (
    "console=ttyS0",
    # A kernel that has gone wrong is not trusted to go on: QEMU ends (-no-reboot), and says why.
    "panic=-1",
    "oops=panic",
    "random.trust_cpu=on",
)


@dataclass(frozen=True, slots=True)
class Size:
    """Of the guest."""

    memory_bytes: int
    cpus: int


@dataclass(frozen=True, slots=True)
class Nic:
    """A network device of the guest, and the end of its wire here."""

    tap: str
    """The TAP device, made before the guest is booted."""
    mac: str
    address: str
    """Of the guest, with the bits of its network: 10.213.0.2/26."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What only some guests have."""

    stdin: bool = False
    """Its command has a standard input: `Guest.tell`."""
    nic: Nic | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """Names of its virtio-serial ports."""
        return (*PORTS, STDIN) if self.stdin else PORTS


PLAIN = Wiring()


def find_qemu() -> str:
    """Path of QEMU; Unavailable."""
    found = shutil.which(PROGRAM)
    if found is None:
        raise Unavailable(
            "no virtual machine can be started",
            why=f"the program {PROGRAM} is missing",
            fix="apt install qemu-system-x86",
        )
    return found


def arguments(
    place: Path,
    vmlinux: Path,
    size: Size,
    shares: list[Share],
    wiring: Wiring = PLAIN,
    *,
    kvm: bool,
) -> list[str]:
    """QEMU's command line; Unavailable. Its files lie in `place`, the initramfs above that."""
    # With KVM its first line is the sign of life; emulated, each line takes time.
    words = [*KERNEL_WORDS, *(["loglevel=6"] if kvm else ["loglevel=4", MARK])]
    memory = size.memory_bytes >> 20
    argv = [find_qemu(), "-nodefaults", "-no-user-config", "-no-reboot"]
    argv += ["-display", "none", "-machine", "pc,memory-backend=memory", "-m", f"{memory}M"]
    argv += ["-accel", "kvm"] if kvm else ["-accel", "tcg,thread=multi"]
    argv += ["-cpu", "host" if kvm else "max", "-smp", str(size.cpus)]
    # Shared with virtiofsd, which reads and writes the guest's memory.
    argv += ["-object", f"memory-backend-memfd,id=memory,size={memory}M,share=on"]
    argv += ["-kernel", str(vmlinux), "-initrd", str(place.parent / "initramfs")]
    argv += ["-append", " ".join(words)]
    argv += ["-chardev", f"file,id=console,path={_escaped(place / 'console.log')}"]
    argv += ["-serial", "chardev:console", "-device", "virtio-serial-pci"]
    for name in wiring.ports:
        argv += ["-chardev", f"socket,id={name},path={_escaped(place / f'{name}.sock')}"]
        argv += ["-device", f"virtserialport,chardev={name},name={name}"]
    for share in shares:
        socket = _escaped(place / f"{share.tag}.sock")
        argv += ["-chardev", f"socket,id=fs-{share.tag},path={socket}", "-device"]
        argv += [
            f"vhost-user-fs-pci,chardev=fs-{share.tag},tag={share.tag},queue-size={QUEUE_ENTRIES}"
        ]
    if wiring.nic is not None:
        tap = f"tap,id=net,ifname={_escaped(Path(wiring.nic.tap))},script=no,downscript=no"
        argv += ["-netdev", tap, "-device", f"virtio-net-pci,netdev=net,mac={wiring.nic.mac}"]
    return argv


def _escaped(path: Path) -> str:
    """QEMU separates options by commas, and takes two for one."""
    return str(path).replace(",", ",,")


def kvm_may_work(cache: Path) -> bool:
    """Is there KVM, and did it not fail since this machine was booted?"""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    return _remembered(cache).get("works") is not False


def remember_kvm(cache: Path, *, works: bool) -> None:
    """For the guests until the next boot of this machine."""
    path = cache / "kvm.json"
    # Threads of one nfslab may boot guests at the same time.
    new = path.with_suffix(f".{threading.get_native_id()}")
    new.write_text(json.dumps({**_here(), "works": works}))
    new.rename(path)


def _remembered(cache: Path) -> dict[str, object]:
    try:
        kept = json.loads((cache / "kvm.json").read_text())
    except (OSError, ValueError):
        return {}
    here = _here()
    if not isinstance(kept, dict) or {name: kept.get(name) for name in here} != here:
        return {}
    return kept


def _here() -> dict[str, object]:
    return {"machine": machine_id(), "boot": boot_id()}
