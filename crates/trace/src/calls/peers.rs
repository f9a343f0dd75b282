//! Who calls whom over which connection: numbered, so that a waiting call holds one number.
//!
//! A pair is remembered as long as calls of it wait, so the table is bounded by theirs. A
//! connection has two pairs if callbacks run over it in the other direction.

use hashbrown::HashMap;

use crate::block::{Endpoint, Host, Transport};
use crate::stream::Message;

/// Calls of a pair during which a retransmission over a new connection is looked for: as many as a
/// Linux client may have outstanding, and some new ones among them.
const YOUNG_CALLS: u32 = 4096;
/// Other pairs of the same hosts that are searched for the first send, latest first.
const MAX_SEARCHED: usize = 32;
/// Places of the cache of last pairs.
const CACHED: usize = 64;

/// A caller and whom it calls, over one connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Who calls.
    pub client: Endpoint,
    /// Who is called.
    pub server: Endpoint,
    /// How.
    pub transport: Transport,
    /// The connection's number.
    pub connection: u32,
    /// Waiting calls of this pair.
    open: u32,
    /// Calls seen while it was remembered.
    seen: u32,
    /// First byte of the last reply.
    last_reply_ns: i64,
    /// The connection's end was seen.
    ended: bool,
}

impl Peer {
    /// Whether calls of it are matched as those of `other` are.
    pub fn state_eq(&self, other: &Self) -> bool {
        let of = |it: &Self| {
            let ends = (it.client, it.server, it.transport);
            (ends, it.open, it.last_reply_ns, it.ended)
        };
        of(self) == of(other)
    }
}

/// Caller and called, and how: a client that changes from UDP to TCP or back mounts anew, with new
/// transaction ids.
type Hosts = (Host, Host, Transport);

fn hosts(peer: &Peer) -> Hosts {
    (peer.client.host, peer.server.host, peer.transport)
}

/// Connection and direction: which of the two ends calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairKey(u64);

impl PairKey {
    /// No pair has this key.
    const NONE: PairKey = PairKey(u64::MAX);

    /// Of a connection over which this one calls that one.
    #[inline(always)]
    pub fn new(connection: u32, caller: &Endpoint, called: &Endpoint) -> Self {
        // Any order will do; ports nearly always tell.
        let first = match caller.port == called.port {
            true => caller.host < called.host,
            false => caller.port < called.port,
        };
        PairKey(u64::from(connection) << 1 | u64::from(first))
    }

    /// Both of a connection.
    fn both(connection: u32) -> [Self; 2] {
        [0, 1].map(|direction| PairKey(u64::from(connection) << 1 | direction))
    }

    /// Place in the cache.
    #[inline(always)]
    fn place(self) -> usize {
        self.0 as usize % CACHED
    }
}

/// All pairs with waiting calls.
#[derive(Debug)]
pub struct Peers {
    peers: Vec<Peer>,
    free: Vec<u32>,
    by_key: HashMap<PairKey, u32>,
    by_hosts: HashMap<Hosts, Vec<u32>>,
    cache: [(PairKey, u32); CACHED],
}

impl Peers {
    /// None yet.
    pub fn new() -> Self {
        Peers {
            peers: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            by_hosts: HashMap::new(),
            cache: [(PairKey::NONE, 0); CACHED],
        }
    }

    /// The pair of this number.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&Peer> {
        self.peers.get(number as usize)
    }

    /// The pair's number, if calls of it wait.
    #[inline(always)]
    pub fn find(&self, key: PairKey) -> Option<u32> {
        match self.cache.get(key.place()) {
            Some((cached, number)) if *cached == key => Some(*number),
            _ => self.by_key.get(&key).copied(),
        }
    }

    /// The pair of a call.
    #[inline(always)]
    pub fn of_call(&mut self, message: &Message<'_>) -> u32 {
        let key = PairKey::new(message.connection, message.from, message.to);
        let place = key.place();
        let number = match self.cache.get(place) {
            Some((cached, number)) if *cached == key => *number,
            _ => {
                let number = self.find_or_add(key, message);
                if let Some(cached) = self.cache.get_mut(place) {
                    *cached = (key, number);
                }
                number
            }
        };
        if let Some(peer) = self.peers.get_mut(number as usize) {
            peer.seen = peer.seen.saturating_add(1);
        }
        number
    }

    #[cold]
    fn find_or_add(&mut self, key: PairKey, message: &Message<'_>) -> u32 {
        if let Some(number) = self.by_key.get(&key) {
            return *number;
        }
        let peer = Peer {
            client: *message.from,
            server: *message.to,
            transport: message.transport,
            connection: message.connection,
            open: 0,
            seen: 0,
            last_reply_ns: i64::MIN,
            ended: false,
        };
        let number = self.free.pop().unwrap_or(self.peers.len() as u32);
        match self.peers.get_mut(number as usize) {
            Some(place) => *place = peer,
            None => self.peers.push(peer),
        }
        self.by_key.insert(key, number);
        self.by_hosts.entry(hosts(&peer)).or_default().push(number);
        number
    }

    /// A connection ended: its pairs, in both directions.
    pub fn end(&mut self, connection: u32) {
        for key in PairKey::both(connection) {
            let number = self.by_key.get(&key);
            if let Some(peer) = number.and_then(|number| self.peers.get_mut(*number as usize)) {
                peer.ended = true;
            }
        }
    }

    /// Whether the connection's end was seen.
    #[inline(always)]
    pub fn has_ended(&self, number: u32) -> bool {
        self.get(number).is_some_and(|peer| peer.ended)
    }

    /// A reply of this pair came.
    #[inline(always)]
    pub fn answered(&mut self, number: u32, time_ns: i64) {
        if let Some(peer) = self.peers.get_mut(number as usize) {
            peer.last_reply_ns = time_ns;
        }
    }

    /// When the last reply of this pair came.
    pub fn last_reply_ns(&self, number: u32) -> i64 {
        self.get(number).map_or(i64::MIN, |peer| peer.last_reply_ns)
    }

    /// A new call of this pair begins to wait.
    #[inline(always)]
    pub fn count_call(&mut self, number: u32) {
        if let Some(peer) = self.peers.get_mut(number as usize) {
            peer.seen = peer.seen.saturating_add(1);
            peer.open += 1;
        }
    }

    /// A call of this pair begins to wait.
    #[inline(always)]
    pub fn hold(&mut self, number: u32) {
        if let Some(peer) = self.peers.get_mut(number as usize) {
            peer.open += 1;
        }
    }

    /// A call of this pair waits no longer; with the last one the pair is forgotten.
    #[inline(always)]
    pub fn release(&mut self, number: u32) {
        if let Some(peer) = self.peers.get_mut(number as usize) {
            peer.open = peer.open.saturating_sub(1);
            if peer.open == 0 {
                self.forget(number);
            }
        }
    }

    #[cold]
    fn forget(&mut self, number: u32) {
        let Some(peer) = self.peers.get(number as usize).copied() else {
            return;
        };
        let key = PairKey::new(peer.connection, &peer.client, &peer.server);
        self.by_key.remove(&key);
        let hosts = hosts(&peer);
        if let Some(numbers) = self.by_hosts.get_mut(&hosts) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_hosts.remove(&hosts);
            }
        }
        if let Some(cached) = self.cache.get_mut(key.place())
            && cached.0 == key
        {
            cached.0 = PairKey::NONE;
        }
        self.free.push(number);
    }

    /// Pairs of the same two hosts, latest first, if this one is so young that its calls may have
    /// been sent over another one before.
    #[inline(always)]
    pub fn before(&self, number: u32) -> &[u32] {
        match self.get(number) {
            Some(peer) if peer.seen <= YOUNG_CALLS => self.others(peer),
            _ => &[],
        }
    }

    /// Whether not all other pairs are searched: which ones then depends on where reading began.
    #[inline(always)]
    pub fn is_crowded(&self, number: u32) -> bool {
        self.before(number).len() >= MAX_SEARCHED
    }

    fn others(&self, peer: &Peer) -> &[u32] {
        let numbers = self
            .by_hosts
            .get(&hosts(peer))
            .map_or(&[][..], Vec::as_slice);
        if numbers.len() < 2 {
            return &[];
        }
        let from = numbers.len().saturating_sub(MAX_SEARCHED);
        numbers.get(from..).unwrap_or_default()
    }
}
