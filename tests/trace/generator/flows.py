"""TCP connections and UDP pairs: messages in, packets out.

A *burst* is what one side writes at one moment; a segment never reaches past its burst, so that no
reply comes before its call. Who was right is found later from the packets themselves (`capture`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import link
from .link import ACK, PSH, SYN, Endpoint

MSS = 1448
#: Record mark and the fixed words of a call, or of a reply with an empty verifier.
HEADER_BYTES = 4 + 24


def full_segments(length: int) -> Iterator[int]:
    """As a sending kernel does: all segments full, but the last."""
    for at in range(0, length, MSS):
        yield min(MSS, length - at)


@dataclass(frozen=True)
class Span:
    """A message's place in one direction of a connection, its record marks included."""

    flow: Connection
    from_client: bool
    start: int
    end: int
    header_bytes: int

    def __hash__(self) -> int:
        return hash((id(self.flow), self.from_client, self.start))


@dataclass(frozen=True)
class Packet:
    """An IP packet at a time, and which bytes of which stream or message it carries."""

    time_ns: int
    ip: bytes
    #: TCP: (connection, from client, first stream byte, bytes); UDP: the datagram's number.
    stream: tuple[Connection, bool, int, int] | None = None
    datagram: Datagram | None = None
    #: Where the stream's or datagram's bytes begin in `ip`.
    payload_at: int = 0
    #: TCP: bytes of the other direction that this packet acknowledges; None without ACK.
    acknowledged: int | None = None


@dataclass(eq=False)
class Datagram:
    """A UDP message, sent in one or more packets."""

    packets: int = 1


@dataclass(frozen=True)
class Segment:
    """A TCP segment to be."""

    time_ns: int
    from_client: bool
    offset: int
    data: bytes
    acknowledged: int
    flags: int = ACK | PSH
    options: bytes = b""
    ident: int = 0


@dataclass(eq=False)
class Connection:
    """One TCP connection. Stream offset 0 is the byte behind the SYN."""

    client: Endpoint
    server: Endpoint
    rng: random.Random
    first_sequence: tuple[int, int] = (1000, 2_000_000)
    gap_ns: int = 1000
    #: The receiver acknowledges every so many segments of a burst (0: its end alone; None: only
    #: with its own bytes).
    ack_every: int | None = 0
    segments: list[Segment] = field(default_factory=list)
    sent: list[bytearray] = field(default_factory=lambda: [bytearray(), bytearray()])

    def open(self, time_ns: int) -> None:
        """The three segments of the handshake; windows are scaled by 7."""
        options = b"\x02\x04\x05\xb4\x01\x03\x03\x07"
        self._add(time_ns, True, b"", SYN, options, -1)
        self._add(time_ns + 1000, False, b"", SYN | ACK, options, -1)
        self._add(time_ns + 2000, True, b"", ACK)

    def _add(
        self, time_ns: int, from_client: bool, data: bytes, flags: int = ACK | PSH,
        options: bytes = b"", offset: int | None = None,
    ) -> None:  # fmt: skip
        at = len(self.sent[from_client]) if offset is None else offset
        acknowledged = len(self.sent[not from_client])
        ident = self.rng.getrandbits(16)
        self.segments.append(
            Segment(time_ns, from_client, at, data, acknowledged, flags, options, ident)
        )
        self.sent[from_client] += data

    def burst(self, time_ns: int, from_client: bool, records: list[bytes]) -> list[Span]:
        """Sends records at one moment; the other side acknowledges."""
        spans, at = [], len(self.sent[from_client])
        for record in records:
            spans.append(Span(self, from_client, at, at + len(record), HEADER_BYTES))
            at += len(record)
        data = b"".join(records)
        done, unacknowledged = 0, 0
        for piece in full_segments(len(data)):
            self._add(time_ns, from_client, data[done : done + piece])
            done += piece
            time_ns += self.gap_ns
            unacknowledged += 1
            if unacknowledged == self.ack_every or (self.ack_every == 0 and done == len(data)):
                self._add(time_ns, not from_client, b"", ACK)
                unacknowledged = 0
                time_ns += self.gap_ns
        return spans

    def packets(self) -> Iterator[Packet]:
        for segment in self.segments:
            ends = (self.client, self.server)
            source, destination = ends if segment.from_client else ends[::-1]
            base = self.first_sequence[not segment.from_client]
            other = self.first_sequence[segment.from_client]
            header = link.tcp_header(
                source, destination, base + 1 + segment.offset,
                other + 1 + segment.acknowledged if segment.flags & ACK else 0,
                segment.flags, options=segment.options,
            )  # fmt: skip
            packet = link.ip(source, destination, link.TCP, header + segment.data, segment.ident)
            stream = (self, segment.from_client, segment.offset, len(segment.data))
            yield Packet(
                segment.time_ns, packet, stream, payload_at=len(packet) - len(segment.data),
                acknowledged=segment.acknowledged if segment.flags & ACK else None,
            )  # fmt: skip


@dataclass(eq=False)
class Pair:
    """Two UDP endpoints; datagrams larger than the MTU are fragmented."""

    client: Endpoint
    server: Endpoint
    rng: random.Random
    mtu: int = 1500
    gap_ns: int = 1000
    made: list[Packet] = field(default_factory=list)

    def send(self, time_ns: int, from_client: bool, message: bytes) -> Datagram:
        ends = (self.client, self.server)
        source, destination = ends if from_client else ends[::-1]
        whole = link.udp(source, destination, message)
        ident = self.rng.getrandbits(31) | 1
        head = 48 if source.is_v6 else 20
        step = (self.mtu - head) // 8 * 8
        if len(whole) <= self.mtu - head:
            packet = link.ip(source, destination, link.UDP, whole, ident)
            datagram = Datagram()
            at = len(packet) - len(message)
            self.made.append(Packet(time_ns, packet, None, datagram, at))
            return datagram
        starts = list(range(0, len(whole), step))
        datagram = Datagram(len(starts))
        for place, start in enumerate(starts):
            piece, more = whole[start : start + step], start + step < len(whole)
            if source.is_v6:
                packet = link.ipv6(
                    source, destination, link.UDP, piece, ident, offset=start, more=more,
                    fragmented=True,
                )  # fmt: skip
            else:
                packet = link.ipv4(
                    source, destination, link.UDP, piece, ident, offset=start, more=more
                )
            moment = time_ns + place * self.gap_ns
            self.made.append(Packet(moment, packet, None, datagram, len(packet) - len(piece)))
        return datagram

    def packets(self) -> Iterator[Packet]:
        yield from self.made
