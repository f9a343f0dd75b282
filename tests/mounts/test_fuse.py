"""Our mount through FUSE: options in effect are read back, a planted delay is felt."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from nfslab.context import Services
from nfslab.machine.resources import Resources

from tests.hosts.here import HERE
from tests.targets.nfs_share import MakeNfs


@pytest.mark.system
def test_options_in_effect_are_read_back(nfs_target: MakeNfs, resources: Resources) -> None:
    target = nfs_target(
        rsize="16k",
        wsize="8k",
        ac=False,
        nconnect=2,
        mount_options=["nocto"],
        call_delay="write:50ms",
    )
    place = target.up(resources, HERE)
    nfs = place.facts["nfs"]
    in_effect = nfs["options"]
    assert (in_effect["rsize"], in_effect["wsize"], in_effect["nconnect"]) == ("16384", "8192", "2")
    assert {"noac", "nocto", "hard"} <= set(in_effect)
    assert in_effect["call_delay"] == "WRITE:50ms"
    assert (nfs["transports"], nfs["transport_protocols"]) == (2, ["tcp"])
    assert "rsize=16384" in nfs["options_reported"]
    assert "port=" not in nfs["options_reported"].replace("resvport", "")
    assert nfs["server"] == "embedded"
    server = target.server_of(place)
    assert server is not None
    secret = server.source.rpartition("/")[2]
    assert len(secret) == 32
    assert secret not in Path("/proc/self/mountinfo").read_text(), "all users read it"
    (place.path / "file").write_bytes(bytes(100_000))
    with (place.path / "file").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert file.read() == bytes(100_000)
    services = Services()
    target.offer(place, services)
    recorder: Any = services.rpc_recorders["share"]
    writes = [row for row in recorder.operations() if row["operation"] == "WRITE"]
    # 100,000 bytes in pieces of at most 8 KiB.
    assert writes[0]["calls"] >= 13
    # One WRITE that is all there is to sync is stable by itself: it waits 50 ms.
    with (place.path / "other").open("wb", buffering=0) as other:
        begun = time.monotonic()
        other.write(bytes(100))
        os.fsync(other.fileno())
        assert time.monotonic() - begun >= 0.05
    target.down(place)
