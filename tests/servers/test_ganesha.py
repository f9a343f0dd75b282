"""NFS-Ganesha for one run: what it stores, and that it goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.machine.resources import Resources

from tests.hosts.here import HERE
from tests.targets.nfs_share import MakeNfs


@pytest.mark.system
def test_ganesha_is_started_and_ended_for_a_run(
    nfs_target: MakeNfs, resources: Resources, scratch: Path
) -> None:
    target = nfs_target(server="ganesha", threads=4, wsize="32k", server_durability="stable")
    usable = target.check()
    if not usable.ok:
        pytest.skip(usable.reason)
    place = target.up(resources, HERE)
    nfs = place.facts["nfs"]
    assert (nfs["server"], nfs["served"]["threads"]) == ("ganesha", 4)
    assert place.durability.level == "stable"
    (place.path / "file").write_bytes(bytes(range(256)) * 1000)
    (stored,) = scratch.glob("*/export/data/file")
    assert stored.read_bytes() == bytes(range(256)) * 1000
    (base,) = scratch.iterdir()
    configuration = (base / "ganesha.conf").read_text()
    assert "RPC_Ioq_ThrdMax = 4;" in configuration
    target.down(place)
    assert list(scratch.iterdir()) == []
