"""MariaDB counts its own writes and syncs: `nfslab syscalls` sees the same, in the right classes.

Truth is SHOW GLOBAL STATUS. What its counters count (10.11, seen under strace):

    Innodb_log_writes      writes of log records
    log_checkpoints        (innodb_metrics) writes of a checkpoint's header: not in that one
    Innodb_os_log_written  bytes of log (what the LSN grew by), not of the blocks written
    Innodb_data_fsyncs     syncs of all of InnoDB's files, the redo log among them
    Innodb_data_writes     writes of pages and of the doublewrite buffer, with Innodb_data_written
                           bytes; none of the log
    Innodb_dblwr_writes    writes into the doublewrite buffer, of Innodb_dblwr_pages_written pages
    Binlog_group_commits   writes and syncs of the binary log (sync_binlog = 1)

A watch begins and ends between two readings: what is seen lies between what was counted within it
and what was counted from before to after it. Of a server that has nothing to do these are the same.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.mariadb_server import CHECKPOINTS, PAGE_BYTES, Cluster, Counters, Server, missing
from tests.cli.watching import watching
from tests.machine import needs
from tests.workloads.run_context import scratch_folder

TRANSACTIONS = 120
REDO, BINLOG = "InnoDB redo log", "MariaDB binary and relay logs"
SYSTEM, UNDO, DATA, TEMPORARY = (
    "InnoDB system tablespace", "InnoDB undo", "InnoDB data", "MariaDB temporary",
)  # fmt: skip
PAGES = (SYSTEM, UNDO, DATA, TEMPORARY)
"""Classes of files of pages."""
DOUBLEWRITE = range(1 << 20, 3 << 20)
"""Where it lies in ibdata1: its extents 1 and 2 (storage/innobase/buf/buf0dblwr.cc)."""
RECORDS_BEGIN = 12288
"""In ib_logfile0, behind the header and two checkpoints (storage/innobase/include/log0log.h)."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing()), reason=missing() or "usable"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Not in memory: there MariaDB maps its redo log, and makes no calls on it.
    with scratch_folder(in_memory=False) as root:
        yield Cluster(root)


@dataclass
class Watched:
    """What a watch saw, and between what it lies by the server's own counters."""

    found: dict[str, Any]
    least: Counters
    most: Counters

    def calls(self, file_class: str, kind: str) -> int:
        rows = [row for row in self.found["classes"] if row["name"] == file_class]
        return sum(row["calls"].get(kind, {"calls": 0})["calls"] for row in rows)

    def agrees(self, seen: int, *counters: str) -> None:
        """So many as the server counts in these together."""
        least = sum(self.least[name] for name in counters)
        most = sum(self.most[name] for name in counters)
        assert least <= seen <= most, (counters, least, seen, most)


@contextmanager
def watched(server: Server, *options: object) -> Iterator[list[Watched]]:
    """The list has what was seen when the block has ended."""
    seen: list[Watched] = []
    before = server.settled()
    with watching(server.process.pid, *options) as watch:
        begun = server.status()
        yield seen
        done = server.settled()
        watch.send_signal(signal.SIGINT)
        out, said = watch.communicate()
        assert watch.returncode == 0, said
    after = server.status()
    seen.append(Watched(json.loads(out), done.since(begun), after.since(before)))


def make_table(server: Server) -> None:
    server.ask(
        "CREATE DATABASE IF NOT EXISTS bank; DROP TABLE IF EXISTS bank.moves;"
        "CREATE TABLE bank.moves (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB"
    )


def commit(server: Server, first: int = 0) -> None:
    """So many transactions of one row each."""
    numbers = range(first, first + TRANSACTIONS)
    server.ask("".join(f"INSERT INTO bank.moves VALUES ({n}, {n});\n" for n in numbers))


@needs.ebpf
def test_each_commit_syncs_redo_log_and_binary_log(cluster: Cluster) -> None:
    with cluster.server("--innodb-use-native-aio=OFF") as server:
        make_table(server)
        with watched(server, "--level", "counts") as seen:
            commit(server)
    (watch,) = seen
    assert watch.least["Binlog_group_commits"] == TRANSACTIONS  # what was asked of it
    assert watch.calls(BINLOG, "fdatasync") == TRANSACTIONS
    assert watch.calls(REDO, "fdatasync") >= TRANSACTIONS
    watch.agrees(
        sum(watch.calls(name, "fdatasync") for name in (REDO, *PAGES)), "Innodb_data_fsyncs"
    )
    assert not any(watch.calls(name, "fsync") for name in (REDO, BINLOG, *PAGES))
    rows = {row["name"]: row["calls"] for row in watch.found["classes"]}
    watch.agrees(rows[REDO]["writes"]["calls"], "Innodb_log_writes", CHECKPOINTS)
    # In whole blocks: more than the records.
    assert rows[REDO]["writes"]["bytes"] >= watch.least["Innodb_os_log_written"] > 0
    assert rows[BINLOG]["writes"]["calls"] == TRANSACTIONS
    watch.agrees(rows[BINLOG]["writes"]["bytes"], "Binlog_bytes_written")
    assert not [note for note in watch.found["notes"] if "not all is here" in note.lower()]


@needs.ebpf
def test_pages_go_by_the_doublewrite_buffer(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.server("--innodb-use-native-aio=OFF") as server:
        make_table(server)
        server.flush_pages()
        with watched(server, "--level", "events", "--parquet", tmp_path / "tables") as seen:
            commit(server)
            server.flush_pages()
    (watch,) = seen
    files = pq.read_table(tmp_path / "tables" / "files.parquet").to_pylist()
    class_of = {row["file_id"]: row["class"] for row in files}
    writes = [
        (class_of[row["file_id"]], row["offset"], row["bytes"])
        for row in pq.read_table(tmp_path / "tables" / "events.parquet").to_pylist()
        if "write" in row["call"]
    ]
    doubled = [size for name, at, size in writes if name == SYSTEM and at in DOUBLEWRITE]
    watch.agrees(len(doubled), "Innodb_dblwr_writes")
    assert sum(doubled) % PAGE_BYTES == 0
    watch.agrees(sum(doubled) // PAGE_BYTES, "Innodb_dblwr_pages_written")
    assert doubled
    pages = [(name, size) for name, at, size in writes if name in PAGES]
    watch.agrees(len(pages), "Innodb_data_writes")
    watch.agrees(sum(size for _, size in pages), "Innodb_data_written")
    watch.agrees(len(pages) - len(doubled), "Innodb_pages_written")
    assert {DATA, UNDO, SYSTEM} <= {name for name, _ in pages}
    records = [at for name, at, _ in writes if name == REDO and at >= RECORDS_BEGIN]
    watch.agrees(len(records), "Innodb_log_writes")
    headers = [at for name, at, _ in writes if name == REDO and at < RECORDS_BEGIN]
    watch.agrees(len(headers), CHECKPOINTS)
    assert set(headers) <= {4096, 8192}
    watch.agrees(
        sum(watch.calls(name, "fdatasync") for name in (REDO, *PAGES)), "Innodb_data_fsyncs"
    )
    for name in PAGES:
        assert watch.calls(name, "writes") == len([1 for other, _ in pages if other == name])
