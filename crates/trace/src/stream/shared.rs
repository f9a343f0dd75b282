//! What all connections share: counters, the bounds over all of them, and buffers used again.

use super::anomaly::Anomalies;
use super::held::Held;
use super::state_eq::{Ends, in_order};
use super::{Endpoint, Sink};
use crate::block::{Segment, Transport};
use crate::limits::{MAX_FLIGHT_TOTAL, MAX_HELD_BYTES_TOTAL, MAX_PARTIAL_BYTES_TOTAL};
use crate::packet::Lost;

/// Connections opened again that are told apart.
const MAX_OPENED: usize = 4096;
/// Buffers and holders kept for the next use.
const SPARES: usize = 32;
/// Largest buffer kept for the next use, bytes.
const SPARE_BUFFER_BYTES: usize = 128 << 10;

/// Counters, totals and spare buffers.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) anomalies: Anomalies,
    pub(super) lost: Lost,
    /// Connections numbered so far.
    pub(super) numbered: u32,
    /// The first checkpoint that anything since the last one looked back behind.
    pub(super) reached_back: Option<usize>,
    /// Connections that were opened again since the last checkpoint, whose SYN before that was not
    /// seen, and the SYN's sequence number.
    pub(super) opened: Vec<(Ends, u32)>,
    held_bytes: usize,
    partial_bytes: usize,
    flights: usize,
    buffers: Vec<Vec<u8>>,
    #[expect(
        clippy::vec_box,
        reason = "a holder goes from here to a connection as its box"
    )]
    holders: Vec<Box<Held>>,
}

impl Shared {
    /// The next connection's number.
    pub(super) fn number(&mut self) -> u32 {
        let number = self.numbered;
        self.numbered = self.numbered.wrapping_add(1);
        number
    }

    /// What is read now depends on what was read before this checkpoint.
    #[cold]
    pub(super) fn reach_back(&mut self, checkpoint: usize) {
        let before = self.reached_back.unwrap_or(usize::MAX);
        self.reached_back = Some(before.min(checkpoint));
    }

    /// A connection is opened again, whose SYN before that was not seen.
    #[cold]
    pub(super) fn opened_again(&mut self, segment: &Segment) {
        if self.opened.len() >= MAX_OPENED {
            return self.reach_back(0);
        }
        let ends = in_order(&[segment.source, segment.destination], Transport::Tcp);
        self.opened.push((ends, segment.sequence));
    }

    /// Bytes kept in all.
    pub(super) fn kept_bytes(&self) -> usize {
        self.held_bytes + self.partial_bytes + self.flights
    }

    /// Room behind holes that is left over all connections, given what one has already.
    pub(super) fn held_room(&self, own_bytes: usize) -> usize {
        (MAX_HELD_BYTES_TOTAL + own_bytes).saturating_sub(self.held_bytes)
    }

    /// A holder's charge changed.
    pub(super) fn held_changed(&mut self, before: usize, after: usize) {
        self.held_bytes = (self.held_bytes + after).saturating_sub(before);
    }

    pub(super) fn take_holder(&mut self) -> Box<Held> {
        self.holders.pop().unwrap_or_default()
    }

    pub(super) fn give_holder(&mut self, mut holder: Box<Held>) {
        if holder.reset() && self.holders.len() < SPARES {
            self.holders.push(holder);
        }
    }

    /// Takes room for bytes of a record under way; false if there is none.
    #[inline(always)]
    pub(super) fn reserve_partial(&mut self, bytes: usize) -> bool {
        let room = self.partial_bytes + bytes <= MAX_PARTIAL_BYTES_TOTAL;
        if room {
            self.partial_bytes += bytes;
        }
        room
    }

    #[inline(always)]
    pub(super) fn release_partial(&mut self, bytes: usize) {
        self.partial_bytes = self.partial_bytes.saturating_sub(bytes);
    }

    #[inline(always)]
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BUFFER_BYTES && self.buffers.len() < SPARES {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Takes room for one segment whose acknowledgement is awaited; false if there is none.
    pub(super) fn reserve_flight(&mut self) -> bool {
        let room = self.flights < MAX_FLIGHT_TOTAL;
        self.flights += usize::from(room);
        room
    }

    pub(super) fn release_flights(&mut self, segments: usize) {
        self.flights = self.flights.saturating_sub(segments);
    }
}

/// Where bytes travel, and who is told.
pub(super) struct Scene<'a, S: Sink> {
    pub(super) connection: u32,
    pub(super) from: &'a Endpoint,
    pub(super) to: &'a Endpoint,
    /// Calls were seen in the other direction: its replies can be told by their xids.
    pub(super) calls_known: bool,
    pub(super) shared: &'a mut Shared,
    pub(super) sink: &'a mut S,
}
