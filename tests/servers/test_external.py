"""A server that is there already."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from nfslab.machine.resources import Resources

from tests.hosts.here import HERE
from tests.targets.nfs_share import MakeNfs


@pytest.fixture
def export() -> Iterator[str]:
    """A server that is there already: (HOST, port, export)."""
    argv = [sys.executable, "-m", "nfslab", "serve", "--memory", "--port", "0", "--json"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    ready = json.loads(server.stdout.readline())
    yield f"{ready['port']}"
    server.terminate()
    server.communicate()


def test_an_export_that_is_there_gets_a_folder_of_its_own(
    nfs_target: MakeNfs, resources: Resources, export: str
) -> None:
    options = [f"port={export}", f"mountport={export}"]
    target = nfs_target(
        server="127.0.0.1:/export", mount_options=options, server_durability="volatile"
    )
    place = target.up(resources, HERE)
    other = target.up(resources, HERE)
    assert place.path.name != other.path.name
    assert place.durability.level == "volatile"
    assert "stated by the user" in place.durability.reasons[0]
    assert target.free_bytes() is None
    (place.path / "file").write_text("x")
    target.down(other)
    assert (place.path / "file").read_text() == "x"
    target.down(place)
