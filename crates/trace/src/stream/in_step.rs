//! The quick way of a segment that is exactly one record, in a connection where nothing is amiss.
//!
//! Most segments of small calls are: the next bytes of their stream, a record mark, a message that
//! ends with the segment. Whether a side is in step (nothing missing, nothing waiting, its framing
//! at a record mark and trusted) is found out after each segment that took the full way, so that
//! the quick one has to ask for one flag. What is no such segment changes nothing here.

use wire::record::MARK_BYTES;

use super::belief::{Trust, believable_in_step};
use super::connection::{Connection, pick};
use super::direction::Direction;
use super::framing::{Role, Step};
use super::table::Side;
use super::{Message, Sink};
use crate::block::{ACK, FIN, RST, SYN, Segment};
use crate::call::Stamp;

/// The bit of a record mark that ends a record.
const LAST_FRAGMENT: u32 = 1 << 31;

impl Direction {
    /// Whether its next byte is a record mark's first, and all before it was well.
    fn is_in_step(&self) -> bool {
        let framer = &self.framer;
        self.started
            && !self.closed
            && !self.has_hole()
            && framer.step == Step::Mark
            && framer.is_at_record()
            && framer.trust == Trust::Sure
            && !framer.found_tls
            && !framer.resynchronised
    }
}

impl Connection {
    /// Finds out whether the next segments may go the quick way.
    #[inline(always)]
    pub(super) fn find_step(&mut self) {
        let [one, other] = &self.sides;
        let calm = self.is_settled_rpc() && !one.has_hole() && !other.has_hole();
        self.in_step = [calm && one.is_in_step(), calm && other.is_in_step()];
    }

    /// Hands on the record that the segment is; false if it is anything else.
    #[inline(always)]
    pub(super) fn one_record_in_step<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        sink: &mut S,
    ) -> bool {
        let in_step = self.in_step.get(side).copied().unwrap_or(false);
        let number = self.number;
        let (ours, theirs) = pick(&mut self.sides, side);
        let Some((mark, message)) = payload.split_first_chunk::<MARK_BYTES>() else {
            return false;
        };
        let mark = u32::from_be_bytes(*mark);
        let one = in_step
            & (segment.sequence == ours.next as u32)
            & (segment.flags & (SYN | FIN | RST | ACK) == ACK)
            & (payload.len() == segment.payload_bytes as usize)
            & (mark == LAST_FRAGMENT | message.len() as u32)
            // A direction's first call tells who the client is.
            & (ours.framer.role != Role::Unknown || message.get(7) == Some(&1));
        if !one || sink.wants_transport() || !believable_in_step(message) {
            return false;
        }
        self.last_ns = segment.time_ns;
        theirs.acknowledged_up_to(segment.acknowledgement);
        ours.remember(segment);
        ours.next += payload.len() as u64;
        ours.highest = ours.highest.max(ours.next);
        let stamp = Stamp {
            time_ns: segment.time_ns,
            frame: segment.frame,
        };
        ours.framer.first = stamp;
        let ends = [&segment.source, &segment.destination];
        sink.message(&Message::whole(number, ends, message, stamp, false));
        true
    }
}
