//! The fast path of usual calls where nothing but the table per operation is wanted.
//!
//! A usual message here is the same as in [`super::quick`], but it is only counted: no names, no
//! attributes, no detail. What is unusual is left alone, and the full way takes the message.

use wire::nfs3::quick;
use wire::programs::NFS;
use wire::rpc::{self, CALL, REPLY};

use super::body::checksum;
use super::open::{Answer, Kept};
use super::peers::PairKey;
use super::quick::{VERSION, is_plain, is_usual};
use super::{Calls, Output, kind};
use crate::stream::Message;

/// When a message's first and last byte passed: nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Times {
    first_ns: i64,
    last_ns: i64,
}

impl<O: Output> Calls<O> {
    /// Counts a message, if it is a usual one.
    #[inline(always)]
    pub(super) fn count_message(&mut self, message: &Message<'_>) -> bool {
        if !is_plain(message) || !self.quick {
            return false;
        }
        let times = Times {
            first_ns: message.first.time_ns,
            last_ns: message.last.time_ns,
        };
        let (connection, head) = (message.connection, message.head);
        match kind(head) {
            Some(CALL) => {
                let pair = PairKey::new(connection, message.from, message.to);
                self.count_call(pair, head, times)
            }
            Some(REPLY) => {
                let pair = PairKey::new(connection, message.to, message.from);
                self.count_reply(pair, head, times)
            }
            _ => false,
        }
    }

    /// Apart, as the next one: all that either needs at once fits the processor's registers then.
    #[inline(never)]
    fn count_call(&mut self, pair: PairKey, head: &[u8], times: Times) -> bool {
        let Some(header) = rpc::Call::parse_plain(head) else {
            return false;
        };
        let (body, place) = (
            header.body.unwrap_or_default(),
            [header.xid, header.program, header.version, header.procedure],
        );
        if header.program != NFS || header.version != VERSION || !self.orphans.is_empty() {
            return false;
        }
        let Some(call) = quick::call(header.procedure, body) else {
            return false;
        };
        let Some(peer) = self.peers.find(pair) else {
            return false;
        };
        let again = self.table.find(peer, header.xid).is_some();
        if again || !self.peers.before(peer).is_empty() {
            return false;
        }
        self.peers.count_call(peer);
        self.calls += 1;
        self.table.push_kept(Kept {
            call_first_ns: times.first_ns,
            last_send_ns: times.first_ns,
            checksum: checksum(body, body.len() as u32),
            bytes_written: call.data_bytes,
            ..Kept::new(peer, place)
        });
        self.settle(times.last_ns);
        true
    }

    #[inline(never)]
    fn count_reply(&mut self, pair: PairKey, head: &[u8], times: Times) -> bool {
        let Some(header) = rpc::Reply::parse_plain(head) else {
            return false;
        };
        let peer = self.peers.find(pair);
        let number = peer.and_then(|peer| self.table.find(peer, header.xid));
        let Some(open) = number.and_then(|number| self.table.get_mut(number)) else {
            return false;
        };
        if !is_usual(open, times.first_ns) {
            return false;
        }
        let body = header.body.unwrap_or_default();
        let Some(reply) = quick::reply(open.procedure, body) else {
            return false;
        };
        open.replies = 1;
        open.reply_first_ns = times.first_ns;
        open.reply_last_ns = times.last_ns;
        open.answer = Answer::Status;
        open.status = reply.status;
        open.bytes_read = reply.data_bytes;
        let peer = open.peer;
        self.peers.answered(peer, times.first_ns);
        self.table.count_answered();
        true
    }
}
