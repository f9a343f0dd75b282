//! Holes in one direction of a TCP connection.
//!
//! A hole is waited for. It is given up when the other side acknowledged bytes behind it (the
//! network delivered them: the capture lost them, or shows them in a moment:
//! [`super::out_of_order`]), when too much waits behind it, or after [`HOLE_WAIT_NS`] without
//! progress.

use super::Sink;
use super::anomaly::Anomaly;
use super::direction::Direction;
use super::flight::tell;
use super::held::Piece;
use super::sender::Sender;
use super::shared::Scene;
use crate::event::TransportKind;
use crate::limits::{HOLE_WAIT_NS, MAX_HELD_BYTES};

/// Bytes acknowledged at the end without having been seen that are believed to have existed.
const MAX_UNSEEN_TAIL_BYTES: u64 = 64 << 20;

impl Direction {
    /// Keeps a segment until what lies in front of it is there; false if nothing in it is new.
    pub(super) fn hold<S: Sink>(
        &mut self,
        piece: &Piece<'_>,
        sender: Sender,
        scene: &mut Scene<'_, S>,
    ) -> bool {
        let time_ns = piece.stamp.time_ns;
        let mut passed = false;
        loop {
            let piece = piece.part(self.next, piece.end);
            if piece.start == piece.end {
                return passed;
            }
            let held = self.held.get_or_insert_with(|| {
                self.hole_since_ns = time_ns;
                scene.shared.take_holder()
            });
            let before = held.charge();
            let room = scene.shared.held_room(before).min(MAX_HELD_BYTES);
            if held.has_room(piece.bytes.len(), room) {
                let fresh = held.insert(&piece);
                scene.shared.held_changed(before, held.charge());
                return fresh || passed;
            }
            scene.shared.held_changed(before, held.charge());
            scene.shared.anomalies.count(Anomaly::HeldBound);
            match held.front() {
                Some(front) if front <= piece.start => {
                    self.give_up(sender, time_ns, scene);
                }
                front => {
                    // It lies in front of all that waits: the hole ends with it.
                    if piece.start > self.next {
                        self.lose(piece.start, sender, time_ns, scene);
                    }
                    self.pass(&piece.part(piece.start, front.unwrap_or(piece.end)), scene);
                    passed = true;
                }
            }
            self.advance(time_ns, scene);
        }
    }

    /// Passes on what is in order now, and gives holes up that lie in front of `acknowledged` or
    /// that nothing filled for long.
    #[cold]
    #[inline(never)]
    pub(super) fn settle<S: Sink>(
        &mut self,
        time_ns: i64,
        acknowledged: u64,
        sender: Sender,
        scene: &mut Scene<'_, S>,
    ) {
        loop {
            self.advance(time_ns, scene);
            let Some(front) = self.held.as_ref().and_then(|held| held.front()) else {
                return;
            };
            let waited_ns = time_ns.saturating_sub(self.hole_since_ns);
            if acknowledged < front && waited_ns <= HOLE_WAIT_NS {
                return;
            }
            self.give_up(sender, time_ns, scene);
        }
    }

    /// Passes held bytes on up to the next hole.
    fn advance<S: Sink>(&mut self, time_ns: i64, scene: &mut Scene<'_, S>) {
        let Some(held) = self.held.as_mut() else {
            return;
        };
        let before = held.charge();
        while let Some(piece) = held.take_ready(self.next) {
            self.hole_since_ns = time_ns;
            if piece.end <= self.next {
                continue;
            }
            let piece = piece.part(self.next, piece.end);
            self.next = piece.end;
            self.framer.bytes(piece.bytes, piece.stamp, scene);
            let cut = piece.cut_bytes();
            if cut > 0 {
                self.framer.gap(cut, Some(piece.stamp), scene);
            }
        }
        let empty = held.front().is_none();
        scene
            .shared
            .held_changed(before, if empty { 0 } else { held.charge() });
        if empty && let Some(held) = self.held.take() {
            scene.shared.give_holder(held);
        }
    }

    /// What lies in front of the first held piece never came.
    fn give_up<S: Sink>(&mut self, sender: Sender, time_ns: i64, scene: &mut Scene<'_, S>) {
        if let Some(front) = self.held.as_ref().and_then(|held| held.front())
            && front > self.next
        {
            self.lose(front, sender, time_ns, scene);
        }
    }

    fn lose<S: Sink>(&mut self, end: u64, sender: Sender, time_ns: i64, scene: &mut Scene<'_, S>) {
        let bytes = end - self.next;
        self.lost.bytes += bytes;
        self.lost.gaps += 1;
        self.given_up = (self.next, end);
        self.next = end;
        tell(scene, time_ns, sender, TransportKind::Lost { bytes });
        self.framer.gap(bytes, None, scene);
    }

    /// The direction ends: nothing is waited for any longer.
    pub(super) fn flush<S: Sink>(
        &mut self,
        sender: Sender,
        time_ns: i64,
        scene: &mut Scene<'_, S>,
    ) {
        while self.held.is_some() {
            self.give_up(sender, time_ns, scene);
            self.advance(time_ns, scene);
        }
        // Acknowledged but never seen; a FIN takes one number.
        let unseen = self.acknowledged.saturating_sub(self.next);
        if self.started && unseen > 1 && unseen <= MAX_UNSEEN_TAIL_BYTES {
            self.lose(self.acknowledged, sender, time_ns, scene);
        }
        self.framer.drop_carry(scene);
        self.framer.abandon(scene);
        self.flight.clear(scene.shared);
    }
}
