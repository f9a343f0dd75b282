"""NFS-Ganesha for one run: what it stores, and that it goes."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources

from tests.cli.serving import ask, call
from tests.hosts.here import HERE
from tests.servers.test_contract import make
from tests.targets.nfs_share import MakeNfs


@pytest.mark.system
def test_ganesha_is_started_and_ended_for_a_run(
    nfs_target: MakeNfs, resources: Resources, scratch: Path
) -> None:
    target = nfs_target(server="ganesha", threads=4, wsize="32k", server_durability="stable")
    usable = target.check()
    if not usable.ok:
        pytest.skip(usable.reason)
    place = target.up(resources, HERE)
    nfs = place.facts["nfs"]
    assert (nfs["server"], nfs["served"]["threads"]) == ("ganesha", 4)
    assert place.durability.level == "stable"
    (place.path / "file").write_bytes(bytes(range(256)) * 1000)
    (stored,) = scratch.glob("*/export/data/file")
    assert stored.read_bytes() == bytes(range(256)) * 1000
    (base,) = scratch.iterdir()
    configuration = (base / "ganesha.conf").read_text()
    assert "RPC_Ioq_ThrdMax = 4;" in configuration
    target.down(place)
    assert list(scratch.iterdir()) == []


@pytest.mark.system
def test_a_client_on_another_address_may_not_mount(resources: Resources, scratch: Path) -> None:
    server = make("ganesha")
    server.start(scratch, resources, host=LocalHost(), link=Link("127.0.0.77", "127.0.0.78"))
    (port,) = (int(one.removeprefix("mountport=")) for one in server.options if "mountport" in one)
    assert mount_status(port, "127.0.0.78") == 0
    assert mount_status(port, "127.0.0.79") == 13, "MNT3ERR_ACCES (RFC 1813, appendix I)"
    server.stop()


def mount_status(port: int, source: str) -> int:
    """MNT's answer to one who comes from there, from a port of root's."""
    path = b"/export"
    message = call(1, 100005, 3, 1, struct.pack(">I", len(path)) + path + bytes(-len(path) % 4))
    for own in range(1023, 600, -1):
        try:
            stream = socket.create_connection(("127.0.0.77", port), source_address=(source, own))
        except OSError:  # somebody has it
            continue
        with stream:
            return int.from_bytes(ask(stream, message)[24:28])
    raise AssertionError("no port below 1024 is free")
