"""nfslab's own Python without waiting for the disk.

An experiment of a test syncs hundreds of times, and no test cuts the power. Who asks is looked at:
tests themselves and programs that they start do wait.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nobody_waits() -> Iterator[None]:
    """fsync(2) of the modules of nfslab does nothing in the block."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if not sys._getframe(1).f_globals["__name__"].startswith("nfslab."):
            real(descriptor)

    os.fsync = fsync
    try:
        yield
    finally:
        os.fsync = real
