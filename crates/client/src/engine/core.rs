//! What all connections share: the table of calls, timers, the record; and a call's end.

use rustix::io::Errno;
use wire::rpc::ReplyStatus;

use super::calls::{Call, Calls, Entry, State};
use super::request::{Completion, Reply, Times};
use super::timers::{CallTimer, Congestion, Expiry, RoundTrips, TimeoutPolicy};
use crate::error::CallError;
use crate::options::{MountOptions, Recovery, Transport};
use measure::{ByFile, DataCall};
use wire::nfs3::procedure::{READ, WRITE};

use crate::record::{Counters, FileCall, Operations, Outcome, RecordRing, RpcRecord, Samples};

/// Counters, figures and the ring of records.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub counters: Counters,
    pub operations: Operations,
    pub ring: Option<RecordRing>,
    pub samples: Samples,
    /// READs, WRITEs and COMMITs by the file's number; None: nobody has asked.
    pub by_file: Option<ByFile<u64>>,
}

impl Recorder {
    /// Whether it matters which file a call was about.
    fn wants_files(&self) -> bool {
        self.ring.is_some() || self.by_file.is_some()
    }

    fn record(&mut self, record: RpcRecord) {
        self.operations.record(&record);
        if let (Some(by_file), Some(file)) = (&mut self.by_file, record.file)
            && file.file_id != 0
        {
            let call = match record.procedure {
                READ => DataCall::Read,
                WRITE => DataCall::Write,
                _ => DataCall::Commit,
            };
            by_file.add(file.file_id, call, u64::from(file.done));
        }
        if let Some(ring) = &mut self.ring {
            ring.push(record);
        }
    }
}

#[derive(Debug)]
pub(super) struct Core {
    pub calls: Calls,
    pub policy: TimeoutPolicy,
    pub trips: RoundTrips,
    /// UDP only.
    pub congestion: Option<Congestion>,
    pub recovery: Recovery,
    pub max_requests: u32,
    pub recorder: Recorder,
    /// Completions handed out in this `poll`.
    pub delivered: u64,
    /// No timer goes off before this; a scan makes it exact.
    pub next_due_ns: u64,
    /// Entries that a scan found due; kept for its memory.
    due: Vec<Entry>,
}

/// How a call ended, with its reply's bytes.
pub(super) struct End<'a> {
    pub result: Result<Reply<'a>, CallError>,
    pub outcome: Outcome,
    pub reply_bytes: usize,
    pub replies: u32,
}

impl End<'static> {
    /// Without a reply.
    pub fn failure(error: CallError) -> Self {
        let outcome = match error {
            CallError::TimedOut { .. } => Outcome::TimedOut,
            _ => Outcome::Dropped,
        };
        End {
            result: Err(error),
            outcome,
            reply_bytes: 0,
            replies: 0,
        }
    }
}

/// A timer that went off, for the engine to act upon.
pub(super) struct Due {
    pub entry: Entry,
    pub expiry: Expiry,
}

impl Core {
    pub fn new(options: &MountOptions, capacity: usize, first_xid: u32) -> Self {
        let policy = TimeoutPolicy::new(options);
        let udp = options.transport == Transport::Udp;
        Core {
            calls: Calls::new(capacity, first_xid),
            policy,
            trips: RoundTrips::new(&policy),
            congestion: udp.then(|| Congestion::new(options.max_requests)),
            recovery: options.recovery,
            max_requests: options.max_requests,
            recorder: Recorder::default(),
            delivered: 0,
            next_due_ns: u64::MAX,
            due: Vec::new(),
        }
    }

    /// Calls that may be outstanding now.
    pub fn window(&self) -> u32 {
        match &self.congestion {
            Some(congestion) => congestion.calls().min(self.max_requests),
            None => self.max_requests,
        }
    }

    /// Makes the next pending call outstanding on `connection`.
    #[inline]
    pub fn dispatch_next(&mut self, connection: usize, now_ns: u64) -> Option<Entry> {
        let entry = self.calls.pending.pop_front()?;
        self.recorder.counters.queue = queue_length(&self.calls);
        self.calls.outstanding += 1;
        let outstanding = self.calls.outstanding;
        let counters = &mut self.recorder.counters;
        counters.outstanding = outstanding;
        counters.outstanding_max = counters.outstanding_max.max(outstanding);
        let first_ns = match self.congestion {
            Some(_) => {
                let class = self.calls.get(entry)?.timer_class;
                self.trips.first_timeout_ns(class)
            }
            None => self.policy.initial_ns(),
        };
        let timer = CallTimer::start(&self.policy, first_ns, now_ns);
        self.next_due_ns = self.next_due_ns.min(timer.due_at_ns());
        let call = self.calls.get_mut(entry)?;
        call.state = State::Outstanding;
        call.connection = connection;
        call.timer = timer;
        call.outstanding_at_send = outstanding;
        call.queued = true;
        Some(entry)
    }

    /// The first byte of a message goes out.
    #[inline]
    pub fn begin_send(&mut self, entry: Entry, now_ns: u64) {
        let Some(call) = self.calls.get_mut(entry) else {
            return;
        };
        let counters = &mut self.recorder.counters;
        counters.sends += 1;
        if call.sends == 0 {
            call.times.sent_first_ns = now_ns;
        } else {
            counters.retransmissions += 1;
        }
        call.times.sent_last_ns = now_ns;
        call.sends = call.sends.saturating_add(1);
    }

    /// The last byte of a message is out.
    #[inline]
    pub fn end_send(&mut self, entry: Entry) {
        if let Some(call) = self.calls.get_mut(entry) {
            call.queued = false;
            if call.state == State::Draining {
                self.calls.release(entry);
            }
        }
    }

    /// A message came on `connection`: ends the call that it answers.
    pub fn on_message(
        &mut self,
        message: &[u8],
        (connection, midway): (usize, Option<Entry>),
        now_ns: u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> bool {
        let parsed = wire::rpc::Reply::parse(message);
        let xid = match (&parsed, message.split_first_chunk::<8>()) {
            (Ok(reply), _) => reply.xid,
            // A reply in kind, but with a header that no RFC has.
            (Err(_), Some(([a, b, c, d, 0, 0, 0, 1], _))) => u32::from_be_bytes([*a, *b, *c, *d]),
            _ => {
                self.recorder.counters.malformed_replies += 1;
                return false;
            }
        };
        let known = self.calls.was_issued(xid);
        let counters = &mut self.recorder.counters;
        let Some((entry, call)) = self.calls.find(xid) else {
            let place = if known {
                &mut counters.late_replies
            } else {
                &mut counters.unknown_replies
            };
            *place += 1;
            return false;
        };
        if call.state != State::Outstanding || call.sends == 0 {
            counters.unknown_replies += 1;
            return false;
        }
        if call.connection != connection {
            counters.misdirected_replies += 1;
            return false;
        }
        let mut end = judge(&parsed, call.target, call.sends);
        if end.outcome == Outcome::Malformed {
            counters.malformed_replies += 1;
            if self.congestion.is_some() {
                return false; // a damaged datagram; the call's timer goes on
            }
        }
        end.reply_bytes = message.len();
        let (class, sends, sent_ns) = (call.timer_class, call.sends, call.times.sent_last_ns);
        if let Some(congestion) = &mut self.congestion {
            congestion.answered(self.calls.outstanding);
            if let Some(class) = class {
                self.trips
                    .answered(class, sends, now_ns.saturating_sub(sent_ns));
            }
        }
        self.complete(entry, end, midway, now_ns, sink);
        true
    }

    /// Ends a call: frees its slot, records it, and tells the sink, in this order.
    pub fn complete(
        &mut self,
        entry: Entry,
        end: End<'_>,
        midway: Option<Entry>,
        now_ns: u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let Some(call) = self.calls.get_mut(entry) else {
            return;
        };
        if call.state == State::Draining {
            return; // it has ended already
        }
        call.times.completed_ns = now_ns;
        let (token, xid, times, sends) = (call.token, call.xid, call.times, call.sends);
        let mut record = record_of(call, &end);
        if self.recorder.wants_files() {
            record.file = file_of(call, &end);
        }
        let was_outstanding = call.state == State::Outstanding;
        call.state = State::Draining;
        self.calls.forget_xid(xid);
        if midway != Some(entry) {
            self.calls.release(entry);
        }
        let counters = &mut self.recorder.counters;
        if was_outstanding {
            self.calls.outstanding = self.calls.outstanding.saturating_sub(1);
            counters.outstanding = self.calls.outstanding;
        }
        if end.replies > 0 {
            counters.answered += 1;
        } else {
            counters.failed += 1;
        }
        self.recorder.record(record);
        self.delivered += 1;
        sink(Completion {
            token,
            xid,
            result: end.result,
            times,
            sends,
        });
    }

    /// All timers that went off by now; each is armed again.
    pub fn expired(&mut self, now_ns: u64, mut act: impl FnMut(&mut Self, Due)) {
        if now_ns < self.next_due_ns {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        due.extend(self.calls.entries().filter_map(|(entry, call)| {
            let is_due = call.state == State::Outstanding && call.timer.due_at_ns() <= now_ns;
            is_due.then_some(entry)
        }));
        for entry in &due {
            let policy = self.policy;
            let Some(call) = self.calls.get_mut(*entry) else {
                continue;
            };
            if call.state != State::Outstanding {
                continue; // ended by what an earlier one led to
            }
            let expiry = call.timer.expire(&policy, now_ns);
            let counters = &mut self.recorder.counters;
            match expiry {
                Expiry::Minor => counters.minor_timeouts += 1,
                Expiry::Major => counters.major_timeouts += 1,
            }
            if let Some(congestion) = &mut self.congestion {
                congestion.timed_out();
                if expiry == Expiry::Major {
                    // xprt_adjust_timeout: slow start.
                    self.trips = RoundTrips::new(&policy);
                }
            }
            let entry = *entry;
            act(self, Due { entry, expiry });
        }
        self.due = due;
        self.next_due_ns = self.earliest_due_ns();
    }

    fn earliest_due_ns(&self) -> u64 {
        let outstanding = self.calls.entries();
        outstanding
            .filter(|(_, call)| call.state == State::Outstanding)
            .map(|(_, call)| call.timer.due_at_ns())
            .min()
            .unwrap_or(u64::MAX)
    }

    /// What a soft mount makes of a major timeout; `None` on a hard one.
    pub fn soft_error(&self) -> Option<CallError> {
        let errno = match self.recovery {
            Recovery::Hard => return None,
            Recovery::Soft => Errno::IO,
            Recovery::SoftErr => Errno::TIMEDOUT,
        };
        Some(CallError::TimedOut { errno })
    }
}

pub(super) fn queue_length(calls: &Calls) -> u32 {
    u32::try_from(calls.unsent()).unwrap_or(u32::MAX)
}

/// What a reply to a call of `target` means.
fn judge<'a>(parsed: &wire::Result<wire::rpc::Reply<'a>>, target: [u32; 3], sends: u32) -> End<'a> {
    let malformed = |error| (Err(CallError::Malformed(error)), Outcome::Malformed);
    let (result, outcome) = match parsed {
        Err(error) => malformed(*error),
        Ok(reply) => match (reply.status, reply.body) {
            (Some(ReplyStatus::Success), Some(body)) => (
                Ok(Reply { body, sends }),
                Outcome::Answered(status_of(body, target)),
            ),
            (Some(status), _) => (Err(CallError::Rpc(status)), Outcome::Refused),
            (None, _) => malformed(wire::Error::new(
                wire::ErrorKind::Short { needed: 4, left: 0 },
                reply.body_offset,
                "rpc_msg.reply_body",
            )),
        },
    };
    End {
        result,
        outcome,
        reply_bytes: 0,
        replies: 1,
    }
}

/// The status word of NFS results, for the record; 0 for calls that have none.
fn status_of(body: &[u8], [program, _, procedure]: [u32; 3]) -> u32 {
    match body.split_first_chunk::<4>() {
        Some((word, _)) if program == wire::programs::NFS && procedure != 0 => {
            u32::from_be_bytes(*word)
        }
        _ => 0,
    }
}

#[inline]
fn record_of(call: &Call, end: &End<'_>) -> RpcRecord {
    let [program, version, procedure] = call.target;
    let as_u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    RpcRecord {
        token: call.token,
        xid: call.xid,
        program,
        version,
        procedure,
        times: call.times,
        sends: call.sends,
        replies: end.replies,
        bytes_out: as_u32(call.bytes()),
        bytes_in: as_u32(end.reply_bytes),
        connection: as_u32(call.connection),
        queue_at_enqueue: call.queue_at_enqueue,
        outstanding_at_send: call.outstanding_at_send,
        outcome: end.outcome,
        file: None,
    }
}

/// Which bytes the call was about.
#[inline]
fn file_of(call: &Call, end: &End<'_>) -> Option<FileCall> {
    let [program, _, procedure] = call.target;
    if program != wire::programs::NFS {
        return None;
    }
    let body = end.result.as_ref().ok().map(|reply| reply.body);
    FileCall::of(procedure, &call.message, body)
}

/// Instants of a call that is taken now.
pub(super) fn enqueued(now_ns: u64) -> Times {
    Times {
        enqueued_ns: now_ns,
        ..Times::default()
    }
}
