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
use super::anomaly::{Anomalies, Anomaly, Lost};
use super::datagram::Datagram;
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

#[derive(Debug)]
struct Waiting {
    key: Key,
    generation: u64,
    first_ns: i64,
}

impl Waiting {
    fn of(datagram: &Datagram, key: Key) -> Self {
        Waiting {
            key,
            generation: datagram.generation,
            first_ns: datagram.context.first_ns,
        }
    }
}

/// Datagrams that wait for fragments.
#[derive(Debug, Default)]
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
            ..Fragments::default()
        }
    }

    /// Bytes charged: payloads, lists of what came, and an overhead for each datagram.
    pub(super) fn charged_bytes(&self) -> usize {
        self.charged_bytes
    }

    /// Whether any fragment came.
    pub(super) fn have_come(&self) -> bool {
        self.generation > 0
    }

    /// Whether a datagram waits for more of them.
    pub(super) fn wait(&self) -> bool {
        self.datagrams.values().any(|datagram| !datagram.done)
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

    /// Takes a fragment; gives what is missing of datagrams that were given up meanwhile.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>, anomalies: &mut Anomalies) -> Lost {
        let end = fragment.offset + fragment.wire;
        // RFC 8200 section 4.5: all but the last are multiples of eight.
        let uneven = fragment.more && !fragment.wire.is_multiple_of(8);
        if end > MAX_DATAGRAM_BYTES || uneven || fragment.wire == 0 {
            anomalies.count(Anomaly::MalformedIp);
            return Lost::default();
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

    /// The capture ended. Gives what is missing of datagrams that were given up.
    pub(super) fn finish(&mut self, anomalies: &mut Anomalies) -> Lost {
        if !self.others_seen {
            self.hand_out_firsts(0, anomalies);
        }
        let mut lost = Lost::default();
        while !self.queue.is_empty() {
            lost += self.give_up_oldest(anomalies);
        }
        lost
    }

    fn place(&mut self, fragment: &Fragment<'_>, end: usize, anomalies: &mut Anomalies) -> Lost {
        let (mut lost, now_ns) = (Lost::default(), fragment.context.time_ns);
        let datagram = match self.datagrams.entry(fragment.key) {
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                let age_ns = now_ns.saturating_sub(known.context.first_ns);
                let echo = known.done && now_ns.saturating_sub(known.context.time_ns) < ECHO_NS;
                if echo {
                    anomalies.count(Anomaly::FragmentOverlaps);
                    return Lost::default();
                }
                if known.done || (age_ns > REUSE_NS && known.has_any(fragment.offset, end)) {
                    if !known.done {
                        lost = known.missing();
                        anomalies.count(Anomaly::FragmentsLost);
                    }
                    self.charged_bytes -= known.charge();
                    self.generation += 1;
                    known.restart(fragment, self.generation);
                    self.charged_bytes += OVERHEAD_BYTES;
                    self.queue.push_back(Waiting::of(known, fragment.key));
                }
                known
            }
            Entry::Vacant(entry) => {
                self.generation += 1;
                let bytes = self.spare.pop().unwrap_or_default();
                let known = entry.insert(Datagram::new(fragment, self.generation, bytes));
                self.charged_bytes += OVERHEAD_BYTES;
                self.queue.push_back(Waiting::of(known, fragment.key));
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

    fn expire(&mut self, now_ns: i64, anomalies: &mut Anomalies) -> Lost {
        let mut lost = Lost::default();
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

    fn give_up_oldest(&mut self, anomalies: &mut Anomalies) -> Lost {
        let Some(waiting) = self.queue.pop_front() else {
            return Lost::default();
        };
        self.charged_bytes -= OVERHEAD_BYTES;
        match self.datagrams.entry(waiting.key) {
            Entry::Occupied(entry) if entry.get().generation == waiting.generation => {
                let datagram = entry.remove();
                self.charged_bytes -= datagram.charge();
                if datagram.done {
                    return Lost::default();
                }
                anomalies.count(Anomaly::FragmentsLost);
                let lost = datagram.missing();
                self.reuse(datagram.bytes);
                lost
            }
            _ => Lost::default(),
        }
    }

    /// Hands out, in their order, those from this place of the queue on that begin with a first
    /// fragment.
    fn hand_out_firsts(&mut self, from: usize, anomalies: &mut Anomalies) {
        for waiting in self.queue.range(from..) {
            if let Some(datagram) = self.datagrams.get_mut(&waiting.key)
                && datagram.generation == waiting.generation
                && !datagram.done
                && datagram.has_first()
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
