"""What it costs the embedded server to record every call, as the collector `nfs_server` has it.

    python benches/server_records_cost.py [--calls 40000] [--rounds 11]

GETATTRs over TCP to `nfslab serve --memory --control` in a process of its own: 64 at a time (many
answered from one read, with one write), and one at a time. Each round does the same calls with
recording off and on, in random order. Counted is the CPU of the server's process by its threads
(/proc/PID/task/*/schedstat): of the one that serves, and of all (with recording on, another one
takes the rows and writes them). Shown: medians, and of the rounds' differences to off.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nfslab._core import build_info

OFF, ON = "off", "on"
DEPTHS = (64, 1)
SERVING = "nfs-loop"
NFS, GETATTR, MOUNT, MNT = 100003, 1, 100005, 1


def message(xid: int, program: int, procedure: int, body: bytes) -> bytes:
    """A call with AUTH_SYS of root, with its record mark (RFC 5531)."""
    head = struct.pack(">IIIIII", xid, 0, 2, program, 3, procedure)
    whole = head + struct.pack(">II", 1, 20) + bytes(20) + struct.pack(">II", 0, 0) + body
    return struct.pack(">I", 0x80000000 | len(whole)) + whole


def take(stream: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        found += stream.recv(count - len(found))
    return bytes(found)


class Client:
    """GETATTRs of the export's root, a number at a time."""

    def __init__(self, port: int) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reply = self._ask(message(1, MOUNT, MNT, struct.pack(">I", 7) + b"/export\0"))
        length = int.from_bytes(reply[28:32])
        self.body = reply[28 : 32 + length]
        self.reply_bytes = 4 + len(self._ask(message(2, NFS, GETATTR, self.body)))
        self.xid = 3

    def _ask(self, call: bytes) -> bytes:
        self.stream.sendall(call)
        return take(self.stream, int.from_bytes(take(self.stream, 4)) & 0x7FFFFFFF)

    def calls(self, count: int, depth: int) -> None:
        for _ in range(count // depth):
            batch = [message(self.xid + n, NFS, GETATTR, self.body) for n in range(depth)]
            self.xid += depth
            self.stream.sendall(b"".join(batch))
            take(self.stream, depth * self.reply_bytes)


class Served:
    """A server that obeys, and the CPU of its threads."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "nfslab", "serve", "--memory", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--json", "--control"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.port: int = self.heard("ready")["port"]

    def heard(self, event: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        if line["event"] != event:
            raise SystemExit(f"the server said {line}")
        return line

    def ask(self, command: dict[str, str], event: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()
        return self.heard(event)

    def cpu_ns(self) -> tuple[int, int]:
        """Of the thread that serves, and of all."""
        serving = total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            used = int((task / "schedstat").read_text().split()[0])
            total += used
            if (task / "comm").read_text().strip() == SERVING:
                serving += used
        return serving, total


def round_of(served: Served, client: Client, way: str, calls: int, depth: int) -> tuple[float, ...]:
    """CPU microseconds of a call: of the thread that serves, of the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        before = served.cpu_ns()
        if way == ON:
            served.ask({"do": "record", "file": f"{folder}/calls.parquet"}, "recording")
        client.calls(calls, depth)
        if way == ON:
            ended = served.ask({"do": "end_recording"}, "recorded")
            if abs(ended["rows"] - calls) > depth or ended["lost"]:
                raise SystemExit(f"{ended} of {calls} calls")
        after = served.cpu_ns()
    return tuple((b - a) / 1e3 / calls for a, b in zip(before, after, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=40_000, help="of a round and way")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if asked.small:
        asked.calls, asked.rounds = 640, 3
    order = random.Random(1)
    served = Served()
    try:
        client = Client(served.port)
        # Once each before: pages, code and files are there then.
        for way in (OFF, ON):
            round_of(served, client, way, 640, 64)
        print(f"{asked.calls} GETATTRs, {asked.rounds} rounds, core built "
              f"{build_info()['profile']}\n")  # fmt: skip
        print(
            "| outstanding | recording | serving thread, CPU us/call | whole process | on - off |"
        )
        print("|---:|---|---:|---:|---:|")
        for depth in DEPTHS:
            found: dict[str, list[tuple[float, ...]]] = {OFF: [], ON: []}
            for _ in range(asked.rounds):
                for way in order.sample([OFF, ON], 2):
                    calls = asked.calls // depth * depth
                    found[way].append(round_of(served, client, way, calls, depth))
            show(depth, found)
    finally:
        served.process.terminate()
        served.process.wait()


def show(depth: int, found: dict[str, list[tuple[float, ...]]]) -> None:
    pairs = list(zip(found[ON], found[OFF], strict=True))
    more = [statistics.median(on[k] - off[k] for on, off in pairs) for k in (0, 1)]
    for way, costs in found.items():
        cells = [
            f"{statistics.median(c[k] for c in costs):.2f} "
            f"({min(c[k] for c in costs):.2f}-{max(c[k] for c in costs):.2f})"
            for k in (0, 1)
        ]
        change = f"{more[0]:+.2f} / {more[1]:+.2f}" if way == ON else ""
        print(f"| {depth} | {way} | {cells[0]} | {cells[1]} | {change} |")


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"\n{time.monotonic() - began:.0f} s")
