"""A virtual machine of the tests' own: a process that runs the guest's command on this machine.

It takes the command out of the initramfs, as a guest does, connects the ports, and says how the
command went. What only a kernel can do is tested with kernels (tests/vm).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nfslab.vm import guest as guests
from nfslab.vm import kernel as kernels
from nfslab.vm import qemu, shares
from nfslab.vm import run as running
from nfslab.vm.kernel import Kernel
from nfslab.vm.shares import Share

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process

SLIP = "[    1.401750] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI"
"""As QEMU 7.2 broke a kernel that booted."""
CONSOLE = "Kernel panic - not syncing: planted"
QEMU = f"""#!{sys.executable}
import ctypes, os, pathlib, re, socket, subprocess, sys
here = pathlib.Path(__file__).parent
ports = {{}}
for word in sys.argv:
    if found := re.fullmatch(r"socket,id=(control|stdout|stderr|stdin),path=(.*)", word):
        ports[found[1]] = socket.socket(socket.AF_UNIX)
        ports[found[1]].connect(found[2])
# cpio, format newc: 13 numbers of 8 hexadecimal digits, name, content, both padded to 4 bytes.
archive = pathlib.Path(sys.argv[sys.argv.index("-initrd") + 1]).read_bytes()
at, files = 0, {{}}
while at < len(archive):
    size, name_size = (int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in (6, 11))
    begin = (at + 110 + name_size + 3) // 4 * 4
    files[archive[at + 110 : at + 110 + name_size - 1].decode()] = archive[begin : begin + size]
    at = (begin + size + 3) // 4 * 4
pathlib.Path("console.log").write_text({CONSOLE!r})
(here / "pid").write_text(str(os.getpid()))
slips = here / "slips"
if slips.exists() and int(slips.read_text()):
    slips.write_text(str(int(slips.read_text()) - 1))
    pathlib.Path("console.log").write_text({SLIP!r})
    sys.exit(0)
ports["control"].sendall(b"ready\\n")
script = pathlib.Path("command.sh")
script.write_bytes(files["command.sh"])
# Its programs end with a guest.
dies_too = lambda: ctypes.CDLL(None).prctl(1, 9)
done = subprocess.run(
    ["/bin/sh", script], stdin=ports.get("stdin", subprocess.DEVNULL),
    stdout=ports["stdout"], stderr=ports["stderr"], preexec_fn=dies_too,
)
after = here / "after.sh"
if after.exists():
    subprocess.run(["/bin/sh", after], check=True)
ports["control"].sendall(b"exit %d\\n" % done.returncode)
"""
VIRTIOFSD = "#!/bin/sh\nexec sleep 100000\n"
SERVE = guests.serve


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Guests are such processes from now on; where they look for what tests plant."""
    folder.mkdir(exist_ok=True)
    for name, text in (("qemu", QEMU), ("virtiofsd", VIRTIOFSD)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "modules.dep").write_text("")
    names = ["virtio_pci", "virtio_console", "virtiofs", "overlay", "virtio_net"]
    (folder / "modules.builtin").write_text("".join(f"k/{one}.ko\n" for one in names))

    def find(asked: str, _modules: Path | None, _say: Callable[[str], None]) -> Kernel:
        return Kernel(f"{asked}-of-a-test", folder / "vmlinux", folder)

    def serve(share: Share, place: Path, resources: Resources) -> Process:
        # A root that is read-only needs root to be made.
        return SERVE(Share(share.tag, share.folder, True), place, resources)

    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(kernels, "find", find)
    monkeypatch.setattr(kernels, "require", lambda _asked, _modules: None)
    monkeypatch.setattr(qemu, "find_qemu", lambda: str(folder / "qemu"))
    monkeypatch.setattr(qemu, "kvm_may_work", lambda _cache: False)
    monkeypatch.setattr(shares, "find_virtiofsd", lambda: str(folder / "virtiofsd"))
    monkeypatch.setattr(guests, "serve", serve)
    monkeypatch.setattr(running, "_busybox", lambda: b"")
    monkeypatch.setattr(running, "require", lambda _size: None)
    monkeypatch.setattr(running, "GUEST_STATE", str(folder / "state"))
    return folder
