//! Segments that came before the ones in front of them, kept until the hole closes or is given up.
//!
//! Bytes lie in one arena per direction, pieces in order beside it; a piece costs its bytes and
//! [`PIECE_BYTES`], so that a flood of small ones is bounded like one of large ones. What came
//! first wins where pieces overlap.

use std::collections::VecDeque;

use crate::call::Stamp;

/// What a held piece is charged besides its bytes.
pub(super) const PIECE_BYTES: usize = 64;
/// Pieces held in one direction: bounds the work of keeping them in order. A window of 4 MiB in
/// Ethernet's segments has 2900.
pub(super) const MAX_PIECES: usize = 4096;
/// Arena kept for the next hole, bytes.
const SPARE_BYTES: usize = 256 << 10;

/// A stretch of a stream: `bytes` were captured, the rest up to `end` was cut away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: &'a [u8],
    pub(super) stamp: Stamp,
    pub(super) ip_id: u32,
}

impl<'a> Piece<'a> {
    /// The part of it between two positions.
    pub(super) fn part(&self, start: u64, end: u64) -> Piece<'a> {
        let start = start.max(self.start);
        let end = end.min(self.end).max(start);
        let from = usize::try_from(start - self.start).unwrap_or(usize::MAX);
        let to = usize::try_from(end - self.start).unwrap_or(usize::MAX);
        let to = to.min(self.bytes.len());
        Piece {
            start,
            end,
            bytes: self.bytes.get(from..to).unwrap_or_default(),
            ..*self
        }
    }

    /// Bytes that were cut away behind those captured.
    #[inline(always)]
    pub(super) fn cut_bytes(&self) -> u64 {
        (self.end - self.start).saturating_sub(self.bytes.len() as u64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    start: u64,
    end: u64,
    at: usize,
    captured: usize,
    stamp: Stamp,
    ip_id: u32,
}

/// Pieces behind a hole, in order, without overlaps.
#[derive(Debug, Default)]
pub(super) struct Held {
    pieces: VecDeque<Kept>,
    arena: Vec<u8>,
    live_bytes: usize,
}

impl Held {
    /// What is charged for all that is held.
    pub(super) fn charge(&self) -> usize {
        self.arena.len() + self.pieces.len() * PIECE_BYTES
    }

    /// Where the first piece begins.
    pub(super) fn front(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.start)
    }

    /// IP identification of the first piece.
    pub(super) fn front_packet(&self) -> Option<(u32, i64)> {
        self.pieces
            .front()
            .map(|piece| (piece.ip_id, piece.stamp.time_ns))
    }

    /// Whether one more piece of this size may be held under `limit_bytes`.
    pub(super) fn has_room(&mut self, more_bytes: usize, limit_bytes: usize) -> bool {
        if self.pieces.len() >= MAX_PIECES {
            return false;
        }
        let more = more_bytes + PIECE_BYTES;
        if self.charge() + more > limit_bytes && self.live_bytes < self.arena.len() / 2 {
            self.compact();
        }
        self.charge() + more <= limit_bytes
    }

    #[cold]
    fn compact(&mut self) {
        let mut arena = Vec::with_capacity(self.live_bytes);
        for piece in &mut self.pieces {
            let bytes = self.arena.get(piece.at..piece.at + piece.captured);
            piece.at = arena.len();
            arena.extend_from_slice(bytes.unwrap_or_default());
        }
        self.arena = arena;
    }

    /// Holds what of `piece` is not held yet; returns whether anything was new. It fills at most
    /// as many gaps as there are pieces, so their number stays below twice its bound.
    pub(super) fn insert(&mut self, piece: &Piece<'_>) -> bool {
        let mut at = self.pieces.partition_point(|kept| kept.end <= piece.start);
        let mut start = piece.start;
        let mut fresh = false;
        while start < piece.end {
            let next = self.pieces.get(at).map(|kept| (kept.start, kept.end));
            let end = next.map_or(piece.end, |(start, _)| start.min(piece.end));
            if start < end {
                self.keep(at, &piece.part(start, end));
                at += 1;
                fresh = true;
            }
            match next {
                Some((_, end)) => start = start.max(end),
                None => break,
            }
            at += 1;
        }
        fresh
    }

    fn keep(&mut self, place: usize, part: &Piece<'_>) {
        let kept = Kept {
            start: part.start,
            end: part.end,
            at: self.arena.len(),
            captured: part.bytes.len(),
            stamp: part.stamp,
            ip_id: part.ip_id,
        };
        self.arena.extend_from_slice(part.bytes);
        self.live_bytes += part.bytes.len();
        if place >= self.pieces.len() {
            self.pieces.push_back(kept);
        } else {
            self.pieces.insert(place, kept);
        }
    }

    /// Takes the first piece if it begins at or before `next`.
    pub(super) fn take_ready(&mut self, next: u64) -> Option<Piece<'_>> {
        let kept = *self.pieces.front().filter(|piece| piece.start <= next)?;
        self.pieces.pop_front();
        self.live_bytes = self.live_bytes.saturating_sub(kept.captured);
        let bytes = self.arena.get(kept.at..kept.at + kept.captured);
        Some(Piece {
            start: kept.start,
            end: kept.end,
            bytes: bytes.unwrap_or_default(),
            stamp: kept.stamp,
            ip_id: kept.ip_id,
        })
    }

    /// Empties it for the next hole; false if it is too large to be kept for that.
    pub(super) fn reset(&mut self) -> bool {
        self.pieces.clear();
        self.arena.clear();
        self.live_bytes = 0;
        self.arena.capacity() <= SPARE_BYTES
    }
}
