"""Calls by who counted them: a capture that lost some is found, and nobody else is accused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.captures.analysis import Asked, read_captures
from nfslab.display.markdown import section_text
from nfslab.evidence.base import SealedRun
from nfslab.evidence.call_counts.counts import call_counts, why_incomplete
from nfslab.evidence.call_counts.kind import CallCountsEvidence
from nfslab.evidence.capture.kind import CaptureEvidence
from nfslab.evidence.capture.stored import ANALYSIS_TABLE, analysis_table
from nfslab.evidence.rpc.kind import RpcEvidence
from nfslab.report.validity import call_warnings
from nfslab.results.records import DurabilityRecord, EvidenceRecord, Metric, PlaceRecord, RunRecord

from tests.evidence.runs import found_of, sealed_run

CUT = Path(__file__).parents[1] / "captures" / "verdicts" / "phantom.pcap.zst"
"""300 READs."""


def rows(calls: dict[str, int], *keys: str) -> list[dict[str, Any]]:
    return [{"operation": name} | dict.fromkeys(keys, n) for name, n in calls.items()]


def rpc(timed: dict[str, int], before: int = 0) -> dict[str, Any]:
    """The client; `before`: further calls of each while it was watched."""
    operations = [
        {"operation": name, "calls": n + 5_000, "watched_calls": n + before, "timed_calls": n}
        for name, n in timed.items()
    ]
    return {"clients": {"share": {"operations": operations}}}


def server(calls: dict[str, int], **more: Any) -> dict[str, Any]:
    operations = rows(calls, "calls", "timed_calls")
    return {"servers": {"share": {"operations": operations} | more}}


def wire(calls: dict[str, int], version: str = "NFSv3") -> dict[str, Any]:
    operations = {f"{version} {name}": {"calls": n} for name, n in calls.items()}
    return {"packets": 9, "operations": operations | {"MOUNTv3 MNT": {"calls": 1}}}


def mountstats(calls: dict[str, int]) -> dict[str, Any]:
    return {"mounts": {"share": {"operations": rows(calls, "calls")}}}


def record(kind: str = "embedded", filesystem: str = "fuse", **summaries: Any) -> RunRecord:
    place = PlaceRecord(
        target="share", kind="nfs", path="/p", filesystem=filesystem, source="s", mount_point="/p",
        mount_options="", durability=DurabilityRecord(level="unknown", reasons=[]),
        facts={"nfs": {"server": kind}},
    )  # fmt: skip
    return RunRecord(
        run_id="b001", experiment="x", identity="x", point_id="p", point_index=0, block=0,
        position=0, factors={}, settings={}, parameters={}, status="ok", started_unix_ns=0,
        duration_ns=0, places={"data": place},
        evidence=[EvidenceRecord(collector=name, summary=s) for name, s in summaries.items()],
    )  # fmt: skip


def lacking(made: RunRecord) -> list[tuple[str, str]]:
    found = call_counts(made)
    assert found is not None
    return [(one.collector, one.operation) for one in found.missing]


TRUE = {"WRITE": 1280, "COMMIT": 40, "GETATTR": 3}
CUT_SHORT = {"WRITE": 677, "COMMIT": 40, "GETATTR": 3}


def test_calls_in_a_packet_that_was_cut_are_missed() -> None:
    """64 KiB WRITEs in offloaded segments, of which a snap length kept the first 512 bytes."""
    client = rpc(TRUE, before=9)
    never = {"operation": "FSINFO", "calls": 2, "watched_calls": 0, "timed_calls": 0}
    client["clients"]["share"]["operations"].append(never)
    made = record(rpc=client, nfs_server=server(TRUE), capture=wire(CUT_SHORT))
    (warning,) = call_warnings([made])
    assert (warning.severity, warning.runs) == ("warning", ["b001"])
    assert "collector capture is incomplete in 1 of 1 run" in warning.text
    assert "677 of at least 1,280 WRITEs" in warning.text
    run = SealedRun(Path("b001"), made)
    facts = CallCountsEvidence().facts(run)
    assert facts is not None
    section = CallCountsEvidence().section(found_of({"all": [(run, facts)]}))
    assert section is not None
    text = section_text(section)
    assert "capture is incomplete: it counted 677 of at least 1,280 WRITEs" in text
    cells = [[cell.text for cell in row] for row in section.tables[0].rows]
    assert [row[1] for row in cells] == ["WRITE", "COMMIT", "GETATTR"]
    assert cells[0][1:] == ["WRITE", "1", "1,289", "1,280", "1,280", "1,280", "677"]


@pytest.mark.parametrize(
    "made",
    [
        record(rpc=rpc(TRUE), nfs_server=server(TRUE), capture=wire(TRUE)),
        record(rpc=rpc({"READ": 32}), capture=wire({})),  # the edges
        record(rpc=rpc({"READ": 10_000}), capture=wire({"READ": 9_801})),
        record(rpc=rpc(TRUE), nfs_server=server({"WRITE": 9_000} | TRUE), capture=wire(TRUE)),
        record(rpc=rpc(TRUE), capture=wire(TRUE | {"WRITE": 9_000})),  # another mount
        record("knfsd", nfs_server=server({"READ": 9_000}), capture=wire(TRUE)),  # other clients
        record("knfsd", "nfs4", capture=wire({"GETATTR": 9, "READ": 70}, "NFSv4"),
               mountstats=mountstats({"GETATTR": 4_000, "READ": 70})),
    ],
)  # fmt: skip
def test_edges_and_others_accuse_nobody(made: RunRecord) -> None:
    assert lacking(made) == []
    assert call_warnings([made]) == []


def test_each_that_watched_all_along_can_be_the_one() -> None:
    few = {"READ": 100}
    many = {"READ": 1_000}
    assert lacking(record(nfs_server=server(many), capture=wire(few))) == [("capture", "READ")]
    assert lacking(record(rpc=rpc(few), mountstats=mountstats(many))) == [("rpc", "READ")]
    assert lacking(record(rpc=rpc(many), nfs_server=server(few))) == [("nfs_server", "READ")]
    assert lacking(record(rpc=rpc(many), nfs_server=server(many), capture_server=wire(few))) == [
        ("capture_server", "READ")
    ]
    assert lacking(record("knfsd", "nfs4", mountstats=mountstats(many), capture=wire({}))) == [
        ("capture", "READ")
    ]
    assert lacking(record(rpc=rpc(many), mountstats=mountstats(few))) == []
    assert call_counts(record(rpc=rpc(many))) is None


def test_what_a_summary_of_before_leaves_out_is_not_known() -> None:
    twelve = {f"OP{n}": 5 for n in range(11)}
    assert lacking(record(rpc=rpc({"READ": 900}), capture=wire(twelve))) == []


@pytest.mark.parametrize("counted", [300, 1_000])
def test_what_follows_from_missing_calls_is_not_shown(tmp_path: Path, counted: int) -> None:
    """A capture of 300 READs, of as many, and of more."""
    run = sealed_run(tmp_path / "run")
    pq.write_table(
        analysis_table(read_captures([CUT], Asked()), 0),
        run.folder / "evidence" / f"{ANALYSIS_TABLE}.parquet",
    )
    made = record(rpc=rpc({"READ": counted}), capture=wire({"READ": 300}))
    run = SealedRun(run.folder, made)
    facts = CaptureEvidence().facts(run)
    assert facts is not None
    found = found_of({"all": [(run, facts)]})
    for section in (CaptureEvidence().section(found), CaptureEvidence().run_section(found.runs[0])):
        assert section is not None
        titles = {table.title for table in section.tables}
        assert ("Order of reads and writes" in titles) == (counted == 300)
        said = [note for note in section.notes if "300 of at least 1,000 READs" in note]
        assert len(said) == (counted == 1_000)


def test_a_transactions_calls_are_not_told_by_a_client_that_lost_some() -> None:
    for seen, told in ((990, 50.0), (500, None)):
        made = record(rpc=rpc({"READ": seen}), mountstats=mountstats({"READ": 1_000}))
        made.operations = "transactions"
        made.metrics["transactions"] = Metric(value=50.0, unit="1", better="higher")
        assert bool(why_incomplete(made, "rpc")) == (told is None)
        facts = RpcEvidence().facts(SealedRun(Path("nowhere"), made))
        assert facts is not None
        assert facts.clients[0].transactions == told


@pytest.mark.parametrize(
    ("facts", "moved", "told"),
    [
        ({"localio": "in use"}, {}, True),
        ({"localio": "not told"}, {"bytes": {"server_written_bytes": 9}}, True),
        ({"localio": "not in use"}, {}, False),
        ({}, {"bytes": {"server_read_bytes": 9}, "operations": rows({"READ": 1}, "calls")}, False),
        ({}, {"bytes": {"server_read_bytes": 9}, "events": {"pnfs_reads": 1}}, False),
        ({}, {"bytes": {"read_bytes": 9, "server_read_bytes": 0}}, False),  # the page cache's
    ],
)
def test_reads_past_rpc_are_said_to_be_seen_by_nobody(
    facts: dict[str, str], moved: dict[str, Any], told: bool
) -> None:
    made = record(mountstats={"mounts": {"share": moved}})
    made.places["data"].facts["nfs"] = facts
    warnings = call_warnings([made])
    assert [one.kind for one in warnings] == ["localio"] * told
    assert all("WRITE and COMMIT of share went past RPC in 1 of 1 run" in w.text for w in warnings)
