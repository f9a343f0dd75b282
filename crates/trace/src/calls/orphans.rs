//! Replies that came before their calls.
//!
//! Where a capture has several queues (or joins two interfaces), a reply may stand a little before
//! its call. Such replies are kept for a moment, so that the call that follows gets its reply
//! instead of being counted as unanswered.

use std::collections::VecDeque;

use crate::block::Endpoint;
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
    pub head: Vec<u8>,
    /// All but its bytes.
    pub envelope: Message<'static>,
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
            envelope: Message {
                head: &[],
                tail: &[],
                missing: 0,
                complete: message.complete && whole,
                ..*message
            },
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
            && now_ns.saturating_sub(front.envelope.last.time_ns) > EARLY_NS
        {
            self.replies.pop_front();
        }
        let place = self.replies.iter().position(|orphan| {
            orphan.xid == xid
                && orphan.envelope.connection == connection
                && orphan.envelope.from == server
        })?;
        self.replies.remove(place)
    }
}
