"""What every registered target has to do, whatever it is.

A new kind adds itself to the registry and one line to `EXAMPLES`; it then has to pass.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from nfslab.errors import UsageError
from nfslab.machine.mounts import mount_of
from nfslab.machine.resources import Resources
from nfslab.machine.users import as_user, primary_group, unprivileged_user
from nfslab.results.records import PlaceRecord
from nfslab.targets.base import Target
from nfslab.targets.registry import TARGETS, target_class
from pydantic import ValidationError

from tests.hosts.here import HERE
from tests.machine import needs

EXAMPLES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "local": lambda scratch: {"path": str(scratch)},
    "nfs": lambda scratch: {"directory": str(scratch)},
    "path": lambda scratch: {"path": "/dev/shm"},
    "stripe": lambda scratch: {"directory": str(scratch), "size": "128M", "count": 2},
}


def loops_in(folder: Path) -> list[str]:
    found = []
    for name in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # detached meanwhile
            found.append(f"{name}: {name.read_text('utf-8').strip()}")
    return [line for line in found if f"{folder}/" in line]


def traces(scratch: Path) -> list[str]:
    """What a target may leave: folders, mounts, loop devices."""
    table = Path("/proc/mounts").read_text().splitlines()
    found = [line for line in table if str(scratch) in line]
    found += [str(path) for path in scratch.iterdir()]
    found += [str(path) for path in Path("/dev/shm").glob("nfslab-*-contract*")]
    return found + loops_in(scratch)


@pytest.fixture(params=sorted(TARGETS))
def target(request: pytest.FixtureRequest, scratch: Path) -> Target:
    """One of every kind; skipped with the kind's own reason where it cannot be."""
    kind: str = request.param
    chosen = target_class(kind)
    usable = chosen.available()
    if not usable.ok:
        pytest.skip(f"{kind}: {usable.reason}")
    made = chosen("contract", chosen.Parameters(**EXAMPLES[kind](scratch)))
    usable = made.check()
    if not usable.ok:
        pytest.skip(f"{kind}: {usable.reason}")
    return made


def test_every_kind_has_an_example() -> None:
    assert set(EXAMPLES) == set(TARGETS)


@pytest.mark.system
def test_up_yields_an_empty_folder_of_its_own_and_down_removes_it(
    target: Target, resources: Resources, scratch: Path
) -> None:
    assert traces(scratch) == []
    before = target.free_bytes()
    place = target.up(resources, HERE)
    assert place.path.is_dir()
    assert list(place.path.iterdir()) == []
    assert (place.target, place.kind) == ("contract", target.kind)
    # The place says what the kernel says.
    mount = mount_of(place.path)
    assert place.mount_point == mount.mount_point
    assert place.filesystem == mount.filesystem
    assert place.mount_options == mount.options
    for device in place.devices:
        assert Path("/sys/block", device).is_dir()
    assert place.durability.reasons
    record = place.record()
    assert PlaceRecord.model_validate_json(record.model_dump_json()) == record
    json.dumps(record.model_dump(), allow_nan=False)
    # Free space is known or not known, but never wrong.
    real = os.statvfs(place.path)
    assert before is None or before > 0
    if before is not None:
        # A file system made for the run takes a part of it for itself.
        assert real.f_bavail * real.f_frsize > before // 2
    (place.path / "deep" / "er").mkdir(parents=True)
    (place.path / "deep" / "file").write_bytes(b"x" * 100_000)
    target.down(place)
    assert traces(scratch) == []
    half = target.up(resources, HERE)
    half.path.rmdir()
    target.down(half)
    assert traces(scratch) == [], "down works on what is half gone"
    assert resources.close() == [], "down leaves nothing for the journal"


@needs.setpriv
@pytest.mark.system
def test_the_owner_can_write_and_others_cannot(target: Target, resources: Resources) -> None:
    user = unprivileged_user()
    if user is None:
        pytest.skip("needs root to hand a folder to somebody else")
    place = target.up(resources, HERE, owner=user)
    facts = place.path.stat()
    assert (facts.st_uid, facts.st_gid) == (user, primary_group(user))
    assert stat.S_IMODE(facts.st_mode) == 0o700
    touch = [*as_user(user), "touch", str(place.path / "file")]
    subprocess.run(touch, check=True)
    stranger = [*as_user(user + 77), "ls", str(place.path)]
    assert subprocess.run(stranger, check=False, capture_output=True).returncode != 0
    target.down(place)


@pytest.mark.system
def test_two_at_once_do_not_meet_and_a_run_that_ends_leaves_nothing(
    target: Target, resources: Resources, scratch: Path
) -> None:
    """Two runs of one experiment, or one target in two roles."""
    first = target.up(resources, HERE)
    with Resources("another run") as others:
        second = target.up(others, HERE)
        assert first.path != second.path
        target.down(second)
    assert first.path.is_dir()
    (first.path / "file").write_text("x")
    told = resources.close()
    assert told
    assert not any("could not" in line for line in told)
    assert traces(scratch) == []
    target.down(first)
    target.down(first)


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_unknown_parameters_are_errors(kind: str, scratch: Path) -> None:
    parameters = target_class(kind).Parameters
    with pytest.raises(ValidationError, match="nonesuch"):
        parameters(**EXAMPLES[kind](scratch), nonesuch=1)


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_every_kind_says_what_it_is(kind: str) -> None:
    chosen = target_class(kind)
    assert chosen.kind == kind
    assert chosen.summary
    usable = chosen.available()
    assert usable.ok or (usable.reason and usable.fix)


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UsageError) as unknown:
        target_class("strip")
    assert "'stripe'" in unknown.value.fix
