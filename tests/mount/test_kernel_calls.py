"""The kernel's calls by tracepoints: the same as mountstats', and joined with nfsd's requests.
Its client's TCP: the same as `ss` shows.

test_in_guests.py (--long) runs this where this kernel has no NFS.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.context import Services
from nfslab.evidence.nfs_server.breakdown import PARTS, take_apart
from nfslab.machine.resources import Resources
from nfslab.results.core_tables import core_table
from nfslab.storage.mountstats import since

from tests.hosts.here import HERE
from tests.mount.test_kernel_nfs import Nfsd, kernel, settled, small_load, target
from tests.mount.test_kernel_nfs import nfsd as nfsd

US = 1000
MS = 1_000_000


@kernel
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_tracepoints_tell_what_mountstats_tells(
    scratch: Path, resources: Resources, tmp_path: Path, version: str
) -> None:
    """Operation by operation: calls, and the sums of queue, round trip and whole time."""
    one = target(scratch, vers=version, wsize="16k", rsize="16k", nconnect=2)
    place = one.up(resources, HERE)
    try:
        services = Services()
        one.offer(place, services)
        recorder, server = services.rpc_recorders["share"], services.nfs_servers["share"]
        before = settled(place)
        server.record(tmp_path / "served.parquet")
        recorder.start(every_call=True, interval_ns=1)
        small_load(place.path)
        kept = (place.path / "renamed").stat()
        moved = since(settled(place), before)
        samples = recorder.samples()
        shown = _shown_by_ss(recorder.port) if shutil.which("ss") else []
        recorder.stop()
        calls = core_table(recorder.calls())
        ended = server.end_recording()
    finally:
        one.down(place)
    assert moved is not None
    assert recorder.lost() == {"calls": 0}
    assert (ended["lost"], ended["left_out"]) == (0, 0)
    told = {row["operation"]: row for row in recorder.operations()}
    for name, row in moved.operations.items():
        if not row.calls:
            continue
        seen = told[name]
        assert (seen["calls"], seen["sends"]) == (row.calls, row.sends), name
        # mountstats sums in nanoseconds and prints milliseconds; a call's times are cut to 1 us.
        error_ns = MS + 2 * US * row.calls
        for of, printed_ms in (
            ("queue_sum_ns", row.queue_ms), ("round_trip_sum_ns", row.round_trip_ms)
        ):  # fmt: skip
            assert abs(seen[of] - printed_ms * MS) <= error_ns, (name, of)
    _about_the_file(calls, kept)
    rows = calls.num_rows
    assert rows == sum(row["calls"] for row in told.values()) > 60
    assert recorder.counters()["answered"] == rows
    assert samples["rpc"]["answered"].to_pylist()[-1] <= rows
    _tcp_is_what_ss_shows(samples["tcp"].to_pylist(), shown)
    _joined(calls, pq.read_table(tmp_path / "served.parquet"))


def _about_the_file(calls: pa.Table, kept: os.stat_result) -> None:
    """Each WRITE and READ names its file, and together they are all of its bytes."""
    for names in (["WRITE"], ["READ", "READ_PLUS"]):
        every: list[dict[str, Any]] = calls.to_pylist()
        rows = [row for row in every if row["operation"] in names]
        assert {row["status"] for row in rows} == {0}
        assert len({row["file_id"] for row in rows}) == 5
        ours = [row for row in rows if row["file_id"] == kept.st_ino]
        parts = sorted((row["offset"], row["offset"] + row["count"]) for row in ours)
        assert parts[0][0] == 0
        assert all(after[0] == one[1] for one, after in pairwise(parts))
        assert parts[-1][1] >= kept.st_size == 160_000


def _shown_by_ss(port: int) -> list[dict[str, int]]:
    """Figures ("mss:32741") of each established connection to that port."""
    argv = ["ss", "-tinHO", "state", "established", "dport", "=", f":{port}"]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    figures = (re.findall(r" (\w+):(\d+)(?= |$)", line) for line in text.splitlines())
    return [{name: int(value) for name, value in found} for found in figures]


def _tcp_is_what_ss_shows(rows: list[dict[str, int]], shown: list[dict[str, int]]) -> None:
    """Both connections in every sample; the last is what `ss`, if there, shows just after it."""
    instants = sorted({row["at_ns"] for row in rows})
    assert [(row["at_ns"], row["connection"]) for row in rows] == [
        (at_ns, number) for at_ns in instants for number in (0, 1)
    ]
    assert instants
    assert all(row["congestion_window"] > 0 and row["round_trip_us"] > 0 for row in rows)
    for name, of_ss in (("segment_size_bytes", "mss"), ("congestion_window", "cwnd")):
        told = sorted(row[name] for row in rows[-2:])
        assert not shown or told == sorted(one[of_ss] for one in shown), name


def _joined(calls: pa.Table, served: pa.Table) -> None:
    """Every call is in nfsd's record, and its instants follow one another."""

    def prepared(table: pa.Table, start: str) -> pa.Table:
        names = pa.array(["share"] * table.num_rows)
        return table.append_column("target", names).append_column(
            "t_ns", table[start].cast("int64")
        )

    found = take_apart(prepared(calls, "enqueued_ns"), prepared(served, "received_ns"))
    assert found.left_out == {}
    assert found.calls == calls.num_rows
    parts = dict(zip(PARTS, found.rows[0].summary.mean_ns, strict=True))
    assert parts["request transit"] + parts["waiting"] > 0
    assert all(mean >= 0 for mean in parts.values()), parts
    assert parts["server processing"] > 0
    of = {row.operation: row for row in found.rows}
    # 160,000 bytes in ten WRITEs; the rest are headers of both ways (RFC 5531, 1813, 8881).
    assert 16_000 < of["WRITE"].bytes_mean < 16_500


@kernel
def test_mounts_of_one_server_are_not_told_apart(
    nfsd: Nfsd, scratch: Path, resources: Resources
) -> None:
    """So neither has a recorder; alone it has one."""
    for name in ("first", "second"):
        (scratch / name).mkdir()
    first, second = (nfsd.target(scratch / name, name, vers="4.2") for name in ("first", "second"))
    one, services = first.up(resources, HERE), Services()
    other = second.up(resources, HERE)
    first.offer(one, services)
    second.offer(other, services)
    assert services.rpc_recorders == {}
    second.down(other)
    first.offer(one, services)
    assert list(services.rpc_recorders) == ["first"]
    first.down(one)
