"""What is told of a lost guest, from what QEMU, virtiofsd and the kernel left in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nfslab.vm.guest import CONSOLE_LINES, Guest, Limits, tail

PANIC = "[    3.4] Kernel panic - not syncing: sysrq triggered crash"


def lost(place: Path) -> str:
    nothing: Any = None
    guest = Guest(place, nothing, {"root": nothing}, {}, Limits(), kvm=False)
    return str(guest.lost("the virtual machine ended"))


def test_the_end_of_the_console_with_what_names_the_cause(tmp_path: Path) -> None:
    lines = [PANIC, *(f"[    3.5] register {number}" for number in range(100))]
    (tmp_path / "console.log").write_text("\r\n".join(["old", *lines]) + "\r\n")
    (tmp_path / "qemu.log").write_text("qemu-system-x86_64: terminating\n")
    (tmp_path / "root.log").write_text("fuse: bad message\n")
    said = lost(tmp_path).splitlines()
    shown = [line.strip() for line in said]
    assert [line for line in shown if "register" in line] == lines[-CONSOLE_LINES:]
    assert shown.index(PANIC) < shown.index(lines[-1])
    assert any("terminating" in line for line in shown)
    assert any("bad message" in line for line in shown)
    assert "old" not in shown


@pytest.mark.parametrize(
    ("line", "advice"),
    [("Out of memory: Killed process 7 (tail)", "--memory"), (PANIC, "--kernel")],
)
def test_advice_fits_the_cause(line: str, advice: str, tmp_path: Path) -> None:
    (tmp_path / "console.log").write_text(line + "\n" + "x\n" * 100)
    assert advice in lost(tmp_path).splitlines()[-1]


def test_a_silent_console_is_said_to_be_silent(tmp_path: Path) -> None:
    assert "says nothing" in lost(tmp_path)


def test_nothing_that_a_terminal_obeys_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1b[2Jone\x07\n\n\xfftwo\x00\n")
    assert tail(path, 5) == ["[2Jone", "\ufffdtwo"]
    assert tail(tmp_path / "none", 5) == []


def test_a_long_console_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (10 << 20) + b"\nlast\n")
    assert tail(path, 1) == ["last"]
