"""How few threads of the kernel's NFS server stay: a number told by generic netlink alone.

Later kernels (Linux 7.3 was tried) let threads of a pool go when there is nothing to do, down to
this number; 0: all stay. It belongs to the network namespace, whether a server runs there or not.

Source: the kernel's Documentation/netlink/specs/nfsd.yaml (threads-set, threads-get) and
Documentation/userspace-api/netlink/intro.rst (the form of messages).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

NETLINK_GENERIC: Final = 16
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 0x10, 3, 1, 2
THREADS_SET, THREADS_GET = 2, 3
THREADS, MIN_THREADS = 1, 5
REQUEST, ACKNOWLEDGED = 1, 4
ERROR: Final = 2
LIMIT_S: Final = 5.0
ANSWER_BYTES: Final = 1 << 16
_MESSAGE: Final = struct.Struct("=IHHII")
_GENERIC: Final = struct.Struct("=BBH")
_ATTRIBUTE: Final = struct.Struct("=HH")


def least_threads() -> int | None:
    """The number in force; None: this kernel has none, or no NFS server. OSError."""
    family = _family()
    found = [] if family is None else _of(MIN_THREADS, _asked(family, THREADS_GET, b""))
    return found[0] if found else None


def set_least_threads(number: int) -> None:
    """Set it, and leave the threads that there are as they are; OSError. Read it back."""
    family = _family()
    if family is None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    pools = _of(THREADS, _asked(family, THREADS_GET, b""))
    numbers = [*((THREADS, one) for one in pools), (MIN_THREADS, number)]
    asked = b"".join(_attribute(kind, struct.pack("=I", one)) for kind, one in numbers)
    try:
        _asked(family, THREADS_SET, asked)
    except OSError as error:
        # No server listens that could have threads; the number is taken before that is seen.
        if error.errno != errno.EIO:
            raise


def _of(kind: int, attributes: list[tuple[int, bytes]]) -> list[int]:
    return [int(struct.unpack("=I", content)[0]) for one, content in attributes if one == kind]


def _family() -> int | None:
    """The kernel's number for "nfsd"; None where nfsd is not there."""
    try:
        answer = _asked(CONTROL, GET_FAMILY, _attribute(FAMILY_NAME, b"nfsd\0"))
    except FileNotFoundError:
        return None
    return int(struct.unpack("=H", dict(answer)[FAMILY_ID])[0])


def _attribute(kind: int, content: bytes) -> bytes:
    size = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(size, kind) + content + bytes(-size % 4)


def _asked(family: int, command: int, attributes: bytes) -> list[tuple[int, bytes]]:
    """Attributes of the answer; the kernel's refusal as an OSError."""
    content = _GENERIC.pack(command, 1, 0) + attributes
    size = _MESSAGE.size + len(content)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as kernel:
        kernel.settimeout(LIMIT_S)
        kernel.sendto(_MESSAGE.pack(size, family, REQUEST | ACKNOWLEDGED, 1, 0) + content, (0, 0))
        found: list[tuple[int, bytes]] = []
        while True:
            heard = kernel.recv(ANSWER_BYTES)
            while len(heard) >= _MESSAGE.size:
                length, kind, _, _, _ = _MESSAGE.unpack_from(heard)
                one, heard = heard[_MESSAGE.size : length], heard[(length + 3) & ~3 :]
                if kind != ERROR:
                    found += _attributes(one[_GENERIC.size :])
                elif code := -struct.unpack_from("=i", one)[0]:
                    raise OSError(code, os.strerror(code))
                else:
                    return found


def _attributes(content: bytes) -> list[tuple[int, bytes]]:
    found = []
    while len(content) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(content)
        found.append((kind & 0x3FFF, content[_ATTRIBUTE.size : size]))
        content = content[(max(size, _ATTRIBUTE.size) + 3) & ~3 :]
    return found
