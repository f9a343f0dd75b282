"""A run's calls taken apart: planted instants, every reason to leave a call out, real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.errors import ResultsError
from nfslab.evidence.nfs_server.breakdown import (
    ALL,
    PARTS,
    BreakdownFacts,
    read_breakdown,
    take_apart,
)
from nfslab.evidence.nfs_server.kind import NfsServerEvidence
from nfslab.results import evidence_tables

from tests.evidence.runs import sealed_run
from tests.results.planted_calls import SECOND, at, both, client_table, server_table


def taken(*pairs: tuple[dict[str, Any], dict[str, Any]], error_ns: int = 0) -> BreakdownFacts:
    return take_apart(
        client_table([client for client, _ in pairs]),
        server_table([server for _, server in pairs]),
        error_ns,
    )


def test_parts_and_shares_by_hand() -> None:
    found = taken(
        both(0, 1, 1, 20, 3, 40, 5, 31),
        both(0, 2, 3, 20, 7, 140, 5, 25),
        both(9, 3, 0, 10, 0, 5, 0, 15, operation="GETATTR", procedure=1),
    )
    assert found.calls == 3
    assert (found.left_out, found.negative, found.notes) == ({}, {}, [])
    everything, read, getattr_ = found.rows
    assert [row.operation for row in found.rows] == [ALL, "READ", "GETATTR"]
    assert read.summary.mean_ns == [2, 20, 5, 90, 5, 28]
    assert read.summary.whole_mean_ns == 150
    assert read.summary.share[3] == 0.6
    assert read.largest == (PARTS.index("server processing"), 0.6)
    # The slowest of two is the one of 200.
    assert read.largest_slow == (PARTS.index("server processing"), 0.7)
    assert getattr_.largest == (PARTS.index("reply transit"), 0.5)
    assert everything.summary.calls == 3
    assert everything.summary.whole_mean_ns == 110


def test_every_call_that_is_left_out_is_counted_by_its_reason() -> None:
    good = both(0, 1, 1, 1, 1, 1, 1, 1)
    again, late, lost = (both(0, xid, 1, 1, 1, 1, 1, 1) for xid in (2, 3, 4))
    twice = both(0, 5, 1, 1, 1, 1, 1, 1)
    other = both(0, 6, 1, 1, 1, 1, 1, 1)
    early = both(-2 * SECOND, 7, 1, 1, 1, 1, 1, 1)
    clients = [good[0], again[0] | {"sends": 2}, late[0] | {"outcome": "timed out"}, lost[0],
               twice[0], other[0], early[0]]  # fmt: skip
    servers = [good[1], again[1], again[1], late[1], twice[1], twice[1],
               other[1] | {"procedure": 1}, early[1],
               {"at": at(0, 1, 1, 1), "xid": 99}]  # fmt: skip
    found = take_apart(client_table(clients), server_table(servers))
    assert found.calls == 1
    assert found.left_out == {
        "not answered": 1,
        "retransmitted": 1,
        "not in the server's record": 1,
        "with an id that is there more than once": 1,
        "with another procedure on the server": 1,
    }
    assert found.notes[0].startswith("Left out: 1 not answered, 1 retransmitted, ")


def test_a_part_below_zero_is_said_and_stays() -> None:
    found = taken(both(0, 1, 5, 10, 10, 10, 10, -4), both(0, 2, 5, 10, 10, 10, 10, 14), error_ns=1)
    assert found.negative == {"reply transit": 1}
    assert found.notes == ["Below zero, and in all sums as they are: reply transit in 1 calls."]
    assert found.rows[0].summary.mean_ns == [5, 10, 10, 10, 10, 5]


def test_equal_ids_of_two_targets_are_different_calls() -> None:
    found = taken(
        both(0, 1, 1, 1, 1, 1, 1, 1, target="data"), both(50, 1, 2, 2, 2, 2, 2, 2, target="log")
    )
    assert [(row.target, row.operation, row.summary.whole_mean_ns) for row in found.rows] == [
        ("data", ALL, 6), ("data", "READ", 6), ("log", ALL, 12), ("log", "READ", 12),
    ]  # fmt: skip


def test_no_call_in_common_is_no_row_and_a_count() -> None:
    found = take_apart(
        client_table([{"at": at(0, 1, 1), "xid": 1}]),
        server_table([{"at": at(0, 1, 1, 1), "xid": 2}]),
    )
    assert (found.calls, found.rows) == (0, ())
    assert found.left_out == {"not in the server's record": 1}
    assert take_apart(client_table([]), server_table([])).left_out == {}


def test_a_runs_folder_without_both_tables_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "evidence"
    folder.mkdir()
    client, server = both(0, 1, 1, 1, 1, 1, 1, 1)
    pq.write_table(client_table([client]), folder / "rpc_calls.parquet")
    assert not NfsServerEvidence().present(sealed_run(tmp_path))
    pq.write_table(server_table([server]), folder / "nfs_server_calls.parquet")
    found = read_breakdown(tmp_path)
    assert found.calls == 1
    monkeypatch.setattr(evidence_tables, "ROWS_MAX", 0)
    with pytest.raises(ResultsError, match="more than the 0"):
        read_breakdown(tmp_path)
    monkeypatch.undo()
    (folder / "rpc_calls.parquet").write_bytes(b"nothing")
    with pytest.raises(ResultsError, match="rpc_calls"):
        read_breakdown(tmp_path)
