"""Argument lists after the manual pages, and what tools print, read back.

Kernels without md or dm cannot run these; what they would be given is checked here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from nfslab.storage import block_layers as layers
from nfslab.storage.block_layers import FilesystemOptions

from tests.machine import needs

UUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
PLAIN = FilesystemOptions()
STUDIED = FilesystemOptions(block_size_bytes=4096, stride_blocks=16, stripe_width_blocks=32)


def test_md_is_made_without_a_question() -> None:
    argv = layers.md_create_argv("nfslab-t", UUID, ["/dev/sdb", "/dev/sdc"], 64 << 10)
    assert argv[:3] == ["mdadm", "--create", "/dev/md/nfslab-t"]
    assert "--level=0" in argv
    assert "--chunk=64K" in argv
    assert "--raid-devices=2" in argv
    assert "--uuid=0a1b2c3d:4e5f6071:8293a4b5:c6d7e8f9" in argv
    assert "--run" in argv
    assert "--force" not in argv
    assert argv[-2:] == ["/dev/sdb", "/dev/sdc"]
    single = layers.md_create_argv("nfslab-t", UUID, ["/dev/sdb"], 4 << 10)
    assert "--force" in single, "mdadm wants it for an array of one"


@pytest.mark.parametrize(
    ("sizes", "chunk", "length"),
    [
        ([1 << 30, 1 << 30], 64 << 10, 2 * (1 << 30)),
        ([1 << 30, (1 << 30) - 512], 64 << 10, 2 * ((1 << 30) - (64 << 10))),
        ([100 << 10, 100 << 10, 100 << 10], 64 << 10, 3 * (64 << 10)),
    ],
)
def test_a_dm_table_is_as_long_as_dm_stripe_allows(
    sizes: list[int], chunk: int, length: int
) -> None:
    """dm-stripe refuses lengths that are no multiple of chunk times devices."""
    devices = [f"/dev/sd{letter}" for letter in "bcd"[: len(sizes)]]
    table = layers.dm_table(devices, sizes, chunk)
    words = table.split()
    assert words[:5] == ["0", str(length // 512), "striped", str(len(sizes)), str(chunk // 512)]
    assert words[5:] == [word for device in devices for word in (device, "0")]
    assert length % (chunk * len(sizes)) == 0
    assert layers.dm_chunk_bytes(table) == chunk
    assert layers.dm_chunk_bytes("0 10 linear 8:1 0") is None


def test_dm_carries_our_uuid() -> None:
    argv = layers.dm_create_argv("nfslab-t", UUID, "0 8 striped 1 8 /dev/sdb 0")
    assert argv[:3] == ["dmsetup", "create", "nfslab-t"]
    assert argv[argv.index("--uuid") + 1] == UUID
    assert argv[argv.index("--table") + 1].startswith("0 8 striped")


def test_ext4_as_the_2001_study_varied_it() -> None:
    argv = layers.mkfs_argv("ext4", "/dev/md/x", UUID, STUDIED)
    extended = argv[argv.index("-E") + 1].split(",")
    assert {"stride=16", "stripe_width=32", "nodiscard", "lazy_itable_init=0"} <= set(extended)
    assert argv[argv.index("-b") + 1] == "4096"
    assert argv[argv.index("-U") + 1] == UUID
    assert argv[-1] == "/dev/md/x"
    plain = layers.mkfs_argv("ext4", "/dev/md/x", UUID, PLAIN)
    assert "stride" not in " ".join(plain)


def test_xfs_gets_its_stripe_in_bytes_and_disks() -> None:
    argv = layers.mkfs_argv("xfs", "/dev/md/x", UUID, STUDIED)
    assert argv[argv.index("-d") + 1] == "su=65536,sw=2"
    assert f"uuid={UUID}" in argv
    assert "-K" in argv, "no discard"
    aligned = layers.mkfs_argv("xfs", "/dev/md/x", UUID, FilesystemOptions(stride_blocks=0))
    assert aligned[aligned.index("-d") + 1] == "noalign"
    assert "-d" not in layers.mkfs_argv("xfs", "/dev/md/x", UUID, PLAIN)
    with pytest.raises(ValueError, match="zfs"):
        layers.mkfs_argv("zfs", "/dev/md/x", UUID, PLAIN)


def test_btrfs_stripes_data_and_metadata() -> None:
    argv = layers.mkfs_btrfs_argv(["/dev/loop1", "/dev/loop2"], UUID)
    assert argv[argv.index("--data") + 1] == "raid0"
    assert argv[argv.index("--metadata") + 1] == "raid0"
    assert "--nodiscard" in argv
    assert "single" in layers.mkfs_btrfs_argv(["/dev/loop1"], UUID)


def test_mount_options_stay_one_argument() -> None:
    argv = layers.mount_argv("ext4", "/dev/x", Path("/m p"), ["noatime", "commit=5"])
    assert argv == ["mount", "-t", "ext4", "-o", "noatime,commit=5", "/dev/x", "/m p"]
    assert "-o" not in layers.mount_argv("ext4", "/dev/x", Path("/m"), [])


@needs.program("mkfs.ext4", "dumpe2fs")
@pytest.mark.system
def test_ext4_really_takes_and_shows_the_geometry(tmp_path: Path) -> None:
    """Made in a file, which needs no root; read back by dumpe2fs and by blkid."""
    image = tmp_path / "image"
    image.write_bytes(bytes(16 << 20))
    subprocess.run(layers.mkfs_argv("ext4", str(image), UUID, STUDIED), check=True)
    argv = ["dumpe2fs", "-h", str(image)]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert layers.ext4_geometry(printed) == {
        "block_size_bytes": 4096,
        "stride_blocks": 16,
        "stripe_width_blocks": 32,
    }
    assert UUID in printed


def test_geometry_of_xfs_info() -> None:
    """Output of xfs_info(8) from its manual's layout."""
    printed = """meta-data=/dev/md0               isize=512    agcount=16, agsize=4096 blks
         =                       sectsz=512   attr=2, projid32bit=1
data     =                       bsize=4096   blocks=65536, imaxpct=25
         =                       sunit=16     swidth=32 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=1221, version=2
         =                       sectsz=512   sunit=16 blks, lazy-count=1
"""
    assert layers.xfs_geometry(printed) == {
        "block_size_bytes": 4096,
        "stride_blocks": 16,
        "stripe_width_blocks": 32,
    }
    assert layers.xfs_geometry("nonsense") == {}


def test_what_this_kernel_mounts_is_what_it_lists() -> None:
    assert layers.kernel_has_filesystem("proc")
    assert not layers.kernel_has_filesystem("nonesuchfs")
    assert layers.device_size_bytes("/dev/null") is None
