"""A network namespace as the client's host: its addresses, its end, and what goes through it."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.hosts import namespace
from nfslab.hosts.namespace import NamespaceHost, networks_in_use
from nfslab.machine.resources import Resources, recover

from tests.machine import needs
from tests.waiting import until

usable = NamespaceHost.available()
needs_namespace = pytest.mark.skipif(not usable.ok, reason=usable.reason)
LIMIT_S = 120


def traces(resources: Resources) -> list[str]:
    """Namespaces and devices that carry the run's token, as ip(8) lists them."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    devices = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)
    lines = listed.stdout.splitlines() + devices.stdout.splitlines()
    return [line for line in lines if resources.token[:13] in line]


@pytest.mark.system
@needs_namespace
def test_its_addresses_are_private_and_were_free(resources: Resources) -> None:
    before = networks_in_use()
    host = NamespaceHost()
    host.up(resources)
    try:
        pair = ipaddress.ip_network(f"{host.link.server}/30", strict=False)
        assert pair.is_private
        assert ipaddress.ip_address(host.link.client) in pair
        assert not any(pair.overlaps(one) for one in before)
        assert len(traces(resources)) == 2
        # A second one beside it does not meet it.
        with Resources("another", state=Path(os.environ["NFSLAB_STATE"])) as others:
            other = NamespaceHost()
            other.up(others)
            assert other.link.server not in map(str, pair)
            other.down()
        shown = host.run(["ip", "-json", "address"], resources=resources, timeout_s=LIMIT_S)
        inside = {
            one["local"] for row in json.loads(shown.stdout) for one in row["addr_info"]
            if one["family"] == "inet"
        }  # fmt: skip
        assert inside == {"127.0.0.1", host.link.client}
    finally:
        host.down()
    assert traces(resources) == []


def test_taken_networks_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ipaddress.IPv4Network("10.213.0.0/29")
    monkeypatch.setattr(namespace, "networks_in_use", lambda: [first])
    assert str(namespace.free_network(30)) == "10.213.0.8/30"
    everything = ipaddress.IPv4Network("0.0.0.0/0")
    monkeypatch.setattr(namespace, "networks_in_use", lambda: [everything])
    with pytest.raises(RunFailed, match="no private network is free"):
        namespace.free_network(30)


CHOOSES = """
from nfslab.hosts.namespace import addresses_lock
with addresses_lock():
    print("its turn")
"""


@needs.root
@pytest.mark.system
def test_runs_choose_one_after_the_other_whatever_their_state_folders(tmp_path: Path) -> None:
    """Else two that look at the same time take the same network."""
    environment = os.environ | {"NFSLAB_STATE": str(tmp_path)}
    with namespace.addresses_lock():
        other = subprocess.Popen(
            [sys.executable, "-c", CHOOSES], stdout=subprocess.PIPE, text=True, env=environment
        )
        # "4: -> FLOCK  ADVISORY  WRITE 1234 ..." (proc(5)): it waits for its turn.
        waits = re.compile(rf"-> FLOCK .* {other.pid} ")
        until(lambda: waits.search(Path("/proc/locks").read_text()))
        of = namespace.ADDRESSES_LOCK.stat()
        assert (of.st_uid, of.st_mode & 0o077) == (0, 0), "nobody else can lock it"
    said, _ = other.communicate(timeout=LIMIT_S)
    assert (said, other.returncode) == ("its turn\n", 0)


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch, resources: Resources) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    answer = NamespaceHost.available()
    assert not answer.ok
    assert "root" in answer.reason
    with pytest.raises(RunFailed, match="root"):
        NamespaceHost().up(resources)


KILLED = """
import os, signal, sys
from pathlib import Path
from nfslab.hosts.namespace import NamespaceHost
from nfslab.machine.resources import Resources
resources = Resources("killed", state=Path(os.environ["NFSLAB_STATE"]))
host = NamespaceHost()
host.up(resources)
host.spawn(["sleep", "1000"], resources=resources)
print(resources.token, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
@needs_namespace
def test_what_a_killed_runner_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    token = killed.stdout.strip()
    assert (namespace.NETWORK_NAMESPACES / f"nfslab-{token}").exists()
    told = "; ".join(recover())
    assert "network namespace" in told
    assert not (namespace.NETWORK_NAMESPACES / f"nfslab-{token}").exists()
    assert not [name for _, name in socket.if_nameindex() if token[:13] in name]
    assert recover() == []
