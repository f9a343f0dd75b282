//! What passes below RPC: to which pair it belongs, and what its tracker is told of it.

use super::gap::Place;
use super::tracker::Tracker;
use super::{FLOOR_NS, Known, PROBE_BYTES, SET_BACK_NS, Stalls};
use crate::block::{Endpoint, Sack};
use crate::event::{Again, TransportEvent, TransportKind};
use crate::lens::network::path::least;
use crate::lens::network::{LOOPBACK_NS, NEAR_PART};

impl Stalls {
    #[inline(always)]
    pub(super) fn transport(&mut self, event: &TransportEvent) {
        self.alone_settles(event.time_ns);
        let before_ns = self.now_ns.replace(event.time_ns).unwrap_or(i64::MIN);
        self.set_back |= before_ns.saturating_sub(event.time_ns) > SET_BACK_NS;
        let connection = self.connections.of(event.connection);
        connection.path.event(event);
        let last_ns = connection.last_packet_ns.replace(event.time_ns);
        connection.heard |= event.from_client == Some(false);
        let lane = match connection.lane {
            Known::Lane(lane) => Some(lane as usize),
            _ => None,
        };
        match event.kind {
            TransportKind::Sent { .. } if event.from_client == Some(true) => {}
            TransportKind::Retransmitted { bytes, of } => {
                if bytes <= PROBE_BYTES {
                    return;
                }
                let standstill = last_ns.filter(|last_ns| event.time_ns - last_ns >= FLOOR_NS);
                if let Some(last_ns) = standstill
                    && of != Again::Acknowledged
                {
                    let longest = connection.standstill.map_or(0, |(from, to)| to - from);
                    if event.time_ns - last_ns > longest {
                        connection.standstill = Some((last_ns, event.time_ns));
                    }
                }
                self.evidence.sent_again(of);
                self.told(lane, event);
            }
            TransportKind::Selective(sack) => {
                if sack == Sack::Duplicate {
                    self.evidence.duplicates += 1;
                    connection.standstill = None;
                    self.needless(event.connection);
                }
                self.told(lane, event);
            }
            TransportKind::ZeroWindow | TransportKind::WindowOpened => {
                let shut = event.kind == TransportKind::ZeroWindow;
                if let (Some(lane), Some(from_client)) = (lane, event.from_client) {
                    self.each(lane, |tracker| {
                        tracker.window(from_client, shut, event.time_ns)
                    });
                }
            }
            TransportKind::WithoutCall { ends } => self.without_call(event, lane, ends),
            TransportKind::Lost { bytes } => {
                connection.lacks_bytes = true;
                if let Some(lane) = lane {
                    self.each(lane, |tracker| tracker.lost(bytes));
                }
            }
            TransportKind::Opened { ends } => self.opened(event, ends),
            TransportKind::Closed { reset, ends } => self.closed(event, lane, reset, ends),
            TransportKind::Hidden { ends } => {
                if let Some((pair, _)) = self.pair_of(ends) {
                    self.each_known(lane, pair, Tracker::hidden);
                }
            }
            TransportKind::FrontCut { ends } => {
                if let Some((pair, false)) = self.pair_of(ends) {
                    self.each_known(lane, pair, |tracker| tracker.unreadable(event.time_ns));
                }
            }
            _ => self.told(lane, event),
        }
    }

    /// A reply came whose call is not in the capture: it was sent before it, or was not captured.
    #[cold]
    fn without_call(&mut self, event: &TransportEvent, lane: Option<usize>, ends: [Endpoint; 2]) {
        let connection = self.connections.of(event.connection);
        let since_begin = !connection.begun && !connection.lacks_bytes;
        if let Some((pair, false)) = self.pair_of(ends) {
            self.each_known(lane, pair, |tracker| {
                tracker.without_call(event.time_ns, since_begin);
            });
        }
    }

    /// Has the trackers of a lane see an event.
    #[inline(always)]
    fn told(&mut self, lane: Option<usize>, event: &TransportEvent) {
        if let (Some(lane), Some(from_client)) = (lane, event.from_client) {
            let (kind, now_ns) = (event.kind, event.time_ns);
            self.each(lane, |tracker| tracker.transport(kind, from_client, now_ns));
        }
    }

    /// The trackers of a lane, or of its pair where no call of the connection was seen.
    fn each_known(&mut self, lane: Option<usize>, pair: usize, act: impl Fn(&mut Tracker)) {
        match lane {
            Some(lane) => self.each(lane, act),
            None => self.each_of_pair(pair, act),
        }
    }

    /// The pair between these ends, and whether the first one is its client.
    fn pair_of(&self, [from, to]: [Endpoint; 2]) -> Option<(usize, bool)> {
        let find = |client: Endpoint, server: Endpoint| self.places.get(&(client.host, server));
        let by_client = find(from, to).map(|pair| (*pair as usize, true));
        by_client.or_else(|| find(to, from).map(|pair| (*pair as usize, false)))
    }

    #[cold]
    fn opened(&mut self, event: &TransportEvent, ends: [Endpoint; 2]) {
        self.connections.of(event.connection).begun = true;
        let Some((_, by_client)) = self.pair_of(ends) else {
            return;
        };
        let connection = self.connections.of(event.connection);
        connection.asked_to_open |= by_client;
        connection.opened |= !by_client;
    }

    #[cold]
    fn closed(
        &mut self,
        event: &TransportEvent,
        lane: Option<usize>,
        reset: bool,
        ends: [Endpoint; 2],
    ) {
        let Some((pair, by_client)) = self.pair_of(ends) else {
            return;
        };
        let connection = self.connections.of(event.connection);
        let first = !std::mem::replace(&mut connection.ended, true);
        if !first && !reset {
            return;
        }
        let refused = reset && !by_client && connection.asked_to_open && !connection.opened;
        self.evidence.refused += u64::from(refused);
        self.evidence.resets += u64::from(reset && !refused);
        let now_ns = event.time_ns;
        match refused {
            true => self.each_known(lane, pair, Tracker::refused),
            // It carried no call: something looked whether the port is open.
            false if lane.is_none() => {}
            false => self.each_known(lane, pair, |tracker| {
                tracker.ended(now_ns, by_client, reset);
            }),
        }
        if let Some(lane) = lane {
            self.finish_lane(lane, now_ns);
        }
    }

    /// Where the capture was taken, by the smallest round trips of all connections.
    pub(super) fn place(&self) -> Place {
        let (mut client, mut server) = (None, None);
        for (_, one) in self.connections.iter() {
            client = least(client, one.path.to_client.least_of_all(None));
            server = least(server, one.path.to_server.least_of_all(one.path.handshake));
        }
        let one_host = self
            .pairs
            .iter()
            .all(|pair| pair.client == self.servers[pair.server as usize].tracker.server.host);
        let near = |one: Option<i64>, other: Option<i64>| match (one, other) {
            (Some(one), Some(other)) => {
                let loopback = one < LOOPBACK_NS && other < LOOPBACK_NS && one_host;
                one <= other / NEAR_PART || loopback
            }
            _ => false,
        };
        Place {
            at_client: near(client, server),
            at_server: near(server, client),
            all_seen: self.not_followed == 0,
        }
    }
}
