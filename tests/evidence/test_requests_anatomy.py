"""A web server's request in a closed load: parts by exact arithmetic, and where nothing is told."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.evidence.anatomy import requests
from nfslab.evidence.anatomy.parts import AnatomyFacts
from nfslab.evidence.base import SealedRun
from nfslab.evidence.nfs_server.breakdown import BreakdownFacts, OperationBreakdown
from nfslab.evidence.nfs_server.together import TogetherFacts
from nfslab.evidence.syscalls.tables import CallGroup, ClassRow
from nfslab.evidence.web.storage import requests_of
from nfslab.results.records import LoadShape
from nfslab.results.upgrade import stamp_table
from nfslab.statistics.latency_parts import PartsSummary

from tests.evidence.runs import sealed_run

MS = 1_000_000
CONNECTIONS, INTERVALS, EACH = 8, 25, 40
ALL = INTERVALS * EACH + 8
"""The last eight got their reply behind the end."""
MEAN_NS = CONNECTIONS * 2.5e9 / (INTERVALS * EACH)
USUAL = {
    "web document": {"opens": 2 * MS, "reads": 4 * MS, "closes": 9 * MS},
    "web log of POSTs": {"writes": MS // 2, "fdatasync": 3 * MS},
    "web log": {"writes": 7 * MS},
    "other files": {"reads": 5 * MS},
}
"""ns of a request's calls, by class of files."""


def run_of(folder: Path, *, load: str = "closed", server: str = "embedded") -> SealedRun:
    run = sealed_run(folder)
    (folder / "samples").mkdir()
    rows = [
        {"t_ns": k * 100 * MS, "phase": "web_requests", "bytes": 1, "operations": EACH}
        for k in range(INTERVALS)
    ]
    rows.append({**rows[-1], "t_ns": INTERVALS * 100 * MS, "operations": ALL - INTERVALS * EACH})
    table = stamp_table(pa.Table.from_pylist(rows), None)
    pq.write_table(table, folder / "samples" / "series.parquet")
    workload = {"kind": "web", "warm_up": 0.5, "duration": 2.0, "load": load, "server": server}
    places = {"data": SimpleNamespace(facts={"nfs": {}})}
    shape = LoadShape(kind="closed", clients=CONNECTIONS)
    update = {"parameters": {"workload": workload}, "load": shape, "places": places}
    return SealedRun(folder, run.record.model_copy(update=update))


def watched(usual: dict[str, dict[str, int]], *, way: str = "ebpf", counts: bool = True) -> Any:
    rows = []
    for name, groups in usual.items():
        row = ClassRow(name, name)
        for what, ns in groups.items():
            row.groups[what] = CallGroup(calls=ALL, latency_sum_ns=ns * ALL, bytes=1000 * ALL)
        rows.append(row)
    return SimpleNamespace(classes=tuple(rows), has_counts=counts, watch={"way": way})


def calls_of(**kinds: tuple[float, list[float]]) -> BreakdownFacts:
    """Kind -> calls a request, and the mean ns of its parts (`breakdown.PARTS`)."""
    rows, shared = [], [0.0] * 6
    for name, (each, parts_ns) in kinds.items():
        number = round(each * ALL)
        summary = PartsSummary(
            calls=number, whole_mean_ns=sum(parts_ns), whole_p50_ns=0, whole_p99_ns=0,
            mean_ns=parts_ns, share=[None] * 6, negative=[0] * 6, slow_calls=0,
            slow_share=[None] * 6,
        )  # fmt: skip
        rows.append(OperationBreakdown("nfs", name, summary, 200.0))
        shared = [one + ns * number for one, ns in zip(shared, parts_ns, strict=True)]
    together = TogetherFacts(
        under_way_ns=1, resent_wait_ns=0, paused_waiting_ns=0, paused_service_ns=0
    )
    return BreakdownFacts(
        rows=tuple(rows), left_out={}, negative={}, shared_ns=tuple(shared), together=together
    )


def parts_of(made: AnatomyFacts | None) -> dict[str, float]:
    assert made is not None
    assert sum(part.ns for part in made.parts) == pytest.approx(made.mean_ns)
    return {path: part.ns for path, part in made.by_path().items()}


def test_a_request_is_from_reply_to_reply_and_its_parts_are_its_own_calls(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    made = requests.anatomy(run, watched(USUAL), None)
    assert made is not None
    assert (made.operation, made.operations) == ("request", ALL)
    assert made.mean_ns == pytest.approx(MEAN_NS)
    own = {
        "document_open": 2 * MS, "document_read": 4 * MS, "log_write": MS / 2, "log_fsync": 3 * MS,
    }  # fmt: skip
    # What comes behind the reply (closing, the access log) is no part of it.
    assert parts_of(made) == own | {"elsewhere": pytest.approx(MEAN_NS - sum(own.values()))}
    assert made.wants == ("rpc", "nfs_server")


def test_nfs_calls_lie_within_what_waits_for_them(tmp_path: Path) -> None:
    """READs where documents are read, names where they are opened, the log's calls in neither."""
    calls = calls_of(
        READ=(0.5, [0, MS, 0, 4 * MS, 0, MS]),
        LOOKUP=(1.0, [0, 0, 0, MS / 2, 0, 0]),
        GETATTR=(2.0, [0, 0, 0, 0, 0, MS / 4]),
        WRITE=(9.0, [MS] * 6),
    )
    parts = parts_of(requests.anatomy(run_of(tmp_path / "run"), watched(USUAL), calls))
    inside = {path: ns for path, ns in parts.items() if "/" in path}
    assert inside == pytest.approx({
        "document_open/server processing": MS / 2, "document_open/reply transit": MS / 2,
        "document_open/rest": MS,
        "document_read/request transit": MS / 2, "document_read/server processing": 2 * MS,
        "document_read/reply transit": MS / 2, "document_read/rest": MS,
    })  # fmt: skip


def test_calls_that_overlap_do_not_go_beyond_what_waits_for_them(tmp_path: Path) -> None:
    """Read ahead: READs take 20 ms a request, of which 4 ms are waited for."""
    calls = calls_of(READ=(2.0, [0, 0, 5 * MS, 5 * MS, 0, 0]))
    parts = parts_of(requests.anatomy(run_of(tmp_path / "run"), watched(USUAL), calls))
    assert parts["document_read/server processing"] == pytest.approx(2 * MS)
    assert parts["document_read/server queue"] == pytest.approx(2 * MS)
    assert "document_read/rest" not in parts


def test_pauses_and_resends_have_names_of_their_own(tmp_path: Path) -> None:
    """Two calls are under way at a time: a pause costs each of them."""
    calls = calls_of(READ=(1.0, [0, 0, MS, 2 * MS, 0, 0]))
    assert calls.together is not None
    once = tuple(ns / 2 for ns in calls.shared_ns)
    paused = calls.together.model_copy(
        update={"paused_waiting_ns": round(once[2] / 2), "resent_wait_ns": ALL * MS // 4}
    )
    calls = calls.model_copy(update={"shared_ns": once, "together": paused})
    parts = parts_of(requests.anatomy(run_of(tmp_path / "run"), watched(USUAL), calls))
    assert parts["document_read/server pause"] == pytest.approx(MS / 2)
    assert parts["document_read/server queue"] == pytest.approx(MS / 2)
    assert parts["document_read/retransmitted"] == pytest.approx(MS / 2)
    assert parts["document_read/server processing"] == pytest.approx(2 * MS)


@pytest.mark.parametrize("load", ["open", "line_speed", "connections"])
def test_of_other_loads_nothing_is_told(tmp_path: Path, load: str) -> None:
    assert requests.anatomy(run_of(tmp_path / "run", load=load), watched(USUAL), None) is None


def test_without_a_watch_of_all_calls_nothing_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    assert requests.anatomy(run, None, None) is None
    assert requests.anatomy(run, watched(USUAL, counts=False), None) is None


def test_where_the_application_is_not_watched_it_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", server="nginx")
    for way, notes in (("ebpf", ()), ("shim", (requests.NGINX_ALONE,))):
        made = requests.anatomy(run, watched(USUAL, way=way), None)
        assert made is not None
        assert made.notes == notes


def test_calls_longer_than_the_request_make_no_part_below_zero(tmp_path: Path) -> None:
    usual = copy.deepcopy(USUAL)
    usual["web document"]["reads"] = 50 * MS
    parts = parts_of(requests.anatomy(run_of(tmp_path / "run"), watched(usual), None))
    assert "elsewhere" not in parts
    assert min(parts.values()) > 0


def test_requests_are_counted_in_whole_intervals(tmp_path: Path) -> None:
    found = requests_of(run_of(tmp_path / "run"))
    assert found is not None
    assert (found.all, found.timed, found.timed_ns) == (ALL, INTERVALS * EACH, 2_500 * MS)
    assert requests_of(sealed_run(tmp_path / "other")) is None
