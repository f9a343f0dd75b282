//! `stalls`: gaps found and named, drain cycles, the slowest stretch, and where to look closer.
//!
//! Flow: each server has a [`tracker`] that watches the silences between its replies; a server with
//! several clients has one more for each of them. A long silence is judged [`SETTLE_NS`] after its
//! end, when the replies that followed it have told which calls waited through it:
//!
//! * From the last reply to the first send of the earliest call answered then: nothing that was
//!   ever answered was outstanding. **Client paused**; if it ends with the retransmission of a call
//!   that the capture shows as answered, the reply was lost behind the capture point: **network
//!   loss**.
//! * From there to the first reply: calls waited, and the server answered nobody.
//!   **Network loss** if the silence ended at once after data was sent again (RPC: the reply comes
//!   within [`PROMPT_FACTOR`] usual latencies of the call's last send; TCP: of the last
//!   retransmitted segment) and nothing shows that earlier sends had arrived. What shows it: calls
//!   answered late after their last send, calls answered that were never sent again, and second
//!   replies to the earlier sends. Then, or without any retransmission: **server stalled**.
//!   **Capture loss** if the capture lacks bytes in the silence.
//! * A client's silence in which the server answered others is network loss by the same rule, else
//!   **client waited**. One call's wait, or one connection's TCP timeout, while others went on is
//!   network loss with the scope `call` or `connection`.
//!
//! Whether calls were outstanding is thus told by the calls that were answered, never by a count
//! that a lost reply bends for good. A server's stop is between `length_ns` (from the first call
//! that waited) and `not_longer_than_ns` (from its last reply).
//!
//! Thresholds: a silence is a gap from [`FACTOR`] times the usual one (its quantile [`USUAL`]), and
//! from [`FLOOR_NS`] on. Replies at random with a constant rate exceed ten times their 0.9 quantile
//! once in 10^10 (2.3 * 10 = 23 mean intervals, e^-23), and a server that stalls at every tenth
//! reply still has quick ones as its usual. The floor lies above a disk access with its queue and
//! above a delayed acknowledgement (40 ms), and below the smallest TCP timeout of Linux (200 ms).
//! Network loss is told from the floor on: it is known by its evidence, not by its length.
//!
//! Limits: only calls of the programs NFS and NFSACL are watched, since the others have daemons of
//! their own. One lost call of a client that has only one outstanding, sent again just when a
//! stalled server comes back and with its earlier sends gone, looks like a stalled server's.

mod alone;
mod below;
mod cycles;
mod gap;
mod lanes;
mod outstanding;
mod section;
mod signs;
mod stretch;
#[cfg(test)]
mod tests;
mod tracker;
mod unanswered;

use std::collections::VecDeque;

use hashbrown::HashMap;

use self::alone::Alone;
use self::gap::{Place, Scope};
use self::lanes::Lane;
use self::outstanding::Outstanding;
use self::stretch::Stretches;
use self::tracker::{Found, Reply, Tracker};
use self::unanswered::Unanswered;
use super::connection_slots::ConnectionSlots;
use super::kinds::is_nfs;
use super::network::path::Path;
use super::{Extent, Interest, Lens, Section};
use crate::block::{Endpoint, Host, Transport};
use crate::call::{Call, Outcome};
use crate::event::{Again, Event};
use crate::names::Names;

/// No silence shorter than this is a gap.
const FLOOR_NS: i64 = 50_000_000;
/// A gap is so many times longer than usual.
const FACTOR: i64 = 10;
/// Quantile of the silences (and of the latencies) that stands for the usual.
const USUAL: f64 = 0.9;
/// How long after a silence replies still tell of it; no longer than the floor, so that at most one
/// silence waits to be judged.
const SETTLE_NS: i64 = FLOOR_NS;
/// How long a D-SACK, or the reply to a first send, may come after a silence that sending again
/// seemed to end: a path that holds packets back does so for no longer.
const SETTLE_AGAIN_NS: i64 = 500_000_000;
/// A reply comes at once if it takes at most this many usual latencies, ...
const PROMPT_FACTOR: i64 = 4;
/// ... or this long, and in any case not longer than a quarter of the silence.
const PROMPT_FLOOR_NS: i64 = 2_000_000;
/// Longest gaps kept of each server and kind.
const LONGEST: usize = 64;
/// Longest gaps kept of each client and kind.
const LONGEST_OF_CLIENT: usize = 4;
/// Frames of several queues are swapped by far less: a clock was set back.
const SET_BACK_NS: i64 = 100_000_000;
/// Servers watched.
const MAX_SERVERS: usize = 64;
/// Pairs of client host and server watched: 12 kB each where a server has several clients.
const MAX_PAIRS: usize = 1024;
/// TCP keep-alives and window probes send a byte again (RFC 9293 section 3.8.4): no loss.
const PROBE_BYTES: u32 = 1;

/// `NFS3ERR_JUKEBOX` (RFC 1813 section 2.6), `NFS4ERR_DELAY` (RFC 8881 section 15.1.1.3).
const ASK_LATER: u32 = 10_008;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    No,
    Lane(u32),
    /// A bound was reached.
    NotFollowed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    lane: Known,
    last_packet_ns: Option<i64>,
    /// Longest standstill that ended with TCP sending again, since the last reply.
    standstill: Option<(i64, i64)>,
    path: Path,
    /// A SYN of it is in the capture.
    begun: bool,
    /// The capture lacks bytes of it.
    lacks_bytes: bool,
    /// Anything came from the server.
    heard: bool,
    asked_to_open: bool,
    ended: bool,
    opened: bool,
}

/// What was seen below RPC, whatever it held up.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    /// Segments that filled a hole, that were acknowledged before, and all others sent again.
    filled: u64,
    acknowledged: u64,
    unacknowledged: u64,
    /// Acknowledgements of bytes that came twice (D-SACK).
    duplicates: u64,
    resets: u64,
    refused: u64,
}

impl Evidence {
    fn sent_again(&mut self, of: Again) {
        match of {
            Again::Filled => self.filled += 1,
            Again::Acknowledged => self.acknowledged += 1,
            Again::Unacknowledged => self.unacknowledged += 1,
        }
    }
}

#[derive(Debug)]
struct Pair {
    server: u32,
    client: Host,
    /// `None` while its server has no other client: the server's tracker has it all.
    tracker: Option<Box<Tracker>>,
    lanes: u32,
    first_lane: u32,
}

#[derive(Debug)]
struct Server {
    tracker: Tracker,
    clients: u32,
    first_pair: u32,
}

/// The lens.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    connections: ConnectionSlots<Connection>,
    places: HashMap<(Host, Endpoint), u32>,
    by_endpoint: HashMap<Endpoint, u32>,
    lanes: Vec<Lane>,
    watched: usize,
    pairs: Vec<Pair>,
    servers: Vec<Server>,
    outstanding: Outstanding,
    stretches: Stretches,
    /// Network losses of single calls and connections.
    alone: [Found; 2],
    unsettled: VecDeque<Alone>,
    unanswered: Unanswered,
    evidence: Evidence,
    place: Place,
    not_followed: u64,
    /// Time of the latest event, and whether one was far before it: the clock was set back.
    now_ns: Option<i64>,
    set_back: bool,
}

impl Lens for Stalls {
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
            } => self.sent(time_ns, call, again),
            Event::Replied {
                time_ns,
                call,
                again,
            } => self.replied(time_ns, call, again),
            Event::Transport(event) => self.transport(event),
        }
    }

    fn call(&mut self, call: &Call) {
        if call.replies == 0 && is_nfs(call) {
            let heard = self.connections.get(call.connection).map(|one| one.heard);
            let one_way = call.transport == Transport::Tcp && heard == Some(false);
            self.unanswered.add(call, one_way);
        }
    }

    fn finish(&mut self, _: &Names, extent: &Extent) -> Section {
        self.alone_settles(i64::MAX);
        self.place = self.place();
        let end_ns = extent.last_ns;
        for lane in 0..self.lanes.len() {
            self.finish_lane(lane, end_ns);
        }
        for server in &mut self.servers {
            server.tracker.finish(end_ns, |_, _| false);
        }
        for tracker in self
            .pairs
            .iter_mut()
            .filter_map(|pair| pair.tracker.as_mut())
        {
            tracker.finish(end_ns, |_, _| true);
        }
        section::json(self, extent).into()
    }
}

impl Stalls {
    /// The lane that a call belongs to, by its connection.
    #[inline(always)]
    fn lane(&mut self, call: &Call) -> Option<usize> {
        if !is_nfs(call) {
            return None;
        }
        match self.connections.of(call.connection).lane {
            Known::Lane(lane) => Some(lane as usize),
            Known::NotFollowed => {
                self.not_followed += 1;
                None
            }
            Known::No => self.new_connection(call),
        }
    }

    #[cold]
    fn new_connection(&mut self, call: &Call) -> Option<usize> {
        let place = (call.client.host, call.server);
        let pair = match self.places.get(&place) {
            Some(&pair) => Some(pair),
            None => self.new_pair(call),
        };
        let lane = pair.map(|pair| self.new_lane(pair, call));
        self.connections.of(call.connection).lane = lane.map_or(Known::NotFollowed, Known::Lane);
        self.not_followed += u64::from(lane.is_none());
        lane.map(|lane| lane as usize)
    }

    fn new_pair(&mut self, call: &Call) -> Option<u32> {
        if self.pairs.len() >= MAX_PAIRS {
            return None;
        }
        let number = self.pairs.len() as u32;
        let server = match self.by_endpoint.get(&call.server) {
            Some(&server) => server,
            None if self.servers.len() >= MAX_SERVERS => return None,
            None => {
                let server = self.servers.len() as u32;
                let tracker = Tracker::new(call.server, Some(host_only(call.client)), LONGEST);
                self.servers.push(Server {
                    tracker,
                    clients: 0,
                    first_pair: number,
                });
                self.by_endpoint.insert(call.server, server);
                server
            }
        };
        self.places.insert((call.client.host, call.server), number);
        self.pairs.push(Pair {
            server,
            client: call.client.host,
            tracker: None,
            lanes: 0,
            first_lane: 0,
        });
        let watched = &mut self.servers[server as usize];
        watched.clients += 1;
        if watched.clients == 2 {
            // Until now the server's silences were those of its first client.
            let mut first = watched.tracker.clone();
            first.scope = Scope::Client;
            watched.tracker.client = None;
            let first_pair = watched.first_pair as usize;
            self.pairs[first_pair].tracker = Some(Box::new(first));
        }
        if watched.clients >= 2 {
            let client = Some(host_only(call.client));
            let mut tracker = Tracker::new(call.server, client, LONGEST_OF_CLIENT);
            tracker.scope = Scope::Client;
            self.pairs[number as usize].tracker = Some(Box::new(tracker));
        }
        Some(number)
    }

    #[inline(always)]
    fn each(&mut self, lane: usize, act: impl Fn(&mut Tracker)) {
        self.each_of_pair(self.lanes[lane].pair as usize, &act);
        if let Some(tracker) = &mut self.lanes[lane].tracker {
            act(tracker);
        }
    }

    #[inline(always)]
    fn each_of_pair(&mut self, pair: usize, act: impl Fn(&mut Tracker)) {
        let pair = &mut self.pairs[pair];
        act(&mut self.servers[pair.server as usize].tracker);
        if let Some(tracker) = &mut pair.tracker {
            act(tracker);
        }
    }

    #[inline(always)]
    fn sent(&mut self, time_ns: i64, call: &Call, again: bool) {
        let Some(lane) = self.lane(call) else {
            return;
        };
        let (frame, answered) = if again {
            (call.last_send.frame, call.replies > 0)
        } else {
            (call.call_first.frame, false)
        };
        self.each(lane, |tracker| {
            tracker.sent(time_ns, frame, again, answered)
        });
        if !again {
            let server = self.pairs[self.lanes[lane].pair as usize].server as usize;
            let replies = self.servers[server].tracker.replies as u32;
            if let Some(lost) = self
                .outstanding
                .sent(call.number, time_ns, lane as u32, replies)
            {
                self.no_longer_outstanding(lost);
            }
        }
    }

    fn no_longer_outstanding(&mut self, lane: u32) {
        self.each(lane as usize, |tracker| {
            tracker.outstanding = tracker.outstanding.saturating_sub(1);
        });
    }

    #[inline(always)]
    fn replied(&mut self, time_ns: i64, call: &Call, again: bool) {
        let Some(lane) = self.lane(call) else {
            return;
        };
        let place = self.lanes[lane].pair as usize;
        self.alone_settles(time_ns);
        if again {
            // Both sends were answered: the first one had arrived.
            self.unsettled
                .retain(|one| one.number != call.number || one.gap.scope == Scope::Connection);
        }
        let reply = reply_of(time_ns, call, again);
        let counted = !again && self.outstanding.answered(call.number);
        let pair = &mut self.pairs[place];
        let server = &mut self.servers[pair.server as usize].tracker;
        server.replied(&reply, counted, |_, _| false);
        let of_server = server.last_silence;
        let mut of_pair = None;
        if let Some(tracker) = &mut pair.tracker {
            tracker.replied(&reply, counted, |from, to| mostly(of_server, from, to));
            of_pair = tracker.last_silence;
        }
        if let Some(tracker) = &mut self.lanes[lane].tracker {
            tracker.replied(&reply, counted, |from, to| {
                mostly(of_server, from, to) || mostly(of_pair, from, to)
            });
        }
        if !again {
            self.stretches.answered(call.call_first.time_ns, time_ns);
            if call.sends > 1 {
                self.lost_call(place, call, time_ns);
            }
        }
        if let Some((from, to)) = self.connections.of(call.connection).standstill.take() {
            self.lost_connection(place, call, from, to);
        }
        let (lanes, pairs, servers) = (&self.lanes, &self.pairs, &self.servers);
        let lost = self.outstanding.lost(|lane| {
            let pair = &pairs[lanes[lane as usize].pair as usize];
            let tracker = &servers[pair.server as usize].tracker;
            (tracker.replies as u32, tracker.last_reply_ns())
        });
        if let Some(lost) = lost {
            self.no_longer_outstanding(lost);
        }
    }
}

#[inline(always)]
fn reply_of(time_ns: i64, call: &Call, again: bool) -> Reply {
    let (first, last) = match (call.reply_first, call.reply_last) {
        (Some(first), Some(last)) if !again => (first, last),
        // Frames of duplicates are not known.
        _ => Default::default(),
    };
    Reply {
        time_ns,
        last_ns: last.time_ns.max(time_ns),
        frame: first.frame,
        last_frame: last.frame,
        start_ns: if again {
            call.last_send.time_ns
        } else {
            call.call_first.time_ns
        },
        last_send_ns: call.last_send.time_ns,
        sent_again: call.sends > 1,
        duplicate: again,
        udp: call.transport == Transport::Udp,
        later: !again && call.outcome == Outcome::Status(ASK_LATER),
    }
}

/// Whether at least half of `[from_ns, to_ns]` lies in a silence.
fn mostly(silence: Option<(i64, i64)>, from_ns: i64, to_ns: i64) -> bool {
    silence.is_some_and(|(begin, end)| {
        let overlap = end.min(to_ns) - begin.max(from_ns);
        overlap >= (to_ns - from_ns) / 2
    })
}

fn host_only(client: Endpoint) -> Endpoint {
    Endpoint { port: 0, ..client }
}
