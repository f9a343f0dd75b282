//! Losses of one call or one connection while others went on, kept until nothing can contradict
//! them: a D-SACK, or a reply to the first send.

use super::gap::{Gap, Kind, Scope};
use super::{FLOOR_NS, LONGEST, SETTLE_AGAIN_NS, Stalls, mostly};
use crate::call::Call;

/// The network's loss of one call or connection, until it is certain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub connection: u32,
    pub number: u64,
    pub gap: Gap,
}

impl Stalls {
    /// Whether a stretch of time is mostly one silence of the pair or its whole server.
    fn in_a_silence(&self, pair: usize, from_ns: i64, to_ns: i64) -> bool {
        let pair = &self.pairs[pair];
        let server = &self.servers[pair.server as usize].tracker;
        let client = pair
            .tracker
            .as_ref()
            .and_then(|tracker| tracker.last_silence);
        mostly(server.last_silence, from_ns, to_ns) || mostly(client, from_ns, to_ns)
    }

    /// A call was answered that was sent again: was it lost while others were answered?
    #[cold]
    pub(super) fn lost_call(&mut self, pair: usize, call: &Call, reply_ns: i64) {
        let begin_ns = call.call_first.time_ns;
        let length_ns = reply_ns - begin_ns;
        let server = &self.servers[self.pairs[pair].server as usize].tracker;
        let prompt = reply_ns - call.last_send.time_ns <= server.prompt_ns(length_ns);
        if length_ns < FLOOR_NS || !prompt || self.in_a_silence(pair, begin_ns, reply_ns) {
            return;
        }
        let mut gap = alone(Scope::Call, call, begin_ns, reply_ns);
        gap.outstanding_at_begin = 1;
        gap.outstanding_peak = 1;
        gap.again = u32::from(call.retransmissions());
        gap.frame_before = call.call_first.frame;
        gap.frame_after = call.reply_first.map_or(0, |reply| reply.frame);
        self.found_alone(call, gap);
    }

    /// A connection stood still until TCP sent again: did others go on meanwhile?
    #[cold]
    pub(super) fn lost_connection(&mut self, pair: usize, call: &Call, from_ns: i64, to_ns: i64) {
        if self.in_a_silence(pair, from_ns, to_ns) {
            return;
        }
        let mut gap = alone(Scope::Connection, call, from_ns, to_ns);
        gap.tcp_again = 1;
        self.found_alone(call, gap);
    }

    /// Losses of single calls and connections that nothing contradicted for long enough.
    #[inline(always)]
    pub(super) fn alone_settles(&mut self, now_ns: i64) {
        while let Some(front) = self.unsettled.front()
            && now_ns - front.gap.end_ns > SETTLE_AGAIN_NS
        {
            let Some(Alone { gap, .. }) = self.unsettled.pop_front() else {
                return;
            };
            self.alone[usize::from(gap.scope == Scope::Connection)].add(gap);
        }
    }

    /// What was sent again on a connection had arrived.
    #[cold]
    pub(super) fn needless(&mut self, connection: u32) {
        let other = |one: &Alone| one.connection != connection || one.gap.scope == Scope::Call;
        self.unsettled.retain(other);
    }

    fn found_alone(&mut self, call: &Call, gap: Gap) {
        if self.unsettled.len() == LONGEST
            && let Some(Alone { gap, .. }) = self.unsettled.pop_front()
        {
            self.alone[usize::from(gap.scope == Scope::Connection)].add(gap);
        }
        self.unsettled.push_back(Alone {
            connection: call.connection,
            number: call.number,
            gap,
        });
    }
}

fn alone(scope: Scope, call: &Call, begin_ns: i64, end_ns: i64) -> Gap {
    Gap {
        kind: Kind::NetworkLoss,
        scope,
        server: call.server,
        client: Some(call.client),
        begin_ns,
        end_ns,
        silent_from_ns: begin_ns,
        ..Gap::default()
    }
}
