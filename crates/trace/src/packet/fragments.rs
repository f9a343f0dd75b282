//! IP fragments put together again (RFC 791 section 3.2, RFC 8200 section 4.5, RFC 815).
//!
//! Fragments may come in any order, twice, overlapping (the first bytes win, as in most stacks),
//! or cut by the capture's snap length. A datagram is ready when its lengths on the wire leave no
//! hole; what was captured of it reaches up to the first byte that was not. RPC headers lie in the
//! first fragment, so that is what counts.
//!
//! Bounded: by bytes that wait (`fragment_bytes`, each datagram charged an overhead) and by
//! [`TIMEOUT_NS`] of the capture's time; what is given up is counted as lost.
//!
//! A capture filter such as `port 2049` takes first fragments only, for only they have ports. When
//! [`FIRSTS_ALONE`] of them came and never another one, they are handed out alone.

use std::collections::VecDeque;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::Context;
use super::anomaly::{Anomalies, Anomaly};
use crate::block::Host;

/// How long fragments wait for the others, in the capture's time (Linux: `ipfrag_time`, 30 s).
const TIMEOUT_NS: i64 = 30_000_000_000;
/// Bytes that come again after this long belong to another datagram with the same identification
/// (RFC 4963): it has 16 bits in IPv4, which a fast sender uses up within seconds.
const REUSE_NS: i64 = 2_000_000_000;
/// A fragment of a datagram that was complete this short ago is a second capture of it, such as
/// `tcpdump -i any` makes.
const ECHO_NS: i64 = 100_000_000;
/// First fragments, each of another datagram, without any other fragment, after which they are
/// believed to come alone.
const FIRSTS_ALONE: u32 = 16;
/// Longest payload of a fragmented datagram: offsets and lengths have 16 bits.
const MAX_DATAGRAM_BYTES: usize = 65_535;
/// Charged for each datagram besides its bytes.
const OVERHEAD_BYTES: usize = 512;
/// Emptied buffers kept for the next datagram.
const SPARE_BUFFERS: usize = 64;

/// What fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub source: Host,
    pub destination: Host,
    pub id: u32,
    /// IPv4 only: there it belongs to the identification.
    pub protocol: u8,
    pub version: u8,
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub key: Key,
    pub protocol: u8,
    pub offset: usize,
    pub more: bool,
    pub bytes: &'a [u8],
    pub wire: usize,
    pub context: Context,
}

/// A datagram that is ready to be read.
#[derive(Debug)]
pub(super) struct Assembled {
    pub version: u8,
    pub protocol: u8,
    pub bytes: Vec<u8>,
    /// Bytes of `bytes` before the first one that was not captured.
    pub captured_bytes: usize,
    /// Length on the wire, as far as it is known.
    pub wire: usize,
    /// Whether all fragments came.
    pub complete: bool,
    pub context: Context,
}

impl Assembled {
    pub(super) fn captured(&self) -> &[u8] {
        self.bytes.get(..self.captured_bytes).unwrap_or_default()
    }
}

/// Bytes `start..end` came, and of them `start..captured_end` were captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: usize,
    end: usize,
    captured_end: usize,
}

#[derive(Debug)]
struct Datagram {
    generation: u64,
    protocol: u8,
    /// Bytes at their offsets; holes are zero.
    bytes: Vec<u8>,
    /// In order, without overlaps, joined where nothing is missing between.
    ranges: Vec<Range>,
    total: Option<usize>,
    /// Of the newest fragment, with the time of the earliest.
    context: Context,
    /// Handed out already; kept a while to recognise echoes.
    done: bool,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    generation: u64,
    first_ns: i64,
}

/// Datagrams that wait for fragments.
#[derive(Debug)]
pub(super) struct Fragments {
    limit_bytes: usize,
    charged_bytes: usize,
    datagrams: HashMap<Key, Datagram>,
    /// In the order of their first fragments.
    queue: VecDeque<Waiting>,
    generation: u64,
    ready: VecDeque<Assembled>,
    spare: Vec<Vec<u8>>,
    firsts: u32,
    others_seen: bool,
}

impl Fragments {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Fragments {
            limit_bytes,
            charged_bytes: 0,
            datagrams: HashMap::new(),
            queue: VecDeque::new(),
            generation: 0,
            ready: VecDeque::new(),
            spare: Vec::new(),
            firsts: 0,
            others_seen: false,
        }
    }

    /// Bytes charged: payloads, lists of what came, and an overhead for each datagram.
    pub(super) fn charged_bytes(&self) -> usize {
        self.charged_bytes
    }

    /// The next datagram that is ready; its buffer comes back through [`Fragments::reuse`].
    pub(super) fn next_ready(&mut self) -> Option<Assembled> {
        self.ready.pop_front()
    }

    pub(super) fn reuse(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Takes a fragment; gives the bytes of datagrams that were given up meanwhile.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>, anomalies: &mut Anomalies) -> u64 {
        let end = fragment.offset + fragment.wire;
        // RFC 8200 section 4.5: all but the last are multiples of eight.
        let uneven = fragment.more && !fragment.wire.is_multiple_of(8);
        if end > MAX_DATAGRAM_BYTES || uneven || fragment.wire == 0 {
            anomalies.count(Anomaly::MalformedIp);
            return 0;
        }
        let mut lost = self.expire(fragment.context.time_ns, anomalies);
        self.others_seen |= fragment.offset > 0;
        let known = self.generation;
        lost += self.place(fragment, end, anomalies);
        // One that comes again says nothing of others: those of datagrams that are new count.
        if !self.others_seen && self.generation != known {
            self.firsts = self.firsts.saturating_add(1);
        }
        if !self.others_seen && self.firsts >= FIRSTS_ALONE {
            // Once all that waited are out, only the newest can be left.
            let from = match self.firsts {
                FIRSTS_ALONE => 0,
                _ => self.queue.len().saturating_sub(1),
            };
            self.hand_out_firsts(from, anomalies);
        }
        while self.charged_bytes > self.limit_bytes && !self.queue.is_empty() {
            let before = anomalies.of(Anomaly::FragmentsLost);
            lost += self.give_up_oldest(anomalies);
            // Those that were handed out are merely forgotten.
            if anomalies.of(Anomaly::FragmentsLost) > before {
                anomalies.count(Anomaly::FragmentLimit);
            }
        }
        lost
    }

    /// The capture ended. Gives the bytes of datagrams that were given up.
    pub(super) fn finish(&mut self, anomalies: &mut Anomalies) -> u64 {
        if !self.others_seen {
            self.hand_out_firsts(0, anomalies);
        }
        let mut lost = 0;
        while !self.queue.is_empty() {
            lost += self.give_up_oldest(anomalies);
        }
        lost
    }

    fn place(&mut self, fragment: &Fragment<'_>, end: usize, anomalies: &mut Anomalies) -> u64 {
        let (mut lost, now_ns) = (0, fragment.context.time_ns);
        let datagram = match self.datagrams.entry(fragment.key) {
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                let age_ns = now_ns.saturating_sub(known.context.first_ns);
                let echo = known.done && now_ns.saturating_sub(known.context.time_ns) < ECHO_NS;
                if echo {
                    anomalies.count(Anomaly::FragmentOverlaps);
                    return 0;
                }
                if known.done || (age_ns > REUSE_NS && known.has_any(fragment.offset, end)) {
                    lost = known.received_bytes();
                    if !known.done {
                        anomalies.count(Anomaly::FragmentsLost);
                    }
                    self.charged_bytes -= known.charge();
                    self.generation += 1;
                    known.restart(fragment, self.generation);
                    self.charged_bytes += OVERHEAD_BYTES;
                    self.queue.push_back(known.waiting(fragment.key));
                }
                known
            }
            Entry::Vacant(entry) => {
                self.generation += 1;
                let bytes = self.spare.pop().unwrap_or_default();
                let known = entry.insert(Datagram::new(fragment, self.generation, bytes));
                self.charged_bytes += OVERHEAD_BYTES;
                self.queue.push_back(known.waiting(fragment.key));
                known
            }
        };
        self.charged_bytes -= datagram.charge();
        if !datagram.take(fragment, end, anomalies) {
            anomalies.count(Anomaly::MalformedIp);
        }
        if datagram.is_whole() {
            self.ready
                .push_back(datagram.hand_out(fragment.key.version, true));
        }
        self.charged_bytes += datagram.charge();
        lost
    }

    fn expire(&mut self, now_ns: i64, anomalies: &mut Anomalies) -> u64 {
        let mut lost = 0;
        while let Some(oldest) = self.queue.front() {
            let age_ns = now_ns.saturating_sub(oldest.first_ns);
            if age_ns <= ECHO_NS || (age_ns <= TIMEOUT_NS && self.is_awaited(oldest, now_ns)) {
                break;
            }
            lost += self.give_up_oldest(anomalies);
        }
        lost
    }

    /// Whether this place of the queue stands for a datagram that still waits, or whose echoes may
    /// come.
    fn is_awaited(&self, waiting: &Waiting, now_ns: i64) -> bool {
        self.datagrams.get(&waiting.key).is_some_and(|datagram| {
            let since_ns = now_ns.saturating_sub(datagram.context.time_ns);
            datagram.generation == waiting.generation && (!datagram.done || since_ns < ECHO_NS)
        })
    }

    fn give_up_oldest(&mut self, anomalies: &mut Anomalies) -> u64 {
        let Some(waiting) = self.queue.pop_front() else {
            return 0;
        };
        self.charged_bytes -= OVERHEAD_BYTES;
        match self.datagrams.entry(waiting.key) {
            Entry::Occupied(entry) if entry.get().generation == waiting.generation => {
                let datagram = entry.remove();
                self.charged_bytes -= datagram.charge();
                if datagram.done {
                    return 0;
                }
                anomalies.count(Anomaly::FragmentsLost);
                let lost = datagram.received_bytes();
                self.reuse(datagram.bytes);
                lost
            }
            _ => 0,
        }
    }

    /// Hands out, in their order, those from this place of the queue on that begin with a first
    /// fragment.
    fn hand_out_firsts(&mut self, from: usize, anomalies: &mut Anomalies) {
        for waiting in self.queue.range(from..) {
            if let Some(datagram) = self.datagrams.get_mut(&waiting.key)
                && datagram.generation == waiting.generation
                && !datagram.done
                && datagram
                    .ranges
                    .first()
                    .is_some_and(|range| range.start == 0)
            {
                anomalies.count(Anomaly::FragmentsNotCaptured);
                self.charged_bytes -= datagram.charge();
                let version = waiting.key.version;
                self.ready.push_back(datagram.hand_out(version, false));
                self.charged_bytes += datagram.charge();
            }
        }
    }
}

impl Datagram {
    fn new(fragment: &Fragment<'_>, generation: u64, bytes: Vec<u8>) -> Self {
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

    fn restart(&mut self, fragment: &Fragment<'_>, generation: u64) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Datagram::new(fragment, generation, bytes);
    }

    fn waiting(&self, key: Key) -> Waiting {
        Waiting {
            key,
            generation: self.generation,
            first_ns: self.context.first_ns,
        }
    }

    fn charge(&self) -> usize {
        self.bytes.len() + self.ranges.len() * size_of::<Range>()
    }

    fn received_bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| (range.end - range.start) as u64)
            .sum()
    }

    fn has_any(&self, start: usize, end: usize) -> bool {
        self.ranges
            .iter()
            .any(|range| range.start < end && start < range.end)
    }

    /// Whether nothing is missing on the wire.
    fn is_whole(&self) -> bool {
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
    fn take(&mut self, fragment: &Fragment<'_>, end: usize, anomalies: &mut Anomalies) -> bool {
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
    fn hand_out(&mut self, version: u8, complete: bool) -> Assembled {
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
