//! Whether streams that were read from the beginning go on as others do that were read from a
//! checkpoint of a later file: then what the others find is what the first ones would find.
//!
//! Connections are numbered anew by those that began later; [`Paired`] tells which is which. One
//! that was not seen again yet is *idle*: it must not come back later ([`crate::analysis::parts`] looks), and
//! what it counts at its end is counted when the first streams are [let go](Streams::let_go).

use std::collections::HashMap;

use super::connection::{Connection, Protocol};
use super::udp::Udp;
use super::{Sink, Streams, anomaly::Anomaly};
use crate::block::{Endpoint, Transport};
use crate::limits::DUPLICATE_NS;

/// The two endpoints of a connection, the lower one first, and how they talk.
pub type Ends = (Endpoint, Endpoint, Transport);

/// What the connections of two ways of reading have to do with each other.
#[derive(Debug, Default)]
pub struct Paired {
    /// Number in the streams read from the checkpoint, number in those read from the beginning.
    pub numbers: HashMap<u32, u32>,
    /// Connections that only those read from the beginning know.
    pub idle: Vec<Ends>,
}

fn in_order([one, other]: &[Endpoint; 2], transport: Transport) -> Ends {
    let (low, high) = if one <= other {
        (one, other)
    } else {
        (other, one)
    };
    (*low, *high, transport)
}

impl Connection {
    fn is_like(&self, other: &Self, turned: bool, since_ns: i64) -> bool {
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
                    && one.is_like(their_one, since_ns)
                    && two.is_like(their_two, since_ns))
    }

    fn is_quiet(&self) -> bool {
        self.waiting.is_none() && self.sides.iter().all(|side| side.is_quiet())
    }

    fn bytes(&self) -> u64 {
        self.passed_over + self.searched()
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
        paired
            .idle
            .extend(idle.map(|(ends, _)| in_order(ends, Transport::Udp)));
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
            if !known.is_like(connection, side == 1, since_ns) {
                return None;
            }
            paired.numbers.insert(connection.number, known.number);
        }
        for (ends, connection) in self.connections.iter() {
            if later.connections.peek(ends).is_none() {
                if !connection.is_quiet() {
                    return None;
                }
                paired.idle.push(in_order(ends, Transport::Tcp));
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
