//! What a silence was, by the replies that followed it and what passed below RPC.

use super::super::FLOOR_NS;
use super::super::gap::{Kind, Scope};
use super::super::signs::{DELAYED_NS, LEAST_TIMEOUT_NS, Signs};
use super::Tracker;
use super::silence::Silence;

impl Tracker {
    /// Names the silence that waits for it.
    pub(super) fn settle(&mut self) {
        let Some(silence) = self.silence.take() else {
            return;
        };
        let waited_from_ns = silence.earliest_ns.clamp(silence.begin_ns, silence.end_ns);
        let (first_ns, first_frame, answered_before) =
            silence.since.first.unwrap_or((waited_from_ns, 0, false));
        let paused_to_ns = waited_from_ns.min(first_ns);
        let ended = silence.since.signs.restarted() || silence.since.signs.ended_ns.is_some();
        if ended && silence.end_ns - silence.begin_ns >= FLOOR_NS {
            // What waited for a new connection is seen when it is sent there.
            let kind = self.connection(&silence.since.signs);
            let gap = self.gap(&silence, kind, silence.begin_ns, silence.end_ns);
            return self.add(gap);
        }
        if paused_to_ns - silence.begin_ns >= FLOOR_NS {
            let kind = self.pause(&silence, paused_to_ns, answered_before);
            let mut gap = self.gap(&silence, kind, silence.begin_ns, paused_to_ns);
            gap.frame_after = first_frame;
            gap.outstanding_at_begin = 0;
            gap.outstanding_peak = 0;
            gap.sent = 0;
            gap.again = u32::from(answered_before);
            self.add(gap);
        }
        if silence.end_ns - waited_from_ns >= FLOOR_NS {
            let kind = self.nature(&silence, waited_from_ns);
            let mut gap = self.gap(&silence, kind, waited_from_ns, silence.end_ns);
            if waited_from_ns > silence.begin_ns {
                gap.frame_before = first_frame;
                gap.outstanding_at_begin = 1;
            }
            self.add(gap);
        }
    }

    pub(super) fn connection(&self, signs: &Signs) -> Kind {
        match signs.restarted() {
            true => Kind::ServerRestarted,
            false => Kind::ConnectionReset,
        }
    }

    /// What a silence was in which nothing was outstanding that was ever answered.
    fn pause(&self, silence: &Silence, to_ns: i64, answered_before: bool) -> Kind {
        let (since, signs) = (&silence.since, &silence.since.signs);
        if let Some(kind) = silence.asked_to_wait(false) {
            return kind;
        }
        let sent_again = signs
            .server_again
            .is_some_and(|(first_ns, _)| first_ns <= to_ns);
        if answered_before || (sent_again && !signs.client_duplicate) {
            return Kind::NetworkLoss;
        }
        let filled = signs
            .filled_ns
            .is_some_and(|at_ns| at_ns <= to_ns + silence.prompt_ns);
        let unseen = signs.hidden || since.lost_bytes > 0;
        if since.unanswered > 0 || unseen || sent_again || filled {
            return Kind::Silent;
        }
        let acknowledged = signs
            .client_acknowledged_ns
            .is_some_and(|at_ns| at_ns - silence.begin_ns >= DELAYED_NS && at_ns < to_ns);
        // What is lost in front of the capture point comes by a timeout of TCP; of RPC, over UDP.
        match to_ns - silence.begin_ns < LEAST_TIMEOUT_NS || acknowledged {
            true => Kind::ClientPaused,
            false => Kind::SilentUnlessAtClient,
        }
    }

    /// What a silence was in which calls waited.
    fn nature(&self, silence: &Silence, from_ns: i64) -> Kind {
        let (since, signs) = (&silence.since, &silence.since.signs);
        // A stalled server has got the earlier sends: it answers calls that were not just sent
        // again, and answers some twice.
        let arrived_before = silence.late > 0 || silence.duplicates > 0;
        let rpc = since.again > 0 && silence.prompt > 0 && !arrived_before;
        let (end_ns, prompt_ns) = (silence.end_ns, silence.prompt_ns);
        let kind = if since.lost_bytes > 0 {
            Kind::CaptureLoss
        } else if signs.hidden || from_ns <= self.blind_until_ns {
            Kind::Waited
        } else if let Some(kind) = silence.asked_to_wait(true) {
            kind
        } else if rpc
            || (silence.late == 0 && signs.lost(end_ns, prompt_ns))
            || signs.answer_lost(prompt_ns)
        {
            Kind::NetworkLoss
        } else if signs.stood_still(end_ns, prompt_ns) {
            Kind::HostFrozen
        } else if signs.process_late(end_ns, prompt_ns) {
            // An answer that was lost comes a timeout after it was sent, or later.
            let several = since.peak.max(silence.at_begin) > 1;
            match several || !signs.answer_may_be_second(end_ns) {
                true => Kind::ProcessSlow,
                false => Kind::LateUnlessAtServer,
            }
        } else if silence.udp || end_ns - from_ns < LEAST_TIMEOUT_NS {
            Kind::ServerStalled
        } else {
            // What was sent again, and neither acknowledged nor answered at once.
            let unheeded = signs.client_again.is_some_and(|(_, last_ns)| {
                signs.acknowledged_after_ns.is_none() && end_ns - last_ns > prompt_ns
            });
            let beyond = since.again == 0 && signs.beyond_tcp(silence.begin_ns, end_ns);
            match unheeded {
                true => Kind::ServerStalled,
                // Where others went on, neither the capture nor its clock stood still.
                false if self.scope == Scope::Server && beyond => Kind::Waited,
                false => Kind::WaitedUnlessAtServer,
            }
        };
        self.of_scope(kind, silence)
    }

    /// What a wait is where others went on.
    pub(super) fn of_scope(&self, kind: Kind, silence: &Silence) -> Kind {
        let stalled = matches!(
            kind,
            Kind::ServerStalled | Kind::ProcessSlow | Kind::HostFrozen
        );
        // One call alone is slow by itself: it has a table of its own.
        let several = silence.since.peak.max(silence.at_begin) > 1;
        match self.scope {
            _ if silence.covered => kind,
            Scope::Client if stalled => Kind::ClientWaited,
            Scope::Connection if several && (stalled || kind == Kind::WaitedUnlessAtServer) => {
                Kind::ConnectionWaited
            }
            _ => kind,
        }
    }
}
