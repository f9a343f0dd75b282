//! One TCP connection: opening, closing, reuse of its ports, and what it carries.
//!
//! A connection is one of RPC as soon as one message was recognised in it. One in which none was
//! within [`NOT_RPC_BYTES`] is passed over from then on, at the cost of finding it, until a segment
//! begins with a call. One that turns to TLS where a record was due stays passed over.

use wire::rpc::recognise::{Found, looks_like_record};

use super::Sink;
use super::anomaly::Anomaly;
use super::direction::Direction;
use super::fast_path::Pace;
use super::flight::tell;
use super::framing::Role;
use super::out_of_order::OutOfOrder;
use super::sender::Sender;
use super::shared::{Scene, Shared};
use super::state_eq::Began;
use super::table::Side;
use crate::block::{ACK, Endpoint, FIN, RST, SYN, Sack, Segment};
use crate::event::TransportKind;
use crate::limits::NOT_RPC_BYTES;

/// The port of NFS (RFC 7530 section 3.1): tells RPC-over-TLS from other TLS where the probe
/// (RFC 9289) is not in the capture.
const NFS_PORT: u16 = 2049;

/// What a connection carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Unknown,
    Rpc,
    NotRpc,
    RpcOverTls,
    Tls,
    Iwarp,
}

/// A TCP connection.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) number: u32,
    pub(super) protocol: Protocol,
    /// By side: whether its next segment may take a fast path ([`super::fast_path`]).
    pub(super) paces: [Pace; 2],
    /// Payload bytes passed over since the protocol was decided.
    pub(super) passed_over: u64,
    pub(super) last_ns: i64,
    pub(super) sides: [Direction; 2],
    /// Segments that wait for bytes in front of them.
    pub(super) waiting: Option<Box<OutOfOrder>>,
    /// How the first connection between these ends began here, once there is another one.
    pub(super) earlier: Option<Box<Began>>,
    /// Its SYN was not seen: reading began within it.
    pub(super) within: bool,
    /// Sequence number of the SYN that it began with.
    pub(super) begun_by: Option<u32>,
    /// The lower one of its two endpoints.
    pub(super) low: Side,
}

impl Connection {
    /// One that begins with this segment.
    pub(super) fn new(number: u32, segment: &Segment) -> Self {
        let opens = segment.flags & (SYN | ACK) == SYN;
        Connection {
            number,
            within: segment.flags & SYN == 0,
            begun_by: opens.then_some(segment.sequence),
            ..Connection::default()
        }
    }

    /// Takes a segment that `side` sent.
    #[inline(always)]
    pub(super) fn segment<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut S,
    ) {
        if self.fast_path(side, segment, payload, sink) {
            return;
        }
        let [one, other] = &self.sides;
        if one.has_hole() || other.has_hole() || self.waiting.is_some() {
            self.segment_in_turn(side, segment, payload, shared, sink);
        } else {
            self.take(side, segment, payload, shared, sink);
        }
        if segment.payload_bytes > 0 || segment.flags & (SYN | FIN | RST) != 0 {
            self.find_pace();
        }
    }

    /// The same, in its turn.
    #[inline(always)]
    pub(super) fn take<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let looked_at = matches!(self.protocol, Protocol::Rpc | Protocol::Unknown);
        let plain = segment.flags & (SYN | RST) == 0 && looked_at;
        if !plain && !self.goes_on(side, segment, payload, shared, sink) {
            return;
        }
        self.last_ns = segment.time_ns;
        if segment.flags & ACK != 0 {
            self.acknowledgement(side, segment, shared, sink);
        }
        if segment.payload_bytes > 0 {
            self.payload(side, segment, payload, shared, sink);
        }
        if segment.flags & FIN != 0 {
            self.close(side, segment, false, shared, sink);
        }
    }

    #[inline(always)]
    fn acknowledgement<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let (_, theirs) = pick(&mut self.sides, side);
        if sink.wants_transport() || theirs.has_hole() {
            self.acknowledgement_in_full(side, segment, shared, sink);
        } else {
            theirs.acknowledged_up_to(segment.acknowledgement);
        }
    }

    #[inline(never)]
    fn acknowledgement_in_full<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let sender = self.sender(side);
        let (ours, theirs) = pick(&mut self.sides, side);
        let mut scene = Scene {
            connection: self.number,
            from: &segment.destination,
            to: &segment.source,
            calls_known: ours.role() != Role::Unknown,
            shared,
            sink,
        };
        if let Some(kind) = ours.window.turns(segment) {
            tell(&mut scene, segment.time_ns, sender, kind);
        }
        if let Some(sack) = segment.sack {
            if sack == Sack::Missing {
                theirs.asked_again_ns = Some(segment.time_ns);
            }
            let kind = TransportKind::Selective(sack);
            tell(&mut scene, segment.time_ns, sender, kind);
        }
        let window = ours.window.bytes(segment, &theirs.window);
        theirs.acknowledge(segment, window, sender, &mut scene);
        if theirs.has_hole() {
            theirs.settle(segment.time_ns, 0, sender.other(), &mut scene);
        }
    }

    #[inline(always)]
    fn payload<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let (ours, _) = pick(&mut self.sides, side);
        if ours.closed && !ours.is_near(segment.sequence) {
            self.reuse(segment, side, shared, sink);
        }
        let sender = match sink.wants_transport() {
            true => self.sender(side),
            false => Sender::default(),
        };
        let (ours, theirs) = pick(&mut self.sides, side);
        let mut scene = Scene {
            connection: self.number,
            from: &segment.source,
            to: &segment.destination,
            calls_known: theirs.role() != Role::Unknown,
            shared,
            sink,
        };
        ours.data(segment, payload, sender, &mut scene);
        if self.protocol != Protocol::Rpc || ours.framer.found_tls {
            self.decide(segment, scene.shared);
        }
    }

    /// What this connection carries, by what was found in it so far.
    #[cold]
    #[inline(never)]
    fn decide(&mut self, segment: &Segment, shared: &mut Shared) {
        let any = |test: fn(&Direction) -> bool| self.sides.iter().any(test);
        let rpc = self.protocol == Protocol::Rpc || any(|side| side.framer.found_rpc);
        let nfs = [segment.source.port, segment.destination.port].contains(&NFS_PORT);
        if any(|side| side.framer.found_tls) {
            self.protocol = if rpc || nfs {
                Protocol::RpcOverTls
            } else {
                Protocol::Tls
            };
        } else if rpc {
            self.protocol = Protocol::Rpc;
        } else if any(|side| side.framer.found_mpa) {
            self.protocol = Protocol::Iwarp;
        } else if self.searched() > NOT_RPC_BYTES {
            self.protocol = Protocol::NotRpc;
        }
        if !matches!(self.protocol, Protocol::Rpc | Protocol::Unknown) {
            self.passed_over = self.searched();
            if rpc {
                self.settle_lost(shared);
            }
            for side in &mut self.sides {
                side.discard(shared);
            }
        }
    }

    pub(super) fn searched(&self) -> u64 {
        self.sides.iter().map(|side| side.framer.skipped).sum()
    }

    /// Holes count once it is known that they were in RPC.
    pub(super) fn settle_lost(&mut self, shared: &mut Shared) {
        for side in &mut self.sides {
            shared.lost += std::mem::take(&mut side.lost);
        }
    }

    /// Handles SYN and RST, and connections that are passed over; false if that was all.
    #[cold]
    #[inline(never)]
    fn goes_on<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut S,
    ) -> bool {
        self.last_ns = segment.time_ns;
        if segment.flags & SYN != 0 {
            self.open(side, segment, shared, sink);
        }
        match self.protocol {
            Protocol::Rpc | Protocol::Unknown => {}
            Protocol::NotRpc if begins_with_call(payload) => {
                // How many bytes were passed over depends on where reading began.
                shared.reach_back(0);
                shared
                    .anomalies
                    .add(Anomaly::UnsynchronisedBytes, self.passed_over);
                self.passed_over = 0;
                self.protocol = Protocol::Unknown;
            }
            protocol => {
                self.passed_over += u64::from(segment.payload_bytes);
                let tls = matches!(protocol, Protocol::RpcOverTls | Protocol::Tls);
                if tls && segment.payload_bytes > 0 {
                    let kind = |ends| TransportKind::Hidden { ends };
                    self.tell_of(side, segment, kind, shared, sink);
                }
                return false;
            }
        }
        if segment.flags & RST != 0 {
            self.close(side, segment, true, shared, sink);
            self.flush([segment.source, segment.destination], side, shared, sink);
            return false;
        }
        true
    }

    /// Tells of something that is no part of the bytes, and whose ends no call need have told.
    fn tell_of<S: Sink>(
        &self,
        side: Side,
        segment: &Segment,
        kind: impl Fn([Endpoint; 2]) -> TransportKind,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let ends = [segment.source, segment.destination];
        let mut scene = Scene {
            connection: self.number,
            from: &segment.source,
            to: &segment.destination,
            calls_known: false,
            shared,
            sink,
        };
        let sender = self.sender(side);
        tell(&mut scene, segment.time_ns, sender, kind(ends));
    }

    pub(super) fn open<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let (ours, theirs) = pick(&mut self.sides, side);
        let again = ours.syn == Some(segment.sequence);
        let first_of_two = segment.flags & ACK == 0;
        let unopened = ours.syn.is_none();
        if self.within && unopened && theirs.syn.is_none() {
            // What was seen of it before is known to those alone who read that.
            if first_of_two && theirs.saw_data() {
                shared.opened_again(segment);
            } else if ours.started || theirs.started || !first_of_two {
                shared.reach_back(0);
            } else {
                return self.begin_anew(segment, side, shared, sink);
            }
        }
        let other = !ours.continues(segment.sequence) || first_of_two && theirs.saw_data();
        if other && !again {
            self.reuse(segment, side, shared, sink);
        }
        let (ours, _) = pick(&mut self.sides, side);
        if ours.syn.is_some() {
            return;
        }
        ours.syn = Some(segment.sequence);
        ours.window.opened(segment);
        if !ours.started {
            ours.start(segment.sequence.wrapping_add(1), true);
        }
        let kind = |ends| TransportKind::Opened { ends };
        self.tell_of(side, segment, kind, shared, sink);
    }

    fn close<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        reset: bool,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let (ours, theirs) = pick(&mut self.sides, side);
        let before = ours.closed;
        ours.closed = true;
        theirs.closed |= reset;
        if !before {
            sink.closed(self.number);
            let kind = |ends| TransportKind::Closed { reset, ends };
            self.tell_of(side, segment, kind, shared, sink);
        }
    }

    /// Another connection begins between the same endpoints.
    #[cold]
    #[inline(never)]
    fn reuse<S: Sink>(&mut self, segment: &Segment, side: Side, shared: &mut Shared, sink: &mut S) {
        shared.anomalies.count(Anomaly::PortReused);
        let began = self.began();
        let next = Connection {
            low: self.low,
            ..Connection::new(shared.number(), segment)
        };
        let old = std::mem::replace(self, next);
        self.within = false;
        self.earlier = Some(Box::new(began));
        old.retire([segment.source, segment.destination], side, shared, sink);
        self.last_ns = segment.time_ns;
    }

    /// Ends both directions; `ends` are the endpoints of `side` and of the other.
    fn flush<S: Sink>(
        &mut self,
        ends: [Endpoint; 2],
        side: Side,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let sender = self.sender(side);
        let calls_known = self.sides.iter().any(|side| side.role() != Role::Unknown);
        let [source, destination] = ends;
        let (ours, theirs) = pick(&mut self.sides, side);
        let flows = [
            (ours, source, destination, sender),
            (theirs, destination, source, sender.other()),
        ];
        for (direction, from, to, sender) in flows {
            let mut scene = Scene {
                connection: self.number,
                from: &from,
                to: &to,
                calls_known,
                shared: &mut *shared,
                sink: &mut *sink,
            };
            direction.flush(sender, self.last_ns, &mut scene);
        }
    }

    /// Ends it; `ends` are the endpoints of `side` and of the other.
    pub(super) fn retire<S: Sink>(
        mut self,
        ends: [Endpoint; 2],
        side: Side,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        self.hurry(shared, sink);
        sink.closed(self.number);
        if matches!(self.protocol, Protocol::Rpc | Protocol::Unknown) {
            self.flush(ends, side, shared, sink);
        }
        if self.protocol == Protocol::Unknown && self.sides.iter().any(|s| s.framer.found_rpc) {
            self.protocol = Protocol::Rpc;
        }
        let bytes = self.passed_over + self.searched();
        let anomalies = &mut shared.anomalies;
        match self.protocol {
            Protocol::Rpc => anomalies.add(Anomaly::UnsynchronisedBytes, bytes),
            Protocol::Unknown | Protocol::NotRpc if bytes > 0 => {
                anomalies.count(Anomaly::TcpNotRpc);
                anomalies.add(Anomaly::TcpNotRpcBytes, bytes);
            }
            Protocol::Unknown | Protocol::NotRpc => {}
            Protocol::RpcOverTls => {
                anomalies.count(Anomaly::RpcOverTls);
                anomalies.add(Anomaly::RpcOverTlsBytes, bytes);
            }
            Protocol::Tls => anomalies.count(Anomaly::TlsStream),
            Protocol::Iwarp => anomalies.count(Anomaly::Iwarp),
        }
        if self.protocol == Protocol::Rpc {
            self.settle_lost(shared);
        }
        for side in &mut self.sides {
            side.discard(shared);
        }
    }

    /// Whether it is known to be of RPC, and no segment of it waits.
    #[inline(always)]
    pub(super) fn is_settled_rpc(&self) -> bool {
        self.protocol == Protocol::Rpc && self.waiting.is_none()
    }
}

/// The direction that `side` sends, and the other.
#[inline(always)]
pub(super) fn pick(sides: &mut [Direction; 2], side: Side) -> (&mut Direction, &mut Direction) {
    let [one, other] = sides;
    if side == 0 {
        (one, other)
    } else {
        (other, one)
    }
}

/// Whether a segment starts with a record mark and a call.
fn begins_with_call(payload: &[u8]) -> bool {
    // Message type and RPC version first: that refuses almost all.
    matches!(payload.get(8..16), Some([0, 0, 0, 0, 0, 0, 0, 2]))
        && matches!(looks_like_record(payload), Some((_, Found::Call(_))))
}
