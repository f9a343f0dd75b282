//! What packets below RPC show in a silence: what each side's host did, and what that proves.
//!
//! * The server's host acknowledged when an answer was overdue: the host lived, its process was
//!   late.
//! * It said nothing to what the client sent again, and told later that it had received it twice
//!   (D-SACK): nothing was lost, the host stood still.
//! * It told so at once: the first send had come, and its acknowledgement or answer was lost.
//! * Bytes that were not seen before fill a hole, or bytes that were never acknowledged are
//!   answered as soon as they were sent again, and no D-SACK calls that needless: data was lost.
//! * The server's side refused a connection: nobody listened, it was restarted. A reset alone may
//!   be that of anything on the way.

use crate::block::Sack;
use crate::event::{Again, TransportKind};

/// Smallest timeout of TCP on Linux: a shorter silence holds no loss that only a timeout mends.
pub(super) const LEAST_TIMEOUT_NS: i64 = 200_000_000;
/// A lone acknowledgement tells of an idle client if it came so long after the data: TCP's
/// delayed acknowledgement (Linux: 40 ms) had no call to ride on.
pub(super) const DELAYED_NS: i64 = 30_000_000;

/// When things were first and last seen since the server's last reply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// The server's host acknowledged though an answer was overdue: first time.
    pub late_acknowledgement_ns: Option<i64>,
    /// The client's host acknowledged, without a call: last time.
    pub client_acknowledged_ns: Option<i64>,
    /// What was not acknowledged was sent again, by the client: first and last time.
    pub client_again: Option<(i64, i64)>,
    /// The last send of a call.
    pub sent_ns: Option<i64>,
    /// The server acknowledged after that: first time.
    pub acknowledged_send_ns: Option<i64>,
    /// The server acknowledged after something was sent again: first time.
    pub acknowledged_after_ns: Option<i64>,
    /// The same, by the server.
    pub server_again: Option<(i64, i64)>,
    /// A hole was filled: last time.
    pub filled_ns: Option<i64>,
    /// The server had received something twice: first time.
    pub server_duplicate_ns: Option<i64>,
    /// The client had.
    pub client_duplicate: bool,
    /// The server's side reset or closed a connection: first time.
    pub ended_ns: Option<i64>,
    /// A new connection was refused.
    pub refused: bool,
    /// Bytes passed that cannot be looked into.
    pub hidden: bool,
}

fn first_and_last(times: &mut Option<(i64, i64)>, now_ns: i64) {
    let first = times.map_or(now_ns, |(first, _)| first);
    *times = Some((first, now_ns));
}

impl Signs {
    /// Takes an event of a connection. `late`: an answer is overdue.
    pub fn event(&mut self, kind: TransportKind, from_client: bool, now_ns: i64, late: bool) {
        match (kind, from_client) {
            (TransportKind::Retransmitted { of, .. }, _) => match (of, from_client) {
                (Again::Filled, _) => self.filled_ns = Some(now_ns),
                (Again::Unacknowledged, true) => first_and_last(&mut self.client_again, now_ns),
                (Again::Unacknowledged, false) => first_and_last(&mut self.server_again, now_ns),
                (Again::Acknowledged, _) => {}
            },
            (TransportKind::Acknowledged { .. }, false) => self.server_acknowledged(now_ns, late),
            (TransportKind::Acknowledged { .. }, true) => {
                self.client_acknowledged_ns = Some(now_ns);
            }
            (TransportKind::Selective(Sack::Duplicate), true) => self.client_duplicate = true,
            (TransportKind::Selective(Sack::Duplicate), false) => {
                self.server_duplicate_ns.get_or_insert(now_ns);
            }
            _ => {}
        }
    }

    fn server_acknowledged(&mut self, now_ns: i64, late: bool) {
        if late {
            self.late_acknowledgement_ns.get_or_insert(now_ns);
        }
        self.acknowledged_send_ns.get_or_insert(now_ns);
        if self.client_again.is_some() {
            self.acknowledged_after_ns.get_or_insert(now_ns);
        }
    }

    /// A connection ended.
    pub fn ended(&mut self, now_ns: i64, by_client: bool) {
        if !by_client {
            self.ended_ns.get_or_insert(now_ns);
        }
    }

    /// Whether connections tell why nothing went on.
    pub fn restarted(&self) -> bool {
        self.refused
    }

    /// Whether what waited was lost on its way and came by being sent again.
    pub fn lost(&self, end_ns: i64, prompt_ns: i64) -> bool {
        let soon = |at_ns: i64| end_ns - at_ns <= prompt_ns;
        let unacknowledged = self.client_again.is_some_and(|(_, last_ns)| soon(last_ns));
        let answer = self.server_again.is_some_and(|(_, last_ns)| soon(last_ns));
        self.filled_ns.is_some_and(soon)
            || (unacknowledged && self.server_duplicate_ns.is_none())
            || (answer && !self.client_duplicate)
    }

    /// Whether the server told at once that it had received what was sent again: what it had said
    /// to the first send was lost.
    pub fn answer_lost(&self, prompt_ns: i64) -> bool {
        let again = self.client_again.zip(self.server_duplicate_ns);
        again.is_some_and(|((first_ns, _), told_ns)| (told_ns - first_ns) <= prompt_ns)
            && self.late_acknowledgement_is_after_again()
    }

    fn late_acknowledgement_is_after_again(&self) -> bool {
        let Some((first_ns, _)) = self.client_again else {
            return false;
        };
        self.late_acknowledgement_ns
            .is_none_or(|at_ns| at_ns >= first_ns)
    }

    /// Whether the server's host said nothing to what was sent again, and then to all of it at
    /// once: what is answered as soon as it is sent again has overtaken the first send on its way.
    pub fn stood_still(&self, end_ns: i64, prompt_ns: i64) -> bool {
        let Some(((_, last_ns), told_ns)) = self.client_again.zip(self.server_duplicate_ns) else {
            return false;
        };
        let answered_ns = self.acknowledged_after_ns.unwrap_or(end_ns).min(end_ns);
        answered_ns - last_ns > prompt_ns
            && told_ns - answered_ns <= prompt_ns
            && self.late_acknowledgement_is_after_again()
    }

    /// A call was sent.
    pub fn sent(&mut self, now_ns: i64) {
        self.sent_ns = Some(now_ns);
        self.acknowledged_send_ns = None;
    }

    /// Whether what one side had sent was for longer than timeouts allow neither acknowledged nor
    /// sent again: then it was the capture, or its clock, that stood still. `reply_ns`: of the last
    /// reply before the silence.
    pub fn beyond_tcp(&self, reply_ns: i64, end_ns: i64) -> bool {
        let call = self.sent_ns.is_some_and(|sent_ns| {
            let in_time = self
                .acknowledged_send_ns
                .is_some_and(|at_ns| at_ns < end_ns);
            end_ns - sent_ns >= 2 * LEAST_TIMEOUT_NS && !in_time
        });
        let reply = end_ns - reply_ns >= 2 * LEAST_TIMEOUT_NS
            && self
                .client_acknowledged_ns
                .is_none_or(|at_ns| at_ns >= end_ns);
        (call || reply) && self.client_again.is_none() && self.server_again.is_none()
    }

    /// Whether the answer that ended a silence may have been sent again, and first been sent before
    /// half of it was over: no longer than two timeouts after the host had acknowledged.
    pub fn answer_may_be_second(&self, end_ns: i64) -> bool {
        self.late_acknowledgement_ns.is_some_and(|at_ns| {
            let since_ns = end_ns - at_ns;
            (LEAST_TIMEOUT_NS..2 * LEAST_TIMEOUT_NS).contains(&since_ns)
        })
    }

    /// Whether the server's host lived while its process was late.
    pub fn process_late(&self, end_ns: i64, prompt_ns: i64) -> bool {
        self.late_acknowledgement_ns
            .is_some_and(|at_ns| end_ns - at_ns > prompt_ns)
            && self.client_again.is_none()
    }
}
