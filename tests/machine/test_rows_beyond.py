"""More calls than rows are kept: totals have each one, by a text and by a watch; notes say so.

The bound is made small; what the text and the program do is known.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nfslab.evidence.syscalls.seen import evidence_tables
from nfslab.evidence.syscalls.strace_text import read_text
from nfslab.evidence.syscalls.tables import ClassRow, Syscalls, sum_up, tables_from
from nfslab.evidence.syscalls.watch import ROWS_MOST, Seen, SyscallWatch
from nfslab.evidence.syscalls.ways import Asked, Choice, Level, Subject, shim_missing
from nfslab.storage.file_classes import read_file_classes

SYNCS, EVENTS = 50, 70
ROUNDS = 400
LONG_US = 9_999
"""Of the last sync, far beyond the bound."""
START = 1_700_000_000


def text() -> bytes:
    """Each round: a write, a sync (one in 100 fails), a synchronous write of another file."""
    lines = [
        'openat(AT_FDCWD, "/db/bank-wal", O_RDWR) = 3</db/bank-wal> <0.000010>',
        'openat(AT_FDCWD, "/db/bank.db", O_RDWR|O_DSYNC) = 4</db/bank.db> <0.000010>',
    ]
    for n in range(ROUNDS):
        took = LONG_US if n == ROUNDS - 1 else 400
        answer = "-1 EIO (Input/output error)" if n % 100 == 50 else "0"
        lines += [
            f'pwrite64(3</db/bank-wal>, "x"..., 4096, {n * 4096}) = 4096 <0.000020>',
            f"fdatasync(3</db/bank-wal>) = {answer} <0.{took:06}>",
            f'pwrite64(4</db/bank.db>, "x"..., 8192, {n * 8192}) = 8192 <0.000300>',
        ]
    return "".join(
        f"101 {START}.{n:06} {line}\n" for n, line in enumerate(lines)
    ).encode()  # fmt: skip


def summed(seen: Seen, _summary: dict[str, Any]) -> Syscalls:
    return sum_up(tables_from(evidence_tables(seen, read_file_classes(), 0, 0)))


def sums(rows: list[ClassRow]) -> dict[str, Any]:
    """Everything of the table that is a sum."""
    return {row.name: (row.files, row.groups, row.others, row.synchronous) for row in rows}


def lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS_MOST, "syncs", SYNCS)  # type: ignore[arg-type]
    monkeypatch.setitem(ROWS_MOST, "events", EVENTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["sync", "counts", "events"])
def test_totals_of_a_text_have_every_call(monkeypatch: pytest.MonkeyPatch, level: Level) -> None:
    whole = summed(*read_text(io.BytesIO(text()), level))
    lower(monkeypatch)
    monkeypatch.setattr("nfslab.evidence.syscalls.strace_text.READ_BYTES", 5000)
    seen, summary = read_text(io.BytesIO(text()), level)
    assert seen.tables["syncs"].num_rows == SYNCS
    if level == "events":
        assert seen.tables["events"].num_rows == EVENTS
    left = [
        f"{2 * ROUNDS - SYNCS:,} rows of syncs are in the totals, but in no series: there is room "
        f"for {SYNCS}",
        f"{2 * ROUNDS - EVENTS:,} rows of events are counted, not kept: there is room for {EVENTS}",
    ]
    assert summary["notes"] == left[: 2 if level == "events" else 1]
    found = summed(seen, summary)
    log, data = (found_of(found, name) for name in ("SQLite WAL", "SQLite database"))
    syncs = log.group("fdatasync")
    assert (syncs.calls, syncs.errors) == (ROUNDS, ROUNDS // 100)
    assert syncs.latency_max_ns == LONG_US * 1000
    assert syncs.latency_sum_ns == ((ROUNDS - 1) * 400 + LONG_US) * 1000
    assert (data.synchronous.calls, data.synchronous.bytes) == (ROUNDS, ROUNDS * 8192)
    assert data.synchronous.latency_sum_ns == ROUNDS * 300_000
    if level != "sync":
        assert (log.group("writes").calls, data.group("writes").calls) == (ROUNDS, ROUNDS)
    # Nothing of the table shows that there was a bound.
    assert sums([*found.classes, found.total]) == sums([*whole.classes, whole.total])
    assert sum(one.calls for one in found.series) == SYNCS


def found_of(found: Syscalls, name: str) -> ClassRow:
    return next(row for row in found.classes if row.name == name)


def test_what_is_kept_of_a_text_does_not_grow_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch)
    monkeypatch.setattr("nfslab.evidence.syscalls.strace_text.READ_BYTES", 5000)
    kept = []
    for times in (1, 4):
        seen, _ = read_text(io.BytesIO(text() * times), "events")
        kept.append({name: (one.num_rows, one.nbytes) for name, one in seen.tables.items()})
    assert kept[0] == kept[1]


PROGRAM = f"""
import os
log = os.open("bank-wal", os.O_RDWR | os.O_CREAT)
data = os.open("bank.db", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
for n in range({ROUNDS}):
    os.fdatasync(log)
    os.pwrite(data, b"x" * 100, n * 100)
"""


@pytest.mark.skipif(bool(shim_missing()), reason=shim_missing() or "there is one")
@pytest.mark.system
@pytest.mark.long
def test_totals_of_a_watch_have_every_sync(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lower(monkeypatch)
    argv = [sys.executable, "-S", "-c", PROGRAM]
    watch = SyscallWatch(Choice("shim"), Asked("sync"), Subject(argv=argv))
    wrapped, added = watch.wrap(argv)
    program = subprocess.Popen(wrapped, env=added, cwd=tmp_path)
    watch.launched()
    assert program.wait() == 0
    seen = watch.end()
    assert seen.tables["syncs"].num_rows == SYNCS
    assert any(note.startswith(f"{2 * ROUNDS - SYNCS:,} rows of syncs") for note in seen.notes)
    found = summed(seen, {})
    assert found_of(found, "SQLite WAL").group("fdatasync").calls == ROUNDS
    synchronous = found_of(found, "SQLite database").synchronous
    assert (synchronous.calls, synchronous.bytes) == (ROUNDS, ROUNDS * 100)


WATCHING = """
import os, subprocess, sys
from nfslab.evidence.syscalls.watch import SyscallWatch
from nfslab.evidence.syscalls.ways import Asked, Choice, Subject
argv = [sys.executable, "-S", "-c", "import os; os.fsync(os.open('data', os.O_CREAT | os.O_RDWR))"]
watch = SyscallWatch(Choice("shim"), Asked("counts"), Subject(argv=argv))
wrapped, added = watch.wrap(argv)
before = set(sys.modules)
program = subprocess.Popen(wrapped, env=os.environ | added)
watch.launched()
program.wait()
watch._take()
later = {name.split(".")[0] for name in set(sys.modules) - before}
print("pyarrow" in sys.modules, sorted(later & {"numpy", "pandas", "pyarrow", "nfslab"}))
print(watch.end().tables["syncs"].num_rows)
"""


@pytest.mark.skipif(bool(shim_missing()), reason=shim_missing() or "there is one")
@pytest.mark.system
def test_what_taking_records_needs_is_loaded_before_the_program_runs(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", WATCHING], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["True []", "1"]
