"""How a guest's life is understood, with a QEMU of the test's own that says what a guest would."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.machine.resources import Resources
from nfslab.vm import guest as guests
from nfslab.vm import qemu, shares
from nfslab.vm.guest import Guest, Limits
from nfslab.vm.shares import Share

pytestmark = pytest.mark.system

LONG = Limits(boot_s=600, silence_s=600)
SOON_S = 0.3
QEMU = f"""#!{sys.executable}
import json, pathlib, re, signal, socket, sys
script = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())
ports = {{}}
for word in sys.argv:
    if found := re.fullmatch(r"socket,id=(control|stdout|stderr),path=(.*)", word):
        ports[found[1]] = socket.socket(socket.AF_UNIX)
        ports[found[1]].connect(found[2])
for name, text in script["says"]:
    if name == "console":
        (pathlib.Path.cwd() / "console.log").write_text(text)
    else:
        ports[name].sendall(text.encode())
if script["stays"]:
    signal.pause()
"""
VIRTIOFSD = "#!/bin/sh\n{}\n"
Said = tuple[int, bytes, bytes, list[str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(qemu, "find_qemu", lambda: str(tmp_path / "qemu"))
    monkeypatch.setattr(shares, "find_virtiofsd", lambda: str(tmp_path / "virtiofsd"))
    # Paths of sockets are short.
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(
    place: Path,
    resources: Resources,
    *says: tuple[str, str],
    stays: bool = False,
    limits: Limits = LONG,
    virtiofsd: str = "exec sleep 100000",
) -> Said:
    """A guest that says this and then ends, or stays: code, outputs, what nfslab says."""
    for name, text in (("qemu", QEMU), ("virtiofsd", VIRTIOFSD.format(virtiofsd))):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    (place / "qemu.json").write_text(json.dumps({"says": says, "stays": stays}))
    here = Path("/tmp") / resources.name
    resources.make_directory(here)
    out, err, told = io.BytesIO(), io.BytesIO(), list[str]()
    share = Share("work", place, writable=True)
    size = qemu.Size(1 << 30, 1)
    with Guest.boot(
        here, place / "vmlinux", size, [share], resources, kvm=False, limits=limits
    ) as guest:
        code = guest.attend({"stdout": out, "stderr": err}, told.append)
    return code, out.getvalue(), err.getvalue(), told


def test_outputs_and_code(place: Path, resources: Resources) -> None:
    said = ran(
        place, resources,
        ("control", "rea"), ("stdout", "a\n"), ("control", "dy\nalive\nali"), ("stderr", "b"),
        ("control", "ve\nnonsense 1 2\nexit x\nexit 7\n"), ("stdout", "c"),
    )  # fmt: skip
    assert said == (7, b"a\nc", b"b", [])


def test_an_end_without_a_code(place: Path, resources: Resources) -> None:
    panic = "Kernel panic - not syncing: made\n"
    with pytest.raises(RunFailed, match="ended before its command did") as error:
        ran(place, resources, ("control", "ready\nalive\nexit"), ("console", panic))
    assert "not syncing: made" in error.value.why


def test_a_guest_that_falls_silent(place: Path, resources: Resources) -> None:
    limits = Limits(boot_s=600, silence_s=SOON_S)
    with pytest.raises(RunFailed, match="no sign of life"):
        ran(place, resources, ("control", "ready\n"), stays=True, limits=limits)


def test_a_virtiofsd_that_ends(
    place: Path, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "ENDING_S", SOON_S)
    with pytest.raises(RunFailed, match=r"virtiofsd \(work\) ended with code 3") as error:
        ran(place, resources, stays=True, virtiofsd="echo full >&2; exit 3")
    assert "work: full" in error.value.why


def test_a_guest_that_does_not_power_off(
    place: Path, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "POWER_OFF_S", SOON_S)
    code, _, _, told = ran(place, resources, ("control", "ready\nexit 0\n"), stays=True)
    assert code == 0
    assert len(told) == 1
