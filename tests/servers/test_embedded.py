"""The embedded server of a run: model, durability, recordings, and when it does not obey.

And an export of somebody else's, which our server plays.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from nfslab._core import Server
from nfslab.errors import RunFailed
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.mounts import block_devices_of, mount_of
from nfslab.machine.resources import Resources
from nfslab.servers import embedded_process as embedded_server
from nfslab.storage.durability import durability_of

from tests.cli.serving import null
from tests.hosts.here import HERE
from tests.stopping import stop
from tests.targets.nfs_share import MakeNfs

pytestmark = pytest.mark.system


def test_the_model_is_recorded_and_felt_and_memory_is_volatile(
    nfs_target: MakeNfs, resources: Resources
) -> None:
    target = nfs_target(
        store="memory", size="64M", service_time=["GETATTR=30ms"], delay="5ms", ac=False
    )
    place = target.up(resources, HERE)
    served = place.facts["nfs"]["served"]
    assert served["store"] == "memory"
    assert served["model"]["service_by_operation_ns"] == {"GETATTR": 30_000_000}
    assert served["model"]["delay_ns"] == 5_000_000
    assert "listen" not in served
    assert target.free_bytes() == 64 << 20
    assert place.durability.level == "volatile"
    assert any("memory" in told for told in place.durability.reasons)
    began = time.monotonic()
    os.stat(place.path)
    assert time.monotonic() - began >= 0.030, "asks the server, without an attribute cache"
    target.down(place)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"nvram": "1M", "disk": "seek=1ms"}, "NVRAM"),
        ({"unsafe_async_names": True}, "unsafe_async_names"),
        ({}, ""),
    ],
)
def test_durability_is_that_of_the_servers_store(
    nfs_target: MakeNfs,
    resources: Resources,
    scratch: Path,
    parameters: dict[str, object],
    reason: str,
) -> None:
    target = nfs_target(client="none", **parameters)
    place = target.up(resources, HERE)
    if reason:
        assert place.durability.level == "volatile"
        assert any(reason in told for told in place.durability.reasons)
    else:
        mount = mount_of(scratch)
        assert place.durability == durability_of(mount, block_devices_of(mount))
    target.down(place)


def test_an_export_that_is_there_gets_folders_of_its_own(
    nfs_target: MakeNfs, resources: Resources
) -> None:
    with Server(json.dumps({"store": "memory"})) as server:
        options = [f"port={server.port}", f"mountport={server.port}"]
        target = nfs_target(
            server="127.0.0.1:/export", mount_options=options, server_durability="volatile"
        )
        place = target.up(resources, HERE)
        other = target.up(resources, HERE)
        assert place.path.name != other.path.name
        assert place.durability.level == "volatile"
        assert "stated by the user" in place.durability.reasons[0]
        assert target.free_bytes() is None
        (place.path / "file").write_text("x")
        target.down(other)
        assert (place.path / "file").read_text() == "x"
        target.down(place)


def started(folder: Path, resources: Resources) -> embedded_server.EmbeddedServer:
    return embedded_server.start(["--memory"], folder, resources, host=LocalHost(), link=Link())


def test_recordings_one_after_the_other_until_it_is_dead(
    resources: Resources, tmp_path: Path
) -> None:
    server = started(tmp_path, resources)
    with pytest.raises(RunFailed, match="end_recording") as told:
        server.end_recording()
    assert "no calls are recorded now" in told.value.why, "in its words"
    with pytest.raises(RunFailed, match="'record'") as told:
        server.record(tmp_path / "none" / "calls.parquet")
    assert str(tmp_path / "none") in told.value.why
    assert told.value.fix
    for number in (1, 2):
        file = tmp_path / f"{number}.parquet"
        at_ns = server.record(file, rows_max=5)
        for xid in range(number * 100, number * 100 + 7):
            assert null(server.port, xid) == 0
        ended = server.end_recording()
        assert [ended[name] for name in ("rows", "left_out", "lost")] == [5, 2, 0]
        table = pq.read_table(file)
        assert at_ns <= min(table["received_ns"].to_pylist())
        xids = table["xid"].to_pylist()
        assert xids == list(range(number * 100, number * 100 + 5))
    server.record(tmp_path / "calls.parquet")
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.ended_within(600)
    with pytest.raises(RunFailed, match="'end_recording'") as told:
        server.end_recording()
    assert "it was ended by SIGKILL; " in told.value.why
    assert server.stop() == {}
    assert resources.close() == []


def test_an_answer_that_came_late_is_not_the_next_ones(
    resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = started(tmp_path, resources)
    stop(server.process.pid)
    monkeypatch.setattr(embedded_server, "BEGIN_LIMIT_S", 0.05)
    with pytest.raises(RunFailed) as told:
        server.record(tmp_path / "calls.parquet")
    assert told.value.why.endswith(" 0.05 s")
    os.kill(server.process.pid, signal.SIGCONT)
    assert server.end_recording()["event"] == "recorded"
    events = [json.loads(line)["event"] for line in server.said.read_text().splitlines()]
    assert events == ["ready", "recording", "recorded"]
    assert server.stop()["calls"] == 0
