"""Durability, layer by layer: every rule with a machine that was made to show it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from nfslab.machine import mounts
from nfslab.machine.mounts import Mount, block_devices_of, mount_of
from nfslab.results.records import DurabilityRecord, Level
from nfslab.storage import durability
from nfslab.storage.durability import durability_of, weakest

from tests.machine import needs


def mount(filesystem: str, options: str = "rw", source: str = "x") -> Mount:
    return Mount(1, 0, 8, 1, "/", Path("/m"), filesystem, source, options)


@pytest.fixture
def sys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up /sys."""
    for module in (durability, mounts):
        monkeypatch.setattr(module, "SYS", tmp_path)
    return tmp_path


def disk(sys: Path, name: str, cache: str, *, fua: str = "0", own: str = "") -> None:
    queue = sys / "block" / name / "queue"
    queue.mkdir(parents=True)
    (queue / "write_cache").write_text(f"{cache}\n")
    (queue / "fua").write_text(f"{fua}\n")
    if own:
        scsi = sys / "block" / name / "device" / "scsi_disk" / "0:0:0:0"
        scsi.mkdir(parents=True)
        (scsi / "cache_type").write_text(f"{own}\n")


@pytest.mark.parametrize(
    ("cache", "options", "level", "words"),
    [
        ("write back", "rw", "stable", "write-back cache, emptied by flushes"),
        ("write through", "rw", "stable", "no volatile write cache"),
        ("write back", "rw,nobarrier", "volatile", "nobarrier"),
        ("write back", "rw,barrier=0", "volatile", "barrier=0"),
        ("write through", "rw,nobarrier", "stable", "which the kernel takes to have none"),
        ("write back", "rw,barrier=1", "stable", "flushes"),
    ],
)
def test_a_disk_and_its_barriers(
    sys: Path, cache: str, options: str, level: Level, words: str
) -> None:
    disk(sys, "sda", cache)
    found = durability_of(mount("ext4", options), ["sda"])
    assert found.level == level
    assert any(words in reason for reason in found.reasons)


def test_one_weak_disk_makes_the_whole_weak(sys: Path) -> None:
    disk(sys, "sda", "write back", fua="1")
    disk(sys, "nullb0", "write back")
    found = durability_of(mount("ext4"), ["sda", "nullb0"])
    assert found.level == "volatile"
    assert "nullb0 lives in memory" in found.reasons
    assert any("FUA" in reason for reason in found.reasons)


def test_a_cache_that_the_kernel_was_told_to_ignore_is_found(sys: Path) -> None:
    """`echo "write through" > queue/write_cache` ends the flushes, not the cache."""
    disk(sys, "sda", "write through", own="write back")
    assert durability_of(mount("ext4"), ["sda"]).level == "volatile"
    disk(sys, "sdb", "write through", own="write through")
    assert durability_of(mount("ext4"), ["sdb"]).level == "stable"


def test_a_virtual_disk_says_that_its_host_is_out_of_sight(sys: Path) -> None:
    disk(sys, "vda", "write back")
    found = durability_of(mount("ext4"), ["vda"])
    assert found.level == "stable"
    assert any("host" in reason for reason in found.reasons)


def test_a_remote_disk_is_unknown(sys: Path) -> None:
    disk(sys, "nbd0", "write back")
    assert durability_of(mount("ext4"), ["nbd0"]).level == "unknown"


@pytest.mark.parametrize(
    ("filesystem", "options", "level"),
    [
        ("tmpfs", "rw", "volatile"),
        ("ramfs", "rw", "volatile"),
        ("nfs4", "rw,sync", "unknown"),
        ("nfs", "rw", "unknown"),
        ("cifs", "rw", "unknown"),
        ("cifs", "rw,nostrictsync", "volatile"),
        ("fuse.sshfs", "rw", "unknown"),
        ("9p", "rw", "unknown"),
        ("zfs", "rw", "unknown"),
        ("overlay", "rw,lowerdir=/l,upperdir=/nonexistent/u,volatile", "volatile"),
        ("overlay", "rw,lowerdir=/l,upperdir=/nonexistent/u", "unknown"),
        ("overlay", "ro,lowerdir=/l", "unknown"),
        ("somefs", "rw", "unknown"),
    ],
)
def test_file_systems_without_a_device(filesystem: str, options: str, level: Level) -> None:
    found = durability_of(mount(filesystem, options), [])
    assert found.level == level
    assert found.reasons
    assert found.reasons[0]


@pytest.mark.parametrize("stated", ["stable", "volatile"])
def test_what_a_person_states_is_recorded_as_stated(stated: Level) -> None:
    found = durability_of(mount("nfs4"), [], stated=stated)
    assert found.level == stated
    assert "stated by the user" in found.reasons[0]


def test_nobody_can_state_memory_to_be_stable(sys: Path) -> None:
    assert durability_of(mount("tmpfs"), [], stated="stable").level == "volatile"
    disk(sys, "zram0", "write through")
    assert durability_of(mount("ext4"), ["zram0"], stated="stable").level == "volatile"


@needs.mount
@pytest.mark.system
def test_an_overlay_is_what_its_upper_folder_is() -> None:
    memory = Path("/dev/shm") / f"nfslab-test-{os.getpid()}"
    for name in ("lower", "upper", "work", "merged"):
        (memory / name).mkdir(parents=True)
    options = f"lowerdir={memory}/lower,upperdir={memory}/upper,workdir={memory}/work"
    argv = ["mount", "-t", "overlay", "-o", options, "overlay", f"{memory}/merged"]
    mounted = subprocess.run(argv, capture_output=True, text=True, check=False)
    try:
        if mounted.returncode != 0:
            pytest.skip(f"no overlay here: {mounted.stderr.strip()}")
        found = mount_of(memory / "merged")
        assert found.filesystem == "overlay"
        record = durability_of(found, block_devices_of(found))
        assert record.level == "volatile"
        assert any("tmpfs" in reason for reason in record.reasons)
    finally:
        subprocess.run(["umount", f"{memory}/merged"], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", str(memory)], check=True)


@needs.loop
@pytest.mark.system
@pytest.mark.parametrize("below", ["memory", "disk"])
def test_a_loop_device_is_what_its_file_lies_on(below: str, scratch: Path) -> None:
    folder = Path("/dev/shm") if below == "memory" else scratch
    if mount_of("/dev/shm").filesystem != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs")
    image = folder / f"nfslab-test-image-{os.getpid()}"
    with image.open("wb") as file:
        file.truncate(4 << 20)
    argv = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    try:
        found = durability_of(mount("ext4", source=device), [Path(device).name])
        on = mount_of(folder)
        expected = durability_of(on, block_devices_of(on))
        assert found.level == expected.level
        if below == "memory":
            assert found.level == "volatile"
        assert set(expected.reasons) <= set(found.reasons)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        image.unlink()


def test_the_weakest_of_several() -> None:
    stable = DurabilityRecord(level="stable", reasons=["a"])
    unknown = DurabilityRecord(level="unknown", reasons=["b", "a"])
    volatile = DurabilityRecord(level="volatile", reasons=["c"])
    assert weakest([stable, unknown]).level == "unknown"
    assert weakest([stable, unknown, volatile]).level == "volatile"
    assert weakest([stable, unknown]).reasons == ["a", "b"]
    assert weakest([]).level == "unknown"
