"""The archive that the kernel unpacks into memory first: a cpio of the format "newc".

Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst. Each entry is a
header of 13 numbers in 8 hexadecimal digits, its name, its content, both padded to 4 bytes. Entries
are numbered, owned by root and without a time, so that the same content gives the same bytes.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field

MAGIC = b"070701"
TRAILER = "TRAILER!!!"
ALIGNMENT = 4


@dataclass(slots=True)
class Archive:
    """A cpio archive being written. Names are relative, parents come before what they hold."""

    _pieces: list[bytes] = field(default_factory=list)
    _number: int = 0

    def folder(self, name: str, mode: int = 0o755) -> None:
        """An empty folder."""
        self._add(name, stat.S_IFDIR | mode, b"")

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """A file with content."""
        self._add(name, stat.S_IFREG | mode, content)

    def character_device(self, name: str, major: int, minor: int, mode: int = 0o600) -> None:
        """A node such as /dev/console, on which the kernel starts the first program."""
        self._add(name, stat.S_IFCHR | mode, b"", device=(major, minor))

    def content(self) -> bytes:
        """The archive's bytes, with its end."""
        end = Archive([*self._pieces], self._number)
        end._add(TRAILER, 0, b"")
        return b"".join(end._pieces)

    def _add(self, name: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._number += 1
        raw = name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        owner, time, file_system, checksum = (0, 0), 0, (0, 0), 0
        numbers = (self._number, mode, *owner, links, time, len(content), *file_system, *device)
        header = MAGIC + b"".join(b"%08X" % number for number in (*numbers, len(raw), checksum))
        self._pieces += [_padded(header + raw), _padded(content)]


def _padded(piece: bytes) -> bytes:
    return piece + bytes(-len(piece) % ALIGNMENT)
