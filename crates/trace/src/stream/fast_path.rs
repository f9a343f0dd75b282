//! The fast paths of segments in a connection where nothing is amiss: one that is exactly one
//! record, and one from the inside of a payload that nobody looks at.
//!
//! Most segments of small calls are the former: the next bytes of their stream, a record mark, a
//! message that ends with the segment. Most of large ones are the latter: they pass by arithmetic.
//! How a side goes on (nothing missing, nothing waiting, its framing at a record mark and trusted,
//! or in a record) is found out after each segment that took the full way, so that the quick ones
//! have to ask for one flag. What is no such segment changes nothing here.

use wire::record::MARK_BYTES;

use super::connection::{Connection, pick};
use super::direction::Direction;
use super::framing::{Role, Step};
use super::plausibility::{Trust, has_rpc_words};
use super::table::Side;
use super::{Message, Sink};
use crate::block::{ACK, FIN, RST, SYN, Segment};
use crate::call::Stamp;

/// The bit of a record mark that ends a record.
const LAST_FRAGMENT: u32 = 1 << 31;

/// How a side goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    /// The full way has to look.
    #[default]
    Full,
    /// With a record mark, if nothing changes.
    Record,
    /// Within a record of which only the ends are kept.
    Inside,
}

impl Direction {
    fn pace(&self) -> Pace {
        let framer = &self.framer;
        if !self.started || self.closed || self.has_hole() || framer.found_tls {
            return Pace::Full;
        }
        let at_mark = framer.step == Step::Mark && framer.is_at_record();
        if at_mark && framer.trust == Trust::Sure && !framer.resynchronised {
            Pace::Record
        } else if framer.step == Step::Record && framer.keeps_ends() {
            Pace::Inside
        } else {
            Pace::Full
        }
    }

    /// The next segment of its stream was seen.
    #[inline(always)]
    fn step(&mut self, segment: &Segment, bytes: usize) {
        self.remember(segment);
        self.next += bytes as u64;
        self.highest = self.highest.max(self.next);
    }
}

impl Connection {
    /// Finds out whether the next segments may take a fast path.
    #[inline(always)]
    pub(super) fn find_pace(&mut self) {
        let [one, other] = &self.sides;
        let calm = self.is_settled_rpc() && !one.has_hole() && !other.has_hole();
        self.paces = match calm {
            true => [one.pace(), other.pace()],
            false => [Pace::Full; 2],
        };
    }

    /// Takes a segment that is one record, or lies inside one; false if it is anything else.
    #[inline(always)]
    pub(super) fn fast_path<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        sink: &mut S,
    ) -> bool {
        let pace = self.paces.get(side).copied().unwrap_or(Pace::Full);
        let number = self.number;
        let (ours, theirs) = pick(&mut self.sides, side);
        let Some((mark, message)) = payload.split_first_chunk::<MARK_BYTES>() else {
            return false;
        };
        let mark = u32::from_be_bytes(*mark);
        let one = (pace == Pace::Record)
            & is_next(segment, payload, ours)
            & (mark == LAST_FRAGMENT | message.len() as u32)
            // A direction's first call tells who the client is.
            & (ours.framer.role != Role::Unknown || message.get(7) == Some(&1));
        if !one || sink.wants_transport() || !has_rpc_words(message) {
            let inside = pace == Pace::Inside && !sink.wants_transport();
            return inside && self.inside_on_fast_path(side, segment, payload);
        }
        self.last_ns = segment.time_ns;
        theirs.note_acknowledgement(segment.acknowledgement);
        ours.step(segment, payload.len());
        let stamp = Stamp {
            time_ns: segment.time_ns,
            frame: segment.frame,
        };
        ours.framer.first = stamp;
        let ends = [&segment.source, &segment.destination];
        sink.message_on_fast_path(&Message::whole(number, ends, message, stamp, false));
        true
    }

    /// Passes a segment inside a record; false if it is not, or reaches what is kept of the end.
    #[inline(never)]
    fn inside_on_fast_path(&mut self, side: Side, segment: &Segment, payload: &[u8]) -> bool {
        let (ours, theirs) = pick(&mut self.sides, side);
        let stamp = Stamp {
            time_ns: segment.time_ns,
            frame: segment.frame,
        };
        if !is_next(segment, payload, ours) || !ours.framer.pass(payload.len(), stamp) {
            return false;
        }
        self.last_ns = segment.time_ns;
        theirs.note_acknowledgement(segment.acknowledgement);
        ours.step(segment, payload.len());
        true
    }
}

/// Whether a segment has the next bytes of its stream, all of them captured, and nothing special.
#[inline(always)]
fn is_next(segment: &Segment, payload: &[u8], ours: &Direction) -> bool {
    (segment.sequence == ours.next as u32)
        & (segment.flags & (SYN | FIN | RST | ACK) == ACK)
        & (payload.len() == segment.payload_bytes as usize)
}
