"""Events in the order of time, and one-way paths between two hosts with a tap on them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.trace.generator import link
from tests.trace.generator.capture import START_NS
from tests.trace.generator.flows import Packet
from tests.trace.generator.link import Endpoint

US, MS, S = 1_000, 1_000_000, 1_000_000_000


@dataclass(frozen=True)
class Segment:
    """A TCP segment (`flags` not 0) or a UDP datagram; `sack`: pairs of sequence numbers."""

    source: Endpoint
    destination: Endpoint
    flags: int
    sequence: int = 0
    acknowledgement: int = 0
    data: bytes = b""
    sack: tuple[tuple[int, int], ...] = ()
    options: bytes = b""
    #: UDP: what the datagram means to the hosts.
    meaning: Any = None
    ident: int = 0
    window: int = 512

    def packet(self) -> bytes:
        """Its IP packet."""
        if not self.flags:
            payload = link.udp(self.source, self.destination, self.data)
            return link.ipv4(self.source, self.destination, link.UDP, payload, self.ident)
        options = self.options
        if self.sack:
            blocks = b"".join(
                (edge & 0xFFFFFFFF).to_bytes(4, "big") for block in self.sack for edge in block
            )
            options += bytes([1, 1, 5, 2 + len(blocks)]) + blocks
        header = link.tcp_header(
            self.source, self.destination, self.sequence, self.acknowledgement, self.flags,
            window=self.window, options=options,
        )  # fmt: skip
        return link.ipv4(self.source, self.destination, link.TCP, header + self.data, self.ident)


@dataclass
class Clock:
    """What is to happen, by time."""

    now_ns: int = START_NS
    _heap: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def at(self, time_ns: int, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(time_ns, self.now_ns), self._count, act))

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        self.at(self.now_ns + delay_ns, act)

    def run(self, until_ns: int) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self.now_ns, _, act = heapq.heappop(self._heap)
            act()
        self.now_ns = until_ns


@dataclass
class Path:
    """One way: `delay_ns`, a queue drained at `bytes_per_s` (0: none), and where the tap sits."""

    clock: Clock
    delay_ns: int
    #: Part of the way from the sender to the tap: 0 at the sender, 1 at the receiver.
    tap_at: float
    frames: list[Packet]
    deliver: Callable[[Segment], None] = lambda segment: None
    bytes_per_s: int = 0
    #: Whether a packet is lost; the loss lies in the middle of the way.
    lost: Callable[[Segment, int], bool] = lambda segment, now_ns: False
    #: Further delay of a packet: reordering, spikes.
    extra_ns: Callable[[Segment, int], int] = lambda segment, now_ns: 0
    seen: bool = True
    #: UDP datagrams of more bytes travel in fragments, which are lost one by one.
    fragment_bytes: int = 0
    lost_fragment: Callable[[int], bool] = lambda now_ns: False
    sent: int = 0
    _free_ns: int = 0

    def send(self, segment: Segment) -> None:
        """Takes a packet at the sender's end."""
        now = self.clock.now_ns
        self.sent += 1
        data = segment.packet()
        queued = 0
        if self.bytes_per_s:
            begin = max(now, self._free_ns)
            self._free_ns = begin + len(data) * S // self.bytes_per_s
            queued = self._free_ns - now
        lost = self.lost(segment, now)
        # The queue and what delays beside it lie in the middle, too.
        later = queued + self.extra_ns(segment, now)
        late = later if self.tap_at >= 0.5 else 0
        tapped = now + late + round(self.delay_ns * self.tap_at)
        for piece in _fragments(segment, data, self.fragment_bytes):
            gone = self.lost_fragment(now)
            if self.seen and not ((lost or gone) and self.tap_at >= 0.5):
                self.frames.append(Packet(tapped, piece))
            lost |= gone
        if not lost:
            self.clock.after(later + self.delay_ns, lambda: self.deliver(segment))


def _fragments(segment: Segment, packet: bytes, most: int) -> list[bytes]:
    """The IP packets in which a datagram travels; `most`: a multiple of eight, 0 for any."""
    payload = packet[20:]
    if segment.flags or not most or len(payload) <= most:
        return [packet]
    return [
        link.ipv4(
            segment.source, segment.destination, link.UDP, payload[at : at + most],
            segment.ident, offset=at, more=at + most < len(payload),
        )
        for at in range(0, len(payload), most)
    ]  # fmt: skip
