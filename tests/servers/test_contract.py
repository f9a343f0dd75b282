"""What every registered NFS server has to do, whatever it is."""

from __future__ import annotations

import inspect
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.servers.base import Server, ServerParameters
from nfslab.servers.registry import SERVERS, server_class, server_kind

from tests.cli.serving import null
from tests.machine import needs

every_server = pytest.mark.parametrize("kind", sorted(SERVERS))


def make(kind: str, **parameters: Any) -> Server:
    cls = server_class(kind)
    if not cls.available().ok:
        pytest.skip(f"{kind}: {cls.available().reason}")
    return cls(cls.Parameters(**parameters), "filer:/export" if kind == "external" else kind)


@every_server
def test_the_class_says_what_it_is(kind: str) -> None:
    cls = server_class(kind)
    assert not inspect.isabstract(cls)
    assert cls.kind == kind
    assert cls.summary
    assert "\n" not in cls.summary
    assert issubclass(cls.Parameters, ServerParameters)
    # An experiment that names a server and nothing else is whole.
    assert cls.Parameters().model_dump(mode="json") == json.loads(
        cls.Parameters().model_dump_json()
    )
    assert server_kind(kind) == kind


@every_server
@pytest.mark.system
def test_it_answers_on_its_side_of_the_link_only_and_is_gone_afterwards(
    kind: str, resources: Resources, scratch: Path
) -> None:
    server = make(kind)
    server.stop()  # never started: harmless
    # Another address of this machine than the usual one: all of 127/8 is.
    link = Link("127.0.0.77", "127.0.0.78") if server.is_ours else Link()
    server.start(scratch, resources, host=LocalHost(), link=link)
    if not server.is_ours:
        assert (server.source, server.options, server.model) == ("filer:/export", [], None)
        assert server.free_bytes(scratch) is None
        server.stop()
        return
    assert server.source.partition(":")[0] == "127.0.0.77"
    port = server.port()
    assert null(port, 5, "127.0.0.77") == 0, "an NFS NULL call (RFC 1813, 3.3.0) is accepted"
    if kind != "ganesha" or needs.ipv6_address():  # else it listens on all (test_ganesha.py)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.79", port))
    folder = server.data_folder(scratch)
    assert folder is None or folder.is_dir()
    assert server.free_bytes(scratch)
    json.dumps(server.model)
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.77", port))
    server.stop()  # twice: harmless
    assert resources.close() == [], "nothing is left for the journal"
