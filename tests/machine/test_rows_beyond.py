"""More calls than rows are kept: totals have each one; notes say so.

The bound is made small; what the source and the program do is known.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab.evidence.syscalls.seen import evidence_tables
from nfslab.evidence.syscalls.tables import ClassRow, Syscalls, sum_up, tables_from
from nfslab.evidence.syscalls.watch import ROWS_MOST, KeptRows, Seen, SyscallWatch
from nfslab.evidence.syscalls.ways import Asked, Choice, Subject, shim_missing
from nfslab.storage.file_classes import read_file_classes

from tests.results.planted_syscalls import EVENTS, FILES, SYNCS, access, file, sync, table

SYNCS_MOST, EVENTS_MOST = 50, 70
ROUNDS = 400
LONG_US = 9_999
"""Of the last sync, far beyond the bound."""


class Source:
    """Each round: a write, a sync (one in 100 fails), a synchronous write of another file."""

    def __init__(self, rounds: int = ROUNDS) -> None:
        self.left = list(range(rounds))

    def take(self) -> dict[str, pa.Table]:
        taken, self.left = self.left[:30], self.left[30:]
        syncs, events = [], []
        for n in taken:
            at = n * 1_000_000
            write = access(at, "pwrite64", n * 4096, 4096)
            data = access(at + 2, "pwrite64", n * 8192, 8192, 2, latency_ns=300_000)
            last, failed = n == ROUNDS - 1, n % 100 == 50
            syncs += [
                sync(at + 1, (LONG_US if last else 400) * 1000, error=5 if failed else 0),
                {name: value for name, value in data.items() if name in SYNCS}
                | {"synchronous": True},
            ]
            events += [write, data]
        return {"syncs": table(SYNCS, syncs), "events": table(EVENTS, events)}


def watched(rounds: int = ROUNDS) -> Seen:
    rows, source, seen = KeptRows(), Source(rounds), Seen()
    while source.left:
        rows.take(source)
    rows.hand_over(seen)
    files = [file(1, "/db/bank-wal", None), file(2, "/db/bank.db", None)]
    seen.tables["files"] = table(FILES, files).drop_columns("class")
    return seen


def summed(seen: Seen) -> Syscalls:
    return sum_up(tables_from(evidence_tables(seen, read_file_classes(), 0, 0)))


def sums(rows: list[ClassRow]) -> dict[str, Any]:
    """Everything of the table that is a sum."""
    return {row.name: (row.files, row.groups, row.others, row.synchronous) for row in rows}


def lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS_MOST, "syncs", SYNCS_MOST)  # type: ignore[arg-type]
    monkeypatch.setitem(ROWS_MOST, "events", EVENTS_MOST)  # type: ignore[arg-type]


def test_totals_have_every_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = summed(watched())
    lower(monkeypatch)
    seen = watched()
    assert seen.tables["syncs"].num_rows == SYNCS_MOST
    assert seen.tables["events"].num_rows == EVENTS_MOST
    assert seen.notes == [
        f"{2 * ROUNDS - SYNCS_MOST:,} rows of syncs are in the totals, but in no series: there is "
        f"room for {SYNCS_MOST}",
        f"{2 * ROUNDS - EVENTS_MOST:,} rows of events are counted, not kept: there is room for "
        f"{EVENTS_MOST}",
    ]
    found = summed(seen)
    log, data = (found_of(found, name) for name in ("SQLite WAL", "SQLite database"))
    syncs = log.group("fdatasync")
    assert (syncs.calls, syncs.errors) == (ROUNDS, ROUNDS // 100)
    assert syncs.latency_max_ns == LONG_US * 1000
    assert syncs.latency_sum_ns == ((ROUNDS - 1) * 400 + LONG_US) * 1000
    assert (data.synchronous.calls, data.synchronous.bytes) == (ROUNDS, ROUNDS * 8192)
    assert data.synchronous.latency_sum_ns == ROUNDS * 300_000
    # Nothing of the table shows that there was a bound.
    assert sums([*found.classes, found.total]) == sums([*whole.classes, whole.total])
    assert sum(one.calls for one in found.series) == SYNCS_MOST


def found_of(found: Syscalls, name: str) -> ClassRow:
    return next(row for row in found.classes if row.name == name)


def test_what_is_kept_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch)
    kept = [
        {name: (one.num_rows, one.nbytes) for name, one in watched(rounds).tables.items()}
        for rounds in (ROUNDS, 4 * ROUNDS)
    ]
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
    assert seen.tables["syncs"].num_rows == SYNCS_MOST
    assert any(note.startswith(f"{2 * ROUNDS - SYNCS_MOST:,} rows of syncs") for note in seen.notes)
    found = summed(seen)
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
