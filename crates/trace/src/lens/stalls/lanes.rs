//! The connections of a client to a server, each watched alone where there are several.

use super::gap::Scope;
use super::tracker::Tracker;
use super::{LONGEST_OF_CLIENT, Stalls, mostly};
use crate::block::{Endpoint, Transport};
use crate::call::Call;

/// Connections known, and those of them watched alone.
const MAX_LANES: usize = 1 << 16;
const MAX_WATCHED_LANES: usize = 256;

/// A connection of a pair.
#[derive(Debug)]
pub(super) struct Lane {
    pub pair: u32,
    pub client: Endpoint,
    /// `None` while its pair has no other connection, over UDP, and beyond the bound.
    pub tracker: Option<Box<Tracker>>,
    pub over: bool,
}

impl Stalls {
    /// Connections that are watched alone.
    pub(super) fn watched_lanes(&self) -> impl Iterator<Item = &Tracker> + Clone {
        self.lanes.iter().filter_map(|lane| lane.tracker.as_deref())
    }

    pub(super) fn new_lane(&mut self, pair: u32, call: &Call) -> u32 {
        let known = &mut self.pairs[pair as usize];
        if self.lanes.len() >= MAX_LANES && known.lanes > 0 {
            // Two connections in one: neither can be told alone.
            self.lanes[known.first_lane as usize].tracker = None;
            return known.first_lane;
        }
        let number = self.lanes.len() as u32;
        known.lanes += 1;
        let mut tracker = None;
        if known.lanes == 1 {
            known.first_lane = number;
        } else if call.transport == Transport::Tcp && self.watched + 2 <= MAX_WATCHED_LANES {
            if known.lanes == 2 {
                // Until now the pair's silences were those of its first connection.
                let server = &self.servers[known.server as usize].tracker;
                let first = &mut self.lanes[known.first_lane as usize];
                let mut known = known.tracker.as_deref().unwrap_or(server).clone();
                (known.scope, known.client) = (Scope::Connection, Some(first.client));
                first.tracker = Some(Box::new(known));
                self.watched += 1;
            }
            let mut own = Tracker::new(call.server, Some(call.client), LONGEST_OF_CLIENT);
            own.scope = Scope::Connection;
            tracker = Some(Box::new(own));
            self.watched += 1;
        }
        self.lanes.push(Lane {
            pair,
            client: call.client,
            tracker,
            over: false,
        });
        number
    }

    /// The connection ended, or the capture: what waits on it waits for good.
    pub(super) fn finish_lane(&mut self, lane: usize, end_ns: i64) {
        let lane = &mut self.lanes[lane];
        let pair = &self.pairs[lane.pair as usize];
        let server = &self.servers[pair.server as usize].tracker;
        let others_ns = pair.tracker.as_deref().unwrap_or(server).last_reply_ns();
        if let Some(tracker) = lane.tracker.as_mut().filter(|_| !lane.over) {
            let silence = Some((others_ns, end_ns));
            tracker.finish(end_ns, |from, to| mostly(silence, from, to));
        }
        lane.over = true;
    }
}
