"""NFS-Ganesha for one run: what it stores, and that it goes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from nfslab.machine.resources import Resources

from tests.hosts.here import HERE
from tests.targets.nfs_share import MakeNfs

OPERATIONS = 200
SMALL = {"ac": False, "rsize": "8k", "wsize": "8k", "nconnect": 3}


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


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, SMALL], ids=["defaults", "small"])
def test_what_was_written_through_the_mount_is_in_ganeshas_folder(
    nfs_target: MakeNfs, resources: Resources, scratch: Path, options: dict[str, object]
) -> None:
    """Random operations: read back through the mount, and at the end in the folder itself."""
    target = nfs_target(server="ganesha", server_durability="stable", **options)
    usable = target.check()
    if not usable.ok:
        pytest.skip(usable.reason)
    place = target.up(resources, HERE)
    order, shadow = random.Random(4), bytearray()
    file = place.path / "file"
    file.touch()
    for number in range(OPERATIONS):
        at, size = order.randrange(1 << 19), order.randrange(1, 1 << 16)
        with file.open("r+b", buffering=0) as opened:
            match order.randrange(5):
                case 0 | 1:
                    data = order.randbytes(size)
                    shadow.extend(bytes(max(0, at - len(shadow))))
                    shadow[at : at + size] = data
                    assert os.pwrite(opened.fileno(), data, at) == size
                case 2:
                    shadow = shadow[:at] + bytes(max(0, at - len(shadow)))
                    os.ftruncate(opened.fileno(), at)
                case 3:
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    assert os.pread(opened.fileno(), size, at) == shadow[at : at + size]
                case _:
                    os.fsync(opened.fileno())
        if number % 20 == 0:
            (place.path / f"kept{number}").write_bytes(shadow)
            file = file.rename(place.path / f"file{number}")
        if number % 40 == 0:
            (place.path / f"kept{number}").unlink()
    (export,) = scratch.glob("*/export/data")
    (stored,) = (path for path in export.iterdir() if path.name.startswith("file"))
    assert stored.name == file.name
    assert stored.read_bytes() == shadow
    kept = sorted(path.name for path in export.iterdir() if path.name.startswith("kept"))
    assert kept == sorted(f"kept{number}" for number in range(20, OPERATIONS, 40))
    target.down(place)
    assert list(scratch.iterdir()) == []
