"""The kernel's mount without a kernel that has NFS: options, read-back, errors.

Texts are Linux 6.12's and nfs-utils 2.6.2's, captured. For real: tests/mount/test_kernel_nfs.py.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from nfslab.errors import RunFailed
from nfslab.hosts.base import Completed
from nfslab.machine.mounts import parse_mountinfo
from nfslab.machine.nfs_mounts import parse_clients
from nfslab.machine.resources import Resources
from nfslab.mounts import kernel, kernel_options
from nfslab.mounts.kernel import KernelMount, KernelParameters
from nfslab.storage.mountstats import MountCounts, TransportCounts
from nfslab.targets.nfs import NfsTarget
from pydantic import ValidationError

MOUNTINFO = (
    "81 40 0:36 / /m rw,relatime - nfs 127.0.0.1:/ rw,sync,vers=3,rsize=524288,wsize=524288,"
    "namlen=255,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0,hard,noac,nolock,proto=tcp,port=20049,"
    "timeo=600,retrans=2,sec=sys,mountaddr=127.0.0.1,mountvers=3,mountport=20050,mountproto=tcp,"
    "local_lock=all,addr=127.0.0.1"
)
NOAC = (
    "rw,sync,vers=3,rsize=524288,wsize=524288,namlen=255,acregmin=0,acregmax=0,acdirmin=0,"
    "acdirmax=0,hard,noac,nolock,proto=tcp,port=20049,timeo=600,retrans=2,sec=sys,"
    "mountaddr=127.0.0.1,mountvers=3,mountport=20050,mountproto=tcp,local_lock=all"
)
DEFAULTS = (
    "rw,vers=3,rsize=524288,wsize=524288,namlen=255,acregmin=3,acregmax=60,acdirmin=30,"
    "acdirmax=60,hard,nolock,proto=tcp,port=20049,timeo=600,retrans=2,sec=sys,"
    "mountaddr=127.0.0.1,mountvers=3,mountport=20050,mountproto=tcp,local_lock=all"
)
SERVERS = "NV SERVER   PORT USE HOSTNAME\nv3 7f000001 4e51   1 127.0.0.1\n"
TCP = ["proto=tcp", "mountproto=tcp", "mountvers=3"]
PORTS = ["port=20049", "mountport=20050"]


def counts(options: str, connections: int = 1) -> MountCounts:
    transports = tuple(TransportCounts("tcp", 800 + number) for number in range(connections))
    return MountCounts("127.0.0.1:/", "/m", "nfs", "1.1", 0, options, transports=transports)


def wrong(asked: list[str], options: str, connections: int = 1) -> list[str]:
    [mount] = parse_mountinfo(MOUNTINFO)
    return kernel_options.wrong_in_effect(asked, mount, counts(options, connections))


def made(**parameters: object) -> KernelMount:
    return KernelMount(KernelParameters.model_validate(parameters), "share")


def test_parameters_are_options_of_nfs_5() -> None:
    asked = KernelParameters.model_validate({
        "vers": 4.1, "proto": "tcp", "rsize": "64k", "nconnect": 4, "timeo": 70, "retrans": 3,
        "ac": False, "actimeo": 7, "hard": False, "sync": True, "cto": False, "sec": "sys",
        "lookupcache": "none", "xprtsec": "none", "read_ahead": "1M",
        "tcp_max_slot_table_entries": 64, "mount_options": ["nosharecache"],
    }).options()  # fmt: skip
    assert asked == [
        "vers=4.1", "proto=tcp", "rsize=65536", "nconnect=4", "timeo=70", "retrans=3", "actimeo=7",
        "lookupcache=none", "sec=sys", "xprtsec=none", "noac", "sync", "soft", "nocto",
        "nosharecache",
    ]  # fmt: skip
    assert KernelParameters.model_validate({"vers": 3}).options() == ["vers=3"]
    assert KernelParameters.model_validate({"vers": 4.0}).options() == ["vers=4.0"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"vers": "4"}, {"vers": "2"}, {"nconnect": 17}, {"nconnect": 0}, {"read_ahead": 1000},
        {"call_delay": "COMMIT:2ms"}, {"tcp_slot_table_entries": 1}, {"sec": "krb6"},
        {"vers": "3", "max_session_slots": 4}, {"lookupcache": "some"},
    ],
)  # fmt: skip
def test_what_the_kernel_cannot_is_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        KernelParameters.model_validate(parameters)


def test_they_are_parameters_of_the_target_and_of_no_other_client() -> None:
    nfs = NfsTarget.Parameters.model_validate
    assert nfs({"client": "kernel", "vers": "4.2", "read_ahead": "64k"}).parts("x")
    for given in ({"vers": "4.2"}, {"read_ahead": "64k"}, {"client": "none", "actimeo": 3}):
        with pytest.raises(ValidationError, match='settings of client = "kernel" only'):
            nfs(given)
    with pytest.raises(ValidationError, match="call_delay"):
        nfs({"client": "kernel", "call_delay": "COMMIT:2ms"})


@pytest.mark.parametrize(
    ("parameters", "server", "asked"),
    [
        # A server of ours speaks NFSv3 on both ports; UDP is not tried; locks are local.
        ({}, PORTS, [*PORTS, "vers=3", *TCP, "nolock"]),
        ({"vers": "3", "mount_options": ["lock"]}, PORTS,
         [*PORTS, "vers=3", "lock", *TCP]),
        # mount.nfs refuses options of the MOUNT protocol beside NFSv4.
        ({"vers": "4.2"}, PORTS, ["port=20049", "vers=4.2"]),
        ({"vers": "3"}, [], ["vers=3", "nolock"]),
        ({}, [], []),
    ],
)  # fmt: skip
def test_the_servers_ports_go_with_the_version(
    parameters: dict[str, object], server: list[str], asked: list[str]
) -> None:
    assert made(**parameters)._asked(server) == asked


@pytest.mark.parametrize(
    ("asked", "options", "connections", "words"),
    [
        (["vers=3", "noac", "sync", "hard", "proto=tcp", "actimeo=0"], NOAC, 1, []),
        (["vers=3", "ac", "async", "cto", "rsize=524288", "lookupcache=all"], DEFAULTS, 1, []),
        (["ac"], NOAC, 1, ["ac: in effect is noac"]),
        (["async"], NOAC, 1, ["async: in effect is sync"]),
        (["noac"], DEFAULTS, 1, ["noac: not in effect"]),
        (["rsize=1048576"], DEFAULTS, 1, ["rsize=1048576: in effect is rsize=524288"]),
        (["vers=4.2"], DEFAULTS, 1, ["vers=4.2: in effect is vers=3"]),
        (["actimeo=7"], DEFAULTS.replace("acdirmax=60", "acdirmax=7"), 1, [
            "acregmin=7: in effect is acregmin=3", "acregmax=7: in effect is acregmax=60",
            "acdirmin=7: in effect is acdirmin=30",
        ]),
        (["soft"], DEFAULTS, 1, ["soft: in effect is hard"]),
        (["lookupcache=pos"], DEFAULTS, 1, ["lookupcache=pos: in effect is lookupcache=all"]),
        (["lookupcache=positive"], f"{DEFAULTS},lookupcache=pos", 1, []),
        (["nconnect=4"], f"{DEFAULTS},nconnect=4", 4, []),
        (["nconnect=4"], DEFAULTS, 1, ["nconnect=4: the mount has 1 connection(s)"]),
        # Nobody asked for 4: they are another mount's.
        ([], f"{DEFAULTS},nconnect=4", 4, ["nconnect=1: the mount has 4 connection(s)"]),
        (["retry=0", "mountproto=tcp", "bg", "nolock"], DEFAULTS, 1, []),
        (["port=2049"], DEFAULTS.replace("port=20049,", ""), 1, []),
        (["sec=krb5"], DEFAULTS, 1, ["sec=krb5: in effect is sec=sys"]),
        (["xprtsec=tls"], DEFAULTS, 1, ["xprtsec=tls: in effect is xprtsec=none"]),
    ],
)  # fmt: skip
def test_what_is_in_effect_is_compared_with_what_was_asked_for(
    asked: list[str], options: str, connections: int, words: list[str]
) -> None:
    assert wrong(asked, options, connections) == words


def test_ports_are_left_out_of_what_is_compared_between_runs() -> None:
    assert (
        kernel_options.without_ports("rw,port=1,vers=3,mountport=2,sec=sys") == "rw,vers=3,sec=sys"
    )


def test_clients_of_the_kernel() -> None:
    assert parse_clients(SERVERS) == [("127.0.0.1", 20049)]
    six = "v4 20010db8000000000000000000000001  801   1 filer\n"
    assert parse_clients(six) == [("2001:db8::1", 2049)]
    assert parse_clients("NV SERVER   PORT USE HOSTNAME\n") == []


def said(text: str, code: int = 32) -> Completed:
    return Completed(["mount.nfs"], code, "", text, 0.1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("mount.nfs: Connection refused\n", "nothing listens"),
        ("mount.nfs: access denied by server while mounting 127.0.0.1:/none\n", "exportfs"),
        ("mount.nfs: mounting 127.0.0.1:/none failed, reason given by server: "
         "No such file or directory\n", "path"),
    ],
)  # fmt: skip
def test_what_mount_nfs_says_comes_with_what_to_do(text: str, fix: str) -> None:
    error = made()._refusal("127.0.0.1:/none", ["vers=4.2"], said(text))
    assert isinstance(error, RunFailed)
    assert text.strip().partition(": ")[2] in str(error.why)
    assert fix in str(error.fix)


def test_without_root_kernel_or_program_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.os, "geteuid", lambda: 0)
    monkeypatch.setattr(kernel, "kernel_has_filesystem", lambda name: True)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "nfs-common" in KernelMount.available().fix
    monkeypatch.setattr(kernel, "kernel_has_filesystem", lambda name: False)
    assert "no NFS client" in KernelMount.available().reason
    monkeypatch.setattr(kernel.os, "geteuid", lambda: 1000)
    assert "root" in KernelMount.available().reason


def test_somebody_elses_mount_of_the_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    [mount] = parse_mountinfo(MOUNTINFO)
    monkeypatch.setattr(kernel, "mounts_of_server", lambda addresses, port: [mount])
    with pytest.raises(RunFailed) as told:
        made()._refuse_shared({"127.0.0.1"}, 20049, "0123456789abcdef")
    assert "127.0.0.1:/ at /m" in str(told.value.why)
    ours = dataclasses.replace(mount, mount_point=Path("/v/nfslab-0123456789abcdef-x/mount"))
    monkeypatch.setattr(kernel, "mounts_of_server", lambda addresses, port: [ours])
    made()._refuse_shared({"127.0.0.1"}, 20049, "0123456789abcdef")
    # Nothing is seen, but the kernel has a client: another mount namespace's.
    monkeypatch.setattr(kernel, "mounts_of_server", lambda addresses, port: [])
    monkeypatch.setattr(kernel, "has_client", lambda addresses, port: True)
    monkeypatch.setattr(kernel, "CLIENT_GONE_LIMIT_S", 0.0)
    with pytest.raises(RunFailed, match="somebody else"):
        made()._refuse_shared({"127.0.0.1"}, 20049, "0123456789abcdef")


class _Host:
    """Runs no program, and says so."""

    def __init__(self, done: Completed | Exception) -> None:
        self.done, self.argv = done, [""]

    def run(self, argv: list[str], **_: Any) -> Completed:
        self.argv = argv
        if isinstance(self.done, Exception):
            raise self.done
        return self.done


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_a_bound(
    resources: Resources,
) -> None:
    host: Any = _Host(RunFailed("mount.nfs was ended after 60.0 s: its time was over"))
    with pytest.raises(RunFailed) as told:
        made()._mount("10.0.0.1:/x", ["vers=4.2"], Path("/m"), resources, host)
    assert "does not answer" in str(told.value.why)
    assert host.argv == ["mount.nfs", "10.0.0.1:/x", "/m", "-o", "vers=4.2,retry=0"]
