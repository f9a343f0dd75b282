//! What is odd about calls and replies, counted by kind.

use crate::anomalies::anomalies;

anomalies! {
    /// A message whose RPC header contradicts itself.
    MalformedHeader = "malformed_header",
    /// A call whose arguments break their protocol; what was decoded in front of that counts.
    MalformedCall = "malformed_call",
    /// A reply whose results break their protocol.
    MalformedReply = "malformed_reply",
    /// A reply to a call that is not in the capture, or was given up before.
    ReplyWithoutCall = "reply_without_call",
    /// A reply found by searching behind a hole, to no known call: taken for a false find.
    ResynchronisedReplyIgnored = "resynchronised_reply_ignored",
    /// A reply was captured before its call; they were matched.
    ReplyBeforeCall = "reply_before_call",
    /// A client used a transaction id again for another call while the first was remembered.
    XidReused = "xid_reused",
    /// Calls given up without a reply because too many waited.
    CallsBeyondLimit = "calls_beyond_limit",
    /// Calls given up without a reply because none came for very long.
    CallsExpired = "calls_expired",
    /// The first byte of a reply has an earlier time than that of its call.
    NegativeLatency = "negative_latency",
    /// Names in calls were not kept for their replies because too many waited.
    StepsBeyondLimit = "steps_beyond_limit",
}

impl Anomalies {
    /// One less: what was counted turned out to be something else.
    pub(super) fn take_back(&mut self, kind: Anomaly) {
        self.0[kind as usize] = self.0[kind as usize].saturating_sub(1);
    }
}
