"""Threads of a program by the call that they are in: against the program's own clock, and /proc."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import CoreError, WaitWatch, program_image
from nfslab.evidence.mariadb.calls import CALL_SHIFT, FUTEX, state_of
from nfslab.results.core_tables import core_table

from tests.machine import needs

MS = 1_000_000
TIMES = 6
PAUSE_MS = 50
PROGRAM = f"""
import json, os, sys, threading, time

def reads(told, fd):
    told |= {{"tid": threading.get_native_id(), "fd": fd, "ns": 0}}
    for _ in range({TIMES}):
        begun = time.monotonic_ns()
        os.read(fd, 1)
        told["ns"] += time.monotonic_ns() - begun

def waits(told, lock):
    told["tid"] = threading.get_native_id()
    begun = time.monotonic_ns()
    lock.acquire(timeout=1000)
    told["ns"] = time.monotonic_ns() - begun

def started(work, *given):
    told = {{}}
    thread = threading.Thread(target=work, args=(told, *given))
    thread.start()
    return thread, told

def until_in(call, told):
    while "tid" not in told:
        time.sleep(0.001)
    begin = f"{{call}} {{told['fd']:#x}} " if "fd" in told else f"{{call}} "
    while not open(f"/proc/self/task/{{told['tid']}}/syscall").read().startswith(begin):
        time.sleep(0.001)

(r1, w1), (r2, w2), lock = os.pipe(), os.pipe(), threading.Lock()
lock.acquire()
old, told_old = started(reads, r1)
print("ready", flush=True)
sys.stdin.readline()
new, told_new = started(reads, r2)
began = time.monotonic_ns()
held, told_held = started(waits, lock)
until_in({FUTEX}, told_held)
print(json.dumps([told_old["tid"], told_held["tid"]]), flush=True)
sys.stdin.readline()
for _ in range({TIMES}):
    for told in (told_old, told_new):
        until_in(0, told)
    time.sleep({PAUSE_MS} / 1000)
    os.write(w1, b"x")
    os.write(w2, b"x")
lock.release()
for one in (old, new, held):
    one.join()
told_held["life_ns"] = time.monotonic_ns() - began
print(json.dumps([told_old, told_new, told_held]), flush=True)
sys.stdin.readline()
"""


@contextmanager
def program() -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Told to go by a line, it says what it did, and waits for another one."""
    argv = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process, process.stdout
        finally:
            process.kill()


def watch_of(pid: int) -> WaitWatch:
    try:
        return WaitWatch(pid)
    except CoreError as error:
        if "6.9" in str(error):
            pytest.skip(str(error))
        raise


@needs.ebpf
@pytest.mark.system
def test_each_thread_has_its_calls_whenever_it_began() -> None:
    """One that was there before, and one that was not: of each, the reads of its own pipe."""
    with program() as (process, output):
        assert process.stdin is not None
        watch = watch_of(process.pid)
        process.stdin.write("go\n")
        process.stdin.flush()
        tids = json.loads(output.readline())
        here, seen = range(*program_image(process.pid)), set()
        for tid in tids:
            line = Path(f"/proc/{process.pid}/task/{tid}/syscall").read_text("ascii")
            seen.add((tid, state_of(line, here)))
        process.stdin.write("looked\n")
        process.stdin.flush()
        old, new, held = json.loads(output.readline())
        watch.stop()
    rows = core_table(watch.totals()).to_pylist()
    of = {(row["tid"], row["state"]): row["ns"] for row in rows if row["kind"] == "blocked"}
    for told in (old, new):
        mine = [row for row in rows if row["tid"] == told["tid"]]
        blocked = of[told["tid"], told["fd"]]  # read(2) is number 0
        # Waits for the interpreter's lock, too, as long as its holder has no processor.
        beside = sum(row["ns"] for row in mine) - blocked
        # The first read of the old one began before the watch: that pause is in no row.
        known = told["ns"] if told is new else (TIMES - 1) * PAUSE_MS * MS
        assert known - beside - MS <= blocked <= told["ns"] + MS
    lock = {state: ns for (tid, state), ns in of.items()
            if tid == held["tid"] and state >> CALL_SHIFT == FUTEX}  # fmt: skip
    beside = sum(row["ns"] for row in rows if row["tid"] == held["tid"]) - sum(lock.values())
    # The interpreter's own lock is a futex: the thread may have waited for that before and after.
    assert held["ns"] - beside - MS <= sum(lock.values()) <= held["life_ns"]
    # /proc says the same of whoever was blocked when it was asked.
    looked = [one for one in seen if one[1] is not None]
    assert all(one in of for one in looked), (looked, of)


@needs.ebpf
@pytest.mark.system
def test_a_process_that_is_gone_is_refused() -> None:
    with program() as (process, _):
        pass
    with pytest.raises(CoreError):
        WaitWatch(process.pid)
