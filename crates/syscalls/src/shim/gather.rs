//! From slots to the tally.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::layout::{DEAD, Shared, WORDS};
use crate::record::{Call, NO_FILE, NameRecord};
use crate::tally::files::{Inode, PATH_MAX};
use crate::tally::{Observed, Tally};

/// After so long a writer that has claimed a slot is taken for dead. One that was only stopped
/// loses that record, which is counted.
pub const STUCK: Duration = Duration::from_millis(200);
/// Texts that are being put together, or wait for their call.
const TEXTS_MAX: usize = 4096;
/// Bytes of a text: an instant, and two paths.
const TEXT_MAX: usize = 8 + 2 * PATH_MAX + 2;
/// Bytes in one slot.
const PART_BYTES: usize = 40;

const TEXT_OF_FILE: u8 = 0x40;
const TEXT_OF_CALL: u8 = 0x41;
const HAS_OFFSET: u8 = 1;
const HAS_SIZE: u8 = 2;
const SYNCHRONOUS: u8 = 4;
const EXCHANGE: u8 = 8;

#[derive(Debug)]
struct Text {
    bytes: Vec<u8>,
    missing: usize,
}

/// Reads the ring.
#[derive(Debug)]
pub struct Gatherer {
    /// Records.
    pub tally: Tally,
    tail: u64,
    stuck_since: Option<Instant>,
    /// Entries of the shared table: who they are to the tally.
    file_ids: HashMap<u32, u32>,
    texts: HashMap<u32, Text>,
    /// Records read.
    pub records: u64,
    /// Slots whose writer ended, or stood still, before it had written.
    pub torn: u64,
    /// Texts that were given up.
    pub lost_names: u64,
    /// Records that make no sense.
    pub not_understood: u64,
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All that was there is read.
    Empty,
    /// The next record is being written, or there is more than the ring held once.
    Waiting,
}

impl Gatherer {
    /// Nothing read so far.
    pub fn new(tally: Tally) -> Self {
        Gatherer {
            tally,
            tail: 0,
            stuck_since: None,
            file_ids: HashMap::new(),
            texts: HashMap::new(),
            records: 0,
            torn: 0,
            lost_names: 0,
            not_understood: 0,
        }
    }

    /// Reads what is there, at most the whole ring once.
    pub fn drain(&mut self, shared: &Shared) -> Stopped {
        for _ in 0..shared.slots() {
            let turn = shared.turn(self.tail);
            match turn.load(Ordering::Acquire) {
                DEAD if shared.head() > self.tail => {
                    self.tail += 1;
                    self.stuck_since = None;
                }
                ready if ready == self.tail + 1 => {
                    let record = shared.record(self.tail);
                    turn.store(self.tail + shared.slots(), Ordering::Release);
                    self.tail += 1;
                    self.stuck_since = None;
                    self.records += 1;
                    self.one(shared, &record);
                }
                _ if shared.head() <= self.tail => return Stopped::Empty,
                claimed => {
                    let since = *self.stuck_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < STUCK {
                        return Stopped::Waiting;
                    }
                    let given_up =
                        turn.compare_exchange(claimed, DEAD, Ordering::AcqRel, Ordering::Relaxed);
                    self.torn += u64::from(given_up.is_ok());
                }
            }
        }
        if shared.head() <= self.tail {
            Stopped::Empty
        } else {
            Stopped::Waiting
        }
    }

    fn one(&mut self, shared: &Shared, record: &[u64; WORDS]) {
        let mut bytes = [0; WORDS * 8];
        for (part, word) in bytes.chunks_exact_mut(8).zip(record) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        match bytes[52] {
            kind @ (TEXT_OF_FILE | TEXT_OF_CALL) => self.text(shared, kind, record, &bytes),
            number => match Call::numbered(number) {
                Some(call) => self.call(shared, call, record),
                None => self.not_understood += 1,
            },
        }
    }

    fn file_id(&mut self, shared: &Shared, number: u32) -> u32 {
        if number == NO_FILE {
            return NO_FILE;
        }
        if let Some(file_id) = self.file_ids.get(&number) {
            return *file_id;
        }
        let Some((device, inode, generation)) = shared.file(number) else {
            return NO_FILE;
        };
        let inode = Inode {
            device,
            inode,
            generation,
        };
        let file_id = self.tally.files.of_inode(inode);
        if file_id != NO_FILE {
            self.file_ids.insert(number, file_id);
        }
        file_id
    }

    fn call(&mut self, shared: &Shared, call: Call, record: &[u64; WORDS]) {
        let [start_ns, latency_ns, result, offset, size, who, what] = *record;
        let flags = (what >> 40) as u8;
        let file_id = self.file_id(shared, what as u32);
        let result = result as i64;
        let (pid, tid) = (who as u32, (who >> 32) as u32);
        if matches!(call, Call::Unlink | Call::Rename) {
            let path = self.whole(offset as u32);
            let new_path = self.whole(size as u32);
            if let (Some(path), true) = (path, new_path.is_some() || call == Call::Unlink) {
                let row = NameRecord {
                    start_ns,
                    latency_ns,
                    pid,
                    call,
                    path,
                    new_path,
                    result,
                };
                let exchange = flags & EXCHANGE != 0;
                return self.tally.rename(row, tid, exchange);
            }
        }
        self.tally.observe(&Observed {
            call,
            file_id,
            start_ns,
            latency_ns,
            pid,
            tid,
            offset: (flags & HAS_OFFSET != 0).then_some(offset),
            size: (flags & HAS_SIZE != 0).then_some(size),
            synchronous: flags & SYNCHRONOUS != 0 && call.writes(),
            result,
        });
    }

    /// The path with this token, if all of it came.
    fn whole(&mut self, token: u32) -> Option<Vec<u8>> {
        if token == 0 || self.texts.get(&token)?.missing > 0 {
            return None;
        }
        let text = self.texts.remove(&token)?;
        text.bytes.get(8..).map(<[u8]>::to_vec)
    }

    fn text(&mut self, shared: &Shared, kind: u8, record: &[u64; WORDS], bytes: &[u8]) {
        let (token, number) = (record[5] as u32, (record[5] >> 32) as u32);
        let (length, part) = (record[6] as u16 as usize, (record[6] >> 16) as u16 as usize);
        let from = part * PART_BYTES;
        if length <= 8 || length > TEXT_MAX || from >= length {
            self.not_understood += 1;
            return;
        }
        if self.texts.len() >= TEXTS_MAX && !self.texts.contains_key(&token) {
            self.lost_names += self.texts.len() as u64;
            self.texts.clear();
        }
        let text = self.texts.entry(token).or_insert_with(|| Text {
            bytes: vec![0; length],
            missing: length.div_ceil(PART_BYTES),
        });
        let to = (from + PART_BYTES).min(length);
        let Some(room) = text.bytes.get_mut(from..to) else {
            self.not_understood += 1;
            return;
        };
        room.copy_from_slice(&bytes[..to - from]);
        text.missing = text.missing.saturating_sub(1);
        if kind == TEXT_OF_FILE && text.missing == 0 {
            let Some(text) = self.texts.remove(&token) else {
                return;
            };
            let seen_ns = text.bytes.iter().take(8).rev();
            let seen_ns = seen_ns.fold(0, |value, byte| value << 8 | u64::from(*byte));
            let file_id = self.file_id(shared, number);
            if file_id != NO_FILE {
                self.tally.files.named(file_id, &text.bytes[8..], seen_ns);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tally::{Level, Options};

    /// A read of one byte at this offset, of no file.
    fn read_at(offset: u64) -> [u64; WORDS] {
        let what = u64::from(NO_FILE) | 2 << 32 | u64::from(HAS_OFFSET | HAS_SIZE) << 40;
        [1, 2, 1, offset, 1, 3, what]
    }

    fn ring(slots_log2: u32) -> (Shared, Gatherer) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(Shared::bytes(slots_log2, 4) as u64).unwrap();
        let shared = Shared::make(&file, slots_log2, 4, 2, false).unwrap();
        (
            shared,
            Gatherer::new(Tally::new(Options::new(Level::Events))),
        )
    }

    #[test]
    fn a_writer_that_never_writes_costs_its_slot_and_nothing_else() {
        let (shared, mut gatherer) = ring(4);
        let (dead, live) = (shared.claim(), shared.claim());
        assert!(shared.write(live, read_at(7)));
        assert_eq!(
            gatherer.drain(&shared),
            Stopped::Waiting,
            "it may still be writing"
        );
        assert_eq!((gatherer.records, gatherer.torn), (0, 0));
        while gatherer.drain(&shared) == Stopped::Waiting {}
        assert_eq!((gatherer.records, gatherer.torn), (1, 1));
        assert!(
            !shared.write(dead, read_at(9)),
            "too late: it is not taken for another record"
        );
        // The slot is passed over in every later round.
        for round in 2..10_u64 {
            for _ in 0..16 {
                let position = shared.claim();
                assert_eq!(
                    shared.write(position, read_at(round)),
                    position % 16 != dead
                );
            }
            assert_eq!(gatherer.drain(&shared), Stopped::Empty);
        }
        let events = gatherer.tally.take().events;
        let offsets: Vec<_> = events.iter().map(|row| row.offset.unwrap()).collect();
        assert_eq!(offsets[0], 7);
        assert!((2..10).all(|round| offsets.iter().filter(|at| **at == round).count() >= 15));
        assert_eq!(gatherer.torn, 1);
    }

    #[test]
    fn whatever_is_in_the_ring_does_no_harm() {
        let mut random = fastrand::Rng::with_seed(6);
        let (shared, mut gatherer) = ring(6);
        for _ in 0..3000 {
            for _ in 0..random.u64(1..64) {
                let mut record: [u64; WORDS] = std::array::from_fn(|_| random.u64(..));
                // Mostly kinds that there are, and small tokens and lengths.
                record[6] =
                    record[6] & !(0xff << 32) | [2, 17, 0x40, 0x41, 99][random.usize(..5)] << 32;
                record[5] &= 0x3_0000_0007;
                record[6] &= !0xfe00_fe00;
                let position = shared.claim();
                shared.write(position, record);
            }
            assert_eq!(gatherer.drain(&shared), Stopped::Empty);
        }
        assert!(gatherer.texts.len() <= TEXTS_MAX);
        assert!(gatherer.not_understood > 0);
        assert!(gatherer.records > 50_000);
    }
}
