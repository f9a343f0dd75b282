//! What became of each call on the server: instants, who, what, status. A bounded ring.
//!
//! Client, wire and server shares of a latency can be told apart with it. All instants are
//! `CLOCK_MONOTONIC`, nanoseconds, each read *before* the step that lets others go on, so that
//! no later instant of the client's lies before it: `received_ns` is when the call's last byte
//! had been read from the socket, `started_ns` and `finished_ns` bracket the procedure,
//! `sent_ns` is when the kernel was about to be given the reply's last byte. With a service model
//! they are the model's ([`crate::model::Stages`]), so that a planted cause shows where it lies.
//!
//! A recorder is switched on and off while the server runs; off, it costs one relaxed load where
//! bytes are read. A *session* is the time between on and off: a record is kept if its call was
//! read, and its reply sent, within one session; so there are no half records, and none that
//! belong elsewhere; whoever has a reply finds its record if the session ends then. When nobody
//! reads, new records are dropped and counted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

use crate::protocol::Outcome;

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// When its last byte had been read.
    pub received_ns: u64,
    /// When the procedure began.
    pub started_ns: u64,
    /// When the procedure ended.
    pub finished_ns: u64,
    /// When the kernel was about to be given the reply's last byte.
    pub sent_ns: u64,
    /// Transaction id.
    pub xid: u32,
    /// Who called.
    pub client: SocketAddr,
    /// Program number.
    pub program: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Size of the call without its record mark, bytes.
    pub call_bytes: u32,
    /// Size of the reply without its record mark, bytes.
    pub reply_bytes: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// A time of recording; each has a number of its own.
pub type Session = NonZeroU64;

/// That bytes were read while a session lasted, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub session: Session,
    pub received_ns: u64,
}

#[derive(Debug, Default)]
struct Ring {
    /// The session whose records are taken; `None` while it is off.
    session: Option<Session>,
    /// Sessions so far.
    sessions: u64,
    records: VecDeque<CallRecord>,
    room: usize,
    lost: u64,
}

/// Keeps records until they are taken. Off until [`Recorder::begin`].
#[derive(Debug, Default)]
pub struct Recorder {
    /// The ring's session, 0 while it is off: to be looked up without its lock.
    session: AtomicU64,
    ring: Mutex<Ring>,
    /// Read from before the kernel has a reply until its record is added: a client may have the
    /// reply before the record is there, and end the session then.
    sending: RwLock<()>,
}

impl Recorder {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }

    /// Switches it on with room for so many records; what was left of an earlier session goes.
    pub fn begin(&self, room: usize) {
        let mut ring = self.ring();
        ring.sessions += 1;
        ring.session = NonZeroU64::new(ring.sessions);
        ring.records = VecDeque::with_capacity(room);
        ring.room = room;
        ring.lost = 0;
        self.session.store(ring.sessions, Ordering::Relaxed);
    }

    /// Replies are given to the kernel, and their records added, while it is held. No end of a
    /// session comes between.
    pub(crate) fn sending(&self) -> RwLockReadGuard<'_, ()> {
        self.sending.read()
    }

    /// Switches it off. What was recorded can still be taken; calls in work are left out.
    pub fn end(&self) {
        let _nothing_is_sent = self.sending.write();
        let mut ring = self.ring();
        ring.session = None;
        self.session.store(0, Ordering::Relaxed);
    }

    /// The session that lasts, if one does.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        NonZeroU64::new(self.session.load(Ordering::Relaxed))
    }

    /// Adds records of calls that were read in these sessions; what finds no room is counted as
    /// lost, what belongs to another session than the one that lasts is nobody's.
    pub fn add(&self, records: impl IntoIterator<Item = (Session, CallRecord)>) {
        let mut ring = self.ring();
        for (session, record) in records {
            if ring.session != Some(session) {
                continue;
            }
            if ring.records.len() < ring.room {
                ring.records.push_back(record);
            } else {
                ring.lost += 1;
            }
        }
    }

    /// Takes all records, oldest first.
    pub fn take(&self) -> Vec<CallRecord> {
        let mut ring = self.ring();
        if ring.session.is_none() {
            // Nothing comes behind them: the room is given back, too.
            return std::mem::take(&mut ring.records).into();
        }
        ring.records.drain(..).collect()
    }

    /// Records of the last session that found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring().lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn record(xid: u32) -> CallRecord {
        CallRecord {
            received_ns: 1,
            started_ns: 2,
            finished_ns: 3,
            sent_ns: 4,
            xid,
            client: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
            program: 100_003,
            procedure: 1,
            call_bytes: 100,
            reply_bytes: 200,
            outcome: Outcome::Done(0),
        }
    }

    fn xids(recorder: &Recorder) -> Vec<u32> {
        recorder.take().iter().map(|record| record.xid).collect()
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let recorder = Recorder::default();
        recorder.begin(2);
        let session = recorder.session().unwrap();
        recorder.add((0..5).map(|xid| (session, record(xid))));
        assert_eq!((xids(&recorder), recorder.lost()), (vec![0, 1], 3));
        assert!(recorder.take().is_empty());
    }

    #[test]
    fn a_call_of_one_session_is_not_in_the_next() {
        let recorder = Recorder::default();
        assert_eq!(recorder.session(), None);
        recorder.begin(8);
        let first = recorder.session().unwrap();
        recorder.add([(first, record(1))]);
        recorder.end();
        assert_eq!(recorder.session(), None);
        recorder.add([(first, record(2))]);
        assert_eq!(xids(&recorder), [1], "sent after the end");
        recorder.begin(8);
        let second = recorder.session().unwrap();
        assert_ne!(first, second);
        recorder.add([(first, record(3)), (second, record(4))]);
        assert_eq!((xids(&recorder), recorder.lost()), (vec![4], 0));
    }
}
