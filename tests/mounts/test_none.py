"""No mount: what the workload is told."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from nfslab.context import Services
from nfslab.machine.resources import Resources
from nfslab.targets.nfs import NfsTarget

from tests.hosts.here import HERE
from tests.targets.nfs_share import export_of


@pytest.mark.system
def test_without_a_mount_the_workload_is_told_of_the_export(
    scratch: Path, resources: Resources
) -> None:
    parameters = NfsTarget.Parameters(
        directory=str(scratch), client="none", store="null", rsize="16k", nconnect=2
    )
    target = NfsTarget("share", parameters)
    place = target.up(resources, HERE)
    server = target.server_of(place)
    assert server is not None
    export = export_of(target, place)
    assert re.fullmatch("127.0.0.1:/[0-9a-f]{32}", export.source)
    assert export.is_calibration
    ports = [f"port={server.port()}", f"mountport={server.port()}"]
    assert export.options == [*ports, "rsize=16384", "nconnect=2"]
    with socket.create_connection(("127.0.0.1", server.port())):
        pass
    assert place.facts["nfs"]["client"] == "none"
    assert place.facts["space_elsewhere"]
    assert place.durability.level == "volatile"
    services = Services()
    target.offer(place, services)
    assert services.rpc_recorders == {}
    target.down(place)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port()))
    assert not place.path.exists()


def test_an_export_elsewhere_needs_nothing_here(scratch: Path, resources: Resources) -> None:
    parameters = NfsTarget.Parameters(directory=str(scratch), client="none", server="filer:/vol/v1")
    target = NfsTarget("filer", parameters)
    place = target.up(resources, HERE)
    export = export_of(target, place)
    assert (export.source, export.options, export.is_calibration) == ("filer:/vol/v1", [], False)
    assert (place.durability.level, target.free_bytes()) == ("unknown", None)
    target.down(place)
