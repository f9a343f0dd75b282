"""What another user of this machine can do to a run's servers, and to `nfslab serve`: nothing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import Server, WebServer
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.servers import embedded_process

from tests.cli.serving import ask, call, null, serving
from tests.machine import needs

pytestmark = [pytest.mark.system, needs.root]

NOBODY = 65534
BOUND = 256 << 20
"""What a server holds for all its clients, bytes (docs/server.md)."""
STRANGER = """
import encodings.idna, json, os, socket, sys  # before it is nobody, who cannot read modules
port, pid, tcp, udp, count = json.loads(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
heard = 0
for _ in range(count):
    for message in tcp:
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as stream:
                stream.sendall(bytes.fromhex(message))
                heard += len(stream.recv(1))
        except ConnectionError:
            pass
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.connect(("127.0.0.1", port))
for message in udp:
    datagrams.send(bytes.fromhex(message))
try:
    os.kill(pid, 15)
except PermissionError:
    print(json.dumps(heard), flush=True)
sys.stdin.read()
"""


def mount_call(path: bytes, procedure: int = 1) -> bytes:
    body = struct.pack(">I", len(path)) + path + bytes(-len(path) % 4)
    return call(7, 100005, 3, procedure, body if procedure == 1 else b"")


def stranger(port: int, pid: int, messages: list[bytes], count: int = 1) -> int:
    """How many bytes another user heard of calls over TCP, while its datagrams are on their way."""
    marked = [(struct.pack(">I", 0x80000000 | len(one)) + one).hex() for one in messages]
    given = json.dumps([port, pid, marked, [one.hex() for one in messages], count])
    argv = [sys.executable, "-S", "-c", STRANGER, given]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def counters(port: int, export: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as stream:
        return ask(stream, mount_call(export.encode()))


def test_a_runs_export_is_its_own_mounts_alone(resources: Resources, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    asked = [str(tmp_path / "export")]
    server = embedded_process.start(asked, tmp_path, resources, host=LocalHost(), link=Link())
    name = server.export.removeprefix("/")
    assert len(bytes.fromhex(name)) * 8 == 128
    for process in ("self", str(server.process.pid)):
        assert name.encode() not in Path(f"/proc/{process}/cmdline").read_bytes()
    assert counters(server.port, server.export)[24:28] == bytes(4), "ours is mounted"
    for procedure in (2, 5):  # DUMP, EXPORT
        with socket.create_connection(("127.0.0.1", server.port)) as stream:
            assert ask(stream, mount_call(b"", procedure))[24:] == bytes(4), "an empty list"
    calls = [call(1, 100003, 3, 0), mount_call(server.export.encode()), mount_call(b"", 5)]
    assert stranger(server.port, server.process.pid, calls, count=200) == 0
    assert null(server.port) == 0, "it serves its own as before"
    counted = server.stop()
    assert counted["calls"] == 4
    assert counted["refused_connections"] == 600
    assert counted["refused_datagrams"] == 3


def test_served_by_root_a_folder_takes_no_orders_of_roots(tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir(mode=0o755)
    (folder / "tool").write_text("#!/bin/sh\n")
    # Ours, though over an ordinary port; but root is nobody there.
    with serving(folder) as served:
        assert stranger(served.port, served.process.pid, [mount_call(b"/export")]) == 0
        assert own_it(served.port) == 1, "NFS3ERR_PERM"
        assert served.end()["counters"]["refused_connections"] == 1
    with serving(folder, "--squash", "none", "--insecure") as served:
        assert stranger(served.port, served.process.pid, [mount_call(b"/export")]) == 1
        assert own_it(served.port) == 0
    of = (folder / "tool").stat()
    assert (of.st_uid, stat.S_IMODE(of.st_mode)) == (NOBODY, 0o755)  # chown(2) takes the bit away


def handle_of(port: int, name: bytes) -> bytes:
    """Of a file in the export, as it stands in a call."""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        root = _handle(ask(stream, mount_call(b"/export")))
        named = struct.pack(">I", len(name)) + name + bytes(-len(name) % 4)
        found = ask(stream, call(2, 100003, 3, 3, root + named))
    assert found[24:28] == bytes(4)
    return _handle(found)


def _handle(reply: bytes) -> bytes:
    length = int.from_bytes(reply[28:32])
    return reply[28 : 32 + length + -length % 4]


def own_it(port: int) -> int:
    """What an attacker did: SETATTR of owner and mode by AUTH_SYS of uid 0; its status."""
    # Mode, owner; no group, size and times; no guard (RFC 1813 section 3.3.2).
    wanted = struct.pack(">IIII", 1, 0o4755, 1, NOBODY) + bytes(20)
    asked = call(3, 100003, 3, 2, handle_of(port, b"tool") + wanted)
    with socket.create_connection(("127.0.0.1", port)) as stream:
        return int.from_bytes(ask(stream, asked)[24:28])


def test_the_web_servers_documents_are_its_users_alone(tmp_path: Path) -> None:
    with WebServer(json.dumps(web(tmp_path))) as server:
        port = int(server.address.rpartition(":")[2])
        request = b"GET /none HTTP/1.1\r\nHost: here\r\n\r\n"
        assert stranger(port, os.getpid(), [request], count=20) == 0
        with socket.create_connection(("127.0.0.1", port)) as stream:
            stream.sendall(request)
            assert stream.recv(12) == b"HTTP/1.1 404"
        assert server.counters()["connections"] == 1


def web(root: Path) -> dict[str, Any]:
    return {"listen": "127.0.0.1:0", "root": str(root), "users": [0]}


def test_a_client_on_another_address_of_this_machine_is_a_user_of_it() -> None:
    options = {"store": "memory", "listen": ["0.0.0.0:0"], "allow": ["0.0.0.0/0"], "udp": True}
    with Server(json.dumps(options)) as server:
        calls = [call(1, 100003, 3, 0)]
        assert stranger(server.port, os.getpid(), calls) == 0
        assert null(server.port) == 0
        assert server.counters()["refused_datagrams"] == 1


@pytest.mark.long
def test_floods_in_a_row_take_no_more_memory_than_one(tmp_path: Path) -> None:
    """Replies that nobody takes, then halves of WRITEs: from other threads, of other sizes.

    The books are exact. The process takes more, by gaps between pieces of other sizes: half of it
    at the most. With a heap for each thread it was 427 MiB.
    """
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    reading = (6, struct.pack(">QI", 0, 1 << 20), b"", 16)
    writing = (7, struct.pack(">QIII", 0, 1 << 20, 2, 1 << 20), bytes((1 << 20) - 5), 1)
    with serving(tmp_path, "--squash", "none") as served:
        file = handle_of(served.port, b"file")
        before = memory(served.process.pid, "VmRSS")
        for procedure, arguments, data, times in (reading, writing) * 3:
            message = call(9, 100003, 3, procedure, file + arguments) + data
            mark = 0x80000000 | len(message) + (5 if data else 0)
            flood(served.port, (struct.pack(">I", mark) + message) * times)
        most = memory(served.process.pid, "VmHWM") - before
        counted = served.end()["counters"]
    assert 128 << 20 < counted["held_bytes_peak"] <= BOUND, "it was a flood"
    assert most < BOUND * 3 // 2


def flood(port: int, bytes_each: bytes) -> None:
    """From 300 connections at once, until nothing more is taken of them for a while."""
    streams = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    left = {stream: memoryview(bytes_each) for stream in streams}
    for stream in streams:
        stream.setblocking(False)
    idle = 0
    while idle < 100:
        idle += 1
        for stream, part in list(left.items()):
            with contextlib.suppress(OSError):
                left[stream] = part[stream.send(part) :]
                idle = 0 if len(left[stream]) < len(part) else idle
            if not left[stream]:
                del left[stream]
        time.sleep(0.01)
    for stream in streams:
        stream.close()


def memory(pid: int, what: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(what))) << 10
