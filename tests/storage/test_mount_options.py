"""What was asked for against what is in effect, and what is known of an NFS mount."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.machine import mounts
from nfslab.machine.mounts import Mount, mount_of
from nfslab.storage import mountstats
from nfslab.storage.mount_options import differences, nfs_facts

# Layout of fs/nfs/super.c (nfs_show_stats) and net/sunrpc/xprtsock.c (print_stats), as a
# client with nconnect=2 shows it; a second mount follows whose values must not be mixed in.
MOUNTSTATS = r"""device rootfs mounted on / with fstype rootfs
device nas:/srv/pg mounted on /mnt/pg\040data with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2,rsize=262144,wsize=262144,hard,proto=tcp,nconnect=2,timeo=600,retrans=2
	age:	3379
	impl_id:	name='',domain='',date='0,0'
	caps:	caps=0x7ffbffbf,wtmult=512,dtsize=262144,bsize=0,namlen=255
	nfsv4:	bm0=0xfdffbfff,bm1=0x40f9be3e,acl=0x3,sessions,pnfs=not configured,lease_time=90
	sec:	flavor=1,pseudoflavor=1
	events:	39 11 0 1 0 2 25 524289 0 0 0 34 0 2 5 3 0 5 0 2 1 0 0 0 0 499616 173895
	bytes:	0 2147487744 2172592128 717307904 2172592128 2864795648 0 524289
	RPC iostats version: 1.1  p/v: 100003/4 (nfs)
	xprt:	tcp 0 0 6 0 29 169588 169584 0 4885578 0 31 7116 4400333
	xprt:	tcp 0 0 6 0 29 169588 169584 0 4885578 0 31 7116 4400333
	per-op statistics

device nas:/srv/other mounted on /mnt/other with fstype nfs statvers=1.1
	opts:	rw,vers=3
	age:	1
	RPC iostats version: 1.1  p/v: 100003/3 (nfs)
	xprt:	udp 844 1 169588 169584 0 4885578 0 31 7116 4400333
	per-op statistics
	NULL: 1 1 0 44 24 0 0 0 0
"""


def nfs(options: str, point: str = "/mnt/pg data") -> Mount:
    return Mount(1, 0, 0, 40, "/", Path(point), "nfs4", "nas:/srv/pg", options)


def test_mountstats_of_one_mount_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountstats").write_text(MOUNTSTATS)
    monkeypatch.setattr(mountstats, "MOUNTSTATS", str(tmp_path / "mountstats"))
    facts = nfs_facts(nfs("rw"))
    assert facts["age_s"] == 3379
    assert facts["transports"] == 2
    assert facts["transport_protocols"] == ["tcp"]
    assert facts["sec"] == "flavor=1,pseudoflavor=1"
    assert facts["options_reported"].startswith("rw,vers=4.2,rsize=262144")
    assert nfs_facts(nfs("rw", "/mnt/other"))["transport_protocols"] == ["udp"]
    assert nfs_facts(nfs("rw", "/nowhere")) == {"options": {"rw": ""}}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, None),  # Linux before 6.12, or without CONFIG_NFS_LOCALIO
        ({"module/nfs/parameters/localio_enabled": "N\n"}, "not in use"),
        ({"module/nfs/parameters/localio_enabled": "Y\n"}, "not told"),
        ({"module/nfs/parameters/localio_enabled": "Y\n", "fs/nfs/0:40/localio": "1\n"}, "in use"),
        ({"module/nfs/parameters/localio_enabled": "Y\n", "fs/nfs/0:40/localio": "0\n",
          "fs/nfs/0:41/localio": "1\n"}, "not in use"),
    ],
)  # fmt: skip
def test_a_mount_past_rpc_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], told: str | None
) -> None:
    """As fs/nfs/localio.c and fs/nfs/sysfs.c show it: recorded files, since no kernel here can."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mounts, "SYS", tmp_path)
    monkeypatch.setattr(mountstats, "MOUNTSTATS", str(tmp_path / "nothing"))
    assert nfs_facts(nfs("rw")).get("localio") == told


def test_what_cannot_be_read_of_mountstats_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a reading is no reading: the options that the kernel shows elsewhere stay."""
    monkeypatch.setattr(mountstats, "MOUNTSTATS", str(tmp_path / "mountstats"))
    for text in (None, MOUNTSTATS[: MOUNTSTATS.index("per-op")]):
        if text is not None:
            (tmp_path / "mountstats").write_text(text)
        facts = nfs_facts(nfs("rw"))
        assert facts.keys() == {"options", "unread"}


def test_other_file_systems_have_no_nfs_facts() -> None:
    assert nfs_facts(mount_of("/proc")) == {}


IN_EFFECT = "rw,relatime,vers=4.2,rsize=65536,wsize=1048576,hard,proto=tcp,timeo=600"


@pytest.mark.parametrize(
    "asked",
    ["vers=4.2", "nfsvers=4.2", "vers=4", "rsize=64k", "wsize=1M", "hard", "rw", "defaults",
     "nconnect=1", "proto=tcp", "relatime", "barrier=1"],
)  # fmt: skip
def test_what_is_in_effect_is_no_difference(asked: str) -> None:
    assert differences([asked], nfs(IN_EFFECT)) == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("vers=3", "vers=3: in effect is vers=4.2"),
        ("vers=4.1", "vers=4.1: in effect is vers=4.2"),
        ("rsize=1M", "rsize=1M: in effect is rsize=65536"),
        ("soft", "soft: in effect is hard"),
        ("noac", "noac: not in effect"),
        ("nconnect=4", "nconnect=4: in effect is nconnect=1"),
        ("norelatime", "norelatime: in effect is relatime"),
        ("ro", "ro: in effect is rw"),
    ],
)
def test_a_difference_names_both_sides(asked: str, told: str) -> None:
    assert differences([asked], nfs(IN_EFFECT)) == [told]


def test_connections_are_counted_not_believed() -> None:
    """nconnect is silently that of an older mount of the same server."""
    mount = nfs("rw,nconnect=4")
    assert differences(["nconnect=4"], mount, transports=4) == []
    assert differences(["nconnect=4"], mount, transports=1) == [
        "nconnect=4: the mount has 1 connection(s)"
    ]


def test_what_the_kernel_never_shows_is_no_contradiction() -> None:
    ext4 = Mount(1, 0, 8, 1, "/", Path("/d"), "ext4", "/dev/sda1", "rw,noatime,nobarrier")
    assert differences(["commit=5", "noatime"], ext4, absent=False) == []
    assert differences(["commit=5"], ext4) == ["commit=5: not in effect"]
    assert differences(["barrier=0"], ext4) == []
    assert differences(["atime"], ext4, absent=False) == ["atime: in effect is noatime"]
