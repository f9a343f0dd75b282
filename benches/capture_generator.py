"""Large captures for benchmarks: a block of some thousand exchanges, repeated with new numbers.

    python benches/capture_generator.py small 1.5G > small.pcap
    python benches/capture_generator.py large 1.1G --out large.pcap
    python benches/capture_generator.py small 16G | nfslab trace -

`small`: NFSv3 on 16 connections, every message in a segment of its own (about 240 bytes on
average): attributes, names, 512-byte reads and writes, commits. `large`: READs and WRITEs of
64 KiB in segments of 1448 bytes, an acknowledgement for every second one.

One block is made by the synthetic generator of the tests. Each repetition gets its own xids,
sequence and acknowledgement numbers, times (latencies scaled by a random factor) and, in turns, one
of 50 sets of file handles. All of that is written by numpy over many blocks at once: about 1 GB/s.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import random
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.trace.generator import body, capture, files, link, nfs3
from tests.trace.generator.flows import Connection, Packet, Span

HANDLE_SETS = 50
LINK_BYTES, RECORD_BYTES = 14, 16
GB = 10**9


def small_bodies(rng: random.Random, root: body.Node, count: int) -> list[body.Body]:
    """The mix of a busy home-directory server, in small messages."""
    folder = root.children[0]
    weights = {"getattr": 34, "lookup": 18, "access": 16, "read": 14, "write": 12, "commit": 4,
               "gone": 2}  # fmt: skip
    made = []
    for kind in rng.choices(list(weights), list(weights.values()), k=count):
        node = rng.choice(folder.children)
        offset = 512 * rng.randrange(2048)
        if kind == "getattr":
            made.append(nfs3.getattr_(node))
        elif kind == "lookup":
            made.append(nfs3.lookup(folder, node))
        elif kind == "access":
            made.append(nfs3.access(node))
        elif kind == "read":
            made.append(nfs3.read(node, offset, 512))
        elif kind == "write":
            made.append(nfs3.write(node, offset, 512))
        elif kind == "commit":
            made.append(nfs3.commit(node, 0, 0))
        else:
            made.append(nfs3.lookup(folder, node, nfs3.NOENT))
    return made


def large_bodies(rng: random.Random, root: body.Node, count: int) -> list[body.Body]:
    """Sequential READs and WRITEs of 64 KiB."""
    nodes = root.children[0].children
    made = []
    for index in range(count):
        node = nodes[index % len(nodes)]
        offset = 65536 * (index // len(nodes))
        make = nfs3.read if rng.random() < 0.6 else nfs3.write
        made.append(make(node, offset, 65536))
    return made


@dataclass
class Block:
    """A stretch of pcap records, and where in it what has to change."""

    data: np.ndarray
    calls: int
    packets: int
    duration_ns: int
    times: np.ndarray
    time_at: np.ndarray
    #: Positions of transaction ids, and how far each advances per block.
    xid_at: np.ndarray
    xid_step: np.ndarray
    #: Positions of sequence and acknowledgement numbers, and how far each advances per block.
    number_at: np.ndarray
    number_step: np.ndarray
    handle_at: np.ndarray
    values: dict[str, np.ndarray] = field(default_factory=dict)


def plan(kind: str, seed: int) -> tuple[capture.Capture, list[Packet], body.Node]:
    """The exchanges of one block, on connections that are open already."""
    made = capture.Capture(seed)
    rng = made.rng
    root = body.tree(rng, 28, "/export", files=200 if kind == "small" else 16)
    clients = 16 if kind == "small" else 4
    flows = []
    for index in range(clients):
        client = link.Endpoint(f"10.0.0.{index + 1}", 800 + index)
        first = (rng.getrandbits(32), rng.getrandbits(32))
        flow = made.tcp(client, capture.SERVER, handshake=False, first_sequence=first)
        flow.ack_every = None if kind == "small" else 2
        flows.append(flow)
    bodies = (small_bodies if kind == "small" else large_bodies)(
        rng, root, 2048 if kind == "small" else 128
    )
    depth = 4 if kind == "small" else 1
    # Each client counts its transaction ids up from a random start, as Linux does.
    xids = [itertools.count(rng.getrandbits(31)) for _ in flows]
    for at in range(0, len(bodies), clients * depth):
        groups = [
            [
                made.exchange(flow, one, xid=next(xids[i]))
                for one in bodies[at + i * depth : at + (i + 1) * depth]
            ]
            for i, flow in enumerate(flows)
        ]
        for replies in (False, True):
            for flow, group in zip(flows, groups, strict=True):
                order = rng.sample(group, len(group)) if replies else group
                for planned in order:
                    made.send(flow, [planned], replies=replies)
    return made, made.frames(), root


def block(kind: str, seed: int = 1) -> Block:
    """Builds the block with all its positions."""
    made, frames, root = plan(kind, seed)
    data = files.encode(frames, files.Format())[24:]
    record_at, at = [], 0
    for packet in frames:
        record_at.append(at)
        at += RECORD_BYTES + max(60, LINK_BYTES + len(packet.ip))
    assert at == len(data)
    numbers, steps = [], []
    for start, packet in zip(record_at, frames, strict=True):
        assert packet.stream is not None
        flow, from_client = packet.stream[:2]
        ip_at = start + RECORD_BYTES + LINK_BYTES
        numbers += [ip_at + 24, ip_at + 28]
        steps += [len(flow.sent[from_client]), len(flow.sent[not from_client])]
    handles = [node.handle for node in [root, *root.children, *root.children[0].children]]
    raw = np.frombuffer(data, np.uint8).copy()
    times = np.array([packet.time_ns for packet in frames], np.int64)
    return Block(
        raw, len(made.exchanges), len(frames), made.now_ns - capture.START_NS + 1000,
        times - capture.START_NS, np.array(record_at), *xid_positions(made, frames, record_at),
        np.array(numbers), np.array(steps, np.uint64), handle_positions(data, handles),
    )  # fmt: skip


def xid_positions(
    made: capture.Capture, frames: list[Packet], record_at: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Where each message's xid stands (behind the record mark at the start of its segment), and
    how many calls its client makes."""
    calls = collections.Counter(planned.client for planned in made.exchanges)
    starts: dict[tuple[Connection, bool, int], int] = {}
    for start, packet in zip(record_at, frames, strict=True):
        assert packet.stream is not None
        if packet.stream[3]:
            payload = start + RECORD_BYTES + LINK_BYTES + packet.payload_at
            starts[packet.stream[:3]] = payload + 4
    found = [
        (starts[(place.flow, place.from_client, place.start)], calls[planned.client])
        for planned in made.exchanges
        for place in (*planned.sends, *planned.replies)
        if isinstance(place, Span)
    ]
    positions, steps = zip(*found, strict=True)
    return np.array(positions), np.array(steps, np.uint64)


def handle_positions(data: bytes, handles: list[bytes]) -> np.ndarray:
    """Last four bytes of each handle, wherever it stands."""
    found = []
    for handle in handles:
        at = data.find(handle)
        while at >= 0:
            found.append(at + len(handle) - 4)
            at = data.find(handle, at + len(handle))
    return np.array(found)


def read_words(data: np.ndarray, positions: np.ndarray, order: str) -> np.ndarray:
    raw = data[positions[:, None] + np.arange(4)].tobytes()
    return np.frombuffer(raw, order + "u4").astype(np.uint64)


def put_words(blocks: np.ndarray, positions: np.ndarray, values: np.ndarray, order: str) -> None:
    """Writes one 32-bit word per block and position."""
    raw = values.astype(order + "u4").view(np.uint8).reshape(*values.shape, 4)
    for byte in range(4):
        blocks[:, positions + byte] = raw[:, :, byte]


def chunks(made: Block, total_bytes: int, seed: int = 1) -> Iterator[bytes]:
    """The capture, piece by piece, of at least `total_bytes` bytes."""
    yield struct.pack("<IHHiIII", files.NANO, 2, 4, 0, 0, 262_144, link.ETHERNET)
    rng = np.random.default_rng(seed)
    together = max(1, (16 << 20) // len(made.data))
    xids = read_words(made.data, made.xid_at, ">")
    numbers = read_words(made.data, made.number_at, ">")
    handles = read_words(made.data, made.handle_at, ">")
    repetitions = -(-total_bytes // len(made.data))
    moment = capture.START_NS
    for first in range(0, repetitions, together):
        number = np.arange(first, min(first + together, repetitions), dtype=np.uint64)
        blocks = np.tile(made.data, (len(number), 1))
        scale = rng.uniform(0.5, 1.5, len(number))
        lengths = (made.duration_ns * scale).astype(np.int64)
        starts = moment + np.concatenate([[0], np.cumsum(lengths)[:-1]])
        times = starts[:, None] + (made.times[None, :] * scale[:, None]).astype(np.int64)
        moment = int(starts[-1] + lengths[-1])
        put_words(blocks, made.time_at, times // 10**9, "<")
        put_words(blocks, made.time_at + 4, times % 10**9, "<")
        column = number[:, None]
        put_words(blocks, made.xid_at, (xids + column * made.xid_step) & 0xFFFFFFFF, ">")
        advance = (numbers + column * made.number_step) & 0xFFFFFFFF
        put_words(blocks, made.number_at, advance, ">")
        put_words(blocks, made.handle_at, handles ^ (column % HANDLE_SETS), ">")
        yield blocks.tobytes()


def size(text: str) -> int:
    """`1.5G` as bytes (decimal multiples)."""
    units = {"K": 10**3, "M": 10**6, "G": GB}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


def write(kind: str, total_bytes: int, out: BinaryIO) -> dict[str, int]:
    """Writes a capture; says how many calls and packets it holds."""
    made = block(kind)
    written = 0
    for chunk in chunks(made, total_bytes):
        out.write(chunk)
        written += len(chunk)
    repetitions = -(-total_bytes // len(made.data))
    return {
        "bytes": written,
        "calls": made.calls * repetitions,
        "packets": made.packets * repetitions,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=("small", "large"))
    parser.add_argument("size", type=size, help="bytes, such as 1.5G")
    parser.add_argument("--out", type=Path, help="file instead of standard output")
    parser.add_argument("--json", action="store_true", help="with --out: say the content as JSON")
    options = parser.parse_args()
    try:
        if options.out is None:
            made = write(options.kind, options.size, sys.stdout.buffer)
        else:
            with options.out.open("wb") as out:
                made = write(options.kind, options.size, out)
    except BrokenPipeError:
        return 1
    if options.json and options.out is not None:
        print(json.dumps(made))
        return 0
    print(", ".join(f"{value:,} {name}" for name, value in made.items()), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
