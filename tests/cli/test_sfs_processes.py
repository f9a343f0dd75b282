"""`nfslab sfs`: call by call the same as a capture and the servers' own records have.

By one process, by several (`--generators N`), by several mounts.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.context import Services
from nfslab.machine.resources import Resources
from nfslab.targets.nfs import NfsTarget

from tests.cli.invocation import nfslab
from tests.cli.serving import Served, serving
from tests.core.wire_capture import MARK, captured, of_the_wire
from tests.hosts.here import HERE

SHORT = ("--warm-up", "0.1s", "--json")
NFS = 100003
Capture = pytest.CaptureFixture[str]


@contextmanager
def exported(server: str, folder: Path) -> Iterator[tuple[str, list[str], int]]:
    """An export: its source, its options, its port."""
    parameters: dict[str, Any] = {"server": server, "client": "none", "directory": str(folder)}
    if server == "embedded":
        parameters["store"] = "memory"
    target = NfsTarget("share", NfsTarget.Parameters(**parameters))
    usable = target.check()
    if not usable.ok:
        pytest.skip(f"{server}: {usable.reason}")
    with Resources("sfs-on-the-wire", state=folder) as resources:
        place = target.up(resources, HERE)
        try:
            services = Services()
            target.offer(place, services)
            export, running = services.nfs_exports["share"], target.server_of(place)
            assert running is not None
            yield export.source, export.options, running.port()
        finally:
            target.down(place)


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("embedded", marks=pytest.mark.system),
        pytest.param("ganesha", marks=pytest.mark.long),
    ],
)
def test_every_call_is_on_the_wire_as_it_was_recorded(
    server: str, tmp_path: Path, capsys: Capture
) -> None:
    calls, wire = tmp_path / "calls.parquet", tmp_path / "wire.pcap"
    with exported(server, tmp_path) as (source, options, port):
        load = ["sfs", source, "-o", ",".join(options), "--load", "300", "--files", "100"]
        load += ["--time", "1s", *SHORT]
        made = nfslab(capsys, *load, "--prepare-only")
        assert made.code == 0, made.err
        with captured(wire, port):
            said = nfslab(capsys, *load, "--calls", calls)
    (point,) = json.loads(said.out)["points"]
    # Whether it was late is the machine's; what was answered is not.
    assert point["unexpected"] == [], said.err
    rows = pq.read_table(calls).to_pylist()
    assert point["calls"] == {"file": str(calls), "rows": len(rows), "lost": 0}
    recorded = {row["xid"]: row for row in rows}
    seen = of_the_wire(wire)
    assert len(recorded) == sum(row["calls"] for row in point["operations"]) > 0
    assert set(recorded) <= set(seen)
    for xid, call in recorded.items():
        there = seen[xid]
        assert (there["operation"], there["sends"]) == (call["operation"], call["sends"])
        assert (there["status"] == "NFS3_OK") == (call["status"] == 0), (call, there)
        assert there["client"] == "127.0.0.1"
    # All others: mounting, and making sure of the file set before the point.
    others = {seen[xid]["operation"] for xid in set(seen) - set(recorded) - {MARK}}
    looking = {"NULL", "MNT", "FSINFO", "MKDIR", "LOOKUP", "READ", "GETATTR", "SETATTR"}
    assert others <= looking
    by_operation = {row["operation"]: row["calls"] for row in point["operations"]}
    counted = Counter(seen[xid]["operation"] for xid in recorded)
    assert counted == {name: calls for name, calls in by_operation.items() if calls}


def at(served: Served, host: str = "127.0.0.1") -> list[str]:
    return [f"{host}:/export", "-o", f"port={served.port},mountport={served.port}"]


def point_of(capsys: Capture, *arguments: object, time: float = 0.5) -> dict[str, Any]:
    said = nfslab(capsys, "sfs", *arguments, "--time", f"{time}s", *SHORT)
    (point,) = json.loads(said.out)["points"]
    assert point["unexpected"] == [], said.err
    assert point["little"]["residual_ns"] == 0
    return dict(point)


def calls_of(file: Path, point: dict[str, Any]) -> list[dict[str, Any]]:
    """What the server did of NFS since the load began; both read the same clock."""
    rows = pq.read_table(file).to_pylist()
    begin_ns = point["start_monotonic_ns"]
    return [row for row in rows if row["program"] == NFS and row["received_ns"] >= begin_ns]


@pytest.mark.system
@pytest.mark.long
def test_each_process_is_a_client_of_each_server_as_these_recorded(
    tmp_path: Path, capsys: Capture
) -> None:
    files = [tmp_path / "one.parquet", tmp_path / "other.parquet"]
    with serving("--memory", "--records", files[0]) as one:
        # The same port at another address: -o is of all mounts.
        elsewhere = ["--bind", "127.0.0.2", "--records", files[1]]
        with serving("--memory", *elsewhere, port=one.port) as other:
            load = ["--load", "600", "--files", "200", "--arrivals", "uniform"]
            load += ["--mix", "laddis", "--generators", "2"]
            point = point_of(capsys, "127.0.0.1:/export", *at(other, "127.0.0.2"), *load)
            other.end()
        one.end()
    recorded = [calls_of(file, point) for file in files]
    parts = point["processes"]
    assert len({one["pid"] for one in parts} | {os.getpid()}) == 3
    assert [mount["calls"] for mount in point["mounts"]] == [len(calls) for calls in recorded]
    ours = {row["operation"]: row["calls"] for row in point["operations"] if row["calls"]}
    assert Counter(row["operation"] for calls in recorded for row in calls) == ours
    assert sum(one["calls"] for one in parts) == sum(ours.values())
    assert sum(one["answered"] for one in parts) == point["answered"]
    assert sum(mount["answered"] for mount in point["mounts"]) == point["answered"]


@pytest.mark.system
def test_what_cannot_be(capsys: Capture) -> None:
    calls = ["127.0.0.1:/x", "--load", "1", "--generators", "2", "--calls", "x.parquet"]
    said = nfslab(capsys, "sfs", *calls)
    assert (said.code, "one generator process" in said.err) == (2, True)
    few = ["127.0.0.1:/x", "--load", "100", "--files", "50", "--outstanding", "2"]
    said = nfslab(capsys, "sfs", *few, "--generators", "3")
    assert (said.code, "3 processes" in said.err) == (2, True)
