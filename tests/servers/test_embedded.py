"""The embedded server of a run: its model is in effect, its durability that of its store."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from nfslab.machine.resources import Resources
from nfslab.targets.nfs import NfsTarget
from pydantic import ValidationError

from tests.hosts.here import HERE
from tests.targets.nfs_share import MakeNfs


def test_the_model_is_recorded_and_felt(nfs_target: MakeNfs, resources: Resources) -> None:
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
    began = time.monotonic()
    os.stat(place.path)
    assert time.monotonic() - began >= 0.030, "asks the server, without an attribute cache"
    target.down(place)


@pytest.mark.parametrize(
    ("parameters", "level", "reason"),
    [
        ({"store": "memory"}, "volatile", "memory"),
        ({"nvram": "1M", "disk": "seek=1ms"}, "volatile", "NVRAM"),
        ({"unsafe_async_names": True}, "volatile", "unsafe_async_names"),
    ],
)
def test_durability_is_that_of_the_servers_store(
    nfs_target: MakeNfs,
    resources: Resources,
    parameters: dict[str, object],
    level: str,
    reason: str,
) -> None:
    target = nfs_target(**parameters)
    place = target.up(resources, HERE)
    assert place.durability.level == level
    assert any(reason in told for told in place.durability.reasons)
    target.down(place)


def test_a_folder_is_as_durable_as_its_disk(
    nfs_target: MakeNfs, resources: Resources, scratch: Path
) -> None:
    from nfslab.machine.mounts import block_devices_of, mount_of
    from nfslab.storage.durability import durability_of

    target = nfs_target()
    place = target.up(resources, HERE)
    mount = mount_of(scratch)
    assert place.durability == durability_of(mount, block_devices_of(mount))
    target.down(place)


def test_one_service_time_needs_no_list() -> None:
    one = NfsTarget.Parameters.model_validate({"service_time": "200us", "stall": "1s:5ms"})
    assert (one.service_time, one.stall) == (["200us"], ["1s:5ms"])
    several = NfsTarget.Parameters(service_time=["200us", "WRITE=1ms"])
    assert several.service_time == ["200us", "WRITE=1ms"]


def test_the_null_store_cannot_be_mounted() -> None:
    with pytest.raises(ValidationError, match="no folders"):
        NfsTarget.Parameters(store="null")
