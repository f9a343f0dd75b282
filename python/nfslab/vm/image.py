"""The kernel that QEMU boots, taken out of the file that a distribution ships.

A `vmlinuz` (bzImage) is a small loader with the compressed kernel inside. An emulated processor
takes longer to unpack it than we do, so we hand the unpacked `vmlinux` (ELF) to QEMU.

Sources: the kernel's Documentation/arch/x86/boot.rst (setup header: offsets below), the files
scripts/Makefile.lib (`size_append`: four bytes of unpacked size follow every format but gzip, whose
own last four bytes are the same) and lib/decompress_unlz4.c (lz4's legacy frames of 8 MiB).
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfslab.errors import RunFailed, UsageError, system_errors

if TYPE_CHECKING:
    from pathlib import Path

ELF = b"\x7fELF"
SETUP_SECTORS_AT = 0x1F1
HEADER_MAGIC_AT, HEADER_MAGIC = 0x202, b"HdrS"
PROTOCOL_AT, PROTOCOL_WITH_PAYLOAD = 0x206, 0x0208
VERSION_TEXT_AT = 0x20E
PAYLOAD_AT = 0x248
SECTOR_BYTES = 512
LZ4_LEGACY = b"\x02\x21\x4c\x18"
LZ4_BLOCK_BYTES = 8 << 20
IMAGE_BYTES_MAX = 1 << 30
"""Beyond this size a file is no kernel (a distribution's largest is a tenth of it)."""
RELEASE = re.compile(rb"Linux version (\S{1,200}) ")


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel, unpacked."""

    release: str
    """As `uname -r` tells it: 6.12.117+deb12-cloud-amd64."""
    vmlinux: bytes


def read_image(path: Path) -> Image:
    """The kernel in a vmlinuz or vmlinux file; UsageError when it is none, RunFailed."""
    fix = "give the path of a vmlinuz or vmlinux file, or a version such as 6.12"
    with system_errors(f"the kernel {path} cannot be read", fix, UsageError):
        if path.stat().st_size > IMAGE_BYTES_MAX:
            raise _no_kernel(path, "it is larger than any kernel")
        content = path.read_bytes()
    if content.startswith(ELF):
        found = RELEASE.search(content)
        if found is None:
            raise _no_kernel(path, "it is an ELF file without a Linux version in it")
        return Image(found[1].decode("ascii", "replace"), content)
    return _of_bzimage(path, content)


def _of_bzimage(path: Path, content: bytes) -> Image:
    if content[HEADER_MAGIC_AT : HEADER_MAGIC_AT + 4] != HEADER_MAGIC:
        raise _no_kernel(path, "it is neither an ELF file nor an x86 boot image (no HdrS)")
    (protocol,) = struct.unpack_from("<H", content, PROTOCOL_AT)
    if protocol < PROTOCOL_WITH_PAYLOAD:
        raise _no_kernel(path, f"its boot protocol {protocol >> 8}.{protocol & 255:02} is too old")
    (text_at,) = struct.unpack_from("<H", content, VERSION_TEXT_AT)
    text = content[text_at + SECTOR_BYTES :][:256].split(b"\0")[0]
    release = text.split(b" ")[0].decode("ascii", "replace")
    offset, length = struct.unpack_from("<II", content, PAYLOAD_AT)
    start = ((content[SETUP_SECTORS_AT] or 4) + 1) * SECTOR_BYTES + offset
    packed = content[start : start + length]
    if len(packed) != length or length < 8 or not release:
        raise _no_kernel(path, "it is cut short")
    vmlinux = unpacked(path, packed)
    if not vmlinux.startswith(ELF):
        raise _no_kernel(path, "what is packed in it is no ELF file")
    return Image(release, vmlinux)


def unpacked(path: Path, packed: bytes) -> bytes:
    """A boot image's payload, unpacked; RunFailed when it is damaged or packed in a rare way."""
    (size,) = struct.unpack("<I", packed[-4:])
    if size > IMAGE_BYTES_MAX:
        raise _no_kernel(path, f"its kernel would have {size} bytes")
    try:
        vmlinux = _unpacked(packed, size)
    except (OSError, EOFError, ValueError, lzma.LZMAError, struct.error) as error:
        raise _damaged(path, str(error)) from error
    if vmlinux is None:
        raise RunFailed(
            f"the kernel {path} is packed in a way that nfslab does not know",
            why=f"its payload begins with {packed[:6].hex()}: not gzip, bzip2, lzma, xz, lz4, zstd",
            fix="give the unpacked vmlinux (the kernel's scripts/extract-vmlinux makes it)",
        )
    if len(vmlinux) != size:
        raise _damaged(path, f"{len(vmlinux)} bytes came out of it instead of {size}")
    return vmlinux


def _unpacked(packed: bytes, size: int) -> bytes | None:
    """By the first bytes; None when they are of no format that is known here."""
    if packed.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=io.BytesIO(packed)).read(size)
    if packed.startswith(b"BZh"):
        return bz2.BZ2Decompressor().decompress(packed)
    if packed.startswith((b"\xfd7zXZ\0", b"\x5d\0\0")):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        import pyarrow

        with pyarrow.input_stream(io.BytesIO(packed[:-4]), compression="zstd") as stream:
            return bytes(stream.read(size))
    if packed.startswith(LZ4_LEGACY):
        return _lz4_legacy(packed[:-4], size)
    return None


def _lz4_legacy(packed: bytes, size: int) -> bytes:
    """Blocks of 8 MiB, each after its packed length; ValueError."""
    import pyarrow

    pieces, at, left = [], len(LZ4_LEGACY), size
    while left > 0:
        (length,) = struct.unpack_from("<I", packed, at)
        block = packed[at + 4 : at + 4 + length]
        wanted = min(left, LZ4_BLOCK_BYTES)
        if not block:
            raise ValueError(f"its data ends {left} bytes too early")
        pieces.append(pyarrow.decompress(block, wanted, codec="lz4_raw", asbytes=True))
        at += 4 + length
        left -= wanted
    return b"".join(pieces)


def _damaged(path: Path, why: str) -> RunFailed:
    return RunFailed(f"the kernel {path} is damaged", why=why, fix="fetch it again")


def _no_kernel(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is no kernel that can be booted here",
        why=why,
        fix="give the path of a vmlinuz or vmlinux file for x86-64, or a version such as 6.12",
    )
