//! Waiting a moment for bytes that were acknowledged before the capture showed them.
//!
//! An acknowledgement of bytes behind a hole says that the network delivered them. Either the
//! capture lost them, or it shows them later than their acknowledgement: a machine with several
//! receive queues, or two interfaces joined into one capture, swap packets of the two directions.
//! So the connection pauses: such a segment waits, and all behind it, but for those that fill the
//! hole. When it is filled all goes on as if the packets had been captured in order; after
//! [`REORDER_WAIT_NS`] or [`REORDER_SEGMENTS`] the hole is given up and all goes on without. Either
//! way nothing overtakes: calls come out in front of their replies.
//!
//! Only connections with a hole ever come here.

use std::collections::VecDeque;

use super::Sink;
use super::connection::{Connection, pick};
use super::direction::Direction;
use super::framing::Role;
use super::shared::{Scene, Shared};
use super::table::Side;
use crate::block::{ACK, Segment};

/// How long it waits, by the capture's clock: what Wireshark takes for the most that packets
/// overtake each other (its `tcp_out_of_order`), and above the disorder of queues.
const REORDER_WAIT_NS: i64 = 3_000_000;
/// Segments of one connection that wait: what a network driver takes from a queue at once (NAPI).
const REORDER_SEGMENTS: usize = 64;
/// What a waiting segment is charged besides its payload.
const WAITING_BYTES: usize = 256;

/// A segment that waits.
#[derive(Debug)]
struct Waiting {
    side: Side,
    segment: Segment,
    payload: Vec<u8>,
}

impl Waiting {
    fn charge(&self) -> usize {
        self.payload.len() + WAITING_BYTES
    }
}

/// Segments of a connection that wait, in the order of the capture.
#[derive(Debug, Default)]
pub(super) struct OutOfOrder {
    queue: VecDeque<Waiting>,
}

impl OutOfOrder {
    fn pop(&mut self, place: usize, shared: &mut Shared) -> Option<Waiting> {
        let waiting = self.queue.remove(place)?;
        shared.held_changed(waiting.charge(), 0);
        Some(waiting)
    }
}

impl Direction {
    /// Up to where the other side acknowledged, with what `segment` of it adds.
    fn acknowledged_with(&self, segment: Option<&Segment>) -> u64 {
        let more = segment
            .filter(|segment| segment.flags & ACK != 0)
            .map_or(0, |segment| self.position(segment.acknowledgement));
        self.acknowledged.max(more)
    }

    /// Whether bytes behind a hole were acknowledged.
    fn misses(&self, acknowledged: u64) -> bool {
        let front = self.held.as_ref().and_then(|held| held.front());
        front.is_some_and(|front| front <= acknowledged)
    }

    /// Whether a segment brings bytes of the hole.
    fn is_filled_by(&self, segment: &Segment) -> bool {
        // Positions mean something only where the stream has begun, as it has where bytes wait.
        let Some(front) = self.held.as_ref().and_then(|held| held.front()) else {
            return false;
        };
        let start = self.position(segment.sequence);
        start < front && start + u64::from(segment.payload_bytes) > self.next
    }
}

impl Connection {
    /// Takes a segment while there is a hole, or others wait.
    #[cold]
    #[inline(never)]
    pub(super) fn segment_in_turn<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let fills = pick(&mut self.sides, side).0.is_filled_by(segment);
        let waits = match self.waiting {
            Some(_) => !fills,
            None => self.has_to_wait(side, segment),
        };
        let room = shared.held_room(0) >= payload.len() + WAITING_BYTES;
        if waits && !room {
            self.hurry(shared, sink);
            self.give_up_for(side, segment, shared, sink);
        }
        if waits && room {
            let mut kept = shared.take_buffer();
            kept.extend_from_slice(payload);
            let waiting = Waiting {
                side,
                segment: *segment,
                payload: kept,
            };
            shared.held_changed(0, waiting.charge());
            self.waiting
                .get_or_insert_default()
                .queue
                .push_back(waiting);
        } else {
            self.take(side, segment, payload, shared, sink);
        }
        self.go_on(Some(segment.time_ns), shared, sink);
    }

    /// Nothing waits any longer.
    pub(super) fn hurry<S: Sink>(&mut self, shared: &mut Shared, sink: &mut S) {
        self.go_on(None, shared, sink);
    }

    /// Takes what need not wait; all of it if there is no `now_ns`.
    fn go_on<S: Sink>(&mut self, now_ns: Option<i64>, shared: &mut Shared, sink: &mut S) {
        let Some(mut early) = self.waiting.take() else {
            return;
        };
        while let Some(front) = early.queue.front() {
            let mut place = 0;
            if self.has_to_wait(front.side, &front.segment) {
                let filler = early.queue.iter().position(|waiting| {
                    let (ours, _) = pick(&mut self.sides, waiting.side);
                    ours.is_filled_by(&waiting.segment)
                });
                let long = now_ns.is_none_or(|now_ns| {
                    now_ns.saturating_sub(front.segment.time_ns) > REORDER_WAIT_NS
                });
                match filler {
                    Some(filler) => place = filler,
                    None if !long && early.queue.len() < REORDER_SEGMENTS => break,
                    None => self.give_up_for(front.side, &front.segment, shared, sink),
                }
            }
            if let Some(waiting) = early.pop(place, shared) {
                self.take_apart(&waiting, shared, sink);
                shared.give_buffer(waiting.payload);
            }
        }
        if !early.queue.is_empty() {
            self.waiting = Some(early);
        }
    }

    #[inline(never)]
    fn take_apart<S: Sink>(&mut self, waiting: &Waiting, shared: &mut Shared, sink: &mut S) {
        self.take(
            waiting.side,
            &waiting.segment,
            &waiting.payload,
            shared,
            sink,
        );
    }

    /// Whether a segment would pass a hole whose bytes were acknowledged, perhaps by itself.
    fn has_to_wait(&mut self, side: Side, segment: &Segment) -> bool {
        let (ours, theirs) = pick(&mut self.sides, side);
        theirs.misses(theirs.acknowledged_with(Some(segment)))
            || ours.misses(ours.acknowledged) && !ours.is_filled_by(segment)
    }

    /// Gives the holes up that a segment waits for.
    fn give_up_for<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let ends = [
            (side, segment.source, segment.destination, None),
            (1 - side, segment.destination, segment.source, Some(segment)),
        ];
        for (side, from, to, by) in ends {
            let sender = self.sender(side);
            let (ours, theirs) = pick(&mut self.sides, side);
            let mut scene = Scene {
                connection: self.number,
                from: &from,
                to: &to,
                calls_known: theirs.role() != Role::Unknown,
                shared: &mut *shared,
                sink: &mut *sink,
            };
            let acknowledged = ours.acknowledged_with(by);
            if ours.misses(acknowledged) {
                ours.settle(segment.time_ns, acknowledged, sender, &mut scene);
            }
        }
    }
}
