"""A server that is there already: nothing is started, and only its owner knows what it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.servers.external import ExternalServer
from nfslab.servers.registry import server_kind


@pytest.mark.parametrize("export", ["filer:/export", "[fd00::1]:/export"])
def test_an_export_is_a_server_that_is_there(export: str) -> None:
    assert server_kind(export) == "external"
    server = ExternalServer(ExternalServer.Parameters(), export)
    assert (server.source, server.options, server.model) == (export, [], None)
    assert server.free_bytes(Path("/")) is None
    server.stop()


@pytest.mark.parametrize("stated", ["stable", "volatile", None])
def test_its_durability_is_what_the_file_states(stated: str | None) -> None:
    parameters = ExternalServer.Parameters.model_validate({"server_durability": stated})
    assert ExternalServer(parameters, "filer:/export").stated_durability == stated
