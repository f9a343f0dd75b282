//! RPC over UDP: one message a datagram.
//!
//! A datagram is looked at by its bytes; those that are no RPC cost no more than that. The same
//! packet captured twice (on two interfaces, by a mirror port) has the same IP identification,
//! while a message sent again has another: only the former is passed over. Datagrams without an
//! identification (IPv6 without fragments, some systems' IPv4) are told apart by their time: no
//! client sends again within a millisecond.

use std::collections::HashMap;

use wire::rpc::{looks_like_call, looks_like_reply};

use super::anomaly::Anomaly;
use super::shared::Shared;
use super::table::Table;
use super::{Message, Sink};
use crate::block::{Segment, Transport};
use crate::call::Stamp;
use crate::limits::{DUPLICATE_NS, DUPLICATE_WITHOUT_ID_NS};

/// Datagrams remembered to recognise those captured twice: 160 KB. A mirror's copy follows within
/// a few packets; what was overwritten since is not recognised.
const REMEMBERED: usize = 2048;
/// Places for each: packets of both directions may come between a packet and its copy.
const WAYS: usize = 2;

/// What two captures of one packet have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Print {
    ip_id: u32,
    payload_bytes: u32,
    connection: u32,
    side: u32,
    front: u64,
}

/// The datagrams of a capture.
#[derive(Debug, Default)]
pub(super) struct Udp {
    pub(super) pairs: Table<u32>,
    seen: Vec<[(Print, i64); WAYS]>,
}

impl Udp {
    /// Takes a datagram.
    #[inline(always)]
    pub(super) fn datagram<S: Sink>(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let rpc = match payload.get(4..8) {
            Some([0, 0, 0, 0]) => looks_like_call(payload).is_some(),
            Some([0, 0, 0, 1]) => looks_like_reply(payload).is_some(),
            _ => false,
        };
        if !rpc {
            shared.anomalies.count(Anomaly::UdpNotRpc);
            return;
        }
        let (connection, side) = self.pair(segment, shared);
        if self.captured_twice(segment, payload, connection, side) {
            shared.anomalies.count(Anomaly::DuplicatePacket);
            return;
        }
        let complete = payload.len() as u64 >= u64::from(segment.payload_bytes);
        if !complete {
            shared.anomalies.count(Anomaly::RecordCut);
        }
        sink.message(&Message {
            connection,
            from: &segment.source,
            to: &segment.destination,
            transport: Transport::Udp,
            head: payload,
            missing: (segment.payload_bytes as usize).saturating_sub(payload.len()),
            tail: &[],
            complete,
            wire_bytes: segment.payload_bytes,
            first: Stamp {
                time_ns: segment.first_ns,
                frame: segment.frame,
            },
            last: Stamp {
                time_ns: segment.time_ns,
                frame: segment.frame,
            },
            resynchronised: false,
            ip_id: segment.ip_id,
        });
    }

    #[inline(always)]
    fn pair(&mut self, segment: &Segment, shared: &mut Shared) -> (u32, u32) {
        let (slot, side) = match self.pairs.find(&segment.source, &segment.destination) {
            Some(found) => found,
            None => {
                let number = shared.number();
                let ends = [segment.source, segment.destination];
                let (slot, gone) = self.pairs.insert(ends, number);
                if gone.is_some() {
                    shared.anomalies.count(Anomaly::ConnectionsEvicted);
                }
                (slot, 0)
            }
        };
        let number = self.pairs.get_mut(slot).map_or(0, |number| *number);
        (number, side as u32)
    }

    fn captured_twice(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        connection: u32,
        side: u32,
    ) -> bool {
        if self.seen.is_empty() {
            self.seen.resize(REMEMBERED, Default::default());
        }
        let front = payload.first_chunk::<8>().copied().unwrap_or_default();
        let print = Print {
            ip_id: segment.ip_id,
            payload_bytes: segment.payload_bytes,
            connection,
            side,
            front: u64::from_le_bytes(front),
        };
        let (mark, within_ns) = match segment.ip_id {
            0 => (print.front as u32, DUPLICATE_WITHOUT_ID_NS),
            id => (id, DUPLICATE_NS),
        };
        // Of the endpoints, not the connection's number: that depends on where reading began.
        let ports = u32::from(segment.source.port) << 16 | u32::from(segment.destination.port);
        let hosts = segment.source.host.low_bits() ^ segment.destination.host.low_bits();
        let ends = (ports ^ hosts as u32).wrapping_mul(0x9e37_79b1);
        let place = (mark ^ ends ^ ends >> 16) as usize;
        let Some(ways) = self.seen.get_mut(place % REMEMBERED) else {
            return false;
        };
        let is_copy = |(seen, time_ns): &(Print, i64)| {
            let apart_ns = segment.time_ns.saturating_sub(*time_ns);
            *seen == print && apart_ns.saturating_abs() <= within_ns
        };
        if ways.iter().any(is_copy) {
            return true;
        }
        ways.rotate_right(1);
        ways[0] = (print, segment.time_ns);
        false
    }
}

impl Udp {
    /// Whether datagrams that come from `since_ns + DUPLICATE_NS` on find the same copies here as
    /// in one that was begun `later`; `numbers` tells what connections are here.
    pub(super) fn remembers_like(
        &self,
        later: &Self,
        numbers: &HashMap<u32, u32>,
        since_ns: i64,
    ) -> bool {
        let none = [Default::default(); WAYS];
        (0..REMEMBERED).all(|place| {
            let ours = self.seen.get(place).unwrap_or(&none);
            let theirs = later.seen.get(place).unwrap_or(&none);
            ours.iter().zip(theirs).all(|(one, (print, time_ns))| {
                let stale = one.1 < since_ns && *time_ns < since_ns;
                let connection = numbers.get(&print.connection).copied();
                stale
                    || connection.is_some_and(|connection| {
                        *one == (
                            Print {
                                connection,
                                ..*print
                            },
                            *time_ns,
                        )
                    })
            })
        })
    }
}
