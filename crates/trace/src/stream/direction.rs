//! One direction of a TCP connection: segments in the order of the capture become bytes in the
//! order of the stream (RFC 9293 section 3.4).
//!
//! Positions are sequence numbers widened to 64 bits, so that wrapping needs no care: a position's
//! low half is the sequence number. What came first wins; what comes again is told apart by where
//! it lies and by its IP identification (the same packet captured twice, sent again, late).
//!
//! What comes early waits ([`super::holes`]).

mod state_eq;

use super::Sink;
use super::anomaly::Anomaly;
use super::flight::{Flight, Window, tell};
use super::framing::{Framer, Role};
use super::held::{Held, Piece};
use super::sender::Sender;
use super::shared::{Scene, Shared};
use crate::block::{SYN, Segment};
use crate::call::Stamp;
use crate::event::{Again, TransportKind};
use crate::limits::DUPLICATE_WITHOUT_ID_NS;
use crate::packet::Lost;

/// Packets remembered to recognise those captured twice; the copy follows closely.
const REMEMBERED: usize = 8;
/// The bit of a mark that is a time, in ticks of about a microsecond, ...
const WITHOUT_ID: u32 = 1 << 31;
const TICK_BITS: u32 = 10;
/// ... and how many of them a copy may come later.
const SOON: u32 = (DUPLICATE_WITHOUT_ID_NS >> TICK_BITS) as u32;
/// Where positions begin: room below for what came before the first segment seen.
const FIRST_EPOCH: u64 = 1 << 33;
/// Old bytes in a row, without a new one, after which the sequence is taken to have moved: more
/// than a sender keeps to send again.
const JUMP_BYTES: u64 = 16 << 20;
/// Largest distance behind that a segment sent again can have: the largest window.
const MAX_WINDOW_BYTES: u64 = 1 << 30;
/// Segments in a row that have to agree before a far jump is believed.
const JUMP_SEGMENTS: u32 = 3;
/// A hole filled later than this was filled by sending again, if identifications do not tell.
const REORDER_NS: i64 = 3_000_000;

/// Old segments in a row.
#[derive(Clone, Copy, Debug, Default)]
struct OldRun {
    end: u64,
    bytes: u64,
    segments: u32,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Direction {
    pub(super) framer: Framer,
    /// A sequence number is known.
    pub(super) started: bool,
    /// The SYN's sequence number.
    pub(super) syn: Option<u32>,
    pub(super) closed: bool,
    pub(super) window: Window,
    /// Holes that were given up.
    pub(super) lost: Lost,
    pub(super) next: u64,
    pub(super) origin: u64,
    pub(super) highest: u64,
    /// Up to where the other side acknowledged; 0 before the first acknowledgement.
    pub(super) acknowledged: u64,
    pub(super) held: Option<Box<Held>>,
    pub(super) hole_since_ns: i64,
    pub(super) given_up: (u64, u64),
    old_run: OldRun,
    remembered: [(u32, u32); REMEMBERED],
    remembered_at: usize,
    /// When the other side last said that bytes are missing.
    pub(super) asked_again_ns: Option<i64>,
    pub(super) flight: Flight,
    /// Where the next byte was at each checkpoint ([`super::state_eq`]); empty where nobody asks.
    pub(super) horizons: Vec<u64>,
    /// The first sequence number with payload, where no SYN was seen.
    pub(super) first: Option<u32>,
    /// Furthest acknowledgement of the other side before any payload.
    pub(super) early_acknowledgement: Option<u32>,
    /// Bytes from before the first ones came later, or it began twice; or a transport event that
    /// depends on what was acknowledged before.
    pub(super) looked_back: bool,
}

impl Direction {
    /// Position of a sequence number, near the next byte expected.
    #[inline(always)]
    pub(super) fn position(&self, sequence: u32) -> u64 {
        let ahead = sequence.wrapping_sub(self.next as u32) as i32;
        self.next.wrapping_add_signed(i64::from(ahead))
    }

    /// The first byte will be `sequence`; `from_start`: it is the connection's first.
    pub(super) fn start(&mut self, sequence: u32, from_start: bool) {
        let (role, begun_within) = (self.framer.role, self.framer.begun_within);
        self.framer = Framer::new(from_start);
        self.framer.role = role;
        self.framer.begun_within = begun_within;
        self.started = true;
        self.next = FIRST_EPOCH | u64::from(sequence);
        self.origin = self.next;
        self.highest = self.next;
        self.acknowledged = if from_start { self.next } else { 0 };
        self.given_up = (0, 0);
        self.old_run = OldRun::default();
        self.horizons.fill(self.origin);
    }

    /// Whether a SYN with this sequence number belongs to what was seen.
    pub(super) fn continues(&self, sequence: u32) -> bool {
        match self.syn {
            Some(syn) => syn == sequence,
            None => !self.started || self.origin as u32 == sequence.wrapping_add(1),
        }
    }

    /// Whether any payload was seen.
    pub(super) fn saw_data(&self) -> bool {
        self.started && self.highest > self.origin
    }

    /// Whether a segment goes on, roughly, where this direction is.
    pub(super) fn is_near(&self, sequence: u32) -> bool {
        !self.started || self.position(sequence).abs_diff(self.next) <= JUMP_BYTES
    }

    /// The other side acknowledged bytes of this direction. Returns their position if they are
    /// more than before, and whether there was a "before".
    #[inline(always)]
    pub(super) fn acknowledged_up_to(&mut self, acknowledgement: u32) -> Option<(u64, bool)> {
        let position = self.position(acknowledgement);
        if !self.started {
            self.note_early(acknowledgement);
            return None;
        }
        if position <= self.acknowledged {
            return None;
        }
        let before = self.acknowledged != 0;
        self.acknowledged = position;
        Some((position, before))
    }

    #[cold]
    fn note_early(&mut self, acknowledgement: u32) {
        let known = self.early_acknowledgement.get_or_insert(acknowledgement);
        if acknowledgement.wrapping_sub(*known) as i32 > 0 {
            *known = acknowledgement;
        }
    }

    /// The same where nobody asks whether they are more: no branch, since nobody can tell.
    #[inline(always)]
    pub(super) fn note_acknowledgement(&mut self, acknowledgement: u32) {
        let position = self.position(acknowledgement).max(self.acknowledged);
        self.acknowledged = match self.started {
            true => position,
            false => self.acknowledged,
        };
    }

    /// The same, with its event; `segment` is the other side's.
    pub(super) fn acknowledge<S: Sink>(
        &mut self,
        segment: &Segment,
        window: (u64, bool),
        sender: Sender,
        scene: &mut Scene<'_, S>,
    ) {
        let all_before = self.acknowledged == self.next;
        let more = self.acknowledged_up_to(segment.acknowledgement);
        if !scene.sink.wants_transport() {
            return;
        }
        if let Some((position, before)) = more {
            let round_trip_ns = self
                .flight
                .acknowledge(position, segment.time_ns, scene.shared);
            // A FIN takes one number, and is no byte.
            let of_fin = self.closed && all_before && position == self.next + 1;
            if round_trip_ns.is_some() || before && !of_fin {
                let kind = TransportKind::Acknowledged {
                    round_trip_ns,
                    window_bytes: window.0,
                    window_known: window.1,
                };
                tell(scene, segment.time_ns, sender, kind);
            }
        }
    }

    /// Whether bytes wait behind a hole.
    #[inline(always)]
    pub(super) fn has_hole(&self) -> bool {
        self.held.is_some()
    }

    /// Takes a segment's payload.
    #[inline(always)]
    pub(super) fn data<S: Sink>(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        sender: Sender,
        scene: &mut Scene<'_, S>,
    ) {
        // A SYN takes one number.
        let syn = u32::from(segment.flags & SYN != 0);
        let sequence = segment.sequence.wrapping_add(syn);
        if !self.started {
            self.looked_back |= self.first.is_some();
            self.first.get_or_insert(sequence);
            self.start(sequence, false);
        }
        let start = self.position(sequence);
        let end = start + u64::from(segment.payload_bytes);
        let payload = payload
            .get(..segment.payload_bytes as usize)
            .unwrap_or(payload);
        let piece = Piece {
            start,
            end,
            bytes: payload,
            stamp: Stamp {
                time_ns: segment.time_ns,
                frame: segment.frame,
            },
            ip_id: segment.ip_id,
        };
        if start == self.next && self.held.is_none() {
            self.remember(segment);
            self.sent(&piece, sender, scene);
            self.pass(&piece, scene);
        } else {
            self.odd(segment, &piece, sender, scene);
        }
    }

    /// Bytes in order.
    #[inline(always)]
    pub(super) fn pass<S: Sink>(&mut self, piece: &Piece<'_>, scene: &mut Scene<'_, S>) {
        self.next = piece.end;
        self.framer.bytes(piece.bytes, piece.stamp, scene);
        let cut = piece.cut_bytes();
        if cut > 0 {
            self.framer.gap(cut, Some(piece.stamp), scene);
        }
    }

    #[inline(always)]
    pub(super) fn remember(&mut self, segment: &Segment) {
        let place = self.remembered_at % REMEMBERED;
        if let Some(packet) = self.remembered.get_mut(place) {
            *packet = (segment.sequence, mark(segment));
        }
        self.remembered_at = place + 1;
        self.old_run.bytes = 0;
    }

    fn captured_twice(&self, segment: &Segment, end: u64) -> bool {
        let mark = mark(segment);
        if segment.ip_id != 0 {
            return self.remembered.contains(&(segment.sequence, mark));
        }
        let soon = |&(sequence, at): &(u32, u32)| {
            sequence == segment.sequence
                && at & WITHOUT_ID != 0
                && mark.wrapping_sub(at) & !WITHOUT_ID <= SOON
        };
        // Sooner than a timeout a sender sends again only what it was asked for.
        let asked_again_ns = self.asked_again_ns.unwrap_or(i64::MIN);
        let asked_ns = segment.time_ns.saturating_sub(asked_again_ns);
        end <= self.next && asked_ns > DUPLICATE_WITHOUT_ID_NS && self.remembered.iter().any(soon)
    }

    /// New bytes were sent.
    #[inline(always)]
    fn sent<S: Sink>(&mut self, piece: &Piece<'_>, sender: Sender, scene: &mut Scene<'_, S>) {
        if scene.sink.wants_transport() {
            let (start, end, time_ns) = (piece.start, piece.end, piece.stamp.time_ns);
            self.flight.send(start, end, time_ns, scene.shared);
            let from = match self.acknowledged {
                0 => piece.start,
                position => position.min(end),
            };
            let kind = TransportKind::Sent {
                bytes: (piece.end - piece.start) as u32,
                in_flight_bytes: self.highest.max(end) - from,
            };
            tell(scene, time_ns, sender, kind);
        }
        self.highest = self.highest.max(piece.end);
    }

    /// A segment that is not simply the next.
    #[cold]
    #[inline(never)]
    fn odd<S: Sink>(
        &mut self,
        segment: &Segment,
        piece: &Piece<'_>,
        sender: Sender,
        scene: &mut Scene<'_, S>,
    ) {
        let keep_alive = piece.end - piece.start <= 1 && piece.start + 1 == self.next;
        if keep_alive {
            return;
        }
        self.looked_back |= piece.start < self.origin;
        if let Some(checkpoint) = self.horizons.iter().position(|at| piece.start < *at) {
            scene.shared.reach_back(checkpoint);
        }
        if self.captured_twice(segment, piece.end) {
            scene.shared.anomalies.count(Anomaly::DuplicatePacket);
            return;
        }
        if piece.end <= self.next {
            return self.old(piece, sender, scene);
        }
        self.remember(segment);
        let highest = self.highest;
        if piece.end > highest {
            self.sent(piece, sender, scene);
        }
        if self.held.is_none() && piece.start <= self.next {
            // Its front came before.
            self.again(piece, Again::Unacknowledged, sender, scene);
            let piece = piece.part(self.next, piece.end);
            return self.pass(&piece, scene);
        }
        let behind = self.held.as_ref().and_then(|held| held.front_packet());
        let fresh = self.hold(piece, sender, scene);
        if piece.end <= highest {
            match behind {
                Some(behind) if fresh && is_reordered(piece, behind) => {
                    scene.shared.anomalies.count(Anomaly::TcpOutOfOrder);
                    let time_ns = piece.stamp.time_ns;
                    tell(scene, time_ns, sender, TransportKind::OutOfOrder);
                }
                _ => {
                    let of = if fresh {
                        Again::Filled
                    } else {
                        Again::Unacknowledged
                    };
                    self.again(piece, of, sender, scene);
                }
            }
        }
        self.settle(piece.stamp.time_ns, 0, sender, scene);
    }

    /// All of a segment's bytes lie in front of the next byte expected.
    fn old<S: Sink>(&mut self, piece: &Piece<'_>, sender: Sender, scene: &mut Scene<'_, S>) {
        if self.jumped(piece) {
            scene.shared.anomalies.count(Anomaly::SequenceJump);
            self.flush(sender, piece.stamp.time_ns, scene);
            self.start(piece.start as u32, false);
            let piece = Piece {
                start: self.next,
                end: self.next + (piece.end - piece.start),
                ..*piece
            };
            return self.pass(&piece, scene);
        }
        let (gap_start, gap_end) = self.given_up;
        if piece.start < gap_end && piece.end > gap_start {
            scene.shared.anomalies.count(Anomaly::TcpLate);
        } else if piece.start < self.origin {
            scene.shared.anomalies.count(Anomaly::TcpBeforeFirst);
        } else {
            let of = match self.acknowledged >= piece.end {
                true => Again::Acknowledged,
                false => Again::Unacknowledged,
            };
            self.again(piece, of, sender, scene);
        }
    }

    /// Bytes were sent again.
    fn again<S: Sink>(
        &mut self,
        piece: &Piece<'_>,
        of: Again,
        sender: Sender,
        scene: &mut Scene<'_, S>,
    ) {
        scene.shared.anomalies.count(Anomaly::TcpRetransmission);
        if scene.sink.wants_transport() {
            self.flight.send_again(piece.start, piece.end);
            let bytes = (piece.end - piece.start) as u32;
            let kind = TransportKind::Retransmitted { bytes, of };
            tell(scene, piece.stamp.time_ns, sender, kind);
        }
    }

    /// Whether old segments in a row show that the sequence moved (a hole of gigabytes).
    fn jumped(&mut self, piece: &Piece<'_>) -> bool {
        let run = &mut self.old_run;
        if run.bytes == 0 || piece.start != run.end {
            *run = OldRun::default();
        }
        run.end = piece.end;
        run.bytes += piece.end - piece.start;
        run.segments += 1;
        let far = self.next - piece.end > MAX_WINDOW_BYTES && run.segments >= JUMP_SEGMENTS;
        let jumped = far || run.bytes > JUMP_BYTES;
        if jumped {
            self.old_run = OldRun::default();
        }
        jumped
    }

    /// Gives all room back, without a word: the connection is of no interest.
    pub(super) fn discard(&mut self, shared: &mut Shared) {
        if let Some(held) = self.held.take() {
            shared.held_changed(held.charge(), 0);
            shared.give_holder(held);
        }
        self.framer.discard(shared);
        self.flight.clear(shared);
        self.started = false;
    }

    /// Who sends calls in this direction.
    #[inline(always)]
    pub(super) fn role(&self) -> Role {
        self.framer.role
    }
}

/// What tells a packet from another one with the same bytes: its identification, or its time.
#[inline(always)]
fn mark(segment: &Segment) -> u32 {
    match segment.ip_id {
        0 => WITHOUT_ID | (segment.time_ns >> TICK_BITS) as u32,
        id => id,
    }
}

/// Whether a segment that fills a hole was overtaken on its way (rather than sent again); `behind`
/// is the identification and time of the packet behind the hole. Senders count identifications up.
fn is_reordered(piece: &Piece<'_>, behind: (u32, i64)) -> bool {
    let (ip_id, time_ns) = behind;
    if piece.ip_id != 0 && ip_id != 0 {
        (piece.ip_id.wrapping_sub(ip_id) as i16) < 0
    } else {
        piece.stamp.time_ns.saturating_sub(time_ns) <= REORDER_NS
    }
}
