"""`nfslab serve` as a process of its own, and the smallest client that can ask it something."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Served:
    """A server that is ready."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]
    ended: dict[str, Any] | None = None
    code: int | None = None
    err: str = ""

    @property
    def port(self) -> int:
        port: int = self.ready["port"]
        return port

    def url(self, name: str = "") -> str:
        """As libnfs writes it."""
        return f"nfs://127.0.0.1/export{name}?nfsport={self.port}&mountport={self.port}"

    def end(self, number: int = signal.SIGTERM) -> dict[str, Any]:
        """Its last line."""
        self.process.send_signal(number)
        out, self.err = self.process.communicate()
        self.code = self.process.returncode
        self.ended = json.loads(out)
        return self.ended


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "nfslab", "serve", *map(str, arguments)]


@contextmanager
def serving(*arguments: object, port: int = 0) -> Iterator[Served]:
    """`nfslab serve ARGUMENTS --port 0 --json`, until the end of the block at the latest."""
    asked = command(*arguments, "--port", port, "--json")
    with subprocess.Popen(
        asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise AssertionError(process.communicate()[1])
            served = Served(process, json.loads(line))
            yield served
            if served.ended is None:
                served.end()
        finally:
            process.kill()


@contextmanager
def refusing() -> Iterator[int]:
    """A port at which nobody listens: it is held, so that no other server gets it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def call(xid: int, program: int, version: int, procedure: int, body: bytes = b"") -> bytes:
    """An RPC call with AUTH_SYS of root (RFC 5531 sections 9 and 14)."""
    ids = struct.pack(">IIIII", 0, 0, 0, 0, 0)
    head = struct.pack(">IIIIII", xid, 0, 2, program, version, procedure)
    return head + struct.pack(">II", 1, len(ids)) + ids + struct.pack(">II", 0, 0) + body


def ask(stream: socket.socket, message: bytes) -> bytes:
    """One call over TCP; the whole reply."""
    stream.sendall(struct.pack(">I", 0x80000000 | len(message)) + message)
    with stream.makefile("rb", buffering=0) as file:
        (mark,) = struct.unpack(">I", _exactly(file, 4))
        return _exactly(file, mark & 0x7FFFFFFF)


def _exactly(file: Any, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = file.read(count - len(found))
        assert part, "the server closed the connection"
        found += part
    return found


def null(port: int, xid: int = 1, host: str = "127.0.0.1") -> int:
    """NFSv3's NULL; the status of the reply's acceptance (0 is SUCCESS)."""
    with socket.create_connection((host, port)) as stream:
        reply = ask(stream, call(xid, 100003, 3, 0))
    words = struct.unpack(">IIIIII", reply)
    assert words[0] == xid
    return int(words[5])
