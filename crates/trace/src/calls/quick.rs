//! The fast path of usual calls.
//!
//! What nearly all messages are (a whole, well-formed NFSv3 call of a frequent procedure with
//! AUTH_SYS, or the first reply to one) takes a fraction of the work here: its details are written
//! where they stay, instead of being put together from summaries. Each step that finds something
//! unusual gives up before anything was changed; the full way then takes the message, and what it
//! keeps of calls is the same (tests/unit/quick_way.rs). Where calls are only counted,
//! [`super::counted`] does still less.

use wire::nfs3::procedure;
use wire::nfs3::quick::{self, QuickCall, QuickReply};
use wire::nfs4::opcode::LOOKUP;
use wire::programs::NFS;
use wire::rpc::{self, CALL, Credential, REPLY};

use super::anomaly::Anomaly;
use super::body::checksum;
use super::learning::NOENT;
use super::open::{Answer, Detail, Kept, Protection, has};
use super::peers::PairKey;
use super::steps::{Step, Steps};
use super::{Calls, Output, kind};
use crate::call::marks;
use crate::event::Event;
use crate::stream::Message;

/// The version whose shapes are known.
pub(super) const VERSION: u32 = 3;
/// Calls of which more has to be known than their length.
const UNUSUAL: u16 = marks::TRUNCATED | marks::MALFORMED | marks::PRIVATE | marks::CONTROL;

impl<O: Output> Calls<O> {
    /// Takes a message in, if it is a usual one.
    #[inline(never)]
    pub(super) fn quick_message(&mut self, message: &Message<'_>) -> bool {
        if !is_plain(message) || !self.quick {
            return false;
        }
        match kind(message.head) {
            Some(CALL) => self.quick_call(message),
            Some(REPLY) => self.quick_reply(message),
            _ => false,
        }
    }

    #[inline(always)]
    fn quick_call(&mut self, message: &Message<'_>) -> bool {
        let Some(header) = rpc::Call::parse_plain(message.head) else {
            return false;
        };
        let body = header.body.unwrap_or_default();
        if header.program != NFS || header.version != VERSION || !self.orphans.is_empty() {
            return false;
        }
        let Some(call) = quick::call(header.procedure, body) else {
            return false;
        };
        let pair = PairKey::new(message.connection, message.from, message.to);
        let Some(peer) = self.peers.find(pair) else {
            return false;
        };
        let again = self.table.find(peer, header.xid).is_some();
        if again || !self.peers.before(peer).is_empty() {
            return false;
        }
        self.peers.count_call(peer);
        let length = message.wire_bytes.wrapping_sub(header.body_offset as u32);
        let place = [header.xid, NFS, VERSION, header.procedure];
        self.calls += 1;
        let kept = Kept {
            call_first_ns: message.first.time_ns,
            last_send_ns: message.first.time_ns,
            checksum: checksum(body, length),
            bytes_written: call.data_bytes,
            ..Kept::new(peer, place)
        };
        self.push_detailed(message, &header, &call, kept);
        self.settle(message.last.time_ns);
        true
    }

    /// Takes a call in with its details.
    #[inline(always)]
    fn push_detailed(
        &mut self,
        message: &Message<'_>,
        header: &rpc::Call<'_>,
        call: &QuickCall<'_>,
        mut kept: Kept,
    ) {
        let mut detail = Detail {
            call_last_ns: message.last.time_ns,
            frame: message.first.frame,
            call_bytes: message.wire_bytes,
            stable: call.stable,
            ..Detail::default()
        };
        detail.call_last_frame = detail.frame_from(message.last.frame);
        if let Some(Credential::Sys(sys)) = &header.credential {
            detail.user = sys.uid;
            kept.has |= has::USER;
        }
        if let Some((offset, count)) = call.extent {
            (detail.offset, detail.count) = (offset, count.into());
            kept.has |= has::OFFSET | has::COUNT;
        }
        if self.output.wants_files() {
            let server = message.to.host;
            detail.file = self.names.file_id(server, call.file_handle);
            if let Some(name) = call.name {
                self.keep_lookup(name, &mut detail);
            }
        }
        let number = self.table.push_detailed(kept, detail);
        self.tell_sent(number, message.first.time_ns, false);
    }

    /// What a LOOKUP may teach waits for its reply.
    #[inline(always)]
    fn keep_lookup(&mut self, name: &[u8], detail: &mut Detail) {
        self.scratch.clear();
        let step = Step {
            opcode: LOOKUP as u8,
            file: detail.file,
            name,
            ..Step::default()
        };
        step.write(&mut self.scratch);
        match self.pool.add(&self.scratch) {
            Some(place) => (detail.steps_at, detail.steps_bytes) = place,
            None => self.anomalies.count(Anomaly::StepsBeyondLimit),
        }
    }

    /// Takes the first reply to a call, if both are usual ones.
    #[inline(always)]
    fn quick_reply(&mut self, message: &Message<'_>) -> bool {
        let Some(header) = rpc::Reply::parse_plain(message.head) else {
            return false;
        };
        let pair = PairKey::new(message.connection, message.to, message.from);
        let peer = self.peers.find(pair);
        let number = peer.and_then(|peer| self.table.find(peer, header.xid));
        let Some(number) = number else {
            return false;
        };
        let Some(open) = self.table.get_mut(number) else {
            return false;
        };
        if !is_usual(open, message.first.time_ns) {
            return false;
        }
        let body = header.body.unwrap_or_default();
        let Some(reply) = quick::reply(open.procedure, body) else {
            return false;
        };
        open.replies = 1;
        open.reply_first_ns = message.first.time_ns;
        open.reply_last_ns = message.last.time_ns;
        open.answer = Answer::Status;
        open.status = reply.status;
        open.bytes_read = reply.data_bytes;
        let is_lookup = open.procedure == procedure::LOOKUP;
        open.has |= if reply.eof { has::END_OF_FILE } else { 0 };
        if reply.attributes.is_some() && !is_lookup {
            open.has |= has::FILE_SIZE;
        }
        let peer = open.peer;
        self.peers.answered(peer, message.first.time_ns);
        self.answer_detailed(number, message, &reply, is_lookup);
        self.table.count_answered();
        if self.output.wants_messages() {
            self.tell_replied(number, message.first.time_ns);
        }
        true
    }

    /// Writes the details of a first reply.
    #[inline(always)]
    fn answer_detailed(
        &mut self,
        number: u64,
        message: &Message<'_>,
        reply: &QuickReply<'_>,
        is_lookup: bool,
    ) {
        let Some(detail) = self.table.detail_mut(number) else {
            return;
        };
        detail.reply_first_frame = detail.frame_from(message.first.frame);
        detail.reply_last_frame = detail.frame_from(message.last.frame);
        detail.reply_bytes = message.wire_bytes;
        detail.committed = reply.committed;
        if !is_lookup {
            if let Some(attributes) = &reply.attributes {
                detail.file_size_bytes = attributes.size_bytes;
                if let Some(file) = detail.file {
                    self.names.set_quick_attributes(file, attributes);
                }
            }
        } else if detail.steps_bytes > 0 {
            let (at, length) = (detail.steps_at, detail.steps_bytes);
            self.learn_lookup(at, length, message, reply);
        }
    }

    /// What [`super::learning::learn`] does for a LOOKUP.
    #[inline(always)]
    fn learn_lookup(
        &mut self,
        at: u64,
        length: u16,
        message: &Message<'_>,
        reply: &QuickReply<'_>,
    ) {
        let names = &mut self.names;
        for step in Steps(self.pool.get(at, length)) {
            let Some(directory) = step.file else {
                continue;
            };
            match (reply.status, reply.file_handle) {
                (0, Some(handle)) => {
                    let Some(id) = names.file_id(message.from.host, handle) else {
                        continue;
                    };
                    if let Some(attributes) = &reply.attributes {
                        names.set_quick_attributes(id, attributes);
                    }
                    names.set_name(directory, step.name, id);
                }
                (NOENT, _) => names.remove(directory, step.name),
                _ => {}
            }
        }
    }

    fn tell_replied(&mut self, number: u64, time_ns: i64) {
        if let Some(call) = self.seen(number) {
            let event = Event::Replied {
                time_ns,
                call: &call,
                again: false,
            };
            self.output.event(&event, &self.names);
        }
    }
}

/// Whether all of a message is there, where it belongs.
#[inline(always)]
pub(super) fn is_plain(message: &Message<'_>) -> bool {
    message.complete & (message.wire_bytes as usize == message.head.len()) & !message.resynchronised
}

/// Whether a call waits for its first reply, and for one of a known shape, at this time.
#[inline(always)]
pub(super) fn is_usual(open: &Kept, reply_ns: i64) -> bool {
    (open.replies == 0)
        & (open.program == NFS)
        & (open.version == VERSION)
        & (open.protection == Protection::None)
        & (open.marks & UNUSUAL == 0)
        & (reply_ns >= open.call_first_ns)
}
