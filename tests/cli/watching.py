"""What `nfslab syscalls` watches in tests, and when it ends: by what was done, never by a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SYNCER = """
import os, sys
file = os.open(sys.argv[1] + "/x-journal", os.O_RDWR | os.O_CREAT)
print("there", flush=True)
while sys.stdin.readline():
    os.fsync(file)
    print("synced", flush=True)
"""


class Syncer:
    """A program that syncs when it is told to, until its standard input ends."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", SYNCER, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._line()

    def sync(self, times: int) -> None:
        """Returns when that is done."""
        assert self.process.stdin is not None
        for _ in range(times):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            self._line()

    def end(self) -> None:
        self.process.communicate("")

    def _line(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline()


@contextmanager
def watching(pid: int, *options: object) -> Iterator[subprocess.Popen[str]]:
    """An `nfslab syscalls --json` of this process whose probes are there."""
    watch = subprocess.Popen(
        [sys.executable, "-m", "nfslab", "syscalls", "--pid", str(pid), "--json",
         *map(str, options)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert watch.stderr is not None
        assert "watching by eBPF" in watch.stderr.readline()  # said when the probes are there
        yield watch
    finally:
        watch.kill()
        watch.communicate()


@contextmanager
def watched_syncer(folder: Path) -> Iterator[tuple[Syncer, subprocess.Popen[str]]]:
    """It, and what watches it."""
    syncer = Syncer(folder)
    try:
        with watching(syncer.process.pid) as watch:
            yield syncer, watch
    finally:
        if syncer.process.poll() is None:
            syncer.end()
