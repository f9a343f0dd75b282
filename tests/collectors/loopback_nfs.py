"""A load for captures: NFSv3 GETATTRs over loopback, as small as can be.

    python -m tests.collectors.loopback_nfs ADDRESS TRANSPORT CALLS

exchanges CALLS calls with a server of its own at ADDRESS (any of 127.0.0.0/8, so that a filter
can tell it from everything else), and prints how many.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.trace import scenes
from tests.trace.generator import nfs3, rpc

CALLS = 300
LOOPBACK = "127.0.0.1"


@contextmanager
def exchange(transport: str, address: str = LOOPBACK) -> Iterator[int]:
    """A server of NFSv3 GETATTR on loopback, as small as can be; its port."""
    body = nfs3.getattr_(scenes.v3_tree().children[0].children[0])
    stream = transport == "tcp"
    kind = socket.SOCK_STREAM if stream else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind((address, 0))
        if stream:
            server.listen()

        def reply(data: bytes, at: int) -> bytes:
            (xid,) = struct.unpack_from(">I", data, at)
            return rpc.reply(xid, body.results, rpc.SysAuth(), xid)

        def answer_datagrams() -> None:
            while (received := server.recvfrom(65536))[0] != b"end":
                server.sendto(reply(received[0], 0), received[1])

        def answer_stream() -> None:
            with server.accept()[0] as end, end.makefile("rb") as calls:
                while mark := calls.read(4):
                    data = calls.read(struct.unpack(">I", mark)[0] & 0x7FFFFFFF)
                    end.sendall(rpc.marked(reply(data, 0)))

        thread = threading.Thread(target=answer_stream if stream else answer_datagrams, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        if not stream:
            with socket.socket(socket.AF_INET, kind) as last:
                last.sendto(b"end", server.getsockname())
        thread.join()


def converse(port: int, transport: str, calls: int = CALLS, address: str = LOOPBACK) -> None:
    """The client's side: one call at a time."""
    body = nfs3.getattr_(scenes.v3_tree().children[0].children[0])
    kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as client:
        client.connect((address, port))
        for xid in range(1, calls + 1):
            message = rpc.call(
                xid, body.program, body.version, body.procedure, body.arguments, rpc.SysAuth(), xid
            )
            client.sendall(rpc.marked(message) if transport == "tcp" else message)
            assert client.recv(65536)


def converse_at_once(port: int, calls: int = CALLS) -> None:
    """All calls in one write of TCP: on loopback they are one packet of up to 64 KiB."""
    body = nfs3.getattr_(scenes.v3_tree().children[0].children[0])
    messages = [
        rpc.marked(
            rpc.call(
                xid, body.program, body.version, body.procedure, body.arguments, rpc.SysAuth(), xid
            )
        )
        for xid in range(1, calls + 1)
    ]
    with socket.create_connection((LOOPBACK, port)) as client, client.makefile("rb") as replies:
        client.sendall(b"".join(messages))
        for _ in messages:
            (mark,) = struct.unpack(">I", replies.read(4))
            assert replies.read(mark & 0x7FFFFFFF)


if __name__ == "__main__":
    where, protocol, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with exchange(protocol, where) as its_port:
        converse(its_port, protocol, number, where)
    print(f"calls {number}")
