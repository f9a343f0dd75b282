"""One run whose load several client hosts make together: sums, records, and every way to fail."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from nfslab.cluster.namespaces import NamespacesHere

from tests.experiment.session_support import left_behind, only_folder, records, run
from tests.experiment.spread_support import check, require_measured, written

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.results.records import RunRecord

usable = NamespacesHere.available()
KINDS = [
    pytest.param("local"),
    pytest.param(
        "namespace", marks=pytest.mark.skipif(not usable.ok, reason=usable.reason or "no reason")
    ),
]


def made(path: Path) -> tuple[RunRecord, Path]:
    """The record of the only run, and its folder."""
    run(path)
    folder = only_folder(path)
    (record,) = records(folder)
    return record, folder.runs_path / record.run_id


@pytest.mark.parametrize("host", KINDS)
def test_what_all_hosts_sent_is_what_the_server_counted(host: str, tmp_path: Path) -> None:
    record, sealed = made(written(tmp_path, host=host))
    require_measured(record)
    rows = pq.read_table(sealed / "samples" / "operations.parquet").to_pylist()
    sent = {row["operation"]: row["calls"] for row in rows if row["calls"]}
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    counted = Counter(served["operation"].to_pylist())
    assert {name: counted[name] for name in sent} == sent, "operation by operation"
    assert sum(sent.values()) > 300
    # Of each host: the sums that it handed over, read without us.
    by_host = Counter(
        {
            one.name: sum(
                row["measured"]
                for file in (sealed / one.folder / "parts").iterdir()
                for row in json.loads(json.loads(file.read_bytes())["sums"])["measured"][
                    "operations"
                ]
            )
            for one in record.client_hosts
        }
    )
    assert {one.name: one.operations for one in record.client_hosts} == by_host
    assert sum(by_host.values()) == sum(row["answered"] for row in rows)
    assert sum(one.share or 0 for one in record.client_hosts) == pytest.approx(1)
    if host == "namespace":
        seen = Counter(text.rpartition(":")[0] for text in served["client"].to_pylist())
        assert set(seen) == {one.address for one in record.client_hosts}, "as the server saw them"
    assert left_behind(tmp_path) == []


def test_each_host_is_in_the_record_and_its_part_in_the_folder(tmp_path: Path) -> None:
    record, sealed = made(written(tmp_path))
    assert [one.name for one in record.client_hosts] == ["host1", "host2"]
    assert [one.processes for one in record.client_hosts] == [2, 2]
    require_measured(record)
    skew, most_ns = check(record, "start_skew"), max(one.skew_ns for one in record.client_hosts)
    assert skew.verdict == ("violation" if most_ns > 5_000_000 else "ok"), skew.message
    assert skew.values["effect_share"] == pytest.approx(most_ns / 2.5e9, rel=0.2)
    assert check(record, "hosts_alike").verdict == "ok"
    for one in record.client_hosts:
        assert one.skew_ns is not None
        assert one.skew_ns >= 0, "none may begin before its time"
        assert (one.clock.offset_ns, one.clock_after.offset_ns, one.drift_ppm) == (0, 0, 0), "ours"
        part = json.loads((sealed / one.folder / "run.json").read_text())
        assert part["status"] == "ok"
        assert (sealed / one.folder / "provenance.json").stat().st_size > 1000
    point = json.loads((sealed / "logs" / "sfs.json").read_text())
    assert len({one["pid"] for one in point["processes"]}) == 4
    assert record.places["data"].durability.level == "volatile", "as the server is"
