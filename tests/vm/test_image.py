"""The kernel within a boot image: packed by other tools, found and unpacked by us."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from nfslab.errors import RunFailed, UsageError
from nfslab.vm.image import LZ4_BLOCK_BYTES, read_image

RELEASE = "6.9.1-test"
# More than one block of lz4, and not all alike.
VMLINUX = b"\x7fELF" + b"Linux version 6.9.1-test (somebody) " + os.urandom(1 << 16)
VMLINUX += bytes(LZ4_BLOCK_BYTES) + b"the end"


def tool(*argv: str) -> Callable[[bytes], bytes]:
    """What a program makes of its input."""

    def packed(content: bytes) -> bytes:
        if shutil.which(argv[0]) is None:
            pytest.skip(f"not installed: {argv[0]}")
        return subprocess.run(argv, input=content, capture_output=True, check=True).stdout

    return packed


PACKERS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lambda content: lzma.compress(content, check=lzma.CHECK_CRC32),
    "lzma": lambda content: lzma.compress(content, format=lzma.FORMAT_ALONE),
    "lz4": tool("lz4", "-l", "-c"),
    "zstd": tool("zstd", "-c"),
}


NAMES = [
    pytest.param(name, marks=pytest.mark.system) if name in ("lz4", "zstd") else name
    for name in PACKERS
]


def bzimage(payload: bytes, *, protocol: int = 0x20F, setup_sectors: int = 3) -> bytes:
    """A boot image by Documentation/arch/x86/boot.rst: setup sectors, then the payload."""
    setup = bytearray((setup_sectors + 1) * 512)
    setup[0x1F1] = setup_sectors
    setup[0x202:0x206] = b"HdrS"
    text = f"{RELEASE} (somebody@somewhere) #1 SMP\0".encode()
    struct.pack_into("<H", setup, 0x206, protocol)
    struct.pack_into("<H", setup, 0x20E, 0x300 - 0x200)
    setup[0x300 : 0x300 + len(text)] = text
    loader = b"\xcc" * 1000
    struct.pack_into("<II", setup, 0x248, len(loader), len(payload))
    return bytes(setup) + loader + payload + b"\0" * 64


def with_size(name: str, packed: bytes) -> bytes:
    """gzip has the size at its own end; the kernel's build adds it to the others."""
    return packed if name == "gzip" else packed + struct.pack("<I", len(VMLINUX))


@pytest.mark.parametrize("name", NAMES)
def test_every_way_of_packing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(bzimage(with_size(name, PACKERS[name](VMLINUX))))
    image = read_image(path)
    assert image.release == RELEASE
    assert image.vmlinux == VMLINUX


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_one_is_an_error(name: str, tmp_path: Path) -> None:
    packed = PACKERS[name](VMLINUX)
    path = tmp_path / "vmlinuz"
    for cut in (8, len(packed) // 2):
        path.write_bytes(bzimage(packed[:cut] + struct.pack("<I", len(VMLINUX))))
        with pytest.raises(RunFailed, match="damaged"):
            read_image(path)


def test_an_unpacked_kernel(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(VMLINUX)
    image = read_image(path)
    assert (image.release, image.vmlinux) == (RELEASE, VMLINUX)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"#!/bin/sh\n",
        b"\x7fELF" + bytes(1000),
        bzimage(b""),
        bzimage(b"x" * 9, protocol=0x200),
    ],
    ids=["empty", "script", "program", "cut", "old"],
)
def test_what_is_no_kernel(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_image(path)
    assert str(path) in error.value.what
    assert error.value.why


def test_an_unknown_packing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(bzimage(b"\x89LZO\0\r" + b"x" * 100 + struct.pack("<I", 1000)))
    with pytest.raises(RunFailed) as error:
        read_image(path)
    assert "894c5a4f000d" in error.value.why


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_image(tmp_path / "none")
    with pytest.raises(UsageError):
        read_image(tmp_path)
