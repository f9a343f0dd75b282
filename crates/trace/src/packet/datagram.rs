//! One IP datagram that is put together: which of its bytes came, and what is missing.

use super::Context;
use super::anomaly::{Anomalies, Anomaly, Lost};
use super::fragments::{Assembled, Fragment};

/// Protocol number of UDP.
const UDP: u8 = 17;

/// Bytes `start..end` came, and of them `start..captured_end` were captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: usize,
    end: usize,
    captured_end: usize,
}

#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) generation: u64,
    protocol: u8,
    /// Bytes at their offsets; holes are zero.
    pub(super) bytes: Vec<u8>,
    /// In order, without overlaps, joined where nothing is missing between.
    ranges: Vec<Range>,
    total: Option<usize>,
    /// Of the newest fragment, with the time of the earliest.
    pub(super) context: Context,
    /// Handed out already; kept a while to recognise echoes.
    pub(super) done: bool,
}

impl Datagram {
    pub(super) fn new(fragment: &Fragment<'_>, generation: u64, bytes: Vec<u8>) -> Self {
        Datagram {
            generation,
            protocol: fragment.protocol,
            bytes,
            ranges: Vec::new(),
            total: None,
            context: fragment.context,
            done: false,
        }
    }

    pub(super) fn restart(&mut self, fragment: &Fragment<'_>, generation: u64) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Datagram::new(fragment, generation, bytes);
    }

    pub(super) fn charge(&self) -> usize {
        self.bytes.len() + self.ranges.len() * size_of::<Range>()
    }

    /// What did not come. Where neither the last fragment nor UDP's length tells where it ends, its
    /// end is a stretch of unknown length.
    pub(super) fn missing(&self) -> Lost {
        let (mut lost, mut reached) = (Lost::default(), 0);
        let mut hole = |from: usize, to: usize| {
            lost.gaps += u64::from(from < to);
            lost.bytes += to.saturating_sub(from) as u64;
        };
        for range in &self.ranges {
            hole(reached, range.start);
            reached = range.end;
        }
        match self.total.or_else(|| self.stated_bytes()) {
            Some(total) => hole(reached, total),
            None => lost.gaps += 1,
        }
        lost
    }

    /// Its length, as UDP's header states it.
    fn stated_bytes(&self) -> Option<usize> {
        let first = self.ranges.first().filter(|range| range.start == 0)?;
        let captured = self.bytes.get(..first.captured_end)?;
        let length = captured.get(4..6).filter(|_| self.protocol == UDP)?;
        Some(usize::from(u16::from_be_bytes([
            *length.first()?,
            *length.get(1)?,
        ])))
    }

    /// Whether its first fragment came.
    pub(super) fn has_first(&self) -> bool {
        self.ranges.first().is_some_and(|range| range.start == 0)
    }

    pub(super) fn has_any(&self, start: usize, end: usize) -> bool {
        self.ranges
            .iter()
            .any(|range| range.start < end && start < range.end)
    }

    /// Whether nothing is missing on the wire.
    pub(super) fn is_whole(&self) -> bool {
        let Some(total) = self.total else {
            return false;
        };
        let mut reached = 0;
        for range in &self.ranges {
            if range.start != reached {
                return false;
            }
            reached = range.end;
        }
        !self.done && reached == total
    }

    /// Puts the fragment in its place; false if it contradicts those before.
    pub(super) fn take(
        &mut self,
        fragment: &Fragment<'_>,
        end: usize,
        anomalies: &mut Anomalies,
    ) -> bool {
        let reached = self.ranges.last().map_or(0, |range| range.end);
        let ends_right = match (self.total, fragment.more) {
            (Some(total), true) => end <= total,
            (Some(total), false) => end == total,
            (None, true) => true,
            (None, false) => reached <= end,
        };
        if self.done || !ends_right {
            return false;
        }
        if !fragment.more {
            self.total = Some(end);
        }
        if fragment.offset == 0 {
            self.protocol = fragment.protocol;
        }
        let first_ns = self.context.first_ns.min(fragment.context.time_ns);
        self.context = fragment.context;
        self.context.first_ns = first_ns;
        let whole = Range {
            start: fragment.offset,
            end,
            captured_end: fragment.offset + fragment.bytes.len(),
        };
        if whole.start >= reached {
            // In order, or behind a hole: nearly always.
            self.insert(self.ranges.len(), whole, fragment);
        } else {
            self.fill_holes(whole, fragment, anomalies);
        }
        true
    }

    /// Takes those bytes of a fragment that did not come before.
    fn fill_holes(&mut self, whole: Range, fragment: &Fragment<'_>, anomalies: &mut Anomalies) {
        let (mut at, mut index, mut overlaps) = (whole.start, 0, false);
        while at < whole.end {
            let next = self.ranges.get(index).copied();
            let (hole_end, reached) = next.map_or((whole.end, whole.end), |it| (it.start, it.end));
            let end = hole_end.min(whole.end);
            if at < end {
                let piece = Range {
                    start: at,
                    end,
                    captured_end: whole.captured_end.clamp(at, end),
                };
                index += usize::from(self.insert(index, piece, fragment));
            }
            overlaps |= next.is_some_and(|it| it.start < whole.end && it.end > whole.start);
            at = at.max(end).max(reached.min(whole.end));
            index += 1;
        }
        if overlaps {
            anomalies.count(Anomaly::FragmentOverlaps);
        }
    }

    /// Copies bytes and notes their range before that at `index`, or joins it to its predecessor;
    /// true if the list grew.
    fn insert(&mut self, index: usize, piece: Range, fragment: &Fragment<'_>) -> bool {
        let captured = piece.captured_end - piece.start;
        let skipped = piece.start - fragment.offset;
        if let Some(bytes) = fragment.bytes.get(skipped..skipped + captured) {
            if self.bytes.len() <= piece.start {
                self.bytes.resize(piece.start, 0);
                self.bytes.extend_from_slice(bytes);
            } else {
                if self.bytes.len() < piece.captured_end {
                    self.bytes.resize(piece.captured_end, 0);
                }
                if let Some(place) = self.bytes.get_mut(piece.start..piece.captured_end) {
                    place.copy_from_slice(bytes);
                }
            }
        }
        if let Some(before) = index.checked_sub(1).and_then(|it| self.ranges.get_mut(it))
            && before.end == piece.start
            && before.captured_end == before.end
        {
            before.end = piece.end;
            before.captured_end = piece.captured_end;
            return false;
        }
        self.ranges.insert(index, piece);
        true
    }

    /// Gives away the bytes; what stays recognises echoes.
    pub(super) fn hand_out(&mut self, version: u8, complete: bool) -> Assembled {
        let mut captured_bytes = 0;
        for range in &self.ranges {
            if range.start != captured_bytes {
                break;
            }
            captured_bytes = range.captured_end;
        }
        let reached = self.ranges.last().map_or(0, |range| range.end);
        self.done = true;
        self.ranges.clear();
        Assembled {
            version,
            protocol: self.protocol,
            bytes: std::mem::take(&mut self.bytes),
            captured_bytes,
            wire: self.total.unwrap_or(reached),
            complete,
            context: self.context,
        }
    }
}
