"""Run a program that sees all files of this machine, and can change none.

virtiofsd (the one that comes with QEMU) has no option for it. So the program gets a view of the
mounts of its own (unshare(2)), cut off from ours and made read-only with everything below it at
once (mount_setattr(2), Linux 5.12). A process of its own: the view is the process's.

    python -c 'from nfslab.vm.readonly import main; main()' PROGRAM ARGUMENT...
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import NoReturn

CLONE_NEWNS = 0x0002_0000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
SYS_MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 0x1


def make_read_only() -> None:
    """The calling process's view of the mounts; OSError (a kernel before 5.12, no root)."""
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.unshare(CLONE_NEWNS))
    # Before anything is changed: nothing may reach the machine's own mounts.
    _checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    # struct mount_attr: attr_set, attr_clr, propagation, userns_fd.
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    number, size = ctypes.c_long(SYS_MOUNT_SETATTR), ctypes.c_size_t(len(attributes))
    _checked(libc.syscall(number, AT_FDCWD, b"/", AT_RECURSIVE, attributes, size))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main() -> NoReturn:
    """Read-only, then the program."""
    try:
        make_read_only()
    except OSError as error:
        sys.exit(f"the root of this machine could not be made read-only: {error.strerror}")
    os.execv(sys.argv[1], sys.argv[1:])
