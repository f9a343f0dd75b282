//! Replies of procedures that must not run twice, kept for calls that are sent again.
//!
//! A client that sees no reply sends the same bytes again: over UDP after its timer from the same
//! port, over TCP on a new connection, where the port may differ (Linux uses its port again, libnfs
//! does not). So a call is known by address, xid, program, procedure and a checksum of its bytes;
//! of a datagram by the port too. A connection that is open is a client of its own: two of one
//! address (of one machine, or behind one translator) that send the same bytes both have their call
//! run. Once it has ended, its calls may be those of a client that has come back: another
//! connection of that address takes them over, and gets the kept reply, or that of the call that
//! is still running. A duplicate from a connection that is waiting for its reply is dropped.
//!
//! (Linux' nfsd has the port in its key always: a call sent again from another port runs twice.) A
//! connection that broke without a word counts as open until it is noticed: so long a call that is
//! sent again from another port is taken for another client's.
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

/// Which way a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// By UDP, from this port.
    Port(u16),
    /// On the TCP connection at this place, with this serial number.
    Connection(usize, u64),
}

/// What tells a call from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey {
    address: IpAddr,
    // Of a datagram.
    port: Option<u16>,
    xid: u32,
    program: u32,
    procedure: u32,
    checksum: u64,
}

impl CallKey {
    /// The key of a call and its whole message.
    #[must_use]
    pub fn new(address: SocketAddr, sender: Sender, call: &Call<'_>, message: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write_u64(message.len() as u64);
        let (front, rest) = message.split_at(message.len().min(CHECKED_BYTES));
        hasher.write(front);
        let from = rest.len().saturating_sub(CHECKED_BYTES);
        hasher.write(rest.get(from..).unwrap_or_default());
        CallKey {
            address: address.ip(),
            port: match sender {
                Sender::Port(port) => Some(port),
                Sender::Connection(..) => None,
            },
            xid: call.xid,
            program: call.program,
            procedure: call.procedure,
            checksum: hasher.finish(),
        }
    }
}

/// A call's place in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    key: CallKey,
    number: u64,
}

/// What to do with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// Run it: it was not seen before (it is noted as running).
    First(Ticket),
    /// Drop it: it is running for the same sender.
    Running,
    /// It is running for a connection that has ended: the reply is to go to this sender.
    TakenOver(Ticket),
    /// Send this again.
    Answered(&'a [u8]),
}

#[derive(Debug)]
struct Entry {
    number: u64,
    sender: Sender,
    // With the instant of its end, once it has ended.
    reply: Option<(Box<[u8]>, u64)>,
}

/// The cache. Not shared: it belongs to the loop that takes calls.
#[derive(Debug, Default)]
pub struct ReplyCache {
    // Several where clients of one address sent the same: as many as have connections open.
    entries: HashMap<CallKey, Vec<Entry>>,
    // Finished calls, oldest first.
    finished: VecDeque<Ticket>,
    count: usize,
    next: u64,
    /// Duplicates answered from the cache.
    pub answered: u64,
    /// Duplicates dropped because the call was running.
    pub dropped: u64,
}

impl ReplyCache {
    /// Looks a call up and notes it as running if it is new. `has_ended` tells of other
    /// connections whether they are no more.
    pub fn begin(
        &mut self,
        key: CallKey,
        sender: Sender,
        now_ns: u64,
        has_ended: impl Fn(Sender) -> bool,
    ) -> Seen<'_> {
        let number = self.next;
        let entries = self.entries.entry(key).or_default();
        let own = entries.iter().position(|entry| entry.sender == sender);
        let found = own.or_else(|| entries.iter().position(|entry| has_ended(entry.sender)));
        let fresh = Entry {
            number,
            sender,
            reply: None,
        };
        let Some(at) = found else {
            entries.push(fresh);
            self.next += 1;
            self.count += 1;
            return Seen::First(Ticket { key, number });
        };
        // In bounds: `position` has found it.
        let entry = &mut entries[at];
        let expired = match &entry.reply {
            Some((_, ended_ns)) => now_ns.saturating_sub(*ended_ns) > KEPT_NS,
            None if own.is_some() => {
                self.dropped += 1;
                return Seen::Running;
            }
            None => {
                entry.sender = sender;
                let number = entry.number;
                return Seen::TakenOver(Ticket { key, number });
            }
        };
        if expired {
            let old = Ticket {
                key,
                number: entry.number,
            };
            *entry = fresh;
            self.next += 1;
            self.finished.retain(|other| *other != old);
            return Seen::First(Ticket { key, number });
        }
        entry.sender = sender;
        self.answered += 1;
        let reply = entry.reply.as_ref().map(|(reply, _)| &**reply);
        Seen::Answered(reply.unwrap_or_default())
    }

    /// Keeps the reply of a call that was begun.
    pub fn finish(&mut self, ticket: Ticket, reply: &[u8], now_ns: u64) {
        if reply.len() > MAX_REPLY_BYTES {
            self.remove(&ticket);
            return;
        }
        while self.finished.len() >= MAX_ENTRIES {
            if let Some(oldest) = self.finished.pop_front() {
                self.remove(&oldest);
            }
        }
        let entries = self.entries.get_mut(&ticket.key);
        let is_it = |entry: &&mut Entry| entry.number == ticket.number;
        if let Some(entry) = entries.and_then(|entries| entries.iter_mut().find(is_it)) {
            entry.reply = Some((reply.into(), now_ns));
            self.finished.push_back(ticket);
        }
    }

    /// Forgets a call.
    fn remove(&mut self, ticket: &Ticket) {
        let Some(entries) = self.entries.get_mut(&ticket.key) else {
            return;
        };
        let before = entries.len();
        entries.retain(|entry| entry.number != ticket.number);
        self.count -= before - entries.len();
        if entries.is_empty() {
            self.entries.remove(&ticket.key);
        }
    }

    /// Calls kept, running or finished.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use wire::rpc::{OpaqueAuth, encode_call};

    const FIRST: Sender = Sender::Connection(0, 1);
    const SECOND: Sender = Sender::Connection(1, 2);

    fn key(sender: Sender, xid: u32, procedure: u32, body: &[u8]) -> CallKey {
        let mut message = Vec::new();
        let none = OpaqueAuth::NONE;
        encode_call(&mut message, xid, [100_003, 3, procedure], &none, &none).unwrap();
        message.extend_from_slice(body);
        let call = Call::parse(&message).unwrap();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
        CallKey::new(address, sender, &call, &message)
    }

    fn run(cache: &mut ReplyCache, sender: Sender, key: CallKey, now_ns: u64) -> Ticket {
        match cache.begin(key, sender, now_ns, |_| false) {
            Seen::First(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_sent_again_gets_the_same_reply() {
        let (mut cache, key) = (ReplyCache::default(), key(FIRST, 7, 12, b"name"));
        let ticket = run(&mut cache, FIRST, key, 0);
        assert_eq!(cache.begin(key, FIRST, 1, |_| false), Seen::Running);
        cache.finish(ticket, b"reply", 2);
        let again = cache.begin(key, FIRST, 3, |_| false);
        assert_eq!(again, Seen::Answered(b"reply"));
        assert_eq!((cache.dropped, cache.answered), (1, 1));
    }

    #[test]
    fn another_connection_takes_over_what_an_ended_one_asked_and_no_more() {
        let (mut cache, key) = (ReplyCache::default(), key(FIRST, 7, 12, b"name"));
        let ticket = run(&mut cache, FIRST, key, 0);
        // Both are open: two clients.
        let other = run(&mut cache, SECOND, key, 1);
        cache.finish(ticket, b"one", 2);
        cache.finish(other, b"two", 3);
        let again = cache.begin(key, SECOND, 4, |_| false);
        assert_eq!(again, Seen::Answered(b"two"));
        // The first has ended; who comes in its place gets its reply, once.
        let third = Sender::Connection(0, 3);
        let ended = |sender| sender == FIRST;
        assert_eq!(cache.begin(key, third, 5, ended), Seen::Answered(b"one"));
        let fourth = Sender::Connection(2, 4);
        assert!(matches!(cache.begin(key, fourth, 6, ended), Seen::First(_)));
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn a_running_call_of_an_ended_connection_is_taken_over() {
        let (mut cache, key) = (ReplyCache::default(), key(FIRST, 7, 12, b"name"));
        let ticket = run(&mut cache, FIRST, key, 0);
        let ended = |sender| sender == FIRST;
        let again = cache.begin(key, SECOND, 1, ended);
        assert_eq!(again, Seen::TakenOver(ticket));
        assert_eq!(cache.begin(key, SECOND, 2, ended), Seen::Running);
        cache.finish(ticket, b"reply", 3);
        let again = cache.begin(key, SECOND, 4, ended);
        assert_eq!(again, Seen::Answered(b"reply"));
    }

    #[test]
    fn a_datagrams_port_is_its_client() {
        let mut cache = ReplyCache::default();
        for port in [1, 2] {
            let sender = Sender::Port(port);
            let key = key(sender, 7, 12, b"name");
            let ticket = run(&mut cache, sender, key, 0);
            cache.finish(ticket, &[port as u8], 0);
            let again = cache.begin(key, sender, 1, |_| true);
            assert_eq!(again, Seen::Answered(&[port as u8]));
        }
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
            let key = key(FIRST, 7, procedure, &body);
            let ticket = run(&mut cache, FIRST, key, 0);
            cache.finish(ticket, b"reply", 0);
        }
    }

    #[test]
    fn old_replies_are_not_used_and_the_size_is_bounded() {
        let mut cache = ReplyCache::default();
        for xid in 0..MAX_ENTRIES as u32 + 100 {
            let key = key(FIRST, xid, 12, b"");
            let ticket = run(&mut cache, FIRST, key, 0);
            cache.finish(ticket, b"reply", 0);
        }
        assert_eq!(cache.len(), MAX_ENTRIES);
        let last = key(FIRST, MAX_ENTRIES as u32, 12, b"");
        let again = cache.begin(last, FIRST, KEPT_NS, |_| false);
        assert!(matches!(again, Seen::Answered(_)));
        let ticket = run(&mut cache, FIRST, last, KEPT_NS + 1);
        run(&mut cache, FIRST, key(FIRST, 0, 12, b""), 0);
        cache.finish(ticket, &[0; MAX_REPLY_BYTES + 1], 0);
        run(&mut cache, FIRST, last, 0);
    }
}
