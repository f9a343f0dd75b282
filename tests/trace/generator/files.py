"""Writes frames as pcap (both byte orders, micro- or nanoseconds) or pcapng, and compresses."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from . import link
from .flows import Packet

MICRO, NANO = 0xA1B2C3D4, 0xA1B23C4D


@dataclass(frozen=True)
class Format:
    """How a capture is stored."""

    pcapng: bool = False
    order: str = "<"
    nanoseconds: bool = True
    link_type: int = link.ETHERNET
    vlans: tuple[int, ...] = ()
    #: "", "gz" or "zst".
    compression: str = ""

    @property
    def link_bytes(self) -> int:
        """Bytes of the link layer before the IP packet."""
        widths = {link.ETHERNET: 14 + 4 * len(self.vlans), link.NULL: 4, link.LOOP: 4,
                  link.SLL: 16, link.SLL2: 20}  # fmt: skip
        return widths.get(self.link_type, 0)


def encode(frames: Iterable[Packet], form: Format, snaplen: int = 262_144) -> bytes:
    """A whole capture file, not compressed."""
    big = form.order == ">"
    framed = (
        (packet.time_ns, link.framed(packet.ip, form.link_type, vlans=form.vlans, big=big))
        for packet in frames
    )
    records = ((time_ns, data[:snaplen], len(data)) for time_ns, data in framed)
    return (_pcapng if form.pcapng else _pcap)(records, form, snaplen)


Record = tuple[int, bytes, int]


def _pcap(records: Iterable[Record], form: Format, snaplen: int) -> bytes:
    magic = NANO if form.nanoseconds else MICRO
    unit = 1 if form.nanoseconds else 1000
    out = [struct.pack(form.order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, form.link_type)]
    for time_ns, data, length in records:
        seconds, rest = divmod(time_ns, 10**9)
        out.append(struct.pack(form.order + "IIII", seconds, rest // unit, len(data), length))
        out.append(data)
    return b"".join(out)


def _block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    total = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + total + body + total


def _option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def _pcapng(records: Iterable[Record], form: Format, snaplen: int) -> bytes:
    order, unit = form.order, 1 if form.nanoseconds else 1000
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    comment = _option(order, 1, b"synthetic") + _option(order, 0, b"")
    resolution = _option(order, 9, bytes([9 if form.nanoseconds else 6])) + _option(order, 0, b"")
    interface = struct.pack(order + "HHI", form.link_type, 0, snaplen) + resolution
    # A second interface, of another link type and never used, and a block of an unknown kind.
    unused = struct.pack(order + "HHI", 147, 0, 0)
    out = [
        _block(order, 0x0A0D0D0A, section + comment), _block(order, 1, interface),
        _block(order, 1, unused), _block(order, 0x0BAD, b"whatever"),
    ]  # fmt: skip
    for time_ns, data, length in records:
        high, low = divmod(time_ns // unit, 1 << 32)
        head = struct.pack(order + "IIIII", 0, high, low, len(data), length)
        padded = data + bytes(-len(data) % 4)
        options = _option(order, 2, b"\0\0\0\1") + _option(order, 0, b"")
        out.append(_block(order, 6, head + padded + options))
    return b"".join(out)


def write(path: Path, data: bytes, compression: str = "") -> Path:
    """Writes bytes to `path`, with the compression's suffix added, and says where."""
    if compression:
        path = path.with_name(f"{path.name}.{compression}")
    if compression == "gz":
        # Two members, as `cat a.gz b.gz` makes them.
        half = len(data) // 2
        data = gzip.compress(data[:half], 1) + gzip.compress(data[half:], 1)
    elif compression == "zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        data = sink.getvalue().to_pybytes()
    path.write_bytes(data)
    return path
