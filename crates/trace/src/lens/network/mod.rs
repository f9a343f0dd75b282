//! `network`: where the time of a call goes, as far as the capture tells.
//!
//! Seen from the capture point, a call over TCP has four parts that sum up to its whole time (first
//! byte of the call to last byte of the reply):
//!
//! * **request**: from the first to the last byte of the call;
//! * **network**: the round trip from the capture point to the server and back ([`path`]);
//! * **server**: the rest of the time from the call's last to the reply's first byte. Where the
//!   round trip of that moment was shorter than the estimate it comes out negative: it is kept
//!   negative and counted, so that sums and means stay right;
//! * **reply**: from the first to the last byte of the reply.
//!
//! Decisions: the split is made for calls sent once whose connection has a measured round trip; all
//! others are counted by reason. Over UDP there are no acknowledgements, and no split. Where the
//! capture point lies follows from the round trips to both sides; between it and the client there
//! is a round trip more that the client sees and this capture's latencies do not contain.
//!
//! Limits: what waits in the client's or server's host (interrupts, sockets, a thread that is not
//! free) is the server's or the client's time here, never the network's. Loss is what the capture
//! shows as sent again; a packet lost in front of the capture point is seen only once. Acknowledged
//! windows are the receiver's, in its own units.

pub(super) mod path;
#[cfg(test)]
mod tests;

use measure::add_up;
use serde_json::{Value, json};

use self::path::{Path, RoundTrip, least};
use super::connection_slots::ConnectionSlots;
use super::kinds::{KIND_NAMES, KINDS, Kind, is_nfs};
use super::log_histogram::LogHistogram;
use super::{Extent, Interest, Lens, Section};
use crate::block::{Endpoint, Transport};
use crate::call::Call;
use crate::event::{Event, TransportEvent, TransportKind};
use crate::names::Names;

/// Parts of a call's time, in their order.
const PARTS: [&str; 4] = ["request", "network", "server", "reply"];
/// Rows: each kind, and all.
const ROWS: usize = KINDS + 1;
/// Connections shown.
const SHOWN: usize = 20;
/// A side is near the capture point if its round trip is at most this part of both, ...
pub(super) const NEAR_PART: i64 = 10;
/// ... and both sides are on this machine if both round trips are below this.
pub(super) const LOOPBACK_NS: i64 = 60_000;

/// Durations with quantiles within 1/64 of their value.
type Durations = LogHistogram<5>;

#[derive(Clone, Debug, Default)]
struct Row {
    parts: [Durations; 4],
    whole: Durations,
}

/// One direction's segments.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    segments: u64,
    bytes: u64,
    again_segments: u64,
    again_bytes: u64,
    out_of_order: u64,
    zero_windows: u64,
    lost_bytes: u64,
}

impl Flow {
    fn add(&mut self, other: &Flow) {
        add_up!(
            self, other; segments, bytes, again_segments, again_bytes, out_of_order, zero_windows,
            lost_bytes,
        );
    }

    fn json(&self) -> Value {
        let sent = self.segments + self.again_segments;
        json!({
            "segments": self.segments,
            "bytes": self.bytes,
            "retransmitted_segments": self.again_segments,
            "retransmitted_bytes": self.again_bytes,
            "retransmission_rate": self.again_segments as f64 / sent.max(1) as f64,
            "out_of_order": self.out_of_order,
            "zero_windows": self.zero_windows,
            "lost_bytes": self.lost_bytes,
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    endpoints: Option<(Endpoint, Endpoint)>,
    path: Path,
    /// From the client, from the server.
    flows: [Flow; 2],
}

/// Calls that were not split, by reason.
#[derive(Clone, Copy, Debug, Default)]
struct NotSplit {
    udp: u64,
    sent_again: u64,
    no_round_trip: u64,
    only_bound: u64,
}

/// The lens.
#[derive(Debug, Default)]
pub(super) struct Network {
    connections: ConnectionSlots<Connection>,
    rows: [Row; ROWS],
    not_split: NotSplit,
    flows: [Flow; 2],
    rpc_sent: u64,
    rpc_again: u64,
}

impl Lens for Network {
    fn interest(&self) -> Interest {
        Interest {
            messages: true,
            transport: true,
            ..Interest::default()
        }
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Sent { again, call, .. } if is_nfs(call) => {
                self.rpc_sent += 1;
                self.rpc_again += u64::from(again);
            }
            Event::Replied {
                call, again: false, ..
            } if is_nfs(call) => self.replied(call),
            Event::Transport(event) => self.transport(event),
            _ => {}
        }
    }

    fn finish(&mut self, _: &Names, _: &Extent) -> Section {
        self.json().into()
    }
}

impl Network {
    #[inline(always)]
    fn replied(&mut self, call: &Call) {
        let (Some(first), Some(last)) = (call.reply_first, call.reply_last) else {
            return;
        };
        if call.transport == Transport::Udp {
            self.not_split.udp += 1;
            return;
        }
        let connection = self.connections.of(call.connection);
        connection.endpoints = Some((call.client, call.server));
        if call.sends > 1 {
            self.not_split.sent_again += 1;
            return;
        }
        let network_ns = match connection.path.server_now(first.time_ns) {
            RoundTrip::Measured(round_trip_ns) => round_trip_ns,
            RoundTrip::AtMost(_) => {
                self.not_split.only_bound += 1;
                return;
            }
            RoundTrip::Unknown => {
                self.not_split.no_round_trip += 1;
                return;
            }
        };
        let request_ns = call.call_last.time_ns - call.call_first.time_ns;
        let server_ns = first.time_ns - call.call_last.time_ns - network_ns;
        let reply_ns = last.time_ns - first.time_ns;
        let parts = [request_ns, network_ns, server_ns, reply_ns];
        for row in [Kind::of(call) as usize, KINDS] {
            let row = &mut self.rows[row];
            for (durations, part_ns) in row.parts.iter_mut().zip(parts) {
                durations.record(part_ns);
            }
            row.whole.record(last.time_ns - call.call_first.time_ns);
        }
    }

    #[inline(always)]
    fn transport(&mut self, event: &TransportEvent) {
        let connection = self.connections.of(event.connection);
        connection.path.event(event);
        let Some(from_client) = event.from_client else {
            return;
        };
        let side = usize::from(!from_client);
        for flow in [&mut connection.flows[side], &mut self.flows[side]] {
            match event.kind {
                TransportKind::Sent { bytes, .. } => {
                    flow.segments += 1;
                    flow.bytes += u64::from(bytes);
                }
                TransportKind::Retransmitted { bytes, .. } => {
                    flow.again_segments += 1;
                    flow.again_bytes += u64::from(bytes);
                }
                TransportKind::OutOfOrder => flow.out_of_order += 1,
                TransportKind::ZeroWindow => flow.zero_windows += 1,
                TransportKind::Lost { bytes } => flow.lost_bytes += bytes,
                _ => {}
            }
        }
    }

    fn json(&self) -> Value {
        let mut connections: Vec<(u32, Connection)> = self
            .connections
            .iter()
            .map(|(number, one)| (number, *one))
            .collect();
        connections
            .iter_mut()
            .for_each(|(_, connection)| connection.path.finish());
        let names = KIND_NAMES.iter().copied().chain(["all"]);
        let rows: Vec<Value> = names
            .zip(&self.rows)
            .filter(|(_, row)| row.whole.count() > 0)
            .map(|(name, row)| row.json(name))
            .collect();
        json!({
            "operations": rows,
            "quantile_error": 1.0 / 64.0,
            "not_split": {
                "udp": self.not_split.udp,
                "sent_again": self.not_split.sent_again,
                "no_round_trip": self.not_split.no_round_trip,
                "only_upper_bound": self.not_split.only_bound,
            },
            "note": self.note(),
            "capture_point": capture_point(&connections),
            "queueing": queueing(&connections),
            "from_client": self.flows[0].json(),
            "from_server": self.flows[1].json(),
            "rpc": {
                "sends": self.rpc_sent,
                "retransmissions": self.rpc_again,
                "retransmission_rate": self.rpc_again as f64 / self.rpc_sent.max(1) as f64,
            },
            "connections": connections.len(),
            "connections_not_kept": self.connections.replaced(),
            "top_retransmitting": top(connections),
        })
    }

    /// Why there is no split, if there is none.
    fn note(&self) -> Option<&'static str> {
        let split = self.rows[KINDS].whole.count();
        if split > 0 {
            None
        } else if self.not_split.udp > 0 {
            Some("UDP has no acknowledgements: network and server cannot be told apart")
        } else {
            Some("no acknowledgement measures a round trip: network and server are not told apart")
        }
    }
}

impl Row {
    fn json(&self, operation: &str) -> Value {
        let whole = self.whole.sum().max(1) as f64;
        let mut value = json!({
            "operation": operation,
            "calls": self.whole.count(),
            "whole_ns": self.whole.json(),
            "server_negative": self.parts[2].negative(),
        });
        for (name, part) in PARTS.iter().zip(&self.parts) {
            value[format!("{name}_ns")] = part.json();
            value[format!("{name}_share")] = json!(part.sum() as f64 / whole);
        }
        value
    }
}

fn round_trip(known: RoundTrip) -> Value {
    match known {
        RoundTrip::Unknown => Value::Null,
        RoundTrip::AtMost(length_ns) => json!({"at_most_ns": length_ns}),
        RoundTrip::Measured(length_ns) => json!({"ns": length_ns}),
    }
}

fn length(known: RoundTrip) -> Option<i64> {
    match known {
        RoundTrip::Unknown => None,
        RoundTrip::AtMost(length_ns) | RoundTrip::Measured(length_ns) => Some(length_ns),
    }
}

/// Where the capture was taken: by the smallest round trips of all connections. A bound is enough
/// to be near, but not to be far.
fn capture_point(connections: &[(u32, Connection)]) -> Value {
    let of = |way: fn(&Connection) -> RoundTrip| {
        connections
            .iter()
            .map(|(_, connection)| way(connection))
            .filter(|known| *known != RoundTrip::Unknown)
            .min_by_key(|known| length(*known))
            .unwrap_or(RoundTrip::Unknown)
    };
    let server = of(|one| one.path.to_server.overall(one.path.handshake));
    let client = of(|one| one.path.to_client.overall(None));
    let handshake = connections.iter().fold(None, |smallest, (_, one)| {
        least(smallest, one.path.handshake)
    });
    json!({
        "place": place(server, client),
        "to_server_round_trip": round_trip(server),
        "to_client_round_trip": round_trip(client),
        "handshake_ns": handshake,
    })
}

/// How much longer lone acknowledgements of the servers took than the smallest of their
/// connection: the queues of the way. A split by the smallest round trip calls it the server's.
fn queueing(connections: &[(u32, Connection)]) -> Value {
    let (mut samples, mut sum_ns) = (0_u64, 0_i128);
    for (_, one) in connections {
        samples += one.path.to_server.queued.0;
        sum_ns += one.path.to_server.queued.1;
    }
    let mean_ns = (samples > 0).then(|| sum_ns as f64 / samples as f64);
    json!({"samples": samples, "mean_ns": mean_ns})
}

fn place(server: RoundTrip, client: RoundTrip) -> &'static str {
    let (Some(server_ns), Some(client_ns)) = (length(server), length(client)) else {
        return "unknown";
    };
    let both_ns = server_ns.saturating_add(client_ns);
    if server_ns < LOOPBACK_NS && client_ns < LOOPBACK_NS {
        "one machine, or too near to tell"
    } else if client_ns.saturating_mul(NEAR_PART) <= both_ns {
        "at the client"
    } else if server_ns.saturating_mul(NEAR_PART) <= both_ns {
        "at the server"
    } else if matches!(
        (server, client),
        (RoundTrip::Measured(_), RoundTrip::Measured(_))
    ) {
        "between client and server"
    } else {
        "unknown"
    }
}

/// The connections that sent most segments again, if any did.
fn top(mut connections: Vec<(u32, Connection)>) -> Vec<Value> {
    let both = |connection: &Connection| {
        let mut flow = connection.flows[0];
        flow.add(&connection.flows[1]);
        flow
    };
    connections.retain(|(_, connection)| both(connection).again_segments > 0);
    connections.sort_by_key(|(number, connection)| {
        (std::cmp::Reverse(both(connection).again_segments), *number)
    });
    connections
        .iter()
        .take(SHOWN)
        .map(|(_, connection)| {
            let endpoints = connection.endpoints;
            json!({
                "client": endpoints.map(|(client, _)| client.to_string()),
                "server": endpoints.map(|(_, server)| server.to_string()),
                "from_client": connection.flows[0].json(),
                "from_server": connection.flows[1].json(),
                "to_server_round_trip":
                    round_trip(connection.path.to_server.overall(connection.path.handshake)),
                "to_client_round_trip": round_trip(connection.path.to_client.overall(None)),
            })
        })
        .collect()
}
