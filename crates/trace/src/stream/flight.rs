//! Bytes in flight and round trips of one direction, for lenses that look below RPC.
//!
//! Kept only if the sink wants transport events. A round trip runs from the capture of the newest
//! segment that an acknowledgement covers to that acknowledgement; segments sent again give none
//! (Karn's algorithm, RFC 6298 section 3). Where the capture has no acknowledgements (one-sided),
//! a segment's own bytes are all that is said to be in flight.

use std::collections::VecDeque;

use super::Sink;
use super::sender::Sender;
use super::shared::{Scene, Shared};
use crate::block::{ACK, FIN, NO_SCALE, RST, SYN, Segment};
use crate::event::{TransportEvent, TransportKind};
use crate::limits::MAX_FLIGHT;

/// Largest shift of a window (RFC 7323 section 2.3).
const MAX_SCALE: u8 = 14;

#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    time_ns: i64,
    again: bool,
}

/// Segments of one direction whose acknowledgement is awaited.
#[derive(Debug, Default)]
pub(super) struct Flight {
    awaited: VecDeque<Sent>,
}

/// How the window of one side reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// This side's SYN was seen, and answered another SYN.
    syn: Option<(u8, bool)>,
    zero: bool,
}

impl Flight {
    /// A segment with new bytes.
    pub(super) fn send(&mut self, start: u64, end: u64, time_ns: i64, shared: &mut Shared) {
        if self.awaited.len() < MAX_FLIGHT && shared.reserve_flight() {
            self.awaited.push_back(Sent {
                start,
                end,
                time_ns,
                again: false,
            });
        }
    }

    /// Bytes from `start` to `end` were sent again.
    pub(super) fn send_again(&mut self, start: u64, end: u64) {
        let from = self.awaited.partition_point(|sent| sent.end <= start);
        for sent in self.awaited.range_mut(from..) {
            // The first segment that reaches `end` is the last one touched.
            sent.again = true;
            if sent.end >= end {
                break;
            }
        }
    }

    /// Round trip of an acknowledgement up to `position`.
    pub(super) fn acknowledge(
        &mut self,
        position: u64,
        time_ns: i64,
        shared: &mut Shared,
    ) -> Option<i64> {
        let mut newest = None;
        let before = self.awaited.len();
        while let Some(sent) = self.awaited.front().filter(|sent| sent.end <= position) {
            newest = Some(*sent);
            self.awaited.pop_front();
        }
        shared.release_flights(before - self.awaited.len());
        // A large segment that was cut up on its way is acknowledged in parts.
        let partly = self.awaited.front().filter(|sent| sent.start < position);
        let whole = newest.filter(|sent| sent.end == position);
        let newest = partly.copied().or(whole).filter(|sent| !sent.again)?;
        Some(time_ns - newest.time_ns)
    }

    /// Gives its room back.
    pub(super) fn clear(&mut self, shared: &mut Shared) {
        shared.release_flights(self.awaited.len());
        self.awaited = VecDeque::new();
    }
}

impl Window {
    /// This side's SYN states its scale (RFC 7323 section 2.2).
    pub(super) fn opened(&mut self, segment: &Segment) {
        self.syn = Some((segment.window_scale, segment.flags & ACK != 0));
    }

    /// The window offered, and whether its scale is known; `other` is the opposite side.
    pub(super) fn bytes(&self, segment: &Segment, other: &Window) -> (u64, bool) {
        let raw = u64::from(segment.window);
        match self.scale(other) {
            Some((shift, known)) => (raw << shift, known),
            None => (raw, false),
        }
    }

    /// Shift of the window, and whether it is sure, if this side's SYN was seen.
    pub(super) fn scale(&self, other: &Window) -> Option<(u8, bool)> {
        let (scale, answers) = self.syn?;
        // Both sides have to offer scaling; a SYN that answers offers it only if the other did.
        let refused = matches!(other.syn, Some((NO_SCALE, _)));
        if scale == NO_SCALE || refused {
            return Some((0, true));
        }
        let known = answers || other.syn.is_some();
        Some((scale.min(MAX_SCALE), known))
    }

    /// Whether the window falls to zero with this segment, or opens again.
    pub(super) fn turns(&mut self, segment: &Segment) -> Option<TransportKind> {
        let zero = segment.window == 0;
        if zero == self.zero || segment.flags & ACK == 0 || segment.flags & (SYN | FIN | RST) != 0 {
            return None;
        }
        self.zero = zero;
        Some(match zero {
            true => TransportKind::ZeroWindow,
            false => TransportKind::WindowOpened,
        })
    }
}

/// Tells the sink, if it wants to know.
pub(super) fn tell<S: Sink>(
    scene: &mut Scene<'_, S>,
    time_ns: i64,
    sender: Sender,
    kind: TransportKind,
) {
    if scene.sink.wants_transport() {
        scene.sink.transport(&TransportEvent {
            time_ns,
            connection: scene.connection,
            from_client: sender.client,
            kind,
        });
    }
}
