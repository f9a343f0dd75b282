//! The quick way of calls that only have to be counted.
//!
//! Where nothing but the table per operation is wanted, and a message is what nearly all are (a
//! whole, well-formed NFSv3 call with AUTH_SYS, or the first reply to one), it takes a fraction of
//! the work: no names, no attributes, no detail. Each step that finds something unusual gives up
//! before anything was changed; the full way then takes the message, and what it keeps of calls is
//! the same.

use wire::nfs3::quick;
use wire::programs::NFS;
use wire::rpc;

use super::body::checksum;
use super::open::{Answer, Kept, Protection};
use super::{Calls, Output, wants_details};
use crate::call::marks;
use crate::stream::Message;

/// The version whose shapes are known.
const VERSION: u32 = 3;
/// Calls of which more has to be known than their length.
const UNUSUAL: u16 = marks::TRUNCATED | marks::MALFORMED | marks::PRIVATE | marks::CONTROL;

impl<O: Output> Calls<O> {
    /// Takes a new call in, if it is a usual one.
    #[inline(always)]
    pub(super) fn quick_call(&mut self, message: &Message<'_>) -> bool {
        if wants_details(&self.output) || !is_plain(message) || !self.orphans.is_empty() {
            return false;
        }
        let Some(header) = rpc::Call::parse_plain(message.head) else {
            return false;
        };
        let body = header.body.unwrap_or_default();
        if header.program != NFS || header.version != VERSION || self.calls == 0 {
            return false;
        }
        let Some(bytes_written) = quick::call_data_bytes(header.procedure, body) else {
            return false;
        };
        let peer = self
            .peers
            .find(message.connection, message.from, message.to);
        let Some(peer) = peer else {
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
        self.table.push_kept(Kept {
            call_first_ns: message.first.time_ns,
            last_send_ns: message.first.time_ns,
            checksum: checksum(body, length),
            bytes_written,
            ..Kept::new(peer, place)
        });
        self.settle(message.last.time_ns);
        true
    }

    /// Takes the first reply to a call, if both are usual ones.
    #[inline(always)]
    pub(super) fn quick_reply(&mut self, message: &Message<'_>) -> bool {
        if wants_details(&self.output) || !is_plain(message) {
            return false;
        }
        let Some(header) = rpc::Reply::parse_plain(message.head) else {
            return false;
        };
        let peer = self
            .peers
            .find(message.connection, message.to, message.from);
        let number = peer.and_then(|peer| self.table.find(peer, header.xid));
        let Some(open) = number.and_then(|number| self.table.get_mut(number)) else {
            return false;
        };
        let usual = (open.replies == 0)
            & (open.program == NFS)
            & (open.version == VERSION)
            & (open.protection == Protection::None)
            & (open.marks & UNUSUAL == 0)
            & (message.first.time_ns >= open.call_first_ns);
        if !usual {
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
        self.table.count_answered();
        true
    }
}

/// Whether all of a message is there, where it belongs.
#[inline(always)]
fn is_plain(message: &Message<'_>) -> bool {
    message.complete & (message.missing == 0) & !message.resynchronised
}
