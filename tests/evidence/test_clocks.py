"""Two hosts with clocks of their own: every join is on one of them, and says how far it may be off.

Planted: the server's clock is 5 s ahead of ours, the client's 2 s behind; an instant of the server
is 7 s earlier on the client's.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.evidence.clocks import client_of, on_clock_of
from nfslab.evidence.nfs_server.breakdown import SERVER_TABLE, read_breakdown
from nfslab.evidence.over_time import read_named, read_samples
from nfslab.evidence.syscalls.sync_steps import read_sync_steps
from nfslab.results.records import ClockRecord, HostRecord
from nfslab.results.upgrade import stamp_table

from tests.evidence.runs import sealed_run
from tests.results.planted_calls import both, client_table, server_table
from tests.results.planted_syscalls import sync, table, tables
from tests.results.test_sync_capture import CAPTURED, FILES, ZERO_NS, export, seen

S = 1_000_000_000
CLIENT = HostRecord(name="a", clock=ClockRecord(offset_ns=-2 * S, error_ns=3_000))
SERVER = HostRecord(name="b", clock=ClockRecord(offset_ns=5 * S, error_ns=4_000))


def test_instants_move_by_both_offsets_and_errors_add_up() -> None:
    made = stamp_table(pa.table({"t_ns": [0, 9 * S], "done_ns": [0, 8 * S]}), SERVER)
    moved, error_ns = on_clock_of(CLIENT, made, ("t_ns", "done_ns"))
    assert moved["t_ns"].to_pylist() == [-7 * S, 2 * S]
    assert moved["done_ns"].to_pylist() == [0, S]  # one that never came
    assert error_ns == 7_000


def test_one_host_has_one_clock(tmp_path: Path) -> None:
    made = stamp_table(pa.table({"t_ns": [5]}), CLIENT)
    assert on_clock_of(CLIENT, made) == (made, 0)
    old = pa.table({"t_ns": [5]})  # it names no host: this machine
    assert on_clock_of(client_of(sealed_run(tmp_path).record), old) == (old, 0)


def test_panels_stand_on_the_clock_of_the_timed_part(tmp_path: Path) -> None:
    rows = {"t_ns": [7 * S, 8 * S], "busy": [0.0, 1.0], "device": ["sda", "sda"]}
    hosts = {"client": CLIENT, "server": SERVER}
    run = sealed_run(tmp_path, tables={"devices": rows}, hosts=hosts)
    samples, named = (
        read_samples(run, "devices", ["busy"]),
        read_named(run, "devices", "device", ["busy"]),
    )
    assert samples is not None
    assert named is not None
    assert samples.t_s.tolist() == named.samples.t_s.tolist() == [0.0, 1.0]


def test_a_call_is_taken_apart_on_the_client_s_clock(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    ours, theirs = both(0, 1, 1, 20, 3, 40, 5, 31)
    served = server_table([theirs])
    for name in ("received_ns", "started_ns", "finished_ns", "sent_ns"):
        ahead = pa.array([value.as_py() + 7 * S for value in served[name]], served[name].type)
        served = served.set_column(served.column_names.index(name), name, ahead)
    calls = stamp_table(client_table([ours]), CLIENT)
    pq.write_table(calls, tmp_path / "evidence" / "rpc_calls.parquet")
    pq.write_table(stamp_table(served, SERVER), tmp_path / "evidence" / f"{SERVER_TABLE}.parquet")
    found = read_breakdown(tmp_path)
    assert found.rows[0].summary.mean_ns == [1, 20, 3, 40, 5, 31]
    assert found.clock_error_ns == 7_000
    assert any("7.0 us" in note for note in found.notes)


def test_a_capture_is_joined_on_the_clock_of_the_syncs(tmp_path: Path) -> None:
    """The sync of 210 ns from t = 100 waits for a WRITE of 50 to 130, seen 7 s later elsewhere."""
    (tmp_path / "evidence").mkdir()
    captured = table(CAPTURED, [seen("WRITE", 50, 130)])
    at = captured.column_names.index("t_ns")
    late = pa.array([value.as_py() + 7 * S for value in captured["t_ns"]], pa.int64())
    captured = stamp_table(captured.set_column(at, "t_ns", late), SERVER)
    pq.write_table(captured, tmp_path / "evidence" / "capture_calls.parquet")
    whole = tables([sync(ZERO_NS + 100, 210)], files=FILES)
    whole.syncs = stamp_table(
        whole.syncs.add_column(0, "t_ns", pa.array([100], pa.int64())), CLIENT
    )
    capture = {"clock": {"offset_ns": 0, "error_ns": 500, "moved_ns": 0}}
    steps = read_sync_steps(
        tmp_path, whole, {"targets": {}, "exports": {"0:50": export()}}, capture
    )
    assert steps is not None
    assert steps.rows[0].summary.mean_ns == [30, 0, 0, 180]
    assert steps.clock_error_ns == 7_500
