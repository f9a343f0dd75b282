"""What `nfslab syscalls` watches in tests, and when it ends: by what was done, never by a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab.evidence.syscalls.watch import SyscallWatch

ROUNDS = 3
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


@contextmanager
def loads(monkeypatch: pytest.MonkeyPatch, *loads: Callable[[], object]) -> Iterator[None]:
    """Each of these again and again, in a thread of its own. A watch that this process begins
    meanwhile is ended by Ctrl-C as soon as each was done some times under it."""
    done, changed, over = [0] * len(loads), threading.Condition(), threading.Event()
    attach = SyscallWatch.attach

    def repeat(n: int) -> None:
        while not over.is_set():
            loads[n]()
            with changed:
                done[n] += 1
                changed.notify_all()

    def end(wanted: list[int]) -> None:
        with changed:
            changed.wait_for(
                lambda: over.is_set() or all(a >= b for a, b in zip(done, wanted, strict=True))
            )
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor() as pool:

        def attached(watch: SyscallWatch) -> None:
            attach(watch)
            with changed:  # one of each may have begun before
                pool.submit(end, [n + 1 + ROUNDS for n in done])

        monkeypatch.setattr(SyscallWatch, "attach", attached)
        repeated = [pool.submit(repeat, n) for n in range(len(loads))]
        try:
            yield
        finally:
            with changed:
                over.set()
                changed.notify_all()
            for one in repeated:
                one.result()
