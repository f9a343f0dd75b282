"""One machine pays nothing: nothing is imported, nothing is needed, nothing listens for others, and
what is missing is said."""

from __future__ import annotations

import subprocess
import sys

import pytest
from nfslab.cluster import needed
from nfslab.cluster.settings import ClusterSection, connect
from nfslab.errors import Unavailable

LOADED = """
import sys
import nfslab.cluster.settings, nfslab.cluster.here, nfslab.cluster.base, nfslab.cli.cluster
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.system
def test_the_section_and_the_engine_for_one_machine_import_nothing_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    heavy = {"dask", "distributed", "tornado", "msgpack", "cryptography", "asyncssh"}
    assert set(done.stdout.split()) & heavy == set()


def test_without_its_packages_the_command_that_adds_them_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(needed, "PACKAGES", ("distributed", "no_such_package"))
    assert needed.engine_version() == ""
    with pytest.raises(Unavailable, match="several machines need no_such_package") as raised:
        connect(ClusterSection(hosts=["one"]))
    assert "nfslab cluster" in raised.value.fix
