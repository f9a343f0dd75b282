"""A program on an NFS target of ours, seen by all: syncs, the client, the server, the wire."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.captures import tool as tools
from nfslab.evidence.capture.collector import CaptureCollector, CaptureCollectorParameters
from nfslab.evidence.collector import CollectorParameters, Evidence
from nfslab.evidence.nfs_server import collector as nfs_server
from nfslab.evidence.nfs_server.collector import NfsServerCollector
from nfslab.evidence.rpc.collector import RpcCollector, RpcCollectorParameters
from nfslab.evidence.syscalls.collector import FsyncCollector, FsyncParameters
from nfslab.evidence.syscalls.sync_steps import SyncSteps, read_sync_steps
from nfslab.evidence.syscalls.tables import PREFIX, Syscalls, SyscallTables, sum_up, tables_from
from nfslab.machine.resources import Resources
from nfslab.targets.nfs import NfsTarget
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.hosts.here import HERE
from tests.workloads.run_context import run_of, scratch_folder

LOG_NAME = "pg_wal/000000010000000000000001"
"""A file of the class "PostgreSQL WAL", made before the program starts."""


@dataclass
class Watched:
    """What was seen of one run."""

    seen: Evidence
    calls: pa.Table
    """The client's own record."""
    served: list[dict[str, Any]]
    """The server's, in the order of its work."""
    capture: Evidence | None
    folder: Path
    """The evidence as a run's folder has it."""

    @property
    def tables(self) -> SyscallTables:
        return tables_from(plain(self.seen))

    @property
    def found(self) -> Syscalls:
        return sum_up(self.tables)

    def steps(self, *, by_capture: bool = False) -> SyncSteps:
        """Read as a report does, by the client's record or only by the capture."""
        summary = dict(self.seen.summary)
        own = self.folder / "evidence" / "rpc_calls.parquet"
        if by_capture:
            summary["targets"] = {}
            own.unlink()
        try:
            captured = self.capture.summary if self.capture is not None else {}
            steps = read_sync_steps(self.folder, self.tables, summary, captured)
        finally:
            pq.write_table(self.calls, own)
        assert steps is not None
        return steps


def plain(evidence: Evidence) -> dict[str, pa.Table]:
    return {
        name.removeprefix(PREFIX): table
        for name, table in evidence.tables.items()
        if name.startswith(PREFIX)
    }


def watched(
    tmp_path: Path, program: str, target: dict[str, Any], *, arguments: tuple[str, ...] = (),
    captured: bool = False,
) -> Watched:  # fmt: skip
    """`python -c program FOLDER arguments` on the embedded server with these parameters."""
    usable = NfsTarget.available()
    if not usable.ok:
        pytest.skip(usable.reason)
    if captured and not (answer := tools.available("auto")).ok:
        pytest.skip(f"{answer.reason}: {answer.fix}")
    argv = [sys.executable, "-S", "-c", program, "{data}", *arguments]
    work = CommandWorkload(CommandParameters(data="share", argv=argv))
    with scratch_folder() as scratch, run_of(work, tmp_path) as run:
        share = NfsTarget(
            "share",
            NfsTarget.Parameters.model_validate({"directory": str(scratch)} | target),
        )
        with Resources("a test", state=run.root / "state") as resources:
            place = share.up(resources, HERE)
            (place.path / LOG_NAME).parent.mkdir()
            (place.path / LOG_NAME).write_bytes(bytes(8192))
            run.context.places["data"] = place
            share.offer(place, run.context.services)
            clients = RpcCollector(RpcCollectorParameters(calls=True))
            servers = NfsServerCollector(CollectorParameters())
            syncs = FsyncCollector(FsyncParameters(way="ebpf"))
            wire = CaptureCollector(CaptureCollectorParameters(calls=True, snaplen=262_144))
            collectors = [clients, servers, syncs, *([wire] if captured else [])]
            for collector in collectors:
                collector.start(run.context)
            work.measure(run.context)
            seen = syncs.stop()
            on_wire = wire.stop() if captured else None
            served, calls = servers.stop(), clients.stop()
            share.down(place)
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    tables = {"rpc_calls": calls.tables["rpc_calls"]}
    if on_wire is not None:
        tables["capture_calls"] = on_wire.tables["capture_calls"]
    for name, table in tables.items():
        pq.write_table(table, evidence / f"{name}.parquet")
    rows = served.tables[nfs_server.TABLE].sort_by("started_ns").to_pylist()
    return Watched(seen, calls.tables["rpc_calls"], rows, on_wire, tmp_path)
