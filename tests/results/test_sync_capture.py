"""Syncs joined to a capture's calls: what is joined and what cannot be told, also by packets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.captures.analysis import Asked, read_captures
from nfslab.evidence.syscalls.sync_capture import calls_of_capture, clock_problem
from nfslab.evidence.syscalls.sync_steps import read_sync_steps

from tests.results.planted_syscalls import MS, file, sync, table, tables

ZERO_NS = 5_000_000
"""The timed start on the syncs' clock."""
WALL_NS = 1_700_000_000_000_000_000
TEXT = pa.string()
CAPTURED = {
    "t_ns": pa.int64(), "call_first_ns": pa.int64(), "reply_last_ns": pa.int64(), "server": TEXT,
    "server_port": pa.uint16(), "program": TEXT, "operation": TEXT, "file_handle": TEXT,
    "count": pa.uint64(), "fsid": pa.uint64(), "file_id": pa.uint64(),
}  # fmt: skip
CLOCK = {"clock": {"offset_ns": WALL_NS - ZERO_NS, "error_ns": 300, "moved_ns": -200}}
CAPTURES = Path(__file__).resolve().parents[1] / "captures"


def seen(operation: str, at: int, ended: int | None, handle: str | None = "aa", **more: Any) -> Any:
    """A call at `at` from the timed start."""
    reply_ns = None if ended is None else WALL_NS + ended
    usual = {
        "server": "10.0.0.7", "server_port": 2049, "program": "NFS", "count": 4096, "fsid": 12,
        "file_id": 77,
    }  # fmt: skip
    return {
        "operation": operation, "t_ns": at, "call_first_ns": WALL_NS + at,
        "reply_last_ns": reply_ns, "file_handle": handle,
    } | usual | more  # fmt: skip


def export(**more: Any) -> dict[str, Any]:
    usual = {"target": "nas", "address": "10.0.0.7", "port": 2049, "fsid": 12, "sole": False}
    return usual | more


def joined(rows: list[Any], **exports: Any) -> Any:
    whole = exports or {"0:50": export()}
    return calls_of_capture(table(CAPTURED, rows), ZERO_NS, whole)


def told(rows: list[Any], **exports: Any) -> list[Any]:
    return list(joined(rows, **exports).calls["file_id"].to_pylist())


def test_instants_are_on_the_syncs_clock_and_other_calls_are_left_out() -> None:
    found = joined(
        [
            seen("WRITE", 100, 300), seen("READ", 1, 2), seen("COMMIT", 400, 900),
            seen("WRITE", 1, 2, program="NLM"), seen("WRITE", 1, 2, server="10.0.0.8"),
            seen("WRITE", 1, 2, server_port=2050), seen("WRITE", 1, 2, "bb", fsid=13),
            seen("COMMIT", 1000, None),
        ]
    )  # fmt: skip
    assert found.calls.to_pylist() == [
        {"operation": kind, "enqueued_ns": ZERO_NS + a, "completed_ns": ZERO_NS + b, "file_id": 77,
         "count": 4096, "target": "nas"}
        for kind, a, b in (("WRITE", 100, 300), ("COMMIT", 400, 900))
    ]  # fmt: skip
    assert (found.targets, found.unanswered, found.shared) == ({"0:50": "nas"}, 1, [])


def test_what_a_later_reply_tells_of_a_handle_counts_for_its_earlier_calls() -> None:
    unknown = {"fsid": None, "file_id": None}
    rows = [seen("WRITE", 1, 2, **unknown), seen("WRITE", 3, 4), seen("COMMIT", 5, 6)]
    assert told(rows) == [77, 77, 77]
    # Unknown again behind that: replies disagreed, and none is believed.
    assert told([seen("WRITE", 1, 2), seen("WRITE", 3, 4, **unknown)]) == [None, None]
    # Another server's handle with the same bytes tells nothing.
    rows = [seen("WRITE", 1, 2, **unknown), seen("WRITE", 3, 4, server="10.0.0.8")]
    assert told(rows) == [None]
    # A call of nobody knows which of two exports is one unknown call, not two.
    rows = [seen("WRITE", 1, 2, **unknown), seen("WRITE", 3, 4, "bb", fsid=13)]
    assert told(rows, **{"0:50": export(), "0:60": export(fsid=13)}) == [None, 77]
    # Nor does a call without a handle: the capture cut it.
    assert told([seen("WRITE", 1, 2, None, **unknown), seen("WRITE", 3, 4)]) == [None, 77]


def test_two_numbers_of_one_handle_are_none() -> None:
    assert told([seen("WRITE", 1, 2), seen("WRITE", 3, 4, file_id=78)]) == [None, None]
    assert told([seen("WRITE", 1, 2, fsid=11), seen("WRITE", 3, 4)], **{
        "0:50": export(fsid=None, sole=True)
    }) == [None, None]  # fmt: skip


def test_without_the_file_system_s_number_a_file_is_told_only_where_it_is_one() -> None:
    alone = {"0:50": export(fsid=None, sole=True)}
    others = [seen("WRITE", 3, 4, "bb", fsid=13), seen("WRITE", 5, 6, "cc", file_id=9)]
    rows = [seen("WRITE", 1, 2), *others]
    assert told(rows, **alone) == [None, None, 9]
    assert told(rows, **{"0:50": export(port=None, fsid=None, sole=True)}) == [None, None, 9]
    # Beside another mount of that server nothing is told.
    both = joined(rows, **{"0:50": export(fsid=None, sole=False)})
    assert (both.calls.num_rows, both.targets, both.shared) == (0, {}, ["nas"])
    # A server that was not spoken to is no evidence that nothing was sent.
    assert joined(rows, **{"0:50": export(address="10.0.0.9")}).targets == {}


def test_addresses_are_compared_as_numbers() -> None:
    rows = [seen("COMMIT", 1, 2, server="2001:db8:0:0:0:0:0:1")]
    assert told(rows, **{"0:50": export(address="2001:db8::1")}) == [77]


def test_a_clock_that_was_set_joins_nothing() -> None:
    assert clock_problem({"offset_ns": 5, "error_ns": 100, "moved_ns": -900_000}) == ""
    assert "-20.0 ms" in clock_problem({"error_ns": 100, "moved_ns": -20 * MS})
    assert "does not say" in clock_problem({})


FILES = [
    file(1, "/mnt/pg_wal/1", "PostgreSQL WAL", device="0:50", inode=77),
    file(2, "/srv/base/1", None, device="0:60", inode=77),
]


def of_run(run: Path, rows: list[Any], capture: dict[str, Any], **more: Any) -> Any:
    evidence = run / "evidence"
    evidence.mkdir(exist_ok=True)
    pq.write_table(table(CAPTURED, rows), evidence / "capture_calls.parquet")
    starts = [sync(ZERO_NS + 100, 210), sync(ZERO_NS + 1000, 50, 2)]
    whole = tables(starts, files=FILES)
    times = pa.array([row["start_ns"] - ZERO_NS for row in starts], pa.int64())
    whole.syncs = whole.syncs.add_column(0, "t_ns", times)
    summary = {"targets": {}, "exports": {"0:50": export()}} | more
    return read_sync_steps(run, whole, summary, capture)


def test_a_run_of_a_kernel_s_mount_is_read_by_its_capture(tmp_path: Path) -> None:
    rows = [seen("WRITE", 50, 130), seen("WRITE", 110, 240), seen("COMMIT", 245, 300)]
    lacks = {"kernel_dropped_packets": 3, "calls_left_out": 1}
    found = of_run(tmp_path, rows, CLOCK | lacks | {"anomalies": {"reply_without_call": 2}})
    (row,) = found.rows
    # 100-130 waiting, to 240 sending, 245-300 committing.
    assert row.summary.mean_ns == [30, 110, 55, 15]
    assert (row.target, row.writes, row.commits, found.elsewhere) == ("nas", 1, 1, 1)
    assert (found.captured, found.clock_error_ns, found.dropped) == (["nas"], 500, 6)
    notes = " ".join(found.notes())
    for piece in ("as a capture saw them", "0.5 us", "lacks 6 packets", "calls are known: 1."):
        assert piece in notes
    moved = {"clock": {"offset_ns": 0, "error_ns": 1, "moved_ns": 5 * MS}}
    refused = of_run(tmp_path, rows, moved)
    assert refused.rows == []
    assert any("the wall clock was set by 5.0 ms" in note for note in refused.notes())


def test_beside_the_client_s_own_record_a_capture_tells_of_the_other_mounts(tmp_path: Path) -> None:
    own = {
        "operation": ["WRITE"], "enqueued_ns": [ZERO_NS + 150], "completed_ns": [ZERO_NS + 200],
        "file_id": pa.array([77], pa.uint64()), "count": [1], "target": ["share"],
    }  # fmt: skip
    (tmp_path / "evidence").mkdir()
    pq.write_table(pa.table(own), tmp_path / "evidence" / "rpc_calls.parquet")
    exports = {"0:50": export(target="share"), "0:60": export(fsid=13)}
    # What the capture has of the mount whose client told by itself counts no second time.
    rows = [seen("COMMIT", 1010, 1020, "bb", fsid=13), seen("WRITE", 0, 10**6)]
    found = of_run(tmp_path, rows, CLOCK, targets={"0:50": "share"}, exports=exports)
    by_target = {row.target: row.summary.mean_ns for row in found.rows}
    assert by_target == {"share": [0, 50, 0, 160], "nas": [0, 0, 10, 40]}
    assert (found.captured, found.elsewhere) == (["nas"], 0)


@pytest.mark.parametrize("name", ["linux61_pgbench_v3", "linux61_pgbench_v42"])
def test_files_of_a_kernel_s_client_are_told_by_the_server_s_own_numbers(
    tmp_path: Path, name: str
) -> None:
    """Linux's server writes file system and inode into its handles: an independent witness."""
    path = tmp_path / "calls.parquet"
    read_captures([CAPTURES / f"{name}.pcap.gz"], Asked(calls=path))
    whole = pq.read_table(path)
    zero = whole["call_first_ns"].to_pylist()[0]
    times = pa.array([at - zero for at in whole["call_first_ns"].to_pylist()], pa.int64())
    calls = whole.add_column(0, "t_ns", times)
    writes = [row for row in calls.to_pylist() if row["operation"] in ("WRITE", "COMMIT")]
    assert len(writes) > 200
    # 01 00 01 01, the export's fsid=12, the inode, its generation.
    fields = [bytes.fromhex(row["file_handle"]) for row in writes]
    assert {handle[:8] for handle in fields} == {bytes.fromhex("010001010c000000")}
    inodes = [int.from_bytes(handle[8:12], "little") for handle in fields]
    exports = {"0:50": export(address="10.9.0.1", fsid=None, sole=True)}
    found = calls_of_capture(calls, ZERO_NS, exports)
    assert found.calls["file_id"].to_pylist() == inodes
    assert len(set(inodes)) == 4
    fsid = {row["fsid"] for row in writes}
    assert fsid == {12}
    known = calls_of_capture(calls, ZERO_NS, {"0:50": export(address="10.9.0.1", fsid=12)})
    assert known.calls.equals(found.calls)
