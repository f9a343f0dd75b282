"""IP packets with UDP or TCP in them, and the link layers around."""

from __future__ import annotations

import functools
import ipaddress
import struct
from dataclasses import dataclass

TCP, UDP, FRAGMENT = 6, 17, 44
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
#: Link types of tcpdump.org's list.
ETHERNET, NULL, LOOP, RAW, SLL, SLL2, IPV4, IPV6 = 1, 0, 108, 101, 113, 276, 228, 229


@functools.cache
def packed(host: str) -> bytes:
    return ipaddress.ip_address(host).packed


@dataclass(frozen=True, order=True)
class Endpoint:
    """Address and port."""

    host: str
    port: int

    @property
    def packed(self) -> bytes:
        return packed(self.host)

    @property
    def is_v6(self) -> bool:
        return ":" in self.host

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_v6 else f"{self.host}:{self.port}"


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ipv4(
    source: Endpoint, destination: Endpoint, protocol: int, payload: bytes, ident: int,
    *, offset: int = 0, more: bool = False,
) -> bytes:  # fmt: skip
    flags = (0x2000 if more else 0) | offset // 8
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), ident & 0xFFFF, flags, 64,
        protocol, 0, source.packed, destination.packed,
    )  # fmt: skip
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def ipv6(
    source: Endpoint, destination: Endpoint, protocol: int, payload: bytes, ident: int,
    *, offset: int = 0, more: bool = False, fragmented: bool = False,
) -> bytes:  # fmt: skip
    following = protocol
    if fragmented:
        payload = struct.pack(">BBHI", following, 0, offset | int(more), ident) + payload
        following = FRAGMENT
    head = struct.pack(">IHBB", 0x60000000, len(payload), following, 64)
    return head + source.packed + destination.packed + payload


def ip(source: Endpoint, destination: Endpoint, protocol: int, payload: bytes, ident: int) -> bytes:
    make = ipv6 if source.is_v6 else ipv4
    return make(source, destination, protocol, payload, ident)


def tcp_header(
    source: Endpoint, destination: Endpoint, sequence: int, acknowledgement: int, flags: int,
    window: int = 512, options: bytes = b"",
) -> bytes:  # fmt: skip
    words = 5 + len(options) // 4
    return struct.pack(
        ">HHIIBBHHH", source.port, destination.port, sequence & 0xFFFFFFFF,
        acknowledgement & 0xFFFFFFFF, words << 4, flags, window, 0, 0,
    ) + options  # fmt: skip


def udp(source: Endpoint, destination: Endpoint, payload: bytes) -> bytes:
    return struct.pack(">HHHH", source.port, destination.port, 8 + len(payload), 0) + payload


def framed(
    packet: bytes, link_type: int, *, vlans: tuple[int, ...] = (), big: bool = False
) -> bytes:
    """Puts the link layer before an IP packet. `big`: NULL written by a big-endian machine."""
    is_v6 = packet[0] >> 4 == 6
    ethertype = 0x86DD if is_v6 else 0x0800
    family = 30 if is_v6 else 2
    if link_type == ETHERNET:
        tags = b"".join(
            struct.pack(">HH", 0x88A8 if index < len(vlans) - 1 else 0x8100, vlan)
            for index, vlan in enumerate(vlans)
        )
        front = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + tags + struct.pack(">H", ethertype)
        # A frame has at least 60 bytes: what stands behind a short packet is padding.
        return front + packet + bytes(max(0, 60 - len(front) - len(packet)))
    if link_type == NULL:
        return struct.pack(">I" if big else "<I", family) + packet
    if link_type == LOOP:
        return struct.pack(">I", family) + packet
    if link_type == SLL:
        return struct.pack(">HHH8sH", 0, 1, 6, b"\x02\0\0\0\0\x01\0\0", ethertype) + packet
    if link_type == SLL2:
        address = b"\x02\0\0\0\0\x01\0\0"
        return struct.pack(">HHIHBB8s", ethertype, 0, 3, 1, 0, 6, address) + packet
    if link_type in (RAW, IPV4, IPV6):
        return packet
    raise ValueError(f"no link type {link_type}")
