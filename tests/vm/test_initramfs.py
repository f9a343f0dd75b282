"""The initramfs: its bytes by the kernel's description of the format, and read by another tool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from nfslab.vm.initramfs import Archive

# Documentation/driver-api/early-userspace/buffer-format.rst: magic, then 8 hexadecimal digits each
# of ino mode uid gid nlink mtime filesize maj min rmaj rmin namesize chksum; name with its zero
# byte and content are padded with zeros to a multiple of 4.
ONE_FILE = (
    b"070701"
    b"00000001" b"000081A4" b"00000000" b"00000000" b"00000001" b"00000000" b"00000003"
    b"00000000" b"00000000" b"00000000" b"00000000" b"00000002" b"00000000"
    b"a\0" b"xyz\0"
    b"070701"
    b"00000002" b"00000000" b"00000000" b"00000000" b"00000001" b"00000000" b"00000000"
    b"00000000" b"00000000" b"00000000" b"00000000" b"0000000B" b"00000000"
    b"TRAILER!!!\0" b"\0\0\0"
)  # fmt: skip


def test_bytes_of_one_file() -> None:
    archive = Archive()
    archive.file("a", b"xyz")
    assert archive.content() == ONE_FILE
    assert archive.content() == ONE_FILE, "asking twice adds no second end"


@pytest.mark.system
@pytest.mark.skipif(shutil.which("busybox") is None, reason="not installed: busybox")
def test_another_tool_unpacks_what_was_packed(tmp_path: Path) -> None:
    archive = Archive()
    archive.folder("dev")
    archive.folder("bin", 0o700)
    contents = {f"bin/{size}": bytes(range(256)) * 2 for size in range(3)}
    contents |= {f"bin/n{size}": b"n" * size for size in range(9)}
    for name, content in contents.items():
        archive.file(name, content, 0o640)
    cpio = ["busybox", "cpio", "-idm"]
    subprocess.run(cpio, cwd=tmp_path, input=archive.content(), check=True, capture_output=True)
    assert {n: (tmp_path / n).read_bytes() for n in contents} == contents
    assert (tmp_path / "bin").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "bin/n5").stat().st_mode & 0o777 == 0o640


@pytest.mark.system
@pytest.mark.skipif(shutil.which("busybox") is None, reason="not installed: busybox")
def test_another_tool_lists_a_device() -> None:
    archive = Archive()
    archive.folder("dev")
    archive.character_device("dev/console", 5, 1)
    listed = subprocess.run(
        ["busybox", "cpio", "-tv"], input=archive.content(), check=True, capture_output=True
    ).stdout.decode()
    (line,) = [line for line in listed.splitlines() if "console" in line]
    assert line.startswith("crw-------")
    # Which device: the tenth and eleventh number of the second header.
    second = archive.content()[archive.content().index(b"070701", 1) :]
    assert second[6 + 9 * 8 : 6 + 11 * 8] == b"0000000500000001"
