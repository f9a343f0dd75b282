"""Mounts and the devices below them, against mountinfo's own words and other tools."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from nfslab.machine import mounts
from nfslab.machine.mounts import (
    Mount,
    answers,
    backing_file,
    block_devices_of,
    leaves_of,
    loops_backed_by,
    mount_by_name,
    mount_of,
    parse_mountinfo,
    without_links,
)

from tests.machine import needs

# The example of proc_pid_mountinfo(5), then escapes, a read-only super block, no optionals.
EXAMPLES = r"""
36 35 98:0 /mnt1 /mnt/parent rw,noatime master:1 - ext3 /dev/root rw,errors=continue
40 36 0:50 / /mnt/a\040b rw,relatime shared:60 master:2 - nfs4 nas:/x\134y rw,vers=4.2,hard
41 36 8:1 / /mnt/ro rw,nosuid - ext4 /dev/sda1 ro,data=ordered
garbage
"""


def test_mountinfo_is_read_as_the_manual_says() -> None:
    first, second, third = parse_mountinfo(EXAMPLES)
    assert (first.mount_id, first.parent_id, first.major, first.minor) == (36, 35, 98, 0)
    assert (first.root, str(first.mount_point)) == ("/mnt1", "/mnt/parent")
    assert (first.filesystem, first.source) == ("ext3", "/dev/root")
    assert first.options == "rw,noatime,errors=continue"
    assert str(second.mount_point) == "/mnt/a b"
    assert second.source == "nas:/x\\y"
    assert second.option("vers") == "4.2"
    assert second.option("hard") == ""
    assert second.option("soft") is None
    assert not second.read_only
    assert third.read_only, "the file system is read-only though the mount is not"


def findmnt(path: Path, column: str) -> str:
    argv = ["findmnt", "--noheadings", "--output", column, "--target", str(path)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split("\n")[0]


@needs.program("findmnt")
@pytest.mark.system
def test_the_mount_of_a_path_is_the_one_findmnt_names() -> None:
    for path in ("/", "/proc", "/dev", "/dev/shm", "/var/tmp", "/nonexistent/x"):
        mount = mount_of(path)
        existing = Path(path) if os.path.exists(path) else Path("/")
        assert str(mount.mount_point) == findmnt(existing, "TARGET").strip()
        assert mount.filesystem == findmnt(existing, "FSTYPE").strip()
        assert mount_by_name(Path(path)).mount_id == mount.mount_id


@needs.mount
@pytest.mark.system
def test_a_covered_mount_is_not_the_answer(scratch: Path) -> None:
    """Two mounts over one another, and one that hides a deeper one."""
    point = scratch / "point"
    (point / "deep").mkdir(parents=True)
    for size in ("64k", "128k"):
        argv = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", point]
        subprocess.run(argv, check=True)
    try:
        (point / "deep").mkdir()
        assert mount_of(point).option("size") == "128k"
        assert mount_of(point / "deep").option("size") == "128k"
        assert mount_by_name(point).option("size") == "128k"
        link = scratch / "link"
        link.symlink_to(point)
        assert mount_of(link / "deep" / "missing").option("size") == "128k"
    finally:
        subprocess.run(["umount", point], check=True)
        subprocess.run(["umount", point], check=True)


def lsblk_disk(path: str) -> set[str]:
    """Disks below the file system of a path, as lsblk sees them."""
    source = findmnt(Path(path), "SOURCE").strip()
    argv = ["lsblk", "--noheadings", "--inverse", "--list", "--output", "NAME,TYPE", source]
    printed = subprocess.run(argv, capture_output=True, text=True, check=False)
    if printed.returncode != 0:
        pytest.skip(f"lsblk knows nothing of {source}")
    rows = [line.split() for line in printed.stdout.splitlines()]
    return {name for name, kind in rows if kind in ("disk", "loop")}


@needs.program("findmnt", "lsblk")
@pytest.mark.system
def test_devices_of_the_root_file_system_are_lsblks() -> None:
    if mount_of("/").major == 0:
        pytest.skip("the root file system has no device of its own (a container?)")
    assert set(block_devices_of("/")) == lsblk_disk("/")


def test_no_devices_below_memory() -> None:
    assert block_devices_of("/dev/shm") == []


@needs.loop
@needs.mount
@needs.program("mkfs.ext4")
@pytest.mark.system
def test_a_loop_device_and_its_file(scratch: Path) -> None:
    image = scratch / "an image"
    with image.open("wb") as file:
        file.truncate(4 << 20)
    assert loops_backed_by(image) == []
    argv = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    point = scratch / "mounted here"
    point.mkdir()
    try:
        name = Path(device).name
        assert loops_backed_by(image) == [name]
        assert backing_file(name) == image
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
        subprocess.run(["mount", device, point], check=True)
        mount = mount_of(point / "x")
        assert mount.mount_point == point
        assert mount.filesystem == "ext4"
        assert block_devices_of(mount) == [name]
        moved = image.rename(scratch / "moved")
        assert loops_backed_by(moved) == [name], "the kernel follows a rename"
        moved.unlink()
        assert loops_backed_by(moved) == [name], "and marks a deleted file"
    finally:
        subprocess.run(["umount", point], check=False)
        subprocess.run(["losetup", "--detach", device], check=True)


def block(sys: Path, name: str, *, slaves: tuple[str, ...] = (), parent: str = "") -> None:
    """A device in a made-up /sys, laid out as the kernel does."""
    folder = sys / "devices" / parent / name
    (folder / "slaves").mkdir(parents=True)
    for slave in slaves:
        (folder / "slaves" / slave).symlink_to(sys / "devices" / slave)
    if parent:
        (folder / "partition").write_text("1\n")
    (sys / "class" / "block").mkdir(parents=True, exist_ok=True)
    (sys / "class" / "block" / name).symlink_to(folder)


def test_layers_of_devices_are_followed_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LVM on md on partitions of two disks, one of them used twice."""
    monkeypatch.setattr(mounts, "SYS", tmp_path)
    for disk in ("sda", "nvme0n1"):
        block(tmp_path, disk)
    block(tmp_path, "sda1", parent="sda")
    block(tmp_path, "sda2", parent="sda")
    block(tmp_path, "nvme0n1p1", parent="nvme0n1")
    block(tmp_path, "md0", slaves=("sda1", "nvme0n1p1"))
    block(tmp_path, "dm-0", slaves=("md0", "sda2"))
    assert leaves_of("dm-0") == ["sda", "nvme0n1"]
    assert leaves_of("sda1") == ["sda"]


def test_members_of_btrfs_are_looked_up_where_it_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "SYS", tmp_path)
    for disk in ("sdb", "sdc"):
        block(tmp_path, disk)
        (tmp_path / "fs" / "btrfs" / "some-uuid" / "devices" / disk).mkdir(parents=True)
    mount = Mount(1, 0, 0, 40, "/", Path("/b"), "btrfs", "/dev/sdb", "rw")
    assert block_devices_of(mount) == ["sdb", "sdc"]


def test_links_are_followed_as_the_kernel_does(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "a" / "b")
    (tmp_path / "relative").symlink_to("a/../a/b")
    (tmp_path / "a" / "chain").symlink_to("../absolute/../b")
    for name in ("", "a/b", "absolute/..", "relative/x/y", "a/chain/none", "none/../a", "./a//b/."):
        assert str(without_links(tmp_path / name)) == os.path.realpath(tmp_path / name)
    assert str(without_links(Path("x/../y"))) == os.path.realpath("x/../y")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        without_links(tmp_path / "loop")


def test_nothing_behind_a_mount_that_may_hang_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote" / "inside").symlink_to("/etc")
    (tmp_path / "link").symlink_to("remote")
    before = without_links(tmp_path / "link" / "inside" / ".." / "file")
    assert before == Path("/file"), "it is an ordinary folder as yet"
    line = f"99 1 0:99 / {tmp_path}/remote rw - fuse.nfslab 127.0.0.1:/export rw"
    monkeypatch.setattr(mounts, "mounts", lambda: parse_mountinfo(line))
    after = without_links(tmp_path / "link" / "inside" / ".." / "file")
    assert after == tmp_path / "remote" / "file"


@pytest.mark.system
def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert answers(tmp_path), "a local file system is not even asked"
    own = mount_of(tmp_path)
    monkeypatch.setattr(mounts, "NETWORK_FILESYSTEMS", (own.filesystem,))
    assert answers(tmp_path)
    monkeypatch.setattr(mounts, "ANSWER_LIMIT_S", 0.05)
    tool = tmp_path / "stat"
    tool.write_text("#!/bin/sh\nexec sleep 1000\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert not answers(tmp_path)
