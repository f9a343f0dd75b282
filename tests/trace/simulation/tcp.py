"""One end of a TCP connection, as Linux behaves where it matters to a capture.

Delayed ACK of 40 ms or every second full segment, SACK (RFC 2018) with D-SACK (RFC 2883) first,
a retransmission timeout of 200 ms and the round trip, doubled each time, fast retransmit after
three duplicates; windows that close, with probes of no bytes; Nagle where it is asked for. No
congestion window: what is written is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.trace.generator.flows import MSS
from tests.trace.generator.link import ACK, FIN, PSH, RST, SYN, Endpoint

from .network import MS, Clock, Segment

DELAYED_ACK_NS = 40 * MS
RTO_LEAST_NS = 200 * MS
RTO_MOST_NS = 120_000 * MS
TIMESTAMPS = b"\x01\x01\x08\x0a" + bytes(8)


@dataclass
class _Sent:
    start: int
    data: bytes
    flags: int
    sacked: bool = False


@dataclass
class End:
    """One end. Stream positions count from the byte behind the SYN."""

    clock: Clock
    here: Endpoint
    there: Endpoint
    put: Callable[[Segment], None]
    round_trip_ns: int
    initial: tuple[int, int]
    #: Called with each message that has come whole.
    received: Callable[[Any], None] = lambda message: None
    reset: Callable[[], None] = lambda: None
    opened: Callable[[], None] = lambda: None
    with_sack: bool = True
    stamped: bool = True
    frozen: Callable[[], int] = lambda: 0
    #: Waits with what is no full segment until all before is acknowledged (RFC 896).
    nagle: bool = False
    delayed_ack_ns: int = DELAYED_ACK_NS
    #: This end takes no more bytes.
    full: bool = False
    state: str = "closed"
    peer: End | None = None
    #: Messages under way from here: (position of the end, message), shared with the other end.
    messages: list[tuple[int, Any]] = field(default_factory=list)
    written: int = 0
    una: int = 0
    next_in: int = 0
    ident: int = 1
    _queue: list[_Sent] = field(default_factory=list)
    _early: dict[int, bytes] = field(default_factory=dict)
    _duplicates: int = 0
    _backoff: int = 0
    _timer: int = 0
    _ack_timer: int = 0
    _unacknowledged: int = 0
    _recovered: int = -1
    _blocked: bool = False
    _held: list[_Sent] = field(default_factory=list)

    # Sending

    def connect(self) -> None:
        self.state = "opening"
        self._syn()

    def _syn(self) -> None:
        if self.state == "opening":
            self._emit(SYN, -1, options=self._syn_options())
            self.clock.after(1000 * MS, self._syn)

    def _syn_options(self) -> bytes:
        options = b"\x02\x04\x05\xb4" + (b"\x01\x01\x04\x02" if self.with_sack else b"")
        return options + b"\x01\x03\x03\x07"

    def _emit(
        self, flags: int, start: int, data: bytes = b"",
        sack: tuple[tuple[int, int], ...] = (), options: bytes = b"",
    ) -> None:  # fmt: skip
        mine, theirs = self.initial
        self.ident = (self.ident + 1) & 0xFFFF or 1
        if not flags & SYN and self.stamped:
            options = TIMESTAMPS
        acknowledgement = theirs + 1 + self.next_in if flags & ACK else 0
        blocks = tuple((theirs + 1 + a, theirs + 1 + b) for a, b in sack)
        if flags & ACK:
            self._unacknowledged = 0
            self._ack_timer += 1
        self.put(
            Segment(
                self.here, self.there, flags, (mine + 1 + start) & 0xFFFFFFFF,
                acknowledgement & 0xFFFFFFFF, data, blocks, options, ident=self.ident,
                window=0 if self.full else 512,
            )
        )  # fmt: skip

    def write(self, data: bytes, message: Any) -> None:
        """Sends a message."""
        self.messages.append((self.written + len(data), message))
        for at in range(0, len(data), MSS):
            piece = data[at : at + MSS]
            sent = _Sent(self.written, piece, ACK | (PSH if at + MSS >= len(data) else 0))
            self.written += len(piece)
            small = self.nagle and len(piece) < MSS and self._queue
            if self._blocked or self._held or small:
                self._held.append(sent)
                continue
            self._queue.append(sent)
            self._emit(sent.flags, sent.start, piece)
        if len(self._queue) and not self._backoff:
            self._arm()

    def _let_go(self) -> None:
        """What waited for the other end's window, or for its acknowledgement."""
        for sent in self._held:
            self._queue.append(sent)
            self._emit(sent.flags, sent.start, sent.data)
        self._held.clear()
        self._arm()

    def shut(self, full: bool) -> None:
        """This end's window closes, or opens, and the other end is told."""
        self.full = full
        if self.state == "open":
            self._acknowledge(())

    def _probe(self, wait_ns: int) -> None:
        if self._blocked and self.state == "open":
            self.alive()
            self.clock.after(wait_ns, lambda: self._probe(2 * wait_ns))

    def alive(self, byte: bytes = b"") -> None:
        """Sends a keep-alive: the last byte's place again, with that byte or without."""
        self._emit(ACK, self.una - 1, byte)

    def sent_position(self) -> int:
        """Up to where bytes were sent."""
        return self._held[0].start if self._held else self.written

    def _arm(self) -> None:
        self._timer += 1
        timer = self._timer
        wait = (RTO_LEAST_NS + self.round_trip_ns) << self._backoff
        self.clock.after(min(wait, RTO_MOST_NS), lambda: self._timeout(timer))

    def _timeout(self, timer: int) -> None:
        if timer != self._timer or not self._queue or self.state != "open":
            return
        if (thaw_ns := self.frozen()) > 0:
            self.clock.at(thaw_ns, lambda: self._timeout(timer))
            return
        first = next((sent for sent in self._queue if not sent.sacked), None)
        if first is not None:
            self._emit(first.flags, first.start, first.data)
        self._backoff = min(self._backoff + 1, 8)
        self._arm()

    def abort(self) -> None:
        """Ends it with RST."""
        if self.state == "open":
            self._emit(RST | ACK, self.sent_position())
        self.state = "closed"

    def close(self) -> None:
        """Ends it with FIN."""
        if self.state == "open":
            self._emit(FIN | ACK, self.sent_position())
            self.state = "closed"

    # Receiving

    def segment(self, segment: Segment) -> None:
        """A segment that came from the other end."""
        if segment.flags & RST:
            if self.state != "closed":
                self.state = "closed"
                self.reset()
            return
        if segment.flags & SYN:
            self._handshake(segment)
            return
        if self.state == "accepting":
            self.state = "open"
        if self.state != "open":
            return
        mine, theirs = self.initial
        if segment.flags & ACK:
            was_blocked, self._blocked = self._blocked, segment.window == 0
            if self._blocked and not was_blocked:
                self.clock.after(RTO_LEAST_NS, lambda: self._probe(2 * RTO_LEAST_NS))
            self._acknowledged((segment.acknowledgement - mine - 1) & 0xFFFFFFFF, segment)
        start = (segment.sequence - theirs - 1) & 0xFFFFFFFF
        if segment.data:
            self._data(start, segment.data)
        elif start == (self.next_in - 1) & 0xFFFFFFFF:
            self._acknowledge(())
        if segment.flags & FIN and self.state == "open":
            self.state = "closed"
            self.reset()

    def _handshake(self, segment: Segment) -> None:
        if self.state == "opening" and segment.flags & ACK:
            self.state = "open"
            self._emit(ACK, 0)
            self.opened()
        elif not segment.flags & ACK:
            self.state = "accepting"
            self._emit(SYN | ACK, -1, options=self._syn_options())

    def _acknowledged(self, position: int, segment: Segment) -> None:
        mine = self.initial[0]
        for left, right in segment.sack:
            start, end = (left - mine - 1) & 0xFFFFFFFF, (right - mine - 1) & 0xFFFFFFFF
            for sent in self._queue:
                if sent.start >= start and sent.start + len(sent.data) <= end:
                    sent.sacked = True
        if position > self.una and position <= self.written:
            self.una = position
            self._queue = [s for s in self._queue if s.start + len(s.data) > position]
            self._duplicates = self._backoff = 0
            self._timer += 1
            if self._queue:
                self._arm()
        elif position == self.una and self._queue and not segment.data:
            self._duplicates += 1
        if self._held and not self._blocked and not self._queue:
            self._let_go()
        holes = any(sent.sacked for sent in self._queue)
        if self._queue and (self._duplicates >= 3) and holes and self._recovered < self.una:
            first = self._queue[0]
            self._recovered = self.una + 1
            if not first.sacked:
                self._emit(first.flags, first.start, first.data)

    def _data(self, start: int, data: bytes) -> None:
        end = start + len(data)
        if end <= self.next_in:
            self._acknowledge(((start, end),))
            return
        if start > self.next_in:
            block = self._block(start, end)
            blocks = ((start, end), block) if start in self._early else (block,)
            self._early[start] = data
            self._acknowledge(blocks)
            return
        self.next_in = end
        filled = bool(self._early)
        while self.next_in in self._early:
            self.next_in += len(self._early.pop(self.next_in))
        self._hand_on()
        self._unacknowledged += 1
        if filled or (self._unacknowledged >= 2 and len(data) == MSS):
            self._acknowledge(())
        elif self._unacknowledged:
            self._ack_timer += 1
            timer = self._ack_timer
            self.clock.after(self.delayed_ack_ns, lambda: self._delayed(timer))

    def _block(self, start: int, end: int) -> tuple[int, int]:
        while (before := [s for s, d in self._early.items() if s + len(d) == start]) != []:
            start = before[0]
        while end in self._early:
            end += len(self._early[end])
        return start, end

    def _delayed(self, timer: int) -> None:
        if timer != self._ack_timer or self.state != "open":
            return
        if (thaw_ns := self.frozen()) > 0:
            self.clock.at(thaw_ns, lambda: self._delayed(timer))
            return
        self._acknowledge(())

    def _acknowledge(self, sack: tuple[tuple[int, int], ...]) -> None:
        self._emit(ACK, self.sent_position(), sack=sack if self.with_sack else ())

    def _hand_on(self) -> None:
        if self.peer is None:
            return
        messages = self.peer.messages
        while messages and messages[0][0] <= self.next_in:
            self.received(messages.pop(0)[1])
