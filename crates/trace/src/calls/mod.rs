//! RPC messages to calls: replies, retransmissions and duplicates matched, names learned.
//!
//! ```text
//! Message ──> header, body ──> find by (pair, xid) ──> Event (in the order of the capture)
//!                                     │
//!                             ring of waiting calls ──> settled Call (in the order of the calls)
//! ```
//!
//! A call is *settled* and given out when it was answered and either [`SETTLING_NS`] passed or more
//! than [`MAX_SETTLING_CALLS`] answered ones wait; at the latest at the end of the capture. An
//! unanswered call holds back those behind it, for as long as [`UNANSWERED_NS`] or until
//! [`MAX_OPEN_CALLS`] wait; it is then given out with the mark `EVICTED`.
//!
//! A *retransmission* has the endpoints, transaction id, program, version, procedure and arguments
//! (a checksum of their front) of a call that waits or settles. While a connection is young, calls
//! of other connections between the same hosts that no reply came to are looked at as well, if
//! those have ended or are silent: TCP clients send again over a new one. The same transaction id
//! with other arguments is a new call.
//!
//! Decisions: each body is decoded once. A reply with no call cannot be decoded, and is counted;
//! one that was found by searching behind a hole is taken for a false find. A call that is captured
//! shortly after its reply (several capture queues) still gets it.

mod anomaly;
mod arguments;
mod body;
mod counted;
mod index;
mod keep;
mod learning;
mod open;
mod orphans;
mod peers;
mod quick;
mod reply;
mod ring;
mod state_eq;
mod steps;
mod table;
#[cfg(test)]
mod tests;

use wire::programs::is_callback;
use wire::rpc::{self, CALL, Credential, REPLY};

use crate::block::Endpoint;
use crate::call::{Brief, Call, marks};
use crate::event::{Event, TransportEvent};
use crate::limits::{MAX_OPEN_CALLS, MAX_SETTLING_CALLS, SETTLING_NS, UNANSWERED_NS};
use crate::names::Names;
use crate::stream::{Front, Keep, Message, Sink};

pub use anomaly::{Anomalies, Anomaly};
use body::{Inside, checksum, inside, protection};
use keep::keep;
pub(crate) use open::REFUSALS;
use open::{Open, Protection, has};
use orphans::Orphans;
use peers::{PairKey, Peers};
use steps::Pool;
use table::Table;

/// Takes what [`Calls`] finds.
pub trait Output {
    /// Whether [`Event::Sent`] and [`Event::Replied`] are wanted.
    fn wants_messages(&self) -> bool;
    /// Whether [`Event::Transport`] is wanted.
    fn wants_transport(&self) -> bool;
    /// Whether [`Call::file`] and the names of files are wanted: to learn them is a good part of
    /// the work.
    fn wants_files(&self) -> bool {
        true
    }
    /// Whether [`Output::call`] is wanted. If not, and neither messages nor files are, no more is
    /// kept of a call than its brief.
    fn wants_calls(&self) -> bool {
        true
    }
    /// Something happened.
    fn event(&mut self, event: &Event<'_>, names: &Names);
    /// A call is settled: what is counted of it.
    fn brief(&mut self, brief: &Brief, names: &Names);
    /// The same call with all that is known of it, if details are kept.
    fn call(&mut self, call: &Call, names: &Names);
}

/// Whether more than briefs is wanted.
#[inline(always)]
fn wants_details(output: &impl Output) -> bool {
    output.wants_calls() | output.wants_messages() | output.wants_files()
}

/// How long a call has to wait for its reply before the same call on another connection is taken
/// for it, if the end of its own was not seen: above any reply's time, below a client's timeouts
/// (Linux: 60 s over TCP).
const RECONNECT_NS: i64 = 5_000_000_000;

/// Matches messages to calls.
#[derive(Debug)]
pub struct Calls<O> {
    output: O,
    names: Names,
    peers: Peers,
    table: Table,
    pool: Pool,
    orphans: Orphans,
    anomalies: Anomalies,
    /// Steps of the call being read.
    scratch: Vec<u8>,
    calls: u64,
    /// Whether usual calls may take the fast path.
    quick: bool,
    /// A call was looked for on other connections in a way that depends on where reading began.
    reached_back: bool,
}

impl<O: Output> Calls<O> {
    /// Gives what it finds to `output`.
    pub fn new(output: O) -> Self {
        Calls {
            output,
            names: Names::default(),
            peers: Peers::new(),
            table: Table::default(),
            pool: Pool::default(),
            orphans: Orphans::default(),
            anomalies: Anomalies::default(),
            scratch: Vec::new(),
            calls: 0,
            quick: true,
            reached_back: false,
        }
    }

    /// From now on all messages go the full way: to check the quick one by it.
    pub fn leave_quick_way(&mut self) {
        self.quick = false;
    }

    /// The capture ended: gives out all that waits.
    pub fn finish(&mut self) {
        while !self.table.is_empty() {
            self.release();
        }
    }

    /// Calls seen.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// What was odd.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// Counts go on from these.
    pub fn set_anomalies(&mut self, anomalies: Anomalies) {
        self.anomalies = anomalies;
    }

    /// Names learned, and where what was found went.
    pub fn into_parts(self) -> (Names, O) {
        (self.names, self.output)
    }

    /// Names learned so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Where what is found goes.
    pub fn output(&self) -> &O {
        &self.output
    }

    /// The same.
    pub fn output_mut(&mut self) -> &mut O {
        &mut self.output
    }

    #[inline(never)]
    fn message_in_full(&mut self, message: &Message<'_>) {
        match kind(message.head) {
            Some(CALL) => self.call(message),
            Some(REPLY) => self.reply(message),
            _ => self.anomalies.count(Anomaly::MalformedHeader),
        }
    }

    fn call(&mut self, message: &Message<'_>) {
        let Ok(header) = rpc::Call::parse(message.head) else {
            self.anomalies.count(Anomaly::MalformedHeader);
            return;
        };
        let peer = self.peers.of_call(message);
        let guard = match &header.credential {
            Some(Credential::Gss(gss)) => protection(gss),
            _ => Protection::None,
        };
        let place = [header.xid, header.program, header.version, header.procedure];
        let mut open = Open::new(peer, place);
        open.protection = guard;
        open.detail.call_bytes = message.wire_bytes;
        open.checksum = self.checksum_of(message, &header, guard);
        if header.body.is_none() || !message.complete {
            open.mark(marks::TRUNCATED);
        }
        match self.table.find(peer, header.xid) {
            Some(number) if self.is_again(number, &open) => {
                return self.sent_again(number, message);
            }
            Some(number) => {
                self.table.supersede(number);
                open.mark(marks::XID_REUSED);
                self.anomalies.count(Anomaly::XidReused);
            }
            None => {
                let now_ns = message.first.time_ns;
                self.reached_back |= self.peers.is_crowded(peer);
                if let Some(number) = self.sent_elsewhere(peer, &open, now_ns) {
                    self.reached_back = true;
                    self.reconnected(number, peer);
                    return self.sent_again(number, message);
                }
            }
        }
        self.new_call(message, &header, open);
    }

    /// Compares the arguments, free of what changes from send to send (RPCSEC_GSS's sequence).
    #[inline(always)]
    fn checksum_of(
        &self,
        message: &Message<'_>,
        header: &rpc::Call<'_>,
        protection: Protection,
    ) -> u32 {
        let head = header.body.unwrap_or_default();
        match protection {
            Protection::None => {
                let header_bytes = header.body_offset as u32;
                checksum(head, message.wire_bytes.wrapping_sub(header_bytes))
            }
            // Behind the length and the sequence number.
            Protection::Integrity => checksum(head.get(8..).unwrap_or_default(), 0),
            Protection::Privacy | Protection::Control => 0,
        }
    }

    /// Whether a call that has come is one that waits or settles.
    #[inline(always)]
    fn is_again(&self, number: u64, new: &Open) -> bool {
        self.table.get(number).is_some_and(|old| {
            old.program == new.program
                && old.version == new.version
                && old.procedure == new.procedure
                && (old.checksum == new.checksum || old.is_truncated() || new.is_truncated())
        })
    }

    /// The same call, not answered, on an earlier connection of the same hosts that has ended or is
    /// silent: connections side by side may use the same transaction ids.
    #[inline(always)]
    fn sent_elsewhere(&self, peer: u32, new: &Open, now_ns: i64) -> Option<u64> {
        let others = self.peers.before(peer);
        others.iter().rev().copied().find_map(|other| {
            if other == peer {
                return None;
            }
            let number = self.table.find(other, new.xid)?;
            let old = self.table.get(number)?;
            if old.replies > 0 {
                // Health checks, and clients behind one address, begin alike: another call.
                return None;
            }
            let last_ns = old.last_send_ns.max(self.peers.last_reply_ns(other));
            let silent = now_ns.saturating_sub(last_ns) >= RECONNECT_NS;
            let over = silent || self.peers.has_ended(other);
            (over && self.is_again(number, new)).then_some(number)
        })
    }

    #[cold]
    fn reconnected(&mut self, number: u64, peer: u32) {
        if let Some(open) = self.table.get_mut(number) {
            open.mark(marks::RECONNECTED);
            let xid = open.xid;
            self.peers.hold(peer);
            self.table.alias(peer, xid, number);
        }
    }

    #[cold]
    fn sent_again(&mut self, number: u64, message: &Message<'_>) {
        let Some(mut open) = self.table.take(number) else {
            return;
        };
        open.sends = open.sends.saturating_add(1);
        open.last_send_ns = message.first.time_ns;
        open.detail.last_send_frame = open.frame_from(message.first.frame);
        self.table.put(number, &open);
        self.tell_sent(number, message.first.time_ns, true);
    }

    fn tell_sent(&mut self, number: u64, time_ns: i64, again: bool) {
        if !self.output.wants_messages() {
            return;
        }
        if let Some(call) = self.seen(number) {
            let event = Event::Sent {
                time_ns,
                call: &call,
                again,
            };
            self.output.event(&event, &self.names);
        }
    }

    /// A waiting call as others see it.
    fn seen(&self, number: u64) -> Option<Call> {
        let open = self.table.take(number)?;
        Some(open.call(number, self.peers.get(open.peer)?))
    }

    fn new_call(&mut self, message: &Message<'_>, header: &rpc::Call<'_>, mut open: Open) {
        open.detail.frame = message.first.frame;
        open.call_first_ns = message.first.time_ns;
        open.detail.call_last_ns = message.last.time_ns;
        open.last_send_ns = message.first.time_ns;
        open.detail.call_last_frame = open.frame_from(message.last.frame);
        if message.resynchronised {
            open.mark(marks::RESYNCHRONISED);
        }
        if let Some(Credential::Sys(sys)) = &header.credential {
            open.detail.user = sys.uid;
            open.has |= has::USER;
        }
        if header.is_tls_probe() {
            open.mark(marks::TLS_PROBE);
        }
        if is_callback(header.program) {
            open.mark(marks::CALLBACK);
        }
        match inside(message, header.body.unwrap_or_default(), open.protection) {
            Inside::Readable(body) => self.arguments(message, body, &mut open),
            Inside::Private => open.mark(marks::PRIVATE),
            Inside::Control => open.mark(marks::CONTROL),
            Inside::Unreadable if open.is_truncated() => {}
            Inside::Unreadable => self.bad_call(&mut open),
        }
        self.peers.hold(open.peer);
        if self.calls == 0 {
            self.table.keep_details(wants_details(&self.output));
        }
        self.calls += 1;
        let (peer, xid) = (open.peer, open.xid);
        let number = self.table.push(&open);
        self.tell_sent(number, message.first.time_ns, false);
        if !self.orphans.is_empty() {
            self.adopt(number, peer, xid, message.last.time_ns);
        }
        self.settle(message.last.time_ns);
    }

    #[cold]
    fn bad_call(&mut self, open: &mut Open) {
        open.mark(marks::MALFORMED);
        self.anomalies.count(Anomaly::MalformedCall);
    }

    /// Gives out calls whose turn has come.
    #[inline(always)]
    fn settle(&mut self, now_ns: i64) {
        while let Some((_, front)) = self.table.front() {
            let ready = if front.is_awaiting() {
                let silent_ns = now_ns.saturating_sub(front.last_send_ns);
                if self.table.ring_len() >= MAX_OPEN_CALLS {
                    self.give_up(Anomaly::CallsBeyondLimit)
                } else if silent_ns >= UNANSWERED_NS {
                    self.give_up(Anomaly::CallsExpired)
                } else {
                    false
                }
            } else {
                let since_ns = now_ns.saturating_sub(front.reply_last_ns.max(front.last_send_ns));
                self.table.answered() > MAX_SETTLING_CALLS
                    || since_ns >= SETTLING_NS
                    || front.replies == 0
                    || self.table.ring_len() >= MAX_OPEN_CALLS
            };
            if !ready {
                return;
            }
            self.release();
        }
    }

    #[cold]
    fn give_up(&mut self, kind: Anomaly) -> bool {
        self.anomalies.count(kind);
        if let Some((number, _)) = self.table.front()
            && let Some(open) = self.table.get_mut(number)
        {
            open.mark(marks::EVICTED);
        }
        true
    }

    /// Gives out the call whose turn it is.
    #[inline(always)]
    fn release(&mut self) {
        let Some((number, open)) = self.table.front() else {
            return;
        };
        let (peer, reconnected) = (open.peer, open.marks & marks::RECONNECTED != 0);
        self.output.brief(&open.brief(), &self.names);
        if let Some(detail) = self.table.detail(number) {
            if let Some(pair) = self.peers.get(peer) {
                let call = open.with(detail, number, pair);
                self.output.call(&call, &self.names);
            }
            if detail.steps_bytes > 0 {
                self.pool.release_before(detail.steps_at);
            }
        }
        if reconnected {
            for alias in self.table.aliases_of(number) {
                self.peers.release(alias);
            }
        }
        self.peers.release(peer);
        self.table.release_front();
    }
}

/// The message type of an RPC header.
#[inline(always)]
fn kind(head: &[u8]) -> Option<u32> {
    let (_, kind) = head.first_chunk::<8>()?.split_last_chunk::<4>()?;
    Some(u32::from_be_bytes(*kind))
}

impl<O: Output> Sink for Calls<O> {
    #[inline(never)]
    fn message(&mut self, message: &Message<'_>) {
        self.message_on_fast_path(message);
    }

    #[inline(always)]
    fn message_on_fast_path(&mut self, message: &Message<'_>) {
        let counted = !wants_details(&self.output);
        if counted && self.count_message(message) {
            return;
        }
        // A copy, so that those that were counted need not be written to memory.
        let message = *message;
        if counted || !self.quick_message(&message) {
            self.message_in_full(&message);
        }
    }

    fn keep(&mut self, front: &Front<'_>) -> Keep {
        let pending = |xid| {
            let pair = PairKey::new(front.connection, front.to, front.from);
            let peer = self.peers.find(pair)?;
            self.table.get(self.table.find(peer, xid)?)
        };
        keep(front.head, front.total, pending)
    }

    fn expects(&self, connection: u32, from: &Endpoint, to: &Endpoint, xid: u32) -> bool {
        self.peers
            .find(PairKey::new(connection, to, from))
            .is_some_and(|peer| self.table.find(peer, xid).is_some())
    }

    fn closed(&mut self, connection: u32) {
        self.peers.end(connection);
    }

    fn wants_transport(&self) -> bool {
        self.output.wants_transport()
    }

    fn transport(&mut self, event: &TransportEvent) {
        self.output.event(&Event::Transport(event), &self.names);
    }
}
