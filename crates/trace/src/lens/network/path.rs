//! Round trips of one connection, from the capture point to each side and back.
//!
//! Three sources, each of them at least as long as the true round trip:
//! * an acknowledgement that travels alone;
//! * an acknowledgement on a segment with data: it may have waited for the answer, so that it is an
//!   upper bound and no measurement;
//! * the handshake: SYN to SYN and ACK, answered by the kernel at once.
//!
//! The smallest of a window of time is taken, since queues and delayed acknowledgements only add.
//! It counts as measured if the smallest one travelled alone or was the handshake's. Without a
//! handshake, one of [`DELAYED_NS`] or more may be a delayed acknowledgement and is a bound too.

use crate::event::{TransportEvent, TransportKind};

/// Half of the window over which the minimum is taken: routes and clocks of captures drift slowly.
const HALF_WINDOW_NS: i64 = 10_000_000_000;
/// Acknowledgements that travel alone may be delayed by 40 ms (Linux `TCP_DELACK_MIN`) to 500 ms
/// (RFC 9293 section 3.8.6.3); 35 ms leaves room for its timer's tick.
const DELAYED_NS: i64 = 35_000_000;

/// What timers of delayed acknowledgements add (Linux: 40 ms; others 100 and 200 ms): no queue.
const DELAY_TIMERS_NS: [std::ops::Range<i64>; 3] = [
    38_000_000..46_000_000,
    98_000_000..104_000_000,
    196_000_000..204_000_000,
];

/// Smallest value of the last one to two half windows.
#[derive(Clone, Copy, Debug, Default)]
struct WindowMinimum {
    now: Option<i64>,
    before: Option<i64>,
    half: i64,
}

impl WindowMinimum {
    fn record(&mut self, time_ns: i64, value: i64) {
        self.turn(time_ns);
        self.now = Some(self.now.map_or(value, |least| least.min(value)));
    }

    fn turn(&mut self, time_ns: i64) {
        let half = time_ns.div_euclid(HALF_WINDOW_NS);
        if half > self.half {
            self.before = if half == self.half + 1 {
                self.now
            } else {
                None
            };
            self.now = None;
            self.half = half;
        }
    }

    fn get(&mut self, time_ns: i64) -> Option<i64> {
        self.turn(time_ns);
        least(self.now, self.before)
    }
}

/// The smaller one of two that may be missing.
pub(in crate::lens) fn least(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What is known of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lens) enum RoundTrip {
    /// No acknowledgement was seen.
    Unknown,
    /// Not longer than this.
    AtMost(i64),
    /// This long.
    Measured(i64),
}

/// Round trips to one side.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::lens) struct Way {
    alone: WindowMinimum,
    with_data: WindowMinimum,
    /// The smallest ones of the whole connection.
    pub least_alone: Option<i64>,
    pub least_with_data: Option<i64>,
    pub samples: u64,
    /// How much longer those that travelled alone took than the smallest: how often, and in all.
    pub queued: (u64, i128),
}

impl Way {
    fn record(&mut self, time_ns: i64, round_trip_ns: i64, alone: bool) {
        self.samples += 1;
        let (window, all) = if alone {
            (&mut self.alone, &mut self.least_alone)
        } else {
            (&mut self.with_data, &mut self.least_with_data)
        };
        window.record(time_ns, round_trip_ns);
        *all = least(*all, Some(round_trip_ns));
        let queued_ns = round_trip_ns - all.unwrap_or(round_trip_ns);
        if alone
            && !DELAY_TIMERS_NS
                .iter()
                .any(|timer| timer.contains(&queued_ns))
        {
            self.queued.0 += 1;
            self.queued.1 += i128::from(queued_ns);
        }
    }

    fn now(&mut self, time_ns: i64, handshake: Option<i64>) -> RoundTrip {
        let (alone, with_data) = (self.alone.get(time_ns), self.with_data.get(time_ns));
        judge(alone, with_data, handshake)
    }

    /// The smallest one of the whole connection, measured or not.
    pub fn least_of_all(&self, handshake: Option<i64>) -> Option<i64> {
        least(least(self.least_alone, self.least_with_data), handshake)
    }

    /// Over the whole connection.
    pub fn overall(&self, handshake: Option<i64>) -> RoundTrip {
        judge(self.least_alone, self.least_with_data, handshake)
    }
}

fn judge(alone: Option<i64>, with_data: Option<i64>, handshake: Option<i64>) -> RoundTrip {
    let measured = least(alone.filter(|&alone| alone < DELAYED_NS), handshake);
    let bound = least(alone, with_data);
    match (measured, bound) {
        (Some(measured), Some(bound)) if bound < measured => RoundTrip::AtMost(bound),
        (Some(measured), _) => RoundTrip::Measured(measured),
        (None, Some(bound)) => RoundTrip::AtMost(bound),
        (None, None) => RoundTrip::Unknown,
    }
}

/// Both round trips of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::lens) struct Path {
    /// An acknowledgement that may turn out to travel with data: when, from the client, how long.
    waiting: Option<(i64, bool, i64)>,
    opened_ns: Option<i64>,
    pub handshake: Option<i64>,
    pub to_server: Way,
    pub to_client: Way,
}

impl Path {
    /// Takes an event of this connection.
    #[inline(always)]
    pub fn event(&mut self, event: &TransportEvent) {
        if let Some((time_ns, from_client, round_trip_ns)) = self.waiting.take() {
            let data = matches!(
                event.kind,
                TransportKind::Sent { .. }
                    | TransportKind::Retransmitted { .. }
                    | TransportKind::OutOfOrder
            );
            let same = event.time_ns == time_ns && event.from_client == Some(from_client);
            self.record(time_ns, from_client, round_trip_ns, !(data && same));
        }
        match (event.kind, event.from_client) {
            (
                TransportKind::Acknowledged {
                    round_trip_ns: Some(length),
                    ..
                },
                Some(client),
            ) => {
                self.waiting = Some((event.time_ns, client, length));
            }
            (TransportKind::Opened { .. }, _) => self.opened(event.time_ns),
            _ => {}
        }
    }

    fn record(&mut self, time_ns: i64, from_client: bool, round_trip_ns: i64, alone: bool) {
        // An acknowledgement from the client is the way to the client and back.
        let way = if from_client {
            &mut self.to_client
        } else {
            &mut self.to_server
        };
        way.record(time_ns, round_trip_ns, alone);
    }

    /// The first SYN is the client's: servers open no NFS connection.
    fn opened(&mut self, time_ns: i64) {
        match self.opened_ns {
            None => self.opened_ns = Some(time_ns),
            Some(opened_ns) if self.handshake.is_none() && time_ns > opened_ns => {
                self.handshake = Some(time_ns - opened_ns);
            }
            Some(_) => {}
        }
    }

    /// Round trip from the capture point to the server and back, as of now.
    #[inline(always)]
    pub fn server_now(&mut self, time_ns: i64) -> RoundTrip {
        self.to_server.now(time_ns, self.handshake)
    }

    /// The capture ended: the last acknowledgement had no data behind it.
    pub fn finish(&mut self) {
        if let Some((time_ns, from_client, round_trip_ns)) = self.waiting.take() {
            self.record(time_ns, from_client, round_trip_ns, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Endpoint, Host};

    const MS: i64 = 1_000_000;

    fn event(time_ns: i64, client: bool, kind: TransportKind) -> TransportEvent {
        TransportEvent {
            time_ns,
            connection: 1,
            from_client: Some(client),
            kind,
        }
    }

    fn ack(round_trip_ns: i64) -> TransportKind {
        TransportKind::Acknowledged {
            round_trip_ns: Some(round_trip_ns),
            window_bytes: 0,
            window_known: false,
        }
    }

    const NOBODY: Endpoint = Endpoint {
        host: Host::from_bits(0),
        port: 0,
    };
    const OPENED: TransportKind = TransportKind::Opened {
        ends: [NOBODY, NOBODY],
    };

    const DATA: TransportKind = TransportKind::Sent {
        bytes: 1,
        in_flight_bytes: 1,
    };

    #[test]
    fn an_acknowledgement_with_the_reply_is_only_a_bound() {
        let mut path = Path::default();
        path.event(&event(100, false, ack(5 * MS)));
        path.event(&event(100, false, DATA));
        assert_eq!(path.server_now(200), RoundTrip::AtMost(5 * MS));
        // One that travels alone measures, even if data of the other side comes at that instant.
        path.event(&event(300, false, ack(2 * MS)));
        path.event(&event(300, true, DATA));
        assert_eq!(path.server_now(300), RoundTrip::Measured(2 * MS));
        // If one with data is shorter, those alone were delayed.
        path.event(&event(400, false, ack(MS)));
        path.event(&event(400, false, DATA));
        assert_eq!(path.server_now(500), RoundTrip::AtMost(MS));
        assert_eq!(path.to_client.overall(None), RoundTrip::Unknown);
    }

    #[test]
    fn delayed_acknowledgements_are_bounds_and_the_handshake_is_not() {
        let mut path = Path::default();
        path.event(&event(100, false, ack(40 * MS)));
        path.event(&event(200, true, DATA));
        assert_eq!(path.server_now(200), RoundTrip::AtMost(40 * MS));
        let mut path = Path::default();
        path.event(&event(0, true, OPENED));
        path.event(&event(3 * MS, false, OPENED));
        path.event(&event(100 * MS, false, ack(43 * MS)));
        path.event(&event(200 * MS, true, DATA));
        assert_eq!(path.server_now(200 * MS), RoundTrip::Measured(3 * MS));
    }

    #[test]
    fn the_minimum_is_that_of_the_last_ten_to_twenty_seconds() {
        let mut path = Path::default();
        for (second, length) in [(0, 1), (11, 3), (19, 4), (21, 5), (55, 9)] {
            path.event(&event(second * 1000 * MS, false, ack(length * MS)));
            path.event(&event(second * 1000 * MS + 1, true, DATA));
            let now = path.server_now(second * 1000 * MS + 2);
            let expected = [(0, 1), (11, 1), (19, 1), (21, 3), (55, 9)];
            let (_, least) = expected.into_iter().find(|&(at, _)| at == second).unwrap();
            assert_eq!(now, RoundTrip::Measured(least * MS), "{second}");
        }
    }
}
