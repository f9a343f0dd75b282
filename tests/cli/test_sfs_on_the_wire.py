"""`nfslab sfs` against a capture of the same load: call by call the same, on two servers."""

from __future__ import annotations

import json
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
from tests.core.wire_capture import MARK, captured, of_the_wire
from tests.hosts.here import HERE


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


@pytest.mark.parametrize("server", ["embedded", "ganesha"])
def test_every_call_is_on_the_wire_as_it_was_recorded(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls, wire = tmp_path / "calls.parquet", tmp_path / "wire.pcap"
    with exported(server, tmp_path) as (source, options, port):
        load = ["sfs", source, "-o", ",".join(options), "--load", "300", "--files", "300"]
        # The generator may have no processor for a part of it.
        load += ["--time", "3s", "--warm-up", "0.2s", "--json"]
        made = nfslab(capsys, *load, "--prepare-only")
        assert made.code == 0, made.err
        with captured(wire, port):
            said = nfslab(capsys, *load, "--calls", calls)
    (point,) = json.loads(said.out)["points"]
    # Whether it was late is the machine's; what was answered is not.
    assert point["unexpected"] == [], said.err
    recorded = {row["xid"]: row for row in pq.read_table(calls).to_pylist()}
    seen = of_the_wire(wire)
    assert len(recorded) == sum(row["calls"] for row in point["operations"]) > 50
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
    counted: dict[str, int] = {}
    for xid in recorded:
        name = seen[xid]["operation"]
        counted[name] = counted.get(name, 0) + 1
    assert counted == {name: calls for name, calls in by_operation.items() if calls}
