"""A program whose calls are known: it does, line by line, what a test tells it.

It reads and writes nothing but two pipes and what the lines say, so that every call on a file that
a watch sees was asked for. `done` answers each line: what a line does has been done when
`Program.do` returns.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pytest
from nfslab._core import Columns, SyscallWatch, syscalls_grants

LOOP = """
import ctypes, os, sys, threading
names = {"os": os, "ctypes": ctypes, "threading": threading,
         "libc": ctypes.CDLL(None, use_errno=True)}
print("ready", flush=True)
for line in sys.stdin:
    exec(eval(line), names)
    print("done", flush=True)
"""
PLACES = ("first", "sequential", "rewrite", "forward", "backward")

GRANTS = syscalls_grants()
needs_ebpf = pytest.mark.skipif(not GRANTS["ok"], reason=f"eBPF: {GRANTS['what']}: {GRANTS['why']}")


class Program:
    """A process that does what it is told."""

    def __init__(self, **asked: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", LOOP],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **asked,
        )  # fmt: skip
        assert self._line() == "ready\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    def do(self, code: str) -> None:
        """Returns when it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(repr(code) + "\n")
        self.process.stdin.flush()
        assert self._line() == "done\n", code

    def _line(self) -> str:
        assert self.process.stdout is not None
        return str(self.process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def rows(columns: Columns) -> list[dict[str, Any]]:
    """Rows as dictionaries."""
    return pa.table(columns).to_pylist()


class Seen:
    """What a watch saw, by name of file."""

    def __init__(self, watch: SyscallWatch) -> None:
        taken = watch.take()
        self.files = rows(taken["files"])
        self.syncs = rows(taken["syncs"])
        self.events = rows(taken["events"])
        self.names = rows(taken["names"])
        self.blocks = rows(taken["blocks"])
        self.counts = rows(watch.counts())
        self.figures = watch.figures()
        self.first: dict[int | None, str | None] = {None: None}
        for row in self.files:
            self.first.setdefault(row["file_id"], os.path.basename(row["path"]))

    def count(self, name: str | None, call: str) -> dict[str, Any]:
        """The counts of this call on the file first seen by this name; places by name."""
        found = [
            row for row in self.counts
            if row["call"] == call and self.first[row["file_id"]] == name
        ]  # fmt: skip
        if not found:
            return {"calls": 0}
        assert len(found) == 1, found
        row = found[0]
        assert sum(row["latencies"]) == row["calls"]
        places = {n: c for n, c in zip(PLACES, row["places"], strict=True) if c}
        sizes = {bucket: n for bucket, n in enumerate(row["sizes"]) if n}
        sums = {name: row[name] for name in ("calls", "errors", "bytes")}
        return sums | {"places": places, "sizes": sizes}

    def calls(self) -> Counter[tuple[str | None, str]]:
        """How often each call was made on each file."""
        return Counter(
            {(self.first[row["file_id"]], row["call"]): row["calls"] for row in self.counts}
        )
