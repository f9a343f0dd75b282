"""Causes that were planted below a real web server: the first that is named.

That nothing is named where nothing was planted is asserted on figures (`test_web_causes`): real
runs differ by what else the machine does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nfslab.workloads.web.servers.nginx import program as nginx

from tests.findings.explaining import explained
from tests.machine import needs

FILE = """
[experiment]
name = "planted-web"
repetitions = 5
collectors = ["syscalls", "rpc", "nfs_server"]
primary = "requests_per_s"

[collectors.rpc]
calls = true

[targets.disk]
kind = "local"
path = "/var/tmp"

[targets.nfs]
kind = "nfs"
server = "embedded"
directory = "/var/tmp"
{target}
[workload]
kind = "web"
data = "{data}"
server = "{server}"
directories = {directories}
load = "closed"
connections = 4
warm_up = "0s"
duration = "1.5s"

[[axes]]
name = "planted"
parameter = "{parameter}"
values = {values}
labels = ["as it is", "planted"]
"""
USUAL: dict[str, object] = {
    "data": "nfs", "server": "embedded", "directories": 1, "target": "",
    "parameter": "targets.nfs.service_time",
}  # fmt: skip
installed = pytest.mark.skipif(nginx() is None, reason="not installed: nginx")


def told(tmp_path: Path, capsys: pytest.CaptureFixture[str], **values: object) -> dict[str, Any]:
    """The comparison of an experiment's two points."""
    content = FILE.format(**(USUAL | values))
    (compared,) = explained(content, tmp_path, capsys, "--anyway")["comparisons"]
    top = [one["difference_ns"] for one in compared["parts"] if "/" not in one["part"]]
    assert sum(top) == pytest.approx(compared["whole"]["difference_ns"])
    found: dict[str, Any] = compared
    return found


@pytest.mark.long
@needs.fuse
@needs.ebpf
@pytest.mark.parametrize("server", ["embedded", pytest.param("nginx", marks=installed)])
def test_every_call_served_slowly(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each document that is opened is one ACCESS at least, which takes 10 ms."""
    compared = told(tmp_path, capsys, server=server, values='[[], ["10ms"]]')
    first = compared["findings"][0]
    assert first["cause"] == "server_cpu"
    parts = {one["part"]: one for one in compared["parts"]}
    # A request in twenty is a POST, and opens none.
    assert parts["document_open"]["difference_ns"] >= 0.9 * 10e6
    low, high = first["interval_ns"]
    assert low <= first["effect_ns"] <= high
    # nginx has two workers for four connections: a request waits for calls of others, too.
    share = {"embedded": first["effect_ns"], "nginx": high}[server]
    assert share >= 0.5 * compared["whole"]["difference_ns"]


@pytest.mark.long
@needs.fuse
@needs.ebpf
def test_reads_served_slowly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages are dropped before the load: documents are read from the server once."""
    compared = told(tmp_path, capsys, directories=8, values='[[], ["READ=30ms"]]')
    assert compared["findings"][0]["cause"] == "server_disk"
    parts = {one["part"]: one for one in compared["parts"]}
    assert parts["document_read"]["shown"]
    longer = {path: one["difference_ns"] for path, one in parts.items() if "/" not in path}
    assert max(longer, key=lambda path: longer[path]) == "document_read"


@pytest.mark.long
@needs.fuse
@needs.ebpf
def test_attributes_that_are_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each call takes 2 ms: with names and attributes kept, one of a document that is opened."""
    compared = told(
        tmp_path, capsys, target='delay = "2ms"', parameter="targets.nfs.ac",
        values="[true, false]",
    )  # fmt: skip
    assert compared["findings"][0]["cause"] == "attribute_cache"
