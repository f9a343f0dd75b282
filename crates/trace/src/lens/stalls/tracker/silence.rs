//! A long silence, until the replies behind it have told what it was.

use super::super::gap::Kind;
use super::{Reply, Since};

/// After an answer that asks to be asked later clients wait so long: at most 15 s (Linux).
const LATER_NS: i64 = 15_000_000_000;
/// A silence that begins so soon after such an answer is that wait.
const LATER_AT_ONCE_NS: i64 = 100_000_000;

/// A long silence whose nature the next replies will tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    pub(super) frame_before: u64,
    pub(super) frame_after: u64,
    pub(super) since: Since,
    pub(super) prompt_ns: i64,
    /// Earliest first send of a call that is answered now.
    pub(super) earliest_ns: i64,
    pub(super) at_begin: u32,
    pub(super) prompt: u32,
    pub(super) late: u32,
    pub(super) duplicates: u32,
    pub(super) covered: bool,
    pub(super) udp: bool,
    /// For how long the client's window was zero, and the server's.
    pub(super) shut_ns: [i64; 2],
    /// How long before it the server asked to be asked later, if it did.
    pub(super) told_later_ns: Option<i64>,
}

impl Silence {
    /// What one side asked the other to wait for, if it did for most of the silence.
    pub(super) fn asked_to_wait(&self, waited: bool) -> Option<Kind> {
        let half_ns = (self.end_ns - self.begin_ns) / 2;
        let [client_ns, server_ns] = self.shut_ns;
        if server_ns >= half_ns.max(1) {
            Some(Kind::ServerFull)
        } else if waited && client_ns >= half_ns.max(1) {
            Some(Kind::ClientFull)
        } else {
            let told_ns = self.told_later_ns.filter(|_| !waited)?;
            let kind = match told_ns <= LATER_AT_ONCE_NS {
                true => Kind::ToldToWait,
                false => Kind::Silent,
            };
            (told_ns <= LATER_NS).then_some(kind)
        }
    }

    /// A reply soon after the silence.
    pub(super) fn note(&mut self, reply: &Reply) {
        if reply.start_ns > self.end_ns {
            return;
        }
        self.earliest_ns = self.earliest_ns.min(reply.start_ns);
        self.at_begin += u32::from(reply.start_ns <= self.begin_ns && !reply.duplicate);
        if reply.duplicate {
            self.duplicates += 1;
        } else if reply.sent_again {
            if reply.time_ns - reply.last_send_ns <= self.prompt_ns {
                self.prompt += 1;
            } else {
                self.late += 1;
            }
        } else if reply.udp && reply.start_ns <= self.end_ns - (self.end_ns - self.begin_ns) / 2 {
            // It waited through most of the silence and was never sent again: it had arrived.
            self.late += 1;
        }
    }
}

/// When a side took no more bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shut {
    pub(super) since_ns: Option<i64>,
    /// For how long since the last reply, until it opened.
    pub(super) total_ns: i64,
}

impl Shut {
    pub(super) fn open(&mut self, now_ns: i64, last_reply_ns: i64) {
        if let Some(since_ns) = self.since_ns.take() {
            self.total_ns += (now_ns - since_ns.max(last_reply_ns)).max(0);
        }
    }

    /// For how long in a silence from `from_ns` to `to_ns`.
    pub(super) fn within(&self, from_ns: i64, to_ns: i64) -> i64 {
        let now = self
            .since_ns
            .map_or(0, |since_ns| to_ns - since_ns.max(from_ns));
        self.total_ns + now.max(0)
    }
}
