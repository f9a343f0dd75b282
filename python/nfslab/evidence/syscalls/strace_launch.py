"""A program under `strace --seccomp-bpf`, its output read through a pipe as it is written.

strace writes into a named pipe of ours; a thread feeds what comes to the core's reader, so nothing
lies on a disk that is being measured. When we go, strace ends writing; the program goes on.
"""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

READ_BYTES: Final = 1 << 16
POLL_S: Final = 0.1
LAST_S: Final = 1.0
SYNCS: Final = "fsync,fdatasync,sync_file_range,sync,syncfs,msync"
CALLS: Final = (
    SYNCS + ",?open,openat,?openat2,?creat,close,read,write,pread64,pwrite64,readv,writev,preadv,"
    "pwritev,preadv2,pwritev2,ftruncate,truncate,fallocate,?unlink,unlinkat,?rename,?renameat,"
    "renameat2,?rmdir,mmap,sendfile,copy_file_range,splice"
)
"""A call with ? in front is not there on every machine."""


def traced_calls(level: str, lseek: bool) -> str:
    """What strace is to stop at."""
    calls = SYNCS if level == "sync" else CALLS
    return calls + (",lseek" if lseek and level != "sync" else "")


class StraceLaunch:
    """One launch under strace."""

    def __init__(self, level: str, lseek: bool) -> None:
        from nfslab._core import StraceReader

        self.reader = StraceReader(level, lseek=lseek)
        self._calls = traced_calls(level, lseek)
        self._folder = Path(tempfile.mkdtemp(prefix="nfslab-strace-"))
        os.mkfifo(self._folder / "out", 0o600)
        # Without a writer a pipe opened without waiting reads as ended: that is asked for below.
        self._pipe = os.open(self._folder / "out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="strace's text", daemon=True)

    @property
    def folder(self) -> str:
        """Its own; strace's command line has it."""
        return str(self._folder)

    def argv(self, argv: Sequence[str]) -> list[str]:
        """What to start instead."""
        return [
            "strace", "--seccomp-bpf", "-f", "-ttt", "-T", "-y", "-q", "-s", "0",
            "-e", f"trace={self._calls}", "-e", "signal=none",
            "-o", str(self._folder / "out"), "--", *argv,
        ]  # fmt: skip

    def begin(self) -> None:
        """It was started: read."""
        self._thread.start()

    def end(self) -> None:
        """Read what is left; strace, if it runs, has nobody to write to."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._pipe)
        shutil.rmtree(self._folder, ignore_errors=True)
        from nfslab._core import CoreError

        try:
            self.reader.end()
        except CoreError as error:
            if error.kind != "empty":  # it made no call of interest
                raise

    def _run(self) -> None:
        seen = False
        # A program that is still at it when watching ends writes on and on.
        over_since: float | None = None
        while over_since is None or clock.monotonic() < over_since + LAST_S:
            if over_since is None and self._over.is_set():
                over_since = clock.monotonic()
            ready, _, _ = select.select([self._pipe], [], [], POLL_S)
            data = b""
            if ready:
                try:
                    data = os.read(self._pipe, READ_BYTES)
                except BlockingIOError:
                    continue
            if data:
                seen = True
                self.reader.feed(data)
            elif ready and seen:
                return  # every writer has gone
            elif self._over.is_set():
                return
            elif ready:
                clock.wait(self._over, POLL_S)  # nobody has opened it yet
