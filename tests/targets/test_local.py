"""A local folder: what can be wrong with it, and what is said then."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.machine.resources import Resources
from nfslab.machine.users import unprivileged_user
from nfslab.targets.local import LocalParameters, LocalTarget

from tests.hosts.here import HERE
from tests.machine import needs


def local(path: Path | str, **parameters: object) -> LocalTarget:
    return LocalTarget("disk", LocalParameters(path=str(path), **parameters))  # type: ignore[arg-type]


def test_the_home_folder_may_be_written_short(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    assert local("~/data").parent == tmp_path / "data"
    assert local("~/data").check().ok


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: None, "does not exist"),
        (lambda p: p.write_text(""), "is not a folder"),
        (lambda p: p.symlink_to(p.parent / "nowhere"), "does not exist"),
    ],
)
def test_a_path_that_cannot_be(
    make: object, said: str, tmp_path: Path, resources: Resources
) -> None:
    path = tmp_path / "place"
    make(path)  # type: ignore[operator]
    target = local(path)
    found = target.check()
    assert not found.ok
    assert said in found.reason
    assert found.fix
    with pytest.raises(RunFailed, match="'disk'"):
        target.up(resources, HERE)
    assert target.free_bytes() is None or path.is_file()


def test_too_little_space_is_told_with_both_figures(tmp_path: Path, resources: Resources) -> None:
    target = local(tmp_path, minimum_free="1P")
    found = target.check()
    assert "1024 TiB are needed" in found.reason
    with pytest.raises(RunFailed, match="are needed"):
        target.up(resources, HERE)
    assert local(tmp_path, minimum_free="1M").check().ok


@needs.mount
@pytest.mark.system
def test_a_read_only_file_system(scratch: Path, resources: Resources) -> None:
    point = scratch / "point"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", point], check=True)
    try:
        found = local(point).check()
        assert not found.ok
        assert "read-only" in found.reason
        assert "remount,rw" in found.fix
        with pytest.raises(RunFailed, match="read-only"):
            local(point).up(resources, HERE)
    finally:
        subprocess.run(["umount", point], check=True)


@needs.mount
@pytest.mark.system
def test_a_full_file_system(scratch: Path, resources: Resources) -> None:
    """No inode left: mkdir fails though the check saw free space."""
    point = scratch / "point"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "none", point], check=True)
    try:
        with pytest.raises(RunFailed) as failed:
            local(point).up(resources, HERE)
        assert failed.value.why == os.strerror(errno.ENOSPC)
        assert "inodes" in failed.value.fix
        assert resources.close() == []
    finally:
        subprocess.run(["umount", point], check=True)


@needs.root
@needs.setpriv
@pytest.mark.system
def test_a_folder_that_the_server_cannot_reach(scratch: Path, resources: Resources) -> None:
    closed = scratch / "closed"
    inside = closed / "inside"
    inside.mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(RunFailed) as failed:
        local(inside).up(resources, HERE, owner=unprivileged_user())
    assert f"cannot enter {closed}" in failed.value.what
    assert "chmod o+x" in failed.value.fix
    assert list(inside.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_we_may_not_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    assert "not writable" in local(tmp_path).check().reason
    tmp_path.chmod(0o755)


def test_other_files_in_the_folder_are_not_touched(tmp_path: Path, resources: Resources) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "nfslab-other").mkdir()
    target = local(tmp_path)
    target.down(target.up(resources, HERE))
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "state") == [
        "file",
        "nfslab-other",
    ]
