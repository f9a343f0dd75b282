//! Byte streams put together again, and the RPC messages in them.
//!
//! ```text
//! Segment ─> table ─> connection ─> direction ─> framing ─> Sink::message
//!            (udp)                  + held       + search
//!                                   + flight ───────────── > Sink::transport
//! ```
//!
//! * `table`: connections by endpoints; `connection`: opening, closing, reuse of ports, and
//!   whether it is RPC at all; `udp`: datagrams, which are messages as they are.
//! * `direction`: segments in the order of the capture to bytes in the order of the stream;
//!   `holes` and `held` keep what came early, `out_of_order` what must not come out before it;
//!   `flight` sees windows and round trips.
//! * `fast_path`: a segment that is one whole record, or within one, where nothing
//!   is amiss.
//! * `framing`: bytes to records, payloads passed by arithmetic; `record` keeps the one under way;
//!   `plausibility` doubts it; `search` finds the next one behind a hole.
//!
//! Decisions: RPC is recognised by its bytes, never by ports. What came first wins. A hole costs
//! the records that lie in it and no others; its bytes are counted ([`Counters::lost`]). A record
//! that was found by searching says so. Times are those of the segments that hold a message's first
//! byte (its record mark counts as its front) and last byte, whatever order they came in. Where the
//! capture cut packets short, the cut bytes' number and time are known: records go on by
//! arithmetic, unless a record mark was cut away.
//!
//! Limits: connections that were found to carry no RPC give no transport events. Counters are whole
//! only after [`Streams::finish`]: what a connection carries may turn out at its end.

mod anomaly;
mod connection;
mod direction;
mod fast_path;
mod flight;
mod framing;
mod held;
mod holes;
mod out_of_order;
mod plausibility;
mod record;
mod search;
mod sender;
mod shared;
mod state_eq;
mod table;
mod udp;

#[cfg(test)]
mod tests;

pub use anomaly::{Anomaly, Counters};
pub use state_eq::{Began, Ends, Idle, Paired, Rest};

use self::connection::Connection;
use self::shared::Shared;
use self::table::{Side, Table};
use self::udp::Udp;
use crate::block::{Endpoint, Segment, Transport};
use crate::call::Stamp;
use crate::event::TransportEvent;
pub use crate::packet::Lost;

/// An RPC message (record) found in a stream or datagram. Its inside may not have been kept.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The connection's number, counted from 0 in the order of first sight.
    pub connection: u32,
    /// Who sent it.
    pub from: &'a Endpoint,
    /// To whom.
    pub to: &'a Endpoint,
    /// How.
    pub transport: Transport,
    /// Bytes from its front (RPC header first, without record marks).
    pub head: &'a [u8],
    /// Bytes not kept behind `head` (the inside of a payload); 0 almost always.
    pub missing: usize,
    /// Bytes behind the missing ones.
    pub tail: &'a [u8],
    /// Whether head, missing and tail are the whole message (false: the capture cut it).
    pub complete: bool,
    /// Length of the message on the wire, without record marks.
    pub wire_bytes: u32,
    /// First byte.
    pub first: Stamp,
    /// Last byte.
    pub last: Stamp,
    /// Found by searching behind a hole or in the middle of a stream.
    pub resynchronised: bool,
    /// IP identification of its (last) packet, 0 if none: UDP only.
    pub ip_id: u32,
}

impl<'a> Message<'a> {
    /// A record of one fragment that lies whole in one segment, as most do.
    #[inline(always)]
    fn whole(
        connection: u32,
        [from, to]: [&'a Endpoint; 2],
        head: &'a [u8],
        stamp: Stamp,
        resynchronised: bool,
    ) -> Self {
        Message {
            connection,
            from,
            to,
            transport: Transport::Tcp,
            head,
            missing: 0,
            tail: &[],
            complete: true,
            wire_bytes: head.len() as u32,
            first: stamp,
            last: stamp,
            resynchronised,
            ip_id: 0,
        }
    }
}

/// The front of a message that is longer than its head.
#[derive(Clone, Copy, Debug)]
pub struct Front<'a> {
    /// As in [`Message`].
    pub connection: u32,
    /// The sender.
    pub from: &'a Endpoint,
    /// The receiver.
    pub to: &'a Endpoint,
    /// At least the first [`HEAD_BYTES`] of the message.
    pub head: &'a [u8],
    /// The message's length, where the record marks that came tell it, bytes.
    pub total: Option<usize>,
}

/// How much of a long message is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of it (directories, attributes, ...).
    Whole,
    /// Its head and tail: the inside is a READ's or WRITE's payload.
    Ends,
}

/// Takes what streams give.
pub trait Sink {
    /// A message ended. Messages of one direction come in order.
    fn message(&mut self, message: &Message<'_>);
    /// The same for a whole record that lies in one segment of a connection in which nothing is
    /// amiss: nearly all are, so this may be compiled into the way there.
    #[inline(always)]
    fn message_on_fast_path(&mut self, message: &Message<'_>) {
        self.message(message);
    }
    /// Asked once for a message longer than its head: what of it is wanted.
    fn keep(&mut self, front: &Front<'_>) -> Keep;
    /// Whether a reply with this xid from here is awaited (or was there already): what makes a
    /// reply believable that was found by searching behind a hole.
    fn expects(&self, connection: u32, from: &Endpoint, to: &Endpoint, xid: u32) -> bool;
    /// A connection ends: one side closed or reset it, its ports are used anew, or it was given up.
    /// Messages may still follow.
    fn closed(&mut self, _connection: u32) {}
    /// Whether [`Sink::transport`] is to be called at all.
    fn wants_transport(&self) -> bool;
    /// Something below RPC.
    fn transport(&mut self, event: &TransportEvent);
}

/// Bytes of a long message's front that are always kept: RPC header with the largest credential
/// and verifier, and the operations in front of a payload.
pub const HEAD_BYTES: usize = 2048;
/// Bytes kept of the end of a message of which only the ends are kept.
pub const TAIL_BYTES: usize = 1024;

/// All streams of a capture.
#[derive(Debug, Default)]
pub struct Streams {
    connections: Table<Connection>,
    udp: Udp,
    shared: Shared,
}

impl Streams {
    /// Takes the next segment of the capture, with the payload that was captured of it.
    #[inline]
    pub fn segment<S: Sink>(&mut self, segment: &Segment, payload: &[u8], sink: &mut S) {
        if segment.transport == Transport::Udp {
            return self.udp.datagram(segment, payload, &mut self.shared, sink);
        }
        let found = self.connections.find(&segment.source, &segment.destination);
        let (slot, side) = match found {
            Some(found) => found,
            None => (self.connect(segment, sink), 0),
        };
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.segment(side, segment, payload, &mut self.shared, sink);
        }
    }

    #[cold]
    #[inline(never)]
    fn connect<S: Sink>(&mut self, segment: &Segment, sink: &mut S) -> usize {
        let mut connection = Connection::new(self.shared.number(), segment);
        connection.low = Side::from(segment.source > segment.destination);
        let ends = [segment.source, segment.destination];
        let (slot, gone) = self.connections.insert(ends, connection);
        if let Some((ends, gone)) = gone {
            self.shared.anomalies.count(Anomaly::ConnectionsEvicted);
            gone.retire(ends, 0, &mut self.shared, sink);
        }
        slot
    }

    /// The capture ended: what is under way is handed on as far as it goes.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) {
        let mut all: Vec<_> = self.connections.drain().collect();
        let transport = sink.wants_transport();
        if transport {
            // Which one, or which side, was seen first depends on where reading began.
            all.sort_by_key(|([one, other], _)| (*one.min(other), *one.max(other)));
        }
        for ([one, other], connection) in all {
            let (ends, side) = match transport && connection.low == 1 {
                true => ([other, one], 1),
                false => ([one, other], 0),
            };
            connection.retire(ends, side, &mut self.shared, sink);
        }
    }

    /// Bytes kept now of all connections, behind holes and of records under way: bounded by
    /// [`crate::limits::MAX_HELD_BYTES_TOTAL`] and [`crate::limits::MAX_PARTIAL_BYTES_TOTAL`],
    /// 0 after [`Streams::finish`].
    pub fn kept_bytes(&self) -> usize {
        self.shared.kept_bytes()
    }

    /// What was odd, and what was lost; whole after [`Streams::finish`].
    pub fn counters(&self) -> Counters {
        let Shared {
            anomalies, lost, ..
        } = self.shared;
        Counters { anomalies, lost }
    }

    /// Counts go on from these.
    pub fn set_counters(&mut self, counters: Counters) {
        self.shared.anomalies = counters.anomalies;
        self.shared.lost = counters.lost;
    }
}
