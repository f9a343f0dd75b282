"""Which export lies behind a device: as the kernel's client lists it, as our mounts know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nfslab.captures import exports
from nfslab.captures.exports import described_exports, mixed_fsid, parse_volumes
from nfslab.machine.mounts import parse_mountinfo

MOUNTS = """
40 27 0:46 / /srv/a rw - nfs4 nas:/a rw,vers=4.2,addr=10.0.0.7
41 27 0:47 / /srv/b rw - nfs4 nas:/b rw,vers=4.2,addr=10.0.0.7
42 27 0:48 / /srv/c rw - nfs [2001:db8::1]:/c rw,vers=3,addr=2001:db8::1,port=700
43 27 0:49 / /mnt/own rw - fuse.nfslab 127.0.0.1:/export rw
44 27 0:50 / /mnt/too rw - fuse.nfslab 127.0.0.1:/export rw
45 27 8:1 / / rw - ext4 /dev/sda1 rw
"""


def described(
    monkeypatch: pytest.MonkeyPatch, volumes: str | None, *points: str, **facts: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Of targets that are named as their mount points."""
    known = {str(mount.mount_point): mount for mount in parse_mountinfo(MOUNTS)}
    monkeypatch.setattr(exports, "mounts", lambda: list(known.values()))
    monkeypatch.setattr(exports, "mount_of", lambda path: known[str(path)])
    monkeypatch.setattr(exports, "_volumes", lambda: parse_volumes(volumes or ""))
    return described_exports({point: Path(point) for point in points}, facts)


VOLUMES = """NV SERVER   PORT DEV          FSID                              FSC
v4 0a000007  801 0:46         fd00000000000001:2                no
v3 20010db8000000000000000000000001  2bc 0:48         deadbeefcafe:0    no
v4 0a000008  801 0:60         fd0000000000000:2                 no
v4 0a000008  801 0:61         fd00000000001:22                  no
nonsense
"""


def test_the_kernel_s_client_says_all_three(monkeypatch: pytest.MonkeyPatch) -> None:
    found = described(monkeypatch, VOLUMES, "/srv/a", "/srv/c", "/")
    assert found == {
        "0:46": {"target": "/srv/a", "address": "10.0.0.7", "port": 0x801,
                 "fsid": 0xFD00000200000001, "sole": False},
        "0:48": {"target": "/srv/c", "address": "2001:db8::1", "port": 700,
                 "fsid": 0xDEADBEEFCAFE, "sole": False},
    }  # fmt: skip


def test_a_number_that_may_be_cut_is_not_believed() -> None:
    # Old kernels have room for 16 characters: fd00000000001:22 may have gone on.
    assert sorted(parse_volumes(VOLUMES)) == ["0:46", "0:48", "0:60"]


def test_without_its_list_a_mount_is_known_by_its_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = described(monkeypatch, None, "/srv/a", "/srv/c")
    # Two mounts of 10.0.0.7, one of the other.
    assert [found[d]["sole"] for d in ("0:46", "0:48")] == [False, True]
    assert found["0:46"]["port"] is None
    assert (found["0:48"]["port"], found["0:48"]["fsid"]) == (700, None)


def test_a_server_of_the_run_has_no_other_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"/mnt/own": {"options": {"port": "4711"}, "served": {"store": "memory"}}}
    found = described(monkeypatch, None, "/mnt/own", "/mnt/too", **facts)
    own, too = found["0:49"], found["0:50"]
    assert (own["address"], own["port"], own["sole"]) == ("127.0.0.1", 4711, True)
    assert (too["port"], too["sole"]) == (None, False)


def test_both_numbers_of_a_file_system_are_mixed_as_in_the_columns() -> None:
    assert mixed_fsid(12, 0) == 12
    assert mixed_fsid(3, 4) == 3 ^ (4 << 32)
    assert mixed_fsid(0, 1 << 32) == 1
