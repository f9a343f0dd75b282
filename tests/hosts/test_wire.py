"""A wire of netem: read back, as slow as it says, and refused where there is none.

Where this kernel has no netem, tests/mount/test_in_guests.py (--long) runs this.
"""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest
from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.experiment.sections import Client
from nfslab.hosts.namespace import NamespaceHost
from nfslab.machine.resources import Resources
from nfslab.machine.wire import Wire, lay
from pydantic import ValidationError

from tests.waiting import NO_LIMIT_S

DELAYED = Wire(delay_s=0.02, rate_bytes_per_s=1_000_000)
usable = NamespaceHost.available(DELAYED)
needs_netem = pytest.mark.skipif(not usable.ok, reason=usable.reason)
BYTES = 200_000


def test_loopback_has_no_wire() -> None:
    assert not Client().wire
    made = Client(host="namespace", delay="500us", loss=0.5, rate="1M")  # type: ignore[arg-type]
    assert made.wire == Wire(0.0005, 0.5, 1 << 20)
    assert made.wire.arguments()[2:] == ["delay", "500us", "loss", "0.5%", "rate", "8388608bit"]
    with pytest.raises(ValidationError, match="loopback has no wire"):
        Client(delay="1ms")  # type: ignore[arg-type]


def test_what_is_not_in_effect_fails() -> None:
    shown = (
        '[{"kind":"netem","options":{"limit":100000,"delay":{"delay":0.001},"rate":{"rate":5}}}]'
    )

    def run(*argv: str) -> str:
        return shown if "show" in argv else ""

    assert lay(Wire(0.001, 0, 5), "eth0", run)["delay_s"] == 0.001
    with pytest.raises(RunFailed, match="loss_percent is 0"):
        lay(Wire(0.001, 1, 5), "eth0", run)


@pytest.mark.system
@needs_netem
def test_netem_delays_and_slows_each_way(resources: Resources) -> None:
    """Never less than what was asked: a reply after two delays, bytes at no more than the rate."""
    host = NamespaceHost(DELAYED)
    host.up(resources)
    try:
        assert host.facts()["network"]["wire"] == {
            "delay_s": 0.02, "loss_percent": 0.0, "rate_bytes_per_s": 1_000_000,
        }  # fmt: skip
        with socket.create_server((host.link.server, 0)) as listener:
            answering = threading.Thread(target=_answer, args=(listener,))
            answering.start()
            with host.entered():
                there = socket.create_connection(listener.getsockname(), NO_LIMIT_S)
            with closing(there):
                began = clock.monotonic()
                there.sendall(b"?")
                assert there.recv(1) == b"!"
                took_s = clock.monotonic() - began
                assert took_s >= 2 * DELAYED.delay_s
                began = clock.monotonic()
                there.sendall(b"?")
                received = 0
                while received < BYTES:
                    received += len(there.recv(65536))
                assert clock.monotonic() - began >= 0.9 * BYTES / DELAYED.rate_bytes_per_s
            answering.join()
    finally:
        host.down()


def _answer(listener: socket.socket) -> None:
    one, _ = listener.accept()
    with one:
        one.recv(1)
        one.sendall(b"!")
        one.recv(1)
        one.sendall(bytes(BYTES))
