"""A capture of cut packets beside the client's and the server's own counts: it is found out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from nfslab.captures import tool as tools
from nfslab.evidence.call_counts.counts import EDGE_CALLS, call_counts
from nfslab.evidence.capture.collector import CaptureCollector, CaptureCollectorParameters
from nfslab.evidence.collector import CollectorParameters
from nfslab.evidence.nfs_server.collector import NfsServerCollector
from nfslab.evidence.rpc.collector import RpcCollector, RpcCollectorParameters
from nfslab.machine.resources import Resources
from nfslab.results.records import EvidenceRecord, PlaceRecord, RunRecord
from nfslab.targets.nfs import NfsTarget
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.hosts.here import HERE
from tests.workloads.run_context import run_of, scratch_folder

WRITES = """
import os, sys
with open(sys.argv[1] + "/file", "wb", buffering=0) as file:
    for _ in range(160):
        file.write(bytes(1 << 16))
    os.fsync(file.fileno())
"""


@pytest.mark.long
@pytest.mark.system
def test_calls_behind_the_cut_are_missed_by_the_capture_alone(tmp_path: Path) -> None:
    for usable in (NfsTarget.available(), tools.available("auto")):
        if not usable.ok:
            pytest.skip(f"{usable.reason}: {usable.fix}")
    argv = [sys.executable, "-S", "-c", WRITES, "{data}"]
    work = CommandWorkload(CommandParameters(data="share", argv=argv))
    seen: dict[str, dict[str, Any]] = {}
    with scratch_folder() as scratch, run_of(work, tmp_path) as run:
        asked = {"directory": str(scratch), "wsize": 65536}
        share = NfsTarget("share", NfsTarget.Parameters.model_validate(asked))
        with Resources("a test", state=run.root / "state") as resources:
            place = share.up(resources, HERE)
            run.context.places["data"] = place
            share.offer(place, run.context.services)
            collectors = [
                RpcCollector(RpcCollectorParameters()),
                NfsServerCollector(CollectorParameters()),
                CaptureCollector(CaptureCollectorParameters(snaplen=512)),
            ]
            for collector in collectors:
                collector.start(run.context)
            work.measure(run.context)
            for collector in reversed(collectors):
                seen[collector.kind] = collector.stop().summary
            share.down(place)
    record = RunRecord.model_construct(
        evidence=[EvidenceRecord(collector=name, summary=one) for name, one in seen.items()],
        places={
            "data": PlaceRecord.model_construct(
                target="share", filesystem="fuse", facts=place.facts
            )
        },
    )
    found = call_counts(record)
    assert found is not None
    writes = next(one for one in found.operations if one.operation == "WRITE")
    assert writes.by["rpc"] == writes.by["nfs_server"] == 160
    # How many calls a packet holds is chance: mostly nearly all are lost.
    lost = 160 - writes.by["capture"]
    assert lost >= 0
    assert [one.collector for one in found.missing] == ["capture"] * (lost > EDGE_CALLS)
