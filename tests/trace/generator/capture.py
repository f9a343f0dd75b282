"""A capture: flows, the exchanges on them, the frames that are kept, and the truth of all calls.

Instants are those of the first frame that shows a byte: of a record its first (record mark
included) and its last, of a datagram its earliest fragment and the one that completes it (which
also gives its frame number).
A call is in the truth if its header was captured; it counts as *whole* if all its bytes were.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import rpc
from .body import Body
from .flows import Connection, Datagram, Packet, Pair, Span
from .link import Endpoint

START_NS = 1_700_000_000_000_000_000
CLIENT, SERVER = Endpoint("10.0.0.1", 705), Endpoint("10.0.0.9", 2049)
CLIENT6, SERVER6 = Endpoint("fd00::1", 900), Endpoint("fd00::9", 2049)
Place = Span | Datagram


@dataclass(eq=False)
class Exchange:
    """A call, all its sends and replies."""

    body: Body
    xid: int
    client: Endpoint
    server: Endpoint
    transport: str
    auth: rpc.NoAuth
    call: bytes
    reply: bytes
    sends: list[Place] = field(default_factory=list)
    replies: list[Place] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """What the frames show of one message."""

    first_ns: int
    last_ns: int
    first_frame: int
    last_frame: int
    #: Header captured; all bytes on the wire; all bytes captured.
    header: bool
    on_wire: bool
    whole: bool


@dataclass(frozen=True)
class TrueCall:
    """The truth of one call."""

    exchange: Exchange
    sends: list[Seen]
    replies: list[Seen]

    @property
    def latency_ns(self) -> int | None:
        return self.replies[0].first_ns - self.sends[0].first_ns if self.replies else None


@dataclass(eq=False)
class Capture:
    """Collects flows and exchanges; `frames` and `truth` when all is planned."""

    seed: int = 1
    snaplen: int = 262_144
    link_bytes: int = 14
    flows: list[Connection | Pair] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    keep: Callable[[list[Packet]], list[Packet]] = lambda packets: packets
    now_ns: int = START_NS

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.xid = self.rng.getrandbits(31)

    def tcp(
        self, client: Endpoint = CLIENT, server: Endpoint = SERVER, *,
        handshake: bool = True,
        first_sequence: tuple[int, int] = (1000, 2_000_000),
    ) -> Connection:  # fmt: skip
        flow = Connection(client, server, self.rng, first_sequence)
        if handshake:
            flow.open(self.now_ns)
            self.now_ns += 10_000
        self.flows.append(flow)
        return flow

    def udp(self, client: Endpoint = CLIENT, server: Endpoint = SERVER, mtu: int = 1500) -> Pair:
        flow = Pair(client, server, self.rng, mtu)
        self.flows.append(flow)
        return flow

    def exchange(
        self, flow: Connection | Pair, body: Body, *, auth: rpc.NoAuth | None = None,
        callback: bool = False, xid: int | None = None,
    ) -> Exchange:  # fmt: skip
        """Plans a call, not yet sent."""
        if xid is None:
            self.xid = (self.xid + 1) & 0xFFFFFFFF
            xid = self.xid
        auth = auth or rpc.SysAuth()
        ends = (flow.client, flow.server)
        client, server = ends[::-1] if callback else ends
        number = len(self.exchanges) + 1
        planned = Exchange(
            body, xid, client, server, "tcp" if isinstance(flow, Connection) else "udp", auth,
            rpc.call(xid, body.program, body.version, body.procedure, body.arguments, auth, number),
            rpc.reply(xid, body.results, auth, number),
        )  # fmt: skip
        self.exchanges.append(planned)
        return planned

    def send(
        self, flow: Connection | Pair, exchanges: Sequence[Exchange], *, replies: bool = False
    ) -> None:
        """Sends the calls, or the replies, of these exchanges in one burst."""
        moment = self.now_ns
        messages = [planned.reply if replies else planned.call for planned in exchanges]
        callbacks = [planned.client == flow.server for planned in exchanges]
        assert len(set(callbacks)) == 1
        from_client = replies == callbacks[0]
        places: list[Place] = []
        if isinstance(flow, Connection):
            records = [rpc.marked(message) for message in messages]
            places += flow.burst(moment, from_client, records)
            self.now_ns = max(self.now_ns, flow.segments[-1].time_ns) + 5_000
        else:
            for message in messages:
                places.append(flow.send(moment, from_client, message))
                moment = flow.made[-1].time_ns + 1000
            self.now_ns = max(self.now_ns, moment) + 5_000
        for planned, place in zip(exchanges, places, strict=True):
            (planned.replies if replies else planned.sends).append(place)

    def converse(
        self, flow: Connection | Pair, bodies: Sequence[Body], *, depth: int = 1,
        auth: rpc.NoAuth | None = None, callback: bool = False,
    ) -> list[Exchange]:  # fmt: skip
        """Calls `depth` at a time, each group answered in a random order."""
        done: list[Exchange] = []
        for at in range(0, len(bodies), depth):
            group = [
                self.exchange(flow, body, auth=auth, callback=callback)
                for body in bodies[at : at + depth]
            ]
            self.send(flow, group)
            self.now_ns += 200_000 + self.rng.randrange(200_000)
            answered = self.rng.sample(group, len(group))
            self.send(flow, answered, replies=True)
            self.now_ns += 50_000
            done += group
        return done

    def frames(self) -> list[Packet]:
        """Packets in the order of the capture."""
        packets = [packet for flow in self.flows for packet in flow.packets()]
        packets.sort(key=lambda packet: packet.time_ns)
        return self.keep(packets)


@dataclass(eq=False)
class Coverage:
    """Which frame showed each byte of each stream first, and which were captured."""

    frames: list[Packet]
    snaplen: int
    link_bytes: int

    def __post_init__(self) -> None:
        self.first: dict[tuple[int, bool], np.ndarray] = {}
        self.captured: dict[tuple[int, bool], np.ndarray] = {}
        self.datagrams: dict[int, list[int]] = {}
        #: Bytes of each stream that the other side acknowledged; streams whose SYN was captured.
        self.acknowledged: dict[tuple[int, bool], int] = {}
        self.opened: set[tuple[int, bool]] = set()
        for number, packet in enumerate(self.frames):
            if packet.datagram is not None:
                self.datagrams.setdefault(id(packet.datagram), []).append(number)
            if packet.stream is not None:
                self._open_and_acknowledge(packet)
                if packet.stream[3]:
                    self._cover(number, packet)

    def _open_and_acknowledge(self, packet: Packet) -> None:
        assert packet.stream is not None
        flow, from_client, offset, _length = packet.stream
        if offset < 0:
            self.opened.add((id(flow), from_client))
        if packet.acknowledged is not None:
            theirs = (id(flow), not from_client)
            before = self.acknowledged.get(theirs, 0)
            self.acknowledged[theirs] = max(before, packet.acknowledged)

    def kept(self, packet: Packet) -> int:
        """Payload bytes of a packet within the snaplen."""
        room = self.snaplen - self.link_bytes - packet.payload_at
        return max(0, min(len(packet.ip) - packet.payload_at, room))

    def _cover(self, number: int, packet: Packet) -> None:
        assert packet.stream is not None
        flow, from_client, offset, length = packet.stream
        key = (id(flow), from_client)
        if key not in self.first:
            total = len(flow.sent[from_client])
            self.first[key] = np.full(total, -1)
            self.captured[key] = np.zeros(total, bool)
        seen = self.first[key][offset : offset + length]
        seen[seen < 0] = number
        self.captured[key][offset : offset + self.kept(packet)] = True

    def visible(self, places: Sequence[Place]) -> list[Seen]:
        """What is seen of messages whose headers were captured."""
        return [seen for place in places if (seen := self.of(place)) and seen.header]

    def of(self, place: Place) -> Seen | None:
        """What is seen of a message; None if not its first byte."""
        if isinstance(place, Datagram):
            return self._datagram(place)
        key = (id(place.flow), place.from_client)
        if key not in self.first:
            return None
        first = self.first[key][place.start : place.end]
        captured = self.captured[key][place.start : place.end]
        if first[0] < 0:
            return None
        last = first[-1] if first[-1] >= 0 else first.max()
        return Seen(
            self.frames[first[0]].time_ns, self.frames[last].time_ns, first[0] + 1, last + 1,
            bool(captured[: place.header_bytes].all()), bool((first >= 0).all()),
            bool(captured.all()),
        )  # fmt: skip

    def _datagram(self, place: Datagram) -> Seen | None:
        numbers = self.datagrams.get(id(place), [])
        if len({self.frames[number].ip for number in numbers}) < place.packets:
            return None
        first, done = self.frames[numbers[0]], numbers[place.packets - 1]
        whole = all(
            self.kept(self.frames[n]) == len(self.frames[n].ip) - self.frames[n].payload_at
            for n in numbers
        )
        return Seen(
            first.time_ns, self.frames[done].time_ns, done + 1, done + 1,
            True, True, whole,
        )  # fmt: skip

    def lost(self) -> tuple[int, int]:
        """Bytes of each stream that were there and that no frame showed, and the number of
        stretches that they form.

        What was there: from the first seen byte (of a connection that was seen to open: from its
        first) to the last one that was seen or that the other side acknowledged, since nobody
        acknowledges what was not sent.
        """
        total = gaps = 0
        for key, first in self.first.items():
            seen = np.flatnonzero(first >= 0)
            start = 0 if key in self.opened else int(seen[0])
            end = max(int(seen[-1]) + 1, self.acknowledged.get(key, 0))
            missing = np.concatenate([[False], first[start:end] < 0])
            total += int(missing.sum())
            gaps += int((np.diff(missing.astype(int)) == 1).sum())
        return total, gaps


@dataclass(frozen=True)
class Truth:
    """What a reader should find."""

    calls: list[TrueCall]
    packets: int
    bytes: int
    first_ns: int
    last_ns: int
    lost_bytes: int
    lost_gaps: int


def truth(capture: Capture, frames: list[Packet]) -> Truth:
    """Truth of `frames`, which may be fewer than the capture planned."""
    coverage = Coverage(frames, capture.snaplen, capture.link_bytes)
    calls = []
    for planned in capture.exchanges:
        sends = coverage.visible(planned.sends)
        replies = coverage.visible(planned.replies)
        if sends:
            calls.append(TrueCall(planned, sends, replies))
    calls.sort(key=lambda call: (call.sends[0].first_ns, call.sends[0].first_frame))
    times = [frame.time_ns for frame in frames]
    lost_bytes, lost_gaps = coverage.lost()
    shortest = 60 if capture.link_bytes in (14, 18, 22) else 0  # Ethernet pads
    size = sum(max(len(frame.ip) + capture.link_bytes, shortest) for frame in frames)
    return Truth(calls, len(frames), size, min(times), max(times), lost_bytes, lost_gaps)
