"""Stripes: impossible combinations, refusals, and a real one taken apart again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.hosts.base import Completed
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.storage import block_layers
from nfslab.storage.striping import StripePlan, Striping
from nfslab.targets.stripe import StripeParameters, StripeTarget
from pydantic import ValidationError

from tests.hosts.here import HERE
from tests.machine import needs

MIB = 1 << 20


def stripe(scratch: Path, **parameters: object) -> StripeTarget:
    given = {"directory": str(scratch), "size": "128M", "count": 2} | parameters
    return StripeTarget("striped", StripeParameters(**given))  # type: ignore[arg-type]


def needs_backend(backend: block_layers.Backend) -> pytest.MarkDecorator:
    reason, _ = block_layers.backend_obstacle(backend)
    missing = [name for name in ("losetup", "mount", "umount") if shutil.which(name) is None]
    unable = reason or ("needs root" if os.geteuid() != 0 else "") or ", ".join(missing)
    return pytest.mark.skipif(bool(unable), reason=f"{backend}: {unable}")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"chunk": 1000}, "multiple of 512"),
        ({"chunk": 0}, "multiple of 512"),
        ({"backend": "md", "chunk": "48k"}, "power of two"),
        ({"backend": "dm", "chunk": "2k"}, "at least 4k"),
        ({"backend": "btrfs", "chunk": "8k"}, "fixed in its format"),
        ({"backend": "btrfs", "filesystem": "ext4"}, "cannot carry ext4"),
        ({"backend": "md", "filesystem": "btrfs"}, "stripes by itself"),
        ({"backend": "btrfs", "stride": 16}, "for ext4 and xfs"),
        ({"stripe_width": 32}, "needs stride"),
        ({"stride": 16, "stripe_width": 40}, "multiple of stride"),
        ({"mount_options": ["noatime,exec"]}, "without commas"),
        ({"mount_options": ["a b"]}, "without commas"),
        ({"count": 0}, "greater than or equal to 1"),
        ({"count": 1000}, "less than or equal to 64"),
        ({"filesystem": "zfs"}, "ext4"),
    ],
)
def test_impossible_combinations(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        StripeParameters(**parameters)  # type: ignore[arg-type]


def only(backends: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has just these."""
    monkeypatch.setattr(
        block_layers,
        "backend_obstacle",
        lambda backend: ("", "") if backend in backends else (f"no {backend}", f"add {backend}"),
    )


@pytest.mark.parametrize(
    ("there", "parameters", "chosen"),
    [
        ({"md", "dm", "btrfs"}, {}, "md"),
        ({"dm", "btrfs"}, {"chunk": "8k"}, "dm"),
        ({"btrfs"}, {}, "btrfs"),
        ({"md", "btrfs"}, {"filesystem": "btrfs"}, "btrfs"),
        ({"md"}, {"backend": "md", "filesystem": "xfs"}, "md"),
    ],
)
def test_auto_takes_the_first_that_can(
    there: set[str], parameters: dict[str, object], chosen: str, scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    only(there, monkeypatch)
    assert stripe(scratch, **parameters)._backend() == chosen


@pytest.mark.parametrize(
    ("there", "parameters", "reason", "fix"),
    [
        ({"btrfs"}, {"chunk": "8k"}, "chunk 8 KiB is not possible here", "64 KiB, fixed"),
        ({"btrfs"}, {"filesystem": "ext4"}, "ext4 needs md or dm", "leave `filesystem` out"),
        ({"btrfs"}, {"stride": 16}, "has no stride", "leave these"),
        ({"btrfs"}, {"backend": "md"}, "no md", "add md"),
        (set(), {}, "no btrfs", "add btrfs"),
    ],
)
def test_what_cannot_be_made_here_says_why(
    there: set[str], parameters: dict[str, object], reason: str, fix: str, scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    only(there, monkeypatch)
    found = stripe(scratch, **parameters)._backend()
    assert not isinstance(found, str)
    assert reason in found.reason
    assert fix in found.fix


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch, scratch: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = stripe(scratch).check()
    assert (found.ok, found.fix) == (False, "run as root")


@needs_backend("btrfs")
@pytest.mark.system
def test_more_loop_files_than_the_disk_holds(scratch: Path, resources: Resources) -> None:
    target = stripe(scratch, size="900T", count=2, chunk="64k", backend="btrfs")
    assert "are needed" in target.check().reason
    with pytest.raises(RunFailed, match="are needed"):
        target.up(resources, HERE)
    assert list(scratch.iterdir()) == []


@needs.loop
@needs_backend("btrfs")
@pytest.mark.system
def test_three_devices_share_what_is_written(scratch: Path, resources: Resources) -> None:
    """RAID-0 seen from below: every loop file's disk got a third of the data."""
    target = stripe(scratch, count=3, backend="btrfs", mount_options=["noatime"])
    assert target.free_bytes() == 3 * 128 * MIB
    place = target.up(resources, HERE)
    assert place.filesystem == "btrfs"
    assert "noatime" in place.mount_options.split(",")
    assert place.facts["profiles"] == ["raid0"]
    assert place.facts["chunk_bytes"] == 64 << 10
    assert place.facts["loop_files"]["direct_io"] is True
    assert len(place.devices) == 3
    assert set(place.facts["backing_files"]) == set(place.devices)

    def written(device: str) -> int:
        return int(Path("/sys/block", device, "stat").read_text().split()[6]) * 512

    before = {device: written(device) for device in place.devices}
    with (place.path / "data").open("wb") as file:
        file.write(os.urandom(24 * MIB))
        file.flush()
        os.fsync(file.fileno())
    grown = [written(device) - before[device] for device in place.devices]
    assert sum(grown) >= 24 * MIB
    assert min(grown) > 0.8 * 8 * MIB, "none was left out"
    assert max(grown) < 1.5 * 8 * MIB
    direct = Path("/sys/block", place.devices[0], "loop", "dio").read_text().strip()
    assert direct == "1"
    target.down(place)
    assert list(scratch.iterdir()) == []


@needs.loop
@needs_backend("btrfs")
@pytest.mark.long
@pytest.mark.parametrize("allocate", ["reserved", "written", "sparse"])
def test_blocks_of_loop_files_are_as_asked(
    allocate: str, scratch: Path, resources: Resources
) -> None:
    target = stripe(scratch, backend="btrfs", allocate=allocate, direct_io=False)
    place = target.up(resources, HERE)
    files = [Path(file) for file in place.facts["backing_files"].values()]
    assert len(files) == 2
    for file in files:
        assert file.stat().st_size == 128 * MIB
        on_disk = file.stat().st_blocks * 512
        assert (on_disk >= 128 * MIB) == (allocate != "sparse")
    target.down(place)


@needs.loop
@needs_backend("btrfs")
@pytest.mark.long
@pytest.mark.parametrize("step", ["losetup", "mkfs.btrfs", "mount"])
def test_a_failure_at_any_step_leaves_nothing(
    step: str, scratch: Path, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Striping.run

    def run_until(self: Striping, argv: list[str]) -> Completed:
        completed = run(self, argv)
        if argv[0] == step:
            raise RunFailed("planted")
        return completed

    with pytest.raises(RunFailed, match="mount failed"):
        stripe(scratch, backend="btrfs", mount_options=["nonesuch=1"]).up(resources, HERE)
    monkeypatch.setattr(Striping, "run", run_until)
    with pytest.raises(RunFailed, match="planted"):
        stripe(scratch, backend="btrfs").up(resources, HERE)
    assert list(scratch.iterdir()) == []
    assert str(scratch) not in Path("/proc/mounts").read_text()
    assert resources.close() == []


@pytest.fixture
def devices(scratch: Path) -> Iterator[list[str]]:
    """Two blank block devices that somebody gives us (loop devices of the test's own)."""
    made = []
    for name in ("first", "second"):
        image = scratch / name
        with image.open("wb") as file:
            file.truncate(160 * MIB)
        argv = ["losetup", "--find", "--show", str(image)]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True)
        made.append(printed.stdout.strip())
    yield made
    for device in made:
        subprocess.run(["losetup", "--detach", device], check=True)


def signatures(device: str) -> str:
    argv = ["wipefs", "--no-act", "--noheadings", device]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@needs.loop
@needs_backend("btrfs")
@pytest.mark.system
def test_given_devices_are_blank_again_afterwards(
    devices: list[str], scratch: Path, resources: Resources
) -> None:
    target = stripe(scratch, devices=devices, backend="btrfs")
    assert target.free_bytes() == 320 * MIB
    place = target.up(resources, HERE)
    assert sorted(place.devices) == sorted(Path(device).name for device in devices)
    assert "btrfs" in signatures(devices[0])
    in_use = target.check()
    assert "cannot be used" in in_use.reason
    target.down(place)
    assert [signatures(device) for device in devices] == ["", ""]
    assert target.check().ok


@needs.loop
@needs_backend("btrfs")
@needs.program("mkfs.ext4")
@pytest.mark.long
def test_a_device_that_carries_something_is_refused(
    devices: list[str], scratch: Path, resources: Resources
) -> None:
    subprocess.run(["mkfs.ext4", "-q", "-F", devices[1]], check=True)
    before = signatures(devices[1])
    with pytest.raises(RunFailed, match="carries ext4") as refused:
        stripe(scratch, devices=devices, backend="btrfs").up(resources, HERE)
    assert "wipe = true" in refused.value.fix
    assert signatures(devices[1]) == before, "nothing was written"
    assert signatures(devices[0]) == ""
    target = stripe(scratch, devices=devices, backend="btrfs", wipe=True)
    target.down(target.up(resources, HERE))
    assert [signatures(device) for device in devices] == ["", ""]


@needs.loop
@needs_backend("btrfs")
@needs.program("mkfs.ext4")
@pytest.mark.long
def test_somebody_elses_signature_is_never_wiped(
    devices: list[str], scratch: Path, resources: Resources
) -> None:
    """The journal names the device, but what is on it now has another UUID."""
    resources.signature(devices[0], ["0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"])
    subprocess.run(["mkfs.ext4", "-q", "-F", devices[0]], check=True)
    before = signatures(devices[0])
    assert resources.close() == []
    assert signatures(devices[0]) == before


@needs.root
@pytest.mark.parametrize(
    ("given", "said"),
    [(["/dev/null"], "no block device"), (["/nonexistent"], "no block device")],
)
@pytest.mark.system
def test_what_is_no_device_is_refused(given: list[str], said: str, scratch: Path) -> None:
    if not StripeTarget.available().ok:
        pytest.skip(StripeTarget.available().reason)
    assert said in stripe(scratch, devices=given).check().reason


@needs.loop
@needs_backend("btrfs")
@pytest.mark.system
def test_a_device_named_twice_is_refused(devices: list[str], scratch: Path) -> None:
    assert "named twice" in stripe(scratch, devices=[devices[0], devices[0]]).check().reason


def test_a_geometry_that_is_not_in_effect_fails(resources: Resources) -> None:
    options = block_layers.FilesystemOptions(stride_blocks=16)
    striping = Striping(StripePlan("md", "ext4", 64 << 10, options), resources, LocalHost())
    striping.facts["geometry"] = {"block_size_bytes": 4096, "stride_blocks": 8}
    with pytest.raises(RunFailed, match="16 was asked for, in effect is 8"):
        striping._compare_geometry()


@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
@pytest.mark.parametrize(
    "backend",
    [pytest.param(b, marks=needs_backend(b)) for b in ("md", "dm")],  # type: ignore[arg-type]
)
@pytest.mark.long
def test_md_and_dm_carry_a_file_system(
    backend: str, filesystem: str, scratch: Path, resources: Resources
) -> None:
    """Where the kernel has them: made, read back, written to, taken apart."""
    target = stripe(
        scratch, backend=backend, filesystem=filesystem, chunk="16k", size="400M",
        stride=4, stripe_width=8,
    )  # fmt: skip
    usable = target.check()
    if not usable.ok:
        pytest.skip(usable.reason)
    place = target.up(resources, HERE)
    assert place.filesystem == filesystem
    assert place.facts["chunk_bytes"] == 16 << 10
    assert place.facts["geometry"]["stride_blocks"] == 4
    assert place.facts["geometry"]["stripe_width_blocks"] == 8
    (place.path / "file").write_bytes(bytes(MIB))
    target.down(place)
    assert list(scratch.iterdir()) == []
