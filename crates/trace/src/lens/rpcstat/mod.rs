//! `rpcstat`: load and queue over time, the columns of nfsstat and sar for one capture.
//!
//! Flow: settled calls give what enters and completes, and the queue ([`queue`]); events give
//! retransmissions and TCP's state. All go into bins of time that widen with the capture
//! ([`crate::lens::time_bins`]); totals are kept exactly beside them.
//!
//! Decisions:
//! * A call is in the queue from the first byte of its first send to the first byte of its first
//!   reply. So the time integral of the queue is the sum of all latencies (Little's law), and the
//!   section states both, computed apart.
//! * A call that was never answered is in the queue to the end of the capture if its connection
//!   was not answered anything afterwards (the server was gone, or the capture ended), else to its
//!   last send: its reply was lost, or not captured, and counting it on would bend the queue for
//!   the rest of a capture with losses.
//! * The congestion window is not on the wire. Bytes in flight and the window that the other side
//!   offers bound it from below and above.
//! * A TCP retransmission after [`TIMEOUT_NS`] without any packet of its connection is counted as a
//!   timeout, a sooner one is a fast retransmit.
//! * Every slot of an NFSv4.1 session carries one call at a time (RFC 8881 section 2.10.6.1), so
//!   that slots in use are the outstanding calls that state one.
//! * Callbacks are counted, and are in no bin: their direction is the other.

mod bin;
mod queue;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use self::bin::{Bin, Columns};
use self::queue::{Queue, Stay};
use super::connection_slots::ConnectionSlots;
use super::kinds::{KIND_NAMES, KINDS, Kind};
use super::time_bins::TimeBins;
use super::{Extent, Interest, Lens, Section};
use crate::call::{Call, marks};
use crate::event::{Event, TransportEvent, TransportKind};
use crate::names::Names;

/// Width of the first bins.
const FIRST_BIN_NS: i64 = 1_000_000;
/// Silence before a TCP retransmission that makes it a timeout: the smallest retransmission timeout
/// of Linux (`TCP_RTO_MIN`, include/net/tcp.h); others wait longer.
const TIMEOUT_NS: i64 = 200_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    last_reply_ns: Option<i64>,
    last_packet_ns: Option<i64>,
}

/// The lens.
#[derive(Debug)]
pub(super) struct RpcStat {
    bins: TimeBins<Bin>,
    queue: Queue,
    connections: ConnectionSlots<Connection>,
    totals: Totals,
}

#[derive(Debug, Default)]
struct Totals {
    calls: u64,
    answered: u64,
    callbacks: u64,
    kinds: [u64; KINDS],
    latency_ns: i128,
    negative_latencies: u64,
    unanswered: u64,
    unanswered_in_queue: u64,
    /// Share of the unanswered in the integral: known ends, and the starts of those without one.
    unanswered_ns: i128,
    open_starts_ns: i128,
    open: u64,
}

impl Default for RpcStat {
    fn default() -> Self {
        RpcStat {
            bins: TimeBins::new(FIRST_BIN_NS),
            queue: Queue::default(),
            connections: ConnectionSlots::default(),
            totals: Totals::default(),
        }
    }
}

impl Lens for RpcStat {
    fn interest(&self) -> Interest {
        Interest {
            calls: true,
            messages: true,
            transport: true,
            ..Interest::default()
        }
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Sent {
                time_ns,
                call,
                again,
            } => {
                if again && !call.has(marks::CALLBACK) {
                    self.bins.at(time_ns).retransmissions += 1;
                }
            }
            Event::Replied {
                time_ns,
                call,
                again,
            } => {
                if !call.has(marks::CALLBACK) {
                    let connection = self.connections.of(call.connection);
                    connection.last_reply_ns = connection.last_reply_ns.max(Some(time_ns));
                    if again {
                        self.bins.at(time_ns).duplicate_replies += 1;
                    }
                }
            }
            Event::Transport(event) => self.transport(event),
        }
    }

    fn call(&mut self, call: &Call) {
        if call.has(marks::CALLBACK) {
            self.totals.callbacks += 1;
            return;
        }
        let from_ns = call.call_first.time_ns;
        self.totals.calls += 1;
        let bin = self.bins.at(from_ns);
        bin.sent_calls += 1;
        bin.sent_bytes += u64::from(call.call_bytes);
        if let Some(slot) = call.slot {
            bin.highest_slot = bin.highest_slot.max(slot.saturating_add(1));
        }
        let to_ns = match call.reply_first {
            Some(reply) => self.answered(call, reply.time_ns),
            None => match self.unanswered(call) {
                Some(to_ns) => to_ns,
                None => return,
            },
        };
        let stay = Stay {
            from_ns,
            to_ns,
            has_slot: call.slot.is_some(),
        };
        self.queue.add(stay, &mut self.bins);
    }

    fn finish(&mut self, _: &Names, extent: &Extent) -> Section {
        self.queue.finish(extent.last_ns, &mut self.bins);
        // Those without an end lasted until the capture's.
        self.totals.unanswered_ns +=
            i128::from(self.totals.open) * i128::from(extent.last_ns) - self.totals.open_starts_ns;
        // Replies to the calls of a closer look may come behind its end.
        let end_ns = extent.last_ns.max(self.queue.now_ns().unwrap_or(i64::MIN));
        let (columns, blobs) = Columns::new(&self.bins, end_ns).fill();
        Section {
            json: self.json(extent, columns),
            blobs,
        }
    }
}

impl RpcStat {
    /// Counts an answered call; gives the end of its stay in the queue.
    #[inline(always)]
    fn answered(&mut self, call: &Call, reply_ns: i64) -> i64 {
        let kind = Kind::of(call) as usize;
        self.totals.answered += 1;
        self.totals.kinds[kind] += 1;
        let bin = self.bins.at(reply_ns);
        bin.answered_calls += 1;
        bin.answered_bytes += u64::from(call.reply_bytes);
        bin.read_bytes += u64::from(call.bytes_read);
        bin.written_bytes += u64::from(call.bytes_written);
        bin.kinds[kind] += 1;
        let latency_ns = reply_ns - call.call_first.time_ns;
        if latency_ns < 0 {
            // A disordered capture: it was in the queue for no time that can be shown.
            self.totals.negative_latencies += 1;
            return call.call_first.time_ns;
        }
        self.totals.latency_ns += i128::from(latency_ns);
        reply_ns
    }

    /// Counts an unanswered call; gives the end of its stay, `None` if it has no known length.
    fn unanswered(&mut self, call: &Call) -> Option<i64> {
        let from_ns = call.call_first.time_ns;
        self.totals.unanswered += 1;
        self.bins.at(from_ns).unanswered_calls += 1;
        let answered_later = self.connections.of(call.connection).last_reply_ns;
        if answered_later.is_none_or(|reply_ns| reply_ns < from_ns) {
            self.totals.unanswered_in_queue += 1;
            self.totals.open += 1;
            self.totals.open_starts_ns += i128::from(from_ns);
            return Some(i64::MAX);
        }
        let to_ns = call.last_send.time_ns;
        if to_ns <= from_ns {
            return None;
        }
        self.totals.unanswered_in_queue += 1;
        self.totals.unanswered_ns += i128::from(to_ns) - i128::from(from_ns);
        Some(to_ns)
    }

    #[inline(always)]
    fn transport(&mut self, event: &TransportEvent) {
        let connection = self.connections.of(event.connection);
        let silence_ns = connection
            .last_packet_ns
            .map_or(0, |last| event.time_ns - last);
        connection.last_packet_ns = connection.last_packet_ns.max(Some(event.time_ns));
        let bin = self.bins.at(event.time_ns);
        if let TransportKind::Lost { bytes } = event.kind {
            bin.lost_bytes += bytes;
        }
        let Some(from_client) = event.from_client else {
            return;
        };
        let side = &mut bin.tcp[usize::from(!from_client)];
        match event.kind {
            TransportKind::Sent {
                in_flight_bytes, ..
            } => {
                side.segments += 1;
                side.in_flight_max = side.in_flight_max.max(in_flight_bytes);
                side.in_flight_sum += u128::from(in_flight_bytes);
            }
            TransportKind::Acknowledged {
                window_bytes,
                window_known: true,
                ..
            } => {
                let smallest = side.window_min.unwrap_or(u64::MAX);
                side.window_min = Some(smallest.min(window_bytes));
            }
            TransportKind::Retransmitted { bytes, .. } => {
                side.retransmitted_segments += 1;
                side.retransmitted_bytes += u64::from(bytes);
                side.timeouts += u64::from(silence_ns >= TIMEOUT_NS);
            }
            TransportKind::OutOfOrder => side.out_of_order += 1,
            TransportKind::ZeroWindow => side.zero_windows += 1,
            _ => {}
        }
    }

    fn json(&self, extent: &Extent, columns: Vec<Value>) -> Value {
        let totals = &self.totals;
        let kinds: serde_json::Map<String, Value> = KIND_NAMES
            .iter()
            .zip(totals.kinds)
            .map(|(name, count)| ((*name).to_owned(), json!(count)))
            .collect();
        let span_ns = (extent.last_ns - extent.first_ns).max(1);
        let sum = |of: fn(&Bin) -> u64| self.bins.bins().map(of).sum::<u64>();
        json!({
            "origin_ns": self.bins.origin_ns(),
            "bin_ns": self.bins.width_ns(),
            "bins": self.bins.len(),
            "columns": columns,
            "totals": {
                "calls": totals.calls,
                "answered": totals.answered,
                "unanswered": totals.unanswered,
                "callbacks": totals.callbacks,
                "retransmissions": sum(|bin| bin.retransmissions),
                "duplicate_replies": sum(|bin| bin.duplicate_replies),
                "sent_bytes": sum(|bin| bin.sent_bytes),
                "answered_bytes": sum(|bin| bin.answered_bytes),
                "read_bytes": sum(|bin| bin.read_bytes),
                "written_bytes": sum(|bin| bin.written_bytes),
                "lost_bytes": sum(|bin| bin.lost_bytes),
                "answered_by_kind": kinds,
                "tcp": self.tcp_totals(),
            },
            "queue": {
                "mean": self.queue.area as f64 / span_ns as f64,
                "max": self.queue.max,
                "slots_max": self.queue.slots_max,
                "late_calls": self.queue.late,
                "not_counted": self.queue.overflowed,
            },
            "little": self.little(),
            "timeout_ns": TIMEOUT_NS,
        })
    }

    /// Both sides of Little's law: they agree to the nanosecond, or the queue is wrong.
    fn little(&self) -> Value {
        let totals = &self.totals;
        let waited = totals.latency_ns + totals.unanswered_ns;
        json!({
            "queue_integral_ns": nanoseconds(self.queue.area),
            "answered_latency_ns": nanoseconds(totals.latency_ns),
            "unanswered_wait_ns": nanoseconds(totals.unanswered_ns),
            "unanswered_in_queue": totals.unanswered_in_queue,
            "negative_latencies": totals.negative_latencies,
            "agrees": self.queue.area == waited,
        })
    }

    fn tcp_totals(&self) -> Value {
        let mut sides = Vec::new();
        for (side, from) in ["client", "server"].into_iter().enumerate() {
            let sum = |of: fn(&bin::Direction) -> u64| {
                self.bins.bins().map(|bin| of(&bin.tcp[side])).sum::<u64>()
            };
            let windows = self.bins.bins();
            let windows = windows.filter_map(|bin| bin.tcp[side].window_min).min();
            let in_flight = self.bins.bins().map(|bin| bin.tcp[side].in_flight_max);
            sides.push((
                from.to_owned(),
                json!({
                    "segments": sum(|side| side.segments),
                    "retransmitted_segments": sum(|side| side.retransmitted_segments),
                    "retransmitted_bytes": sum(|side| side.retransmitted_bytes),
                    "timeouts": sum(|side| side.timeouts),
                    "out_of_order": sum(|side| side.out_of_order),
                    "zero_windows": sum(|side| side.zero_windows),
                    "in_flight_max_bytes": in_flight.max(),
                    "window_min_bytes": windows,
                }),
            ));
        }
        Value::Object(sides.into_iter().collect())
    }
}

/// As an integer where JSON has one.
fn nanoseconds(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| json!(value as f64), |value| json!(value))
}
