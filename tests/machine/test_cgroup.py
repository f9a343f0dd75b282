"""Memory limits: the real kernel's where it lets us, made-up hierarchies elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from nfslab.errors import RunFailed, Unavailable
from nfslab.hosts.local import LocalHost
from nfslab.machine import cgroup as cgroups
from nfslab.machine.availability import Availability
from nfslab.machine.cgroup import Cgroup, memory_cgroup
from nfslab.machine.mounts import parse_mountinfo
from nfslab.machine.resources import Resources

from tests.machine import needs

LIMIT_BYTES = 48 << 20
FORCED_BYTES = 1 << 20
"""What the kernel may charge above the limit: "under certain circumstances, the usage may go
over the limit temporarily" (memory.max in cgroup-v2.rst). A page was seen."""
TOUCH = "import sys; held = bytearray(int(sys.argv[1])); print(len(held))"


@needs.memory_limit
@pytest.mark.system
def test_who_takes_more_than_the_limit_is_killed_and_it_is_seen(resources: Resources) -> None:
    group = memory_cgroup(LIMIT_BYTES + 1000, resources)
    assert group.limit_bytes == LIMIT_BYTES, "whole pages, read back"
    argv = [sys.executable, "-S", "-c", TOUCH]
    host = LocalHost()
    inside = host.limited(group)
    small = inside.run([*argv, str(LIMIT_BYTES // 4)], resources=resources, timeout_s=600)
    assert int(small.stdout) == LIMIT_BYTES // 4
    assert group.events()["oom_kill"] == 0
    peak = group.peak_bytes()
    assert peak is None or LIMIT_BYTES // 4 <= peak <= LIMIT_BYTES + FORCED_BYTES
    with pytest.raises(RunFailed, match="SIGKILL"):
        inside.run([*argv, str(LIMIT_BYTES * 2)], resources=resources, timeout_s=600)
    assert group.events()["oom_kill"] >= 1
    free = host.run([*argv, str(LIMIT_BYTES * 2)], resources=resources, timeout_s=600)
    assert int(free.stdout) == LIMIT_BYTES * 2, "outside of the group there is no limit"
    group.remove()
    assert not group.path.exists()
    group.remove()
    other = memory_cgroup(LIMIT_BYTES, resources)
    process = host.limited(other).spawn(["sleep", "1000"], resources=resources)
    told = resources.close()
    assert process.poll() is not None, "closing the run ends what is inside"
    assert not other.path.exists()
    assert len(told) == 2


@needs.memory_limit
def test_less_than_a_page_is_refused(resources: Resources) -> None:
    with pytest.raises(RunFailed, match="page"):
        memory_cgroup(100, resources)


class Hierarchy:
    """A made-up control group file system, as `_find_parent` sees it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.patch = monkeypatch

    def mounted(self, filesystem: str, options: str, memberships: dict[str, str]) -> None:
        line = f"30 1 0:28 / {self.root} rw - {filesystem} cgroup {options}"
        self.patch.setattr(cgroups, "mounts", lambda: parse_mountinfo(line))
        self.patch.setattr(cgroups, "_memberships", lambda: memberships)

    def group(self, path: str, **files: str) -> Path:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {"procs": "", **files}.items():
            (folder / f"cgroup.{name}").write_text(text)
        return folder


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hierarchy:
    return Hierarchy(tmp_path / "cg", monkeypatch)


def test_version_2_goes_beside_us_where_the_controller_is_handed_on(hierarchy: Hierarchy) -> None:
    hierarchy.group("", controllers="cpu memory", subtree_control="cpu memory")
    slice_ = hierarchy.group("user.slice", subtree_control="cpu memory")
    hierarchy.group("user.slice/session.scope", subtree_control="")
    hierarchy.mounted("cgroup2", "rw", {"": "/user.slice/session.scope"})
    found = cgroups._find_parent()
    assert found == cgroups._Parent(slice_, 2)


def test_version_2_without_delegation_says_what_to_do(hierarchy: Hierarchy) -> None:
    hierarchy.group("", controllers="cpu memory", subtree_control="cpu")
    hierarchy.mounted("cgroup2", "rw", {"": "/"})
    found = cgroups._find_parent()
    assert isinstance(found, Availability)
    assert not found.ok
    assert "subtree_control" in found.reason
    assert found.fix


def test_version_2_without_the_memory_controller(hierarchy: Hierarchy) -> None:
    hierarchy.group("", controllers="cpu io", subtree_control="cpu")
    hierarchy.mounted("cgroup2", "rw", {"": "/"})
    found = cgroups._find_parent()
    assert isinstance(found, Availability)
    assert "no memory controller" in found.reason


def test_version_1_goes_below_us_inside_a_container_too(hierarchy: Hierarchy) -> None:
    """A container may see only its own part: the mount's root is then our own group."""
    own = hierarchy.group("jobs/7")
    hierarchy.mounted("cgroup", "rw,memory", {"memory": "/jobs/7"})
    assert cgroups._find_parent() == cgroups._Parent(own, 1)
    line = f"30 1 0:28 /jobs/7 {own} rw - cgroup cgroup rw,memory"
    hierarchy.patch.setattr(cgroups, "mounts", lambda: parse_mountinfo(line))
    assert cgroups._find_parent() == cgroups._Parent(own, 1)


def test_nothing_mounted_is_said(monkeypatch: pytest.MonkeyPatch, resources: Resources) -> None:
    monkeypatch.setattr(cgroups, "mounts", list)
    with pytest.raises(Unavailable) as refused:
        memory_cgroup(LIMIT_BYTES, resources)
    assert "no memory control group" in refused.value.why


def test_a_tighter_limit_above_is_an_error(hierarchy: Hierarchy, resources: Resources) -> None:
    """The figures would belong to the limit of the group above."""
    top = hierarchy.group("", controllers="memory", subtree_control="memory")
    (top / "memory.max").write_text(f"{LIMIT_BYTES // 2}\n")
    made = top / "ours"
    made.mkdir()
    (made / "memory.max").write_text(f"{LIMIT_BYTES}\n")
    with pytest.raises(Unavailable, match="would not be the one in effect"):
        cgroups._read_back(made, 2, LIMIT_BYTES)
    (top / "memory.max").write_text("max\n")
    assert cgroups._read_back(made, 2, LIMIT_BYTES) == LIMIT_BYTES
    with pytest.raises(RunFailed, match="not the"):
        cgroups._read_back(made, 2, 2 * LIMIT_BYTES)


def test_counters_of_version_2_as_the_kernel_writes_them(
    tmp_path: Path, resources: Resources
) -> None:
    text = "low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n"
    (tmp_path / "memory.events").write_text(text)
    (tmp_path / "memory.peak").write_text("4096\n")
    entry = resources.process(None, ["x"])
    group = Cgroup(tmp_path, 2, 1, entry)
    assert group.events()["max"] == 17
    assert group.events()["oom_kill"] == 1
    assert group.peak_bytes() == 4096
    (tmp_path / "memory.peak").unlink()
    assert group.peak_bytes() is None
    entry.release()
