//! Whether streams that were read from the beginning go on as others do that were read from a
//! checkpoint of a later file: then what the others find is what the first ones would find.
//!
//! Connections are numbered anew by those that began later; [`Paired`] tells which is which. One
//! that was not seen again yet is *idle*: what it counts at its end is counted when the first
//! streams are [let go](Streams::let_go), and [`Began`] tells, should it come back, whether that
//! makes a difference ([`crate::analysis::parts`] asks).

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::connection::{Connection, Protocol};
use super::direction::Direction;
use super::framing::Role;
use super::shared::Shared;
use super::table::Side;
use super::udp::Udp;
use super::{Sink, Streams, anomaly::Anomaly};
use crate::block::{Endpoint, Segment, Transport};
use crate::limits::DUPLICATE_NS;

/// The two endpoints of a connection, the lower one first, and how they talk.
pub type Ends = (Endpoint, Endpoint, Transport);

/// What the connections of two ways of reading have to do with each other.
#[derive(Debug, Default)]
pub struct Paired {
    /// Number in the streams read from the checkpoint, number in those read from the beginning.
    pub numbers: HashMap<u32, u32>,
    /// What only those read from the beginning know of connections.
    pub rest: Vec<(Ends, Rest)>,
}

/// What is known of a connection to who read what came before a checkpoint, and to nobody else.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Sequence numbers of its SYNs.
    pub syns: BTreeSet<u32>,
    /// It was not seen behind the checkpoint yet.
    pub idle: Option<Idle>,
}

/// A connection that may come back.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Idle {
    /// A pair of UDP, of which nothing is remembered for longer than a second.
    Udp {
        /// Its number.
        number: u32,
    },
    /// A TCP connection.
    Tcp {
        /// Its number.
        number: u32,
        /// Whether both sides sent payload.
        data: bool,
        /// Next sequence numbers of the lower and the higher end, if records are due there.
        next: Option<[u32; 2]>,
    },
}

impl Idle {
    /// Its number.
    pub fn number_mut(&mut self) -> &mut u32 {
        match self {
            Idle::Udp { number } | Idle::Tcp { number, .. } => number,
        }
    }
}

/// How a connection, or pair of UDP, began for who did not read what came before; sides: lower and
/// higher end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Began {
    /// Its number.
    pub number: u32,
    /// The SYN that it began with.
    syn: Option<u32>,
    /// The SYN of another one, in front of which nothing but empty segments was seen.
    reopened: Option<u32>,
    /// First sequence number with payload.
    first: [Option<u32>; 2],
    /// Furthest acknowledgement of a side's bytes in front of them.
    early: [Option<u32>; 2],
    /// It did not begin with whole records, seen for sure, or only one side sent any.
    odd: bool,
}

impl Began {
    /// Whether whoever knows the rest would have counted the same: and how many ports as used anew
    /// that were not counted. `None` if not.
    pub fn continues(&self, rest: &Rest) -> Option<u64> {
        let (data, next) = match &rest.idle {
            None | Some(Idle::Udp { .. }) => return Some(0),
            Some(Idle::Tcp { data, next, .. }) => (*data, *next),
        };
        // A FIN takes one number.
        let seen = |side: usize, at: u32, most: i32| {
            next.is_some_and(|next| at.wrapping_sub(next[side]) as i32 <= most)
        };
        let closed = |side: usize| self.early[side].is_none_or(|at| seen(side, at, 1));
        if let Some(syn) = self.syn.or(self.reopened) {
            let reused = data && !rest.syns.contains(&syn) && closed(0) && closed(1);
            return reused.then_some(1);
        }
        let next = next.filter(|_| !self.odd)?;
        let goes_on = |side: usize| match self.first[side] {
            Some(first) => {
                first == next[side] && self.early[side].is_none_or(|at| seen(side, at, 0))
            }
            None => closed(side),
        };
        (goes_on(0) && goes_on(1)).then_some(0)
    }

    /// The same, and a SYN of another one followed.
    pub(super) fn reopened(self, syn: u32) -> Self {
        let reopened = self.reopened.or(Some(syn));
        Began { reopened, ..self }
    }

    /// With the sides' places as those of these ends.
    fn of_ends(mut self, [one, other]: &[Endpoint; 2]) -> Self {
        if one > other {
            self.first.reverse();
            self.early.reverse();
        }
        self
    }
}

pub(super) fn in_order([one, other]: &[Endpoint; 2], transport: Transport) -> Ends {
    let (low, high) = if one <= other {
        (one, other)
    } else {
        (other, one)
    };
    (*low, *high, transport)
}

impl Connection {
    fn state_eq(&self, other: &Self, turned: bool, since_ns: i64) -> bool {
        let ([one, two], [their_one, their_two]) = (&self.sides, &other.sides);
        let (their_one, their_two) = match turned {
            true => (their_two, their_one),
            false => (their_one, their_two),
        };
        let mut paces = other.paces;
        if turned {
            paces.reverse();
        }
        let passed = matches!(
            self.protocol,
            Protocol::NotRpc | Protocol::Tls | Protocol::RpcOverTls
        );
        self.protocol == other.protocol
            && self.last_ns == other.last_ns
            && self.waiting.is_none()
            && other.waiting.is_none()
            // Of one that is passed over only the bytes count, and they are evened out.
            && (passed
                || self.paces == paces
                    && self.passed_over == other.passed_over
                    && one.state_eq(their_one, since_ns)
                    && two.state_eq(their_two, since_ns))
    }

    fn is_quiet(&self) -> bool {
        self.waiting.is_none() && self.sides.iter().all(|side| side.is_quiet())
    }

    /// Whether both sides seem to be the client, or the server.
    fn has_two_of_a_role(&self) -> bool {
        let [one, other] = &self.sides;
        one.role() == other.role() && one.role() != Role::Unknown
    }

    fn bytes(&self) -> u64 {
        self.passed_over + self.searched()
    }

    /// How the first one between these ends began.
    pub(super) fn began(&self) -> Began {
        if let Some(earlier) = &self.earlier {
            return (**earlier).clone();
        }
        let [one, other] = &self.sides;
        let odd = |side: &Direction| side.looked_back || side.framer.begun_within;
        Began {
            number: self.number,
            syn: self.begun_by,
            reopened: None,
            first: [one.first, other.first],
            early: [one.early_acknowledgement, other.early_acknowledgement],
            odd: odd(one) || odd(other) || one.started != other.started || self.has_two_of_a_role(),
        }
    }

    /// Without a byte seen of it, it is another one; whether that counts depends on what was read
    /// before.
    pub(super) fn begin_anew<S: Sink>(
        &mut self,
        segment: &Segment,
        side: Side,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        if self.protocol != Protocol::Unknown {
            // What was passed over was of the other one.
            shared.reach_back(0);
        }
        let began = self.began().reopened(segment.sequence);
        *self = Connection {
            earlier: Some(Box::new(began)),
            last_ns: segment.time_ns,
            low: self.low,
            ..Connection::new(self.number, segment)
        };
        self.open(side, segment, shared, sink);
    }

    /// What is known of it beside what `later` knows.
    fn rest(&self, later: Option<&Self>) -> Rest {
        let syns = self.sides.iter().filter_map(|side| side.syn).collect();
        if later.is_some() {
            return Rest { syns, idle: None };
        }
        let mut next = [0, 1].map(|side: usize| self.sides[side].next_record());
        if self.low == 1 {
            next.reverse();
        }
        let next = match (self.protocol, next) {
            (Protocol::Rpc, [Some(low), Some(high)]) => Some([low, high]),
            _ => None,
        };
        let data = self.sides.iter().all(Direction::saw_data);
        let number = self.number;
        let idle = Some(Idle::Tcp { number, data, next });
        Rest { syns, idle }
    }
}

impl Udp {
    fn pair_with(&self, later: &Self, since_ns: i64, paired: &mut Paired) -> bool {
        for (ends, number) in later.pairs.iter() {
            match self.pairs.peek(ends) {
                Some((known, 0)) => paired.numbers.insert(*number, *known),
                _ => return false,
            };
        }
        let idle = self.pairs.iter();
        let idle = idle.filter(|(ends, _)| later.pairs.peek(ends).is_none());
        let rest = |number: u32| Rest {
            idle: Some(Idle::Udp { number }),
            ..Rest::default()
        };
        let idle = idle.map(|(ends, it)| (in_order(ends, Transport::Udp), rest(*it)));
        paired.rest.extend(idle);
        self.remembers_like(later, &paired.numbers, since_ns)
    }
}

impl Streams {
    /// How these go on as `later` ones do; `None` if they may not. What comes must not be earlier
    /// than a second before `now_ns`.
    pub fn pair(&self, later: &Self, now_ns: i64) -> Option<Paired> {
        let since_ns = now_ns.saturating_sub(2 * DUPLICATE_NS);
        let mut paired = Paired::default();
        for (ends, connection) in later.connections.iter() {
            let (known, side) = self.connections.peek(ends)?;
            if !known.state_eq(connection, side == 1, since_ns) {
                return None;
            }
            paired.numbers.insert(connection.number, known.number);
        }
        for (ends, connection) in self.connections.iter() {
            let known = later.connections.peek(ends).map(|(known, _)| known);
            if known.is_none() && !connection.is_quiet() {
                return None;
            }
            let rest = connection.rest(known);
            if rest != Rest::default() {
                paired.rest.push((in_order(ends, Transport::Tcp), rest));
            }
        }
        let alike = self.udp.pair_with(&later.udp, since_ns, &mut paired)
            && self.shared.kept_bytes() == later.shared.kept_bytes();
        alike.then_some(paired)
    }

    /// Ends what `later` ones, which go on in place of these, do not know of, and evens out what
    /// they do not count.
    pub fn let_go<S: Sink>(&mut self, later: &Self, sink: &mut S) {
        let shared = &mut self.shared;
        for (ends, connection) in self.connections.drain() {
            let Some((known, _)) = later.connections.peek(&ends) else {
                connection.retire(ends, 0, shared, sink);
                continue;
            };
            let more = connection.bytes().saturating_sub(known.bytes());
            match connection.protocol {
                Protocol::NotRpc => shared.anomalies.add(Anomaly::TcpNotRpcBytes, more),
                Protocol::RpcOverTls => shared.anomalies.add(Anomaly::RpcOverTlsBytes, more),
                _ => {}
            }
        }
    }

    /// A checkpoint: what was lost in streams of RPC counts at once, since whoever goes on from
    /// here does not know of it.
    pub fn checkpoint(&mut self) {
        for connection in self.connections.values_mut() {
            if connection.protocol == Protocol::Rpc {
                connection.settle_lost(&mut self.shared);
            }
        }
    }

    /// From now on it is told when something looks back behind this checkpoint.
    pub fn note_horizon(&mut self, checkpoint: usize) {
        for connection in self.connections.values_mut() {
            for side in &mut connection.sides {
                side.note_horizon(checkpoint);
            }
        }
    }

    /// The first checkpoint that something looked back behind since this was asked last.
    pub fn take_reached_back(&mut self) -> Option<usize> {
        self.shared.reached_back.take()
    }

    /// How each connection and pair began.
    pub fn began(&self) -> impl Iterator<Item = (Ends, Began)> {
        let tcp = self.connections.iter();
        let tcp = tcp.map(|(ends, it)| (in_order(ends, Transport::Tcp), it.began().of_ends(ends)));
        let udp = self.udp.pairs.iter().map(|(ends, number)| {
            let began = Began {
                number: *number,
                ..Began::default()
            };
            (in_order(ends, Transport::Udp), began)
        });
        tcp.chain(udp)
    }

    /// Connections and pairs numbered so far.
    pub fn numbered(&self) -> u32 {
        self.shared.numbered
    }

    /// Connections opened again since this was asked last, whose SYN before that was not seen.
    pub fn take_opened(&mut self) -> Vec<(Ends, u32)> {
        std::mem::take(&mut self.shared.opened)
    }

    /// Connections and pairs seen, those of UDP behind those of TCP.
    pub fn seen(&self) -> [usize; 2] {
        [self.connections.len(), self.udp.pairs.len()]
    }

    /// The endpoints of those that were seen since there were `before` of them.
    pub fn seen_since(&self, before: [usize; 2]) -> impl Iterator<Item = Ends> {
        let tcp = self.connections.iter().skip(before[0]);
        let udp = self.udp.pairs.iter().skip(before[1]);
        let tcp = tcp.map(|(ends, _)| in_order(ends, Transport::Tcp));
        tcp.chain(udp.map(|(ends, _)| in_order(ends, Transport::Udp)))
    }
}
