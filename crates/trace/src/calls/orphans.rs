//! Replies that came before their calls.
//!
//! Where a capture has several queues (or joins two interfaces), a reply may stand a little before
//! its call. Such replies are kept for a moment, so that the call that follows gets its reply
//! instead of being counted as unanswered.

use std::collections::VecDeque;

use crate::block::{Endpoint, Transport};
use crate::call::Stamp;
use crate::stream::Message;

/// Replies kept.
const MAX_ORPHANS: usize = 64;
/// How long a reply may come before its call: above the disorder of capture queues, below what a
/// client needs to use the transaction id again.
const EARLY_NS: i64 = 10_000_000;
/// Bytes of a reply kept.
const MAX_ORPHAN_BYTES: usize = 16 << 10;

/// A reply without a call.
#[derive(Debug)]
pub struct Orphan {
    xid: u32,
    /// Its bytes.
    head: Vec<u8>,
    from: Endpoint,
    to: Endpoint,
    connection: u32,
    transport: Transport,
    complete: bool,
    wire_bytes: u32,
    first: Stamp,
    last: Stamp,
}

impl Orphan {
    /// As it came.
    pub fn message(&self) -> Message<'_> {
        Message {
            connection: self.connection,
            from: &self.from,
            to: &self.to,
            transport: self.transport,
            head: &self.head,
            missing: 0,
            tail: &[],
            complete: self.complete,
            wire_bytes: self.wire_bytes,
            first: self.first,
            last: self.last,
            resynchronised: false,
            ip_id: 0,
        }
    }
}

/// The last few of them.
#[derive(Debug, Default)]
pub struct Orphans {
    replies: VecDeque<Orphan>,
}

impl Orphans {
    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Keeps a reply for a moment.
    pub fn add(&mut self, message: &Message<'_>, xid: u32) {
        if self.replies.len() >= MAX_ORPHANS {
            self.replies.pop_front();
        }
        let kept = message.head.get(..MAX_ORPHAN_BYTES).unwrap_or(message.head);
        let whole = kept.len() == message.head.len() && message.missing == 0;
        self.replies.push_back(Orphan {
            xid,
            head: kept.to_vec(),
            from: *message.from,
            to: *message.to,
            connection: message.connection,
            transport: message.transport,
            complete: message.complete && whole,
            wire_bytes: message.wire_bytes,
            first: message.first,
            last: message.last,
        });
    }

    /// The reply to a call of now, if it came shortly before; older ones are dropped.
    pub fn take(
        &mut self,
        connection: u32,
        server: Endpoint,
        xid: u32,
        now_ns: i64,
    ) -> Option<Orphan> {
        while let Some(front) = self.replies.front()
            && now_ns.saturating_sub(front.last.time_ns) > EARLY_NS
        {
            self.replies.pop_front();
        }
        let place = self.replies.iter().position(|orphan| {
            orphan.xid == xid && orphan.connection == connection && orphan.from == server
        })?;
        self.replies.remove(place)
    }
}
