"""Hosts of a simulated capture: one server, clients that call it, and the wire between them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.trace.generator import nfs3, rpc
from tests.trace.generator.body import Body, Node, tree
from tests.trace.generator.capture import START_NS
from tests.trace.generator.flows import Packet
from tests.trace.generator.link import ACK, RST, SYN, Endpoint

from .network import MS, US, Clock, Path, Segment
from .tcp import End

SERVER = Endpoint("10.1.0.9", 2049)
POINTS = {"client": (0.0, 1.0), "between": (0.5, 0.5), "server": (1.0, 0.0)}
RETRY_NS = 1_100 * MS


@dataclass(eq=False)
class Asked:
    """A call: its bytes, and what became of it."""

    xid: int
    body: Body
    call: bytes
    reply: bytes
    client: Client
    sent_ns: int = 0
    answered_ns: int = 0
    done: Callable[[], None] = lambda: None


@dataclass(eq=False)
class World:
    """Clock, paths, server and all clients of one capture."""

    seed: int
    point: str = "client"
    delay_ns: int = 100 * US
    service_ns: Callable[[World], int] | None = None
    threads: int = 8
    #: Times at which the host, or its process alone, stands still.
    frozen: list[tuple[int, int]] = field(default_factory=list)
    stopped: list[tuple[int, int]] = field(default_factory=list)
    #: The process is gone: connections are reset, and new ones refused.
    dead: list[tuple[int, int]] = field(default_factory=list)
    #: The host is gone: nothing is answered, and nothing remembered.
    down: list[tuple[int, int]] = field(default_factory=list)
    #: The clients' host stands still.
    client_frozen: list[tuple[int, int]] = field(default_factory=list)
    #: Connections whose calls the process leaves, by the client's end.
    held: dict[Endpoint, list[tuple[int, int]]] = field(default_factory=dict)
    never: Callable[[Asked], bool] = lambda asked: False
    answer_again: bool = False
    with_sack: bool = True

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.clock = Clock()
        self.frames: list[Packet] = []
        out, back = POINTS[self.point]
        self.to_server = Path(self.clock, self.delay_ns, out, self.frames)
        self.to_client = Path(self.clock, self.delay_ns, back, self.frames)
        self.to_server.deliver = self._at_server
        self.to_client.deliver = self._at_client
        self.root = tree(self.rng, 28, "/export", 40)
        self.files: list[Node] = self.root.children[0].children
        self.ends: dict[Endpoint, End] = {}
        self.clients: dict[Endpoint, Client] = {}
        self.client_ends: dict[Endpoint, End] = {}
        self._busy: list[int] = [0] * self.threads
        self._handled: dict[tuple[Endpoint, int], Asked] = {}

    def at(self, seconds: float) -> int:
        """A moment of the capture."""
        return START_NS + round(seconds * 1e9)

    def plan(self, spans: list[tuple[int, int]], begin_s: float, length_s: float) -> None:
        """The server does so from then on, so long."""
        span = (self.at(begin_s), self.at(begin_s + length_s))
        spans.append(span)
        if spans is self.dead:
            self.clock.at(span[0], self._die)
        if spans is self.down:
            self.clock.at(span[0], self._forget)

    def _over_at(self, spans: list[tuple[int, int]]) -> int:
        """When the span of now ends; 0 outside."""
        now = self.clock.now_ns
        return next((end for begin, end in spans if begin <= now < end), 0)

    def host_frozen(self) -> int:
        return self._over_at(self.frozen)

    def _die(self) -> None:
        for end in self.ends.values():
            end.abort()
        self.ends.clear()

    def _forget(self) -> None:
        for end in self.ends.values():
            end.state = "closed"
        self.ends.clear()

    # Server

    def _at_server(self, segment: Segment) -> None:
        if (thaw_ns := self.host_frozen()) > 0:
            self.clock.at(thaw_ns, lambda: self._at_server(segment))
            return
        if self._over_at(self.down):
            return
        if not segment.flags:
            self._serve(segment.meaning)
            return
        end = self.ends.get(segment.source)
        first = segment.flags & (SYN | ACK) == SYN
        if self._over_at(self.dead) or (end is None and not first):
            self._refuse(segment)
            return
        if first and (end is None or end.initial[1] != segment.sequence):
            end = self._accept(segment)
        if end is not None:
            end.segment(segment)

    def _refuse(self, segment: Segment) -> None:
        if segment.flags & RST:
            return
        flags, sequence = RST, segment.acknowledgement
        acknowledgement = 0
        if not segment.flags & ACK:
            flags, sequence, acknowledgement = RST | ACK, 0, segment.sequence + 1
        self.to_client.send(
            Segment(segment.destination, segment.source, flags, sequence, acknowledgement)
        )

    def _accept(self, segment: Segment) -> End:
        other = self.client_ends[segment.source]
        if (before := self.ends.get(segment.source)) is not None:
            before.state = "closed"
        end = End(
            self.clock, SERVER, segment.source, self.to_client.send, 2 * self.delay_ns,
            (self.rng.getrandbits(32), segment.sequence), received=self._serve,
            with_sack=self.with_sack, stamped=other.stamped, frozen=self.host_frozen,
        )  # fmt: skip
        end.peer, other.peer = other, end
        other.initial = (other.initial[0], end.initial[0])
        self.ends[segment.source] = end
        return end

    def _serve(self, asked: Asked) -> None:
        key = (asked.client.here, asked.xid)
        if self.never(asked):
            return
        if not self.answer_again and asked.client.udp and self._handled.get(key) is asked:
            # The cache of duplicates: nothing while it is worked on, else the reply again.
            if asked.answered_ns:
                self._reply(asked)
            return
        self._handled[key] = asked
        asked.answered_ns = 0
        service = self.service_ns(self) if self.service_ns else self._usual()
        thread = min(range(self.threads), key=self._busy.__getitem__)
        begin = max(self._busy[thread], self.clock.now_ns)
        self._busy[thread] = begin + service
        self.clock.at(begin + service, lambda: self._finish(asked, asked.client.epoch))

    def _usual(self) -> int:
        return round(self.rng.lognormvariate(0, 0.4) * 300 * US)

    def _finish(self, asked: Asked, epoch: int) -> None:
        held = self.held.get(asked.client.here, [])
        later = max(self.host_frozen(), self._over_at(self.stopped), self._over_at(held))
        if later:
            self.clock.at(later, lambda: self._finish(asked, epoch))
            return
        if self._over_at(self.dead) or self._over_at(self.down) or epoch != asked.client.epoch:
            return
        self._reply(asked)

    def _reply(self, asked: Asked) -> None:
        asked.answered_ns = self.clock.now_ns
        if asked.client.udp:
            reply = Segment(SERVER, asked.client.here, 0, data=asked.reply, meaning=asked,
                            ident=self.rng.getrandbits(16) | 1)  # fmt: skip
            self.to_client.send(reply)
        elif (end := self.ends.get(asked.client.here)) and end.state == "open":
            end.write(rpc.marked(asked.reply), asked)

    def client_host_frozen(self) -> int:
        return self._over_at(self.client_frozen)

    def _at_client(self, segment: Segment) -> None:
        if (thaw_ns := self.client_host_frozen()) > 0:
            self.clock.at(thaw_ns, lambda: self._at_client(segment))
            return
        if not segment.flags:
            segment.meaning.client.answered(segment.meaning)
        elif (end := self.client_ends.get(segment.destination)) is not None:
            end.segment(segment)

    def run(self, seconds: float) -> list[Packet]:
        """The packets of the capture, in the order of time."""
        self.clock.run(self.at(seconds))
        last = self.at(seconds)
        kept = [frame for frame in self.frames if frame.time_ns <= last]
        return sorted(kept, key=lambda frame: frame.time_ns)


@dataclass(eq=False)
class Client:
    """Calls over one connection, `depth` at a time, with pauses as told."""

    world: World
    here: Endpoint
    depth: int = 1
    udp: bool = False
    #: Nanoseconds from a reply to the next call.
    think_ns: Callable[[], int] = lambda: 0
    make: Callable[[], Body] | None = None
    until_ns: int = 1 << 62
    xid: int = -1
    reconnect_ns: int = 3 * MS
    epoch: int = 0
    waiting: list[Asked] = field(default_factory=list)
    calls: list[Asked] = field(default_factory=list)
    end: End | None = None

    def __post_init__(self) -> None:
        world = self.world
        world.clients[self.here] = self
        if self.xid < 0:
            self.xid = world.rng.getrandbits(31)
        if self.udp:
            world.clock.after(0, self._begin)
        else:
            self.connect()

    def connect(self) -> None:
        world = self.world
        self.end = End(
            world.clock, self.here, SERVER, world.to_server.send, 2 * world.delay_ns,
            (world.rng.getrandbits(32), 0), received=self.answered, reset=self._was_reset,
            opened=self._opened, with_sack=world.with_sack, frozen=world.client_host_frozen,
        )  # fmt: skip
        world.client_ends[self.here] = self.end
        self.end.connect()

    def _opened(self) -> None:
        again, self.waiting = self.waiting, []
        for asked in again:
            self._send(asked)
        if not self.calls:
            self._begin()

    def _begin(self) -> None:
        for _ in range(self.depth):
            self.next()

    def begin_again(self, port: int) -> None:
        """Gives the connection up, and sends what waits on another one."""
        if self.end is not None:
            self.end.abort()
        self.here = Endpoint(self.here.host, port)
        self.world.clients[self.here] = self
        self._was_reset()

    def _was_reset(self) -> None:
        self.epoch += 1
        self.world.clock.after(self.reconnect_ns, self.connect)
        self.reconnect_ns = min(self.reconnect_ns * 2, 500 * MS)

    def body(self) -> Body:
        if self.make is not None:
            return self.make()
        rng, node = self.world.rng, self.world.rng.choice(self.world.files)
        if rng.random() < 0.3:
            return nfs3.write(node, rng.randrange(1 << 20), rng.randrange(1, 600))
        return nfs3.read(node, rng.randrange(1 << 20), rng.randrange(1, 900))

    def next(self) -> None:
        """Makes a call and sends it."""
        if self.world.clock.now_ns >= self.until_ns:
            return
        if (thaw_ns := self.world.client_host_frozen()) > 0:
            self.world.clock.at(thaw_ns, self.next)
            return
        self.ask(self.body(), self._go_on)

    def _go_on(self) -> None:
        self.world.clock.after(self.think_ns(), self.next)

    def ask(self, body: Body, done: Callable[[], None] = lambda: None) -> Asked:
        self.xid = (self.xid + 1) & 0xFFFFFFFF
        auth = rpc.SysAuth()
        asked = Asked(
            self.xid, body,
            rpc.call(self.xid, body.program, body.version, body.procedure, body.arguments, auth, 1),
            rpc.reply(self.xid, body.results, auth, 1), self, self.world.clock.now_ns, done=done,
        )  # fmt: skip
        self.calls.append(asked)
        self._send(asked)
        return asked

    def _send(self, asked: Asked) -> None:
        self.waiting.append(asked)
        if self.udp:
            self._send_datagram(asked, RETRY_NS)
        elif self.end is not None and self.end.state == "open":
            self.end.write(rpc.marked(asked.call), asked)

    def _send_datagram(self, asked: Asked, wait_ns: int) -> None:
        if asked not in self.waiting:
            return
        ident = self.world.rng.getrandbits(16) | 1
        call = Segment(self.here, SERVER, 0, data=asked.call, meaning=asked, ident=ident)
        self.world.to_server.send(call)
        self.world.clock.after(wait_ns, lambda: self._send_datagram(asked, 2 * wait_ns))

    def answered(self, asked: Asked) -> None:
        if asked in self.waiting:
            self.waiting.remove(asked)
            asked.done()
