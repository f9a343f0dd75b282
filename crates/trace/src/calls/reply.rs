//! Replies: matched, decoded with what their call said, and what they teach.

use wire::nfs4::opcode::{OPEN, PUTFH};
use wire::nfs4::{OperationList, names_compound};
use wire::programs::{NFS, is_callback};
use wire::rpc::{self, ReplyStatus};
use wire::summary::ReplySummary;
use wire::{Body, Ignore, summarise_reply_with};

use super::anomaly::Anomaly;
use super::arguments::name_space;
use super::body::{Ended, Inside, ended, inside};
use super::learning::{Walk, learn};
use super::open::{Answer, NONE, Open, has};
use super::peers::PairKey;
use super::steps::Steps;
use super::{Calls, Output};
use crate::call::{OperationsId, marks};
use crate::event::{Event, TransportEvent, TransportKind};
use crate::stream::Message;

/// `READDIRPLUS` of NFSv3.
const READDIRPLUS: u32 = 17;

impl<O: Output> Calls<O> {
    pub(super) fn reply(&mut self, message: &Message<'_>) {
        let Ok(header) = rpc::Reply::parse(message.head) else {
            self.anomalies.count(Anomaly::MalformedHeader);
            return;
        };
        let pair = PairKey::new(message.connection, message.to, message.from);
        let peer = self.peers.find(pair);
        let number = peer.and_then(|peer| self.table.find(peer, header.xid));
        match number {
            Some(number) => self.answered(number, message, &header),
            None => self.without_call(message, &header),
        }
    }

    #[cold]
    fn without_call(&mut self, message: &Message<'_>, header: &rpc::Reply<'_>) {
        if message.resynchronised {
            self.anomalies.count(Anomaly::ResynchronisedReplyIgnored);
            return;
        }
        self.anomalies.count(Anomaly::ReplyWithoutCall);
        if self.output.wants_messages() {
            let event = TransportEvent {
                time_ns: message.first.time_ns,
                connection: message.connection,
                from_client: Some(false),
                kind: TransportKind::WithoutCall {
                    ends: [*message.from, *message.to],
                },
            };
            self.output.event(&Event::Transport(&event), &self.names);
        }
        self.orphans.add(message, header.xid);
    }

    /// A call came whose reply may have been captured before it.
    #[cold]
    pub(super) fn adopt(&mut self, number: u64, peer: u32, xid: u32, now_ns: i64) {
        let Some(pair) = self.peers.get(peer) else {
            return;
        };
        let found = self.orphans.take(pair.connection, pair.server, xid, now_ns);
        let Some(orphan) = found else {
            return;
        };
        self.anomalies.take_back(Anomaly::ReplyWithoutCall);
        self.anomalies.count(Anomaly::ReplyBeforeCall);
        let message = orphan.message();
        if let Ok(header) = rpc::Reply::parse(message.head) {
            self.answered(number, &message, &header);
        }
    }

    #[inline(always)]
    fn answered(&mut self, number: u64, message: &Message<'_>, header: &rpc::Reply<'_>) {
        // A copy, so that names can be learned while its fields are set.
        let Some(mut open) = self.table.take(number) else {
            return;
        };
        let again = open.replies > 0;
        open.replies = open.replies.saturating_add(1);
        self.peers.answered(open.peer, message.first.time_ns);
        if !again {
            self.table.count_answered();
            self.first_reply(&mut open, message, header);
        }
        self.table.put(number, &open);
        if self.output.wants_messages()
            && let Some(call) = self.seen(number)
        {
            let event = Event::Replied {
                time_ns: message.first.time_ns,
                call: &call,
                again,
            };
            self.output.event(&event, &self.names);
        }
    }

    #[inline(always)]
    fn first_reply(&mut self, open: &mut Open, message: &Message<'_>, header: &rpc::Reply<'_>) {
        open.reply_first_ns = message.first.time_ns;
        open.reply_last_ns = message.last.time_ns;
        open.detail.reply_first_frame = open.frame_from(message.first.frame);
        open.detail.reply_last_frame = open.frame_from(message.last.frame);
        open.detail.reply_bytes = message.wire_bytes;
        if open.reply_first_ns < open.call_first_ns {
            self.anomalies.count(Anomaly::NegativeLatency);
        }
        if message.resynchronised {
            open.mark(marks::RESYNCHRONISED);
        }
        if !message.complete {
            open.mark(marks::TRUNCATED);
        }
        match header.status {
            Some(ReplyStatus::Success) => {}
            Some(status) => return open.set_refused(status),
            None => {
                open.answer = Answer::Unreadable;
                return;
            }
        }
        match inside(message, header.body.unwrap_or_default(), open.protection) {
            Inside::Readable(body) => self.results(message, body, open),
            Inside::Control => open.answer = Answer::Accepted,
            Inside::Private => open.answer = Answer::Unreadable,
            Inside::Unreadable => {
                open.answer = Answer::Unreadable;
                if message.complete {
                    self.bad_reply(open);
                }
            }
        }
    }

    #[cold]
    fn bad_reply(&mut self, open: &mut Open) {
        open.mark(marks::MALFORMED);
        self.anomalies.count(Anomaly::MalformedReply);
    }

    #[inline(always)]
    fn results(&mut self, message: &Message<'_>, body: Body<'_>, open: &mut Open) {
        let lists = open.procedure == READDIRPLUS && self.output.wants_files();
        let summary = if open.detail.steps_bytes == 0 && !lists {
            summarise_reply_with(
                [open.program, open.version, open.procedure],
                body,
                &mut Ignore,
            )
        } else {
            self.taught(message, body, open)
        };
        let results = &summary.results;
        let ending = ended(&summary.end, message);
        open.answer = match results.status {
            Some(status) => {
                open.status = status;
                Answer::Status
            }
            None if ending == Ended::Well => Answer::Accepted,
            None => Answer::Unreadable,
        };
        open.detail.committed = results.committed;
        if results.eof == Some(true) {
            open.has |= has::END_OF_FILE;
        }
        match &summary.compound {
            Some(compound) => {
                open.operations_done =
                    u16::try_from(compound.operations.count()).unwrap_or(u16::MAX);
                open.bytes_read = u32::try_from(compound.data_bytes).unwrap_or(u32::MAX);
                if open.is_truncated() {
                    self.complete_operations(open, &compound.operations);
                }
            }
            None => open.bytes_read = results.data_bytes.unwrap_or(0),
        }
        self.attributes(open, &summary);
        match ending {
            Ended::Well => {}
            Ended::Cut => open.mark(marks::TRUNCATED),
            Ended::Badly => self.bad_reply(open),
        }
    }

    /// The capture cut the call (behind a WRITE's first bytes, mostly): what of its operations was
    /// done, the reply tells.
    #[cold]
    fn complete_operations(&mut self, open: &mut Open, done: &OperationList) {
        let called = match open.operations {
            NONE => 0,
            id => self.names.operations(OperationsId(id)).len(),
        };
        if done.count() as usize <= called || is_callback(open.program) {
            return;
        }
        open.operation = names_compound(done.iter()).unwrap_or(open.operation);
        let list = self.names.operations_id(done);
        open.operations = list.map_or(NONE, |id| id.0);
    }

    /// Attributes of the object that the call is about.
    #[inline(always)]
    fn attributes(&mut self, open: &mut Open, summary: &ReplySummary<'_>) {
        let Some(attributes) = &summary.results.attributes else {
            return;
        };
        if !attributes_are_of_file(open) {
            return;
        }
        if let Some(size) = attributes.size_bytes {
            open.detail.file_size_bytes = size;
            open.has |= has::FILE_SIZE;
        }
        let Some(file) = open.detail.file else {
            return;
        };
        if is_certain(open, summary) {
            self.names.set_attributes(file, attributes);
        } else if let Some(kind) = attributes.file_type {
            self.names.set_type(file, kind);
        }
    }

    /// Decodes results that may teach names.
    fn taught<'a>(
        &mut self,
        message: &Message<'_>,
        body: Body<'a>,
        open: &mut Open,
    ) -> ReplySummary<'a> {
        let place = [open.program, open.version, open.procedure];
        let server = name_space(open, message.to.host, message.from.host);
        let steps = self.pool.get(open.detail.steps_at, open.detail.steps_bytes);
        let compound = open.program == NFS && open.version == 4;
        if compound {
            let names = &mut self.names;
            let mut walk = Walk::of_compound(names, server, steps, open.operation);
            let summary = summarise_reply_with(place, body, &mut walk);
            if let Some(file) = walk.about()
                && (open.detail.file.is_none() || open.operation == OPEN)
            {
                open.detail.file = Some(file);
            }
            return summary;
        }
        if open.detail.steps_bytes == 0 {
            let listing = open.program == NFS && open.version == 3;
            let directory = open.detail.file.filter(|_| listing);
            let mut walk = Walk::of_directory(&mut self.names, server, directory);
            return summarise_reply_with(place, body, &mut walk);
        }
        let summary = summarise_reply_with(place, body, &mut Ignore);
        for step in Steps(steps) {
            learn(&mut self.names, server, &step, &summary.results);
        }
        summary
    }
}

/// Whether the attributes cannot be of another object. Of a COMPOUND they are the last ones that it
/// gave: certain only where a single handle was ever current ([`Walk`] sees to the others).
#[inline(always)]
fn is_certain(open: &Open, summary: &ReplySummary<'_>) -> bool {
    let Some(compound) = &summary.compound else {
        return true;
    };
    let handles = |list: &OperationList| list.iter().filter(|code| *code == PUTFH).count();
    open.detail.steps_bytes == 0 && handles(&compound.operations) == 1
}

/// Whether a reply's attributes are those of the object that its call states, not of one that was
/// looked up or created in it.
#[inline(always)]
fn attributes_are_of_file(open: &Open) -> bool {
    use wire::nfs4::opcode::{CREATE, LINK, LOOKUP, LOOKUPP, REMOVE, RENAME};
    match (open.program, open.version, open.operation) {
        (NFS, 3, operation) => !matches!(operation, 3 | 8..=11),
        (NFS, 2, operation) => !matches!(operation, 4 | 9 | 14),
        (NFS, 4, operation) => !matches!(
            operation,
            CREATE | LINK | LOOKUP | LOOKUPP | REMOVE | RENAME
        ),
        (program, ..) => is_callback(program),
    }
}
