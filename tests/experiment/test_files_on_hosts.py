"""`files` made by processes on several client hosts: sums, phases that begin together, failures."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import signal
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from nfslab.cluster.base import Patience
from nfslab.errors import RunFailed
from nfslab.experiment import run_hosts
from nfslab.experiment.run_hosts import RunHost, RunHosts
from nfslab.mounts.fuse import FuseMount
from nfslab.workloads.files import FilesParameters, FilesWorkload

from tests.experiment.session_support import left_behind, only_folder, records, run
from tests.experiment.spread_support import (
    KINDS,
    Meddling,
    check,
    clocks_told,
    lose,
    made,
    require_measured,
    written,
)

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from nfslab.results.records import RunRecord

BLOCK = 4096
SIZE = 1 << 20
WORKLOAD = """[workload]
kind = "files"
data = "server"
file_size = "1M"
block = 4096
check_every = 1
"""
SHARED = 'files = 1\ndirect = true\nphases = "block_write,rewrite,block_read"\n'
mounts = pytest.mark.skipif(not FuseMount.available().ok, reason=FuseMount.available().reason)


def on_hosts(tmp_path: Path, more: str, *changes: tuple[str, str], **client: Any) -> Path:
    """An experiment file with the workload `files`."""
    path = written(tmp_path, *changes, **client)
    head, _, _ = path.read_text().partition("[workload]")
    path.write_text(head + WORKLOAD + more)
    return path


def parts_of(record: RunRecord, sealed: Path) -> list[dict[str, Any]]:
    return [
        json.loads(file.read_bytes())
        for one in record.client_hosts
        for file in sorted((sealed / one.folder / "parts").iterdir())
    ]


@mounts
@pytest.mark.parametrize("host", KINDS)
def test_one_shared_file_is_what_the_server_counted(host: str, tmp_path: Path) -> None:
    path = on_hosts(tmp_path, SHARED, ('client = "none"\n', ""), ('"100ms"', '"0ms"'), host=host)
    record, sealed = made(path)
    require_measured(record)
    calls = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet").to_pylist()
    # A header of less than a block stands before whole blocks.
    moved = Counter[str]()
    for call in calls:
        moved[call["operation"]] += max(call["call_bytes"], call["reply_bytes"]) // BLOCK * BLOCK
    assert (moved["WRITE"], moved["READ"]) == (2 * SIZE, 2 * SIZE), "blocks of all, each once"
    rows = pq.read_table(sealed / "samples" / "phases.parquet").to_pylist()
    assert [row["bytes"] for row in rows] == [SIZE] * 3
    assert [row["operations"] for row in rows] == [SIZE // BLOCK] * 3
    during = sum(
        call["call_bytes"] // BLOCK * BLOCK
        for call in calls
        if call["operation"] == "WRITE" and 0 <= call["t_ns"] <= rows[0]["wall_ns"]
    )
    assert during == SIZE, "what the server saw lies on the axis of the phases"
    assert check(record, "file_content").values == {"checked_blocks": 2 * SIZE // BLOCK}
    parts = parts_of(record, sealed)
    assert [one["index"] for one in parts] == [0, 1, 2, 3]
    for number, row in enumerate(rows):
        of = [one["result"]["phases"][number] for one in parts]
        assert row["wall_ns"] == max(one["wall_ns"] for one in of)
        assert row["cpu_ns"] == sum(one["cpu_ns"] for one in of)
        assert row["t_ns"] == parts[0]["common_ns"][number] - parts[0]["common_ns"][0]
    assert len({tuple(one["common_ns"]) for one in parts}) == 1, "one instant for all"
    by_host = pq.read_table(sealed / "samples" / "phases_by_host.parquet").to_pylist()
    assert {(row["host"], row["bytes"]) for row in by_host} == {
        (one.name, SIZE // 2) for one in record.client_hosts
    }
    assert [one.share for one in record.client_hosts] == [0.5, 0.5]
    if host == "namespace":
        seen = {call["client"].rpartition(":")[0] for call in calls}
        assert seen == {one.address for one in record.client_hosts}
    assert left_behind(tmp_path) == []


@mounts
def test_all_phases_on_a_shared_file_are_those_of_one_process(tmp_path: Path) -> None:
    """Files are made anew between phases while the other host knows the old ones."""
    more = "files = 1\nseeks = 40\nrandom_operations = 30\nseed = 5\n"
    path = on_hosts(tmp_path, more, ('client = "none"\n', ""), ('"100ms"', '"0ms"'), processes=1)
    record, sealed = made(path)
    require_measured(record)
    assert check(record, "file_content").verdict == "ok"
    whole = json.loads((sealed / "logs" / "files.json").read_text())
    from nfslab._core import run_files

    alone: dict[str, Any] = {
        "directory": str(tmp_path),
        "size_bytes": SIZE,
        "block_size_bytes": BLOCK,
    }
    alone |= {"files": 1, "threads": 2, "seeks": 40, "random_operations": 30, "seed": 5}
    alone |= {"check_every": 1}
    one = json.loads(run_files(json.dumps(alone)))
    names = ("phase", "threads", "operations", "rewrites", "written_bytes", "checked_blocks")
    assert [[p[n] for n in names] for p in whole["phases"]] == [
        [p[n] for n in names] for p in one["phases"]
    ]


@pytest.mark.parametrize("files", [None, 1])
def test_where_hosts_share_nothing_each_process_has_files_of_its_own(
    files: int | None, tmp_path: Path
) -> None:
    more = 'phases = "block_write,seeks"\n' + ("" if files is None else "files = 1\n")
    path = on_hosts(tmp_path, more)
    text, places = path.read_text(), tmp_path / "places"
    target = re.search(r"(?s)\[targets.server\]\n(.*?)\[client\]", text)
    assert target is not None
    path.write_text(text.replace(target[1], f'kind = "local"\npath = "{places}"\n'))
    record, sealed = made(path)
    if files is None:
        require_measured(record)
        assert len({one["result"]["directory"] for one in parts_of(record, sealed)}) == 4
    else:
        assert record.status == "failed"
        said = "client host host2: process . of 2: files: the processes of the run do not see"
        assert re.match(said, record.reason)
    assert list(places.iterdir()) == []
    assert left_behind(tmp_path) == []


@mounts
def test_hosts_whose_clocks_differ_begin_each_phase_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that host2's clock is 60 ms ahead, it begins each phase so much later."""
    ahead_ns = 60_000_000
    clocks_told(monkeypatch, {"host2": ahead_ns})
    path = on_hosts(tmp_path, SHARED, ('client = "none"\n', ""), ('"100ms"', '"0ms"'), processes=1)
    record, sealed = made(path)
    require_measured(record)
    first, second = parts_of(record, sealed)
    assert first["common_ns"] == second["common_ns"]
    for number, common_ns in enumerate(first["common_ns"]):
        begins = [one["result"]["phases"][number]["start_monotonic_ns"] for one in (first, second)]
        assert begins == [common_ns, common_ns + ahead_ns]


@mounts
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)]
)
def test_a_lost_host_fails_the_run_with_its_name(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(clients: RunHosts) -> None:
        lose(clients.hosts[1], number, monkeypatch)

    meddling = Meddling(monkeypatch, once)
    more = (
        'phases = "random_read"\nrandom_operations = 1000000000\ntime_limit = "600s"\nfiles = 1\n'
    )
    path = on_hosts(tmp_path, more, ('client = "none"\n', ""), ('"100ms"', '"0ms"'), processes=1)
    run(path)
    (record,) = records(only_folder(path))
    assert (record.status, record.failure_phase) == ("failed", "measure")
    assert "client host host2 was lost" in record.reason
    meddling.assert_none_is_left()
    assert left_behind(tmp_path) == [], "its mount, too"


def test_a_host_that_waits_in_vain_is_told_of() -> None:
    class Silent:
        name = "host"

    hosts = RunHosts(lambda _: None, lambda: None)
    for number, gate in enumerate(["rewrite: start", "seeks: start"]):
        member = Silent()
        member.name = f"host{number}"
        hosts.hosts.append(RunHost(member, None, gate=gate))  # type: ignore[arg-type]
    with pytest.raises(RunFailed, match="host0 waits for host1 at 'rewrite: start' in vain"):
        hosts._let_meet()
    hosts.hosts[1].gate = None
    hosts._let_meet()  # it may still come
    hosts.hosts[1].said["measured"] = {}
    with pytest.raises(RunFailed, match="that one is at 'its end'"):
        hosts._let_meet()


def test_time_in_which_we_stood_still_is_nobodys_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the machine was taken away: what hosts said meanwhile is not in the queue yet."""
    now_s = [100.0]
    monkeypatch.setattr(run_hosts, "clock", SimpleNamespace(monotonic=lambda: now_s[0]))

    class Heard:
        def __init__(self, *slices_s: float) -> None:
            self.slices_s = list(slices_s)

        def get(self, timeout: float) -> Any:
            if not self.slices_s:
                return host, {"event": "measured"}
            now_s[0] += self.slices_s.pop(0)
            raise queue.Empty

        def get_nowait(self) -> Any:
            raise queue.Empty

    member = SimpleNamespace(name="host1", patience=Patience(load_s=2.0))
    hosts = RunHosts(lambda _: None, lambda: None)
    host = RunHost(member, None, seen=now_s[0])  # type: ignore[arg-type]
    hosts.hosts.append(host)
    for slices_s, is_lost in (([3.0], False), ([0.1] * 15 + [3.0], False), ([0.1] * 21, True)):
        hosts._heard = Heard(*slices_s)  # type: ignore[assignment]
        host.said.clear()
        with pytest.raises(RunFailed, match="was lost") if is_lost else contextlib.nullcontext():
            hosts.await_all("measured", "load_s")


@pytest.mark.parametrize(
    ("parameters", "hosts", "ok"),
    [
        ({}, 64, True),
        ({}, 65, False),
        ({"threads": 2}, 32, True),
        ({"threads": 2}, 33, False),
        ({"threads": 2, "seek_threads": 3}, 16, True),
        ({"threads": 2, "seek_threads": 3}, 17, False),
        ({"files": 257}, 2, False),
    ],
)
def test_blocks_have_to_suffice(parameters: dict[str, Any], hosts: int, ok: bool) -> None:
    """256 blocks, four processes on each host."""
    given = {"data": "d", "file_size": SIZE, "block": BLOCK} | parameters
    answer = FilesWorkload(FilesParameters(**given)).check_hosts(hosts, 4)
    assert answer.ok == ok
    assert ok or "larger workload.file_size" in answer.fix
