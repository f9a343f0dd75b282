//! Replies of procedures that must not run twice, kept for calls that are sent again.
//!
//! A client that sees no reply sends the same bytes again: over UDP after its timer, over TCP on a
//! new connection, where the port differs. So a call is known by address (without port), xid,
//! program, procedure and a checksum of its bytes. Its reply is kept; a duplicate of a call that
//! is still running is dropped, since its reply is on the way.
//!
//! Decisions: the checksum takes the first and last [`CHECKED_BYTES`] and the length (Linux: the
//! first 256 bytes), so that xids used again for another call do not find the old reply. Bounds:
//! [`MAX_ENTRIES`] calls, replies of [`MAX_REPLY_BYTES`] at most (such replies are small); the
//! oldest finished goes first; [`KEPT_NS`] after its end a reply is not used any more.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use siphasher::sip::SipHasher13;
use wire::rpc::Call;

/// Calls kept (Linux: some thousands, by memory).
pub const MAX_ENTRIES: usize = 8192;
/// Largest reply kept, bytes; larger ones are answered again by running the call.
pub const MAX_REPLY_BYTES: usize = 1024;
/// How long a reply may be used, nanoseconds (Linux: `RC_EXPIRE`, 120 s).
pub const KEPT_NS: u64 = 120_000_000_000;
/// Bytes at either end that the checksum takes.
const CHECKED_BYTES: usize = 1024;

/// What tells a call from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey {
    address: IpAddr,
    xid: u32,
    program: u32,
    procedure: u32,
    checksum: u64,
}

impl CallKey {
    /// The key of a call and its whole message.
    #[must_use]
    pub fn new(address: SocketAddr, call: &Call<'_>, message: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write_u64(message.len() as u64);
        let (front, rest) = message.split_at(message.len().min(CHECKED_BYTES));
        hasher.write(front);
        let from = rest.len().saturating_sub(CHECKED_BYTES);
        hasher.write(rest.get(from..).unwrap_or_default());
        CallKey {
            address: address.ip(),
            xid: call.xid,
            program: call.program,
            procedure: call.procedure,
            checksum: hasher.finish(),
        }
    }
}

/// What to do with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// Run it: it was not seen before (it is noted as running).
    First,
    /// Drop it: it is running.
    Running,
    /// Send this again.
    Answered(&'a [u8]),
}

#[derive(Debug)]
enum Entry {
    Running,
    Done { reply: Box<[u8]>, ended_ns: u64 },
}

/// The cache. Not shared: it belongs to the loop that takes calls.
#[derive(Debug, Default)]
pub struct ReplyCache {
    entries: HashMap<CallKey, Entry>,
    // Finished calls, oldest first.
    finished: VecDeque<CallKey>,
    /// Duplicates answered from the cache.
    pub answered: u64,
    /// Duplicates dropped because the call was running.
    pub dropped: u64,
}

impl ReplyCache {
    /// Looks a call up and notes it as running if it is new.
    pub fn begin(&mut self, key: CallKey, now_ns: u64) -> Seen<'_> {
        let expired = match self.entries.get(&key) {
            None => true,
            Some(Entry::Running) => {
                self.dropped += 1;
                return Seen::Running;
            }
            Some(Entry::Done { ended_ns, .. }) => now_ns.saturating_sub(*ended_ns) > KEPT_NS,
        };
        if expired {
            if self.entries.insert(key, Entry::Running).is_some() {
                self.finished.retain(|other| *other != key);
            }
            return Seen::First;
        }
        self.answered += 1;
        match self.entries.get(&key) {
            Some(Entry::Done { reply, .. }) => Seen::Answered(reply),
            _ => Seen::First,
        }
    }

    /// Keeps the reply of a call that was begun.
    pub fn finish(&mut self, key: CallKey, reply: &[u8], now_ns: u64) {
        if reply.len() > MAX_REPLY_BYTES {
            self.entries.remove(&key);
            return;
        }
        while self.finished.len() >= MAX_ENTRIES {
            if let Some(oldest) = self.finished.pop_front() {
                self.entries.remove(&oldest);
            }
        }
        let done = Entry::Done {
            reply: reply.into(),
            ended_ns: now_ns,
        };
        self.entries.insert(key, done);
        self.finished.push_back(key);
    }

    /// Forgets a call that was begun and will have no reply.
    pub fn forget(&mut self, key: &CallKey) {
        if matches!(self.entries.get(key), Some(Entry::Running)) {
            self.entries.remove(key);
        }
    }

    /// Calls kept, running or finished.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use wire::rpc::{OpaqueAuth, encode_call};

    fn key(port: u16, xid: u32, procedure: u32, body: &[u8]) -> CallKey {
        let mut message = Vec::new();
        let none = OpaqueAuth::NONE;
        encode_call(&mut message, xid, [100_003, 3, procedure], &none, &none).unwrap();
        message.extend_from_slice(body);
        let call = Call::parse(&message).unwrap();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        CallKey::new(address, &call, &message)
    }

    #[test]
    fn a_call_sent_again_gets_the_same_reply_whatever_the_port() {
        let mut cache = ReplyCache::default();
        assert_eq!(cache.begin(key(1, 7, 12, b"name"), 0), Seen::First);
        assert_eq!(cache.begin(key(2, 7, 12, b"name"), 1), Seen::Running);
        cache.finish(key(1, 7, 12, b"name"), b"reply", 2);
        assert_eq!(
            cache.begin(key(2, 7, 12, b"name"), 3),
            Seen::Answered(b"reply")
        );
        assert_eq!((cache.dropped, cache.answered), (1, 1));
    }

    #[test]
    fn another_call_with_the_same_xid_runs() {
        let mut cache = ReplyCache::default();
        let long = |last| {
            let mut body = vec![0; 100_000];
            body[99_999] = last;
            body
        };
        for (procedure, body) in [
            (12, long(0)),
            (12, long(1)),
            (13, long(0)),
            (12, Vec::new()),
        ] {
            let key = key(1, 7, procedure, &body);
            assert_eq!(cache.begin(key, 0), Seen::First);
            cache.finish(key, b"reply", 0);
        }
    }

    #[test]
    fn old_replies_are_not_used_and_the_size_is_bounded() {
        let mut cache = ReplyCache::default();
        for xid in 0..MAX_ENTRIES as u32 + 100 {
            let key = key(1, xid, 12, b"");
            cache.begin(key, 0);
            cache.finish(key, b"reply", 0);
        }
        assert_eq!(cache.len(), MAX_ENTRIES);
        let last = key(1, MAX_ENTRIES as u32, 12, b"");
        assert!(matches!(cache.begin(last, KEPT_NS), Seen::Answered(_)));
        assert_eq!(cache.begin(last, KEPT_NS + 1), Seen::First);
        assert_eq!(cache.begin(key(1, 0, 12, b""), 0), Seen::First);
        cache.finish(last, &[0; MAX_REPLY_BYTES + 1], 0);
        assert_eq!(cache.begin(last, 0), Seen::First);
        cache.forget(&last);
        assert_eq!(cache.begin(last, 0), Seen::First);
    }
}
