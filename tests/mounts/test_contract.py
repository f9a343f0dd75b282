"""What every registered way to mount an NFS export has to do."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from nfslab._core import Server
from nfslab.context import Services
from nfslab.hosts.local import LocalHost
from nfslab.machine.mounts import mount_of
from nfslab.machine.resources import Resources
from nfslab.mounts.base import Mounting, MountParameters
from nfslab.mounts.registry import MOUNTS, mount_class

every_mount = pytest.mark.parametrize("kind", sorted(MOUNTS))


def make(kind: str, **parameters: object) -> Mounting:
    cls = mount_class(kind)
    if not cls.available().ok:
        pytest.skip(f"{kind}: {cls.available().reason}")
    return cls(cls.Parameters.model_validate(parameters), "share")


@every_mount
def test_the_class_says_what_it_is(kind: str) -> None:
    cls = mount_class(kind)
    assert not inspect.isabstract(cls)
    assert cls.kind == kind
    assert cls.summary
    assert "\n" not in cls.summary
    assert issubclass(cls.Parameters, MountParameters)
    cls.Parameters()


@every_mount
@pytest.mark.system
def test_up_and_down(kind: str, resources: Resources, scratch: Path) -> None:
    mount = make(kind, rsize="16k")
    mount.down()  # never up: harmless
    own = resources.make_directory(scratch / resources.name)
    point = own.path / "mount"
    point.mkdir()
    with Server('{"store": "memory"}') as server:
        ports = [f"port={server.port}", f"mountport={server.port}"]
        mount.up(
            "127.0.0.1:/export", ports, point, resources,
            host=LocalHost(), is_calibration=False,
        )  # fmt: skip
        facts, services = mount.facts(), Services()
        json.dumps(facts, allow_nan=False)
        mount.offer("share", services)
        if mount.has_files:
            assert mount_of(point).mount_point == point
            (point / "file").write_bytes(b"through the mount")
            assert (point / "file").read_bytes() == b"through the mount"
            assert facts["options"]["rsize"] == "16384"
            assert set(services.rpc_recorders) == {"share"}
        else:
            assert services.nfs_exports["share"].options == [*ports, "rsize=16384"]
        mount.down()
        mount.down()  # twice: harmless
    assert mount_of(point).mount_point != point
    own.undo()
    assert resources.close() == [], "nothing is left for the journal"
