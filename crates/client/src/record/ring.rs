//! A bounded way for records from the engine's thread to whoever keeps them.
//!
//! The engine gathers a batch of its own and hands it over under a lock once per batch: tens of
//! nanoseconds for hundreds of records. If the reader is late, what does not fit is counted and
//! dropped; the newest are dropped, so that what was kept has no holes before the first loss.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::RpcRecord;

/// Records that the ring holds unless said otherwise: 34 MB, half a second at 500,000 calls a
/// second.
pub const DEFAULT_RING_RECORDS: usize = 1 << 18;
/// Records handed over at once.
const BATCH_RECORDS: usize = 256;

#[derive(Debug)]
struct Shared {
    records: VecDeque<RpcRecord>,
    limit: usize,
    lost: u64,
}

/// The engine's end.
#[derive(Debug)]
pub struct RecordRing {
    batch: Vec<RpcRecord>,
    shared: Arc<Mutex<Shared>>,
}

/// The reader's end.
#[derive(Clone, Debug)]
pub struct RecordReader {
    shared: Arc<Mutex<Shared>>,
}

impl RecordRing {
    /// A ring of at most `limit` records, and its reader.
    pub fn new(limit: usize) -> (Self, RecordReader) {
        let shared = Arc::new(Mutex::new(Shared {
            records: VecDeque::new(),
            limit,
            lost: 0,
        }));
        let reader = RecordReader {
            shared: Arc::clone(&shared),
        };
        let batch = Vec::with_capacity(BATCH_RECORDS);
        (RecordRing { batch, shared }, reader)
    }

    /// Takes a record.
    #[inline]
    pub fn push(&mut self, record: RpcRecord) {
        self.batch.push(record);
        if self.batch.len() >= BATCH_RECORDS {
            self.hand_over();
        }
    }

    /// Hands over what was gathered.
    pub fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut shared = self.shared.lock();
        let room = shared.limit.saturating_sub(shared.records.len());
        let kept = room.min(self.batch.len());
        shared.records.extend(self.batch.iter().take(kept));
        shared.lost += (self.batch.len() - kept) as u64;
        drop(shared);
        self.batch.clear();
    }
}

impl Drop for RecordRing {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl RecordReader {
    /// Moves what is there to the end of `out`; returns how many records were lost so far.
    pub fn drain(&self, out: &mut Vec<RpcRecord>) -> u64 {
        let mut shared = self.shared.lock();
        out.extend(shared.records.drain(..));
        shared.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Times;
    use crate::record::Outcome;

    fn record(token: u64) -> RpcRecord {
        RpcRecord {
            token,
            xid: 0,
            program: 0,
            version: 0,
            procedure: 0,
            times: Times::default(),
            sends: 0,
            replies: 0,
            bytes_out: 0,
            bytes_in: 0,
            connection: 0,
            queue_at_enqueue: 0,
            outstanding_at_send: 0,
            outcome: Outcome::Dropped,
            file: None,
        }
    }

    #[test]
    fn what_does_not_fit_is_counted_and_order_is_kept() {
        let (mut ring, reader) = RecordRing::new(300);
        (0..600).for_each(|token| ring.push(record(token)));
        let mut kept = Vec::new();
        assert_eq!(
            reader.drain(&mut kept),
            212,
            "two batches of 256 into room for 300"
        );
        drop(ring);
        assert_eq!(reader.drain(&mut kept), 212);
        let tokens: Vec<u64> = kept.iter().map(|record| record.token).collect();
        let expected: Vec<u64> = (0..300).chain(512..600).collect();
        assert_eq!(tokens, expected);
    }
}
