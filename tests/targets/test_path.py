"""What is mounted already: insisting on it, and noticing when it changes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.machine.mounts import Mount, mount_of
from nfslab.machine.resources import Resources
from nfslab.storage import mountstats
from nfslab.targets import path as path_module
from nfslab.targets.path import PathParameters, PathTarget

from tests.hosts.here import HERE
from tests.machine import needs


def mounted(path: Path, **parameters: object) -> PathTarget:
    return PathTarget("share", PathParameters(path=str(path), **parameters))  # type: ignore[arg-type]


@pytest.fixture
def point(scratch: Path) -> Iterator[Path]:
    """Something mounted: a small tmpfs with an option that can be seen."""
    point = scratch / "point"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noatime,size=1m", "none", point], check=True)
    yield point
    subprocess.run(["umount", point], check=False, capture_output=True)


@needs.mount
@pytest.mark.system
def test_what_is_mounted_is_used_as_expected_or_refused(point: Path, resources: Resources) -> None:
    (point / "below").mkdir()
    target = mounted(
        point / "below", expect_filesystem="tmpfs", expect_options=["noatime", "size=1024k"]
    )
    assert target.check().ok
    place = target.up(resources, HERE)
    assert place.mount_point == point
    assert place.durability.level == "volatile"
    target.down(place)
    for parameters, told in (
        ({"expect_filesystem": "nfs4"}, "expected nfs4, mounted is tmpfs"),
        ({"expect_options": ["noatime", "size=2048k"]}, "size=2048k: in effect is size=1024k"),
        ({"expect_options": ["vers=4.2"]}, "vers=4.2: not in effect"),
    ):
        other = mounted(point, **parameters)
        found = other.check()
        assert (found.ok, told in found.reason) == (False, True)
        assert "in effect: tmpfs" in found.fix
        with pytest.raises(RunFailed, match="not mounted as expected"):
            other.up(resources, HERE)
    assert [path.name for path in point.iterdir()] == ["below"]


@needs.mount
@pytest.mark.system
def test_a_mount_that_changed_or_vanished_is_noticed(point: Path, resources: Resources) -> None:
    target = mounted(point)
    stated = mounted(point, expect_options=["size=1m"])
    stated.down(stated.up(resources, HERE))
    subprocess.run(["mount", "-o", "remount,size=2m", point], check=True)
    with pytest.raises(RunFailed, match="in effect is size=2048k"):
        stated.up(resources, HERE)
    assert target.check().ok
    place = target.up(resources, HERE)
    subprocess.run(["umount", point], check=True)
    with pytest.raises(RunFailed, match="remounted during the run") as failed:
        target.down(place)
    assert str(place.path) in failed.value.fix
    assert any("is not mounted now" in line for line in resources.close())
    for journal in Path(os.environ["NFSLAB_STATE"], "journals").glob("*.jsonl"):
        journal.unlink()
    # Its folder is still there, on the root file system: data would go to the wrong disk.
    if mount_of(point).mount_point == Path("/"):
        with Resources("another run") as others, pytest.raises(RunFailed, match="nothing is mou"):
            target.up(others, HERE)


def as_nfs(real: Mount, options: str) -> Mount:
    return Mount(
        real.mount_id, 0, 0, 99, "/", Path("/mnt/nas"), "nfs4", "nas:/srv", options
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "level"), [(None, "unknown"), ("volatile", "volatile"), ("stable", "stable")]
)
def test_the_servers_durability_is_as_stated_or_unknown(
    stated: str | None, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    resources: Resources,
) -> None:  # fmt: skip
    """An NFS mount as the kernel would describe it, over a real folder."""
    from nfslab.targets import base

    mount = as_nfs(mount_of(tmp_path), "rw,vers=4.2,rsize=65536,nconnect=4")
    for module in (base, path_module):
        monkeypatch.setattr(module, "mount_of", lambda path: mount)
    monkeypatch.setattr(base, "block_devices_of", lambda mount: [])
    monkeypatch.setattr(path_module, "mount_by_name", lambda path: mount)
    statistics = (
        "device nas:/srv mounted on /mnt/nas with fstype nfs4 statvers=1.1\n"
        "\topts:\trw,vers=4.2\n\tage:\t12\n"
        "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
        "\txprt:\ttcp 0 0 6 0 29 1 1 0 4 0 31 7 44\n\tper-op statistics\n"
    )
    (tmp_path / "mountstats").write_text(statistics)
    monkeypatch.setattr(mountstats, "MOUNTSTATS", str(tmp_path / "mountstats"))
    target = mounted(tmp_path, expect_filesystem="nfs4", server_durability=stated)
    place = target.up(resources, HERE)
    assert place.durability.level == level
    assert place.facts["nfs"]["transports"] == 1
    assert place.facts["nfs"]["options"]["rsize"] == "65536"
    assert place.devices == []
    target.down(place)
    shared = mounted(tmp_path, expect_options=["nconnect=4"])
    assert re.search(r"\b1 connection", shared.check().reason)


def test_a_path_is_required() -> None:
    with pytest.raises(ValueError, match="path"):
        PathParameters()  # type: ignore[call-arg]
