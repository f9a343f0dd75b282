//! What became of each call on the server: instants, who, what, status. A bounded ring.
//!
//! Client, wire and server shares of a latency can be told apart with it: `received_ns` is when
//! the bytes were read from the socket, `started_ns` and `finished_ns` bracket the procedure,
//! `sent_ns` is when the last byte of the reply was taken by the kernel. All on
//! `CLOCK_MONOTONIC`, nanoseconds. When nobody reads, new records are dropped and counted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::protocol::Outcome;

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// When its bytes were read.
    pub received_ns: u64,
    /// When the procedure began.
    pub started_ns: u64,
    /// When the procedure ended.
    pub finished_ns: u64,
    /// When the reply was handed to the kernel whole.
    pub sent_ns: u64,
    /// Transaction id.
    pub xid: u32,
    /// Who called.
    pub client: SocketAddr,
    /// Program number.
    pub program: u32,
    /// Procedure number.
    pub procedure: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// Keeps records until they are taken.
#[derive(Debug)]
pub struct Recorder {
    ring: Mutex<VecDeque<CallRecord>>,
    capacity: usize,
    lost: AtomicU64,
}

impl Recorder {
    /// Room for `capacity` records.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Recorder {
            ring: Mutex::new(VecDeque::with_capacity(capacity)),
            capacity,
            lost: AtomicU64::new(0),
        }
    }

    /// Adds a record, or counts it as lost.
    pub fn add(&self, record: CallRecord) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() < self.capacity {
            ring.push_back(record);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes all records, oldest first.
    pub fn take(&self) -> Vec<CallRecord> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.drain(..).collect()
    }

    /// Records that found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn what_finds_no_room_is_counted() {
        let recorder = Recorder::new(2);
        for xid in 0..5 {
            recorder.add(CallRecord {
                received_ns: 1,
                started_ns: 2,
                finished_ns: 3,
                sent_ns: 4,
                xid,
                client: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
                program: 100_003,
                procedure: 1,
                outcome: Outcome::Done(0),
            });
        }
        let xids: Vec<u32> = recorder.take().iter().map(|record| record.xid).collect();
        assert_eq!((xids, recorder.lost()), (vec![0, 1], 3));
        assert!(recorder.take().is_empty());
    }
}
