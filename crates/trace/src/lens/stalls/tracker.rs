//! Watches one server, or one client of it: silences between replies, and what they were.

mod nature;
mod silence;

use self::silence::{Shut, Silence};
use super::cycles::Cycles;
use super::gap::{Gap, KINDS, Kind, Longest, Scope};
use super::signs::Signs;
use super::{
    FACTOR, FLOOR_NS, LONGEST, PROMPT_FACTOR, PROMPT_FLOOR_NS, SETTLE_AGAIN_NS, SETTLE_NS, USUAL,
};
use crate::block::{Endpoint, Sack};
use crate::event::TransportKind;
use crate::lens::log_histogram::LogHistogram;

/// Coarse: thresholds need no more, and there may be many.
pub(super) type Durations = LogHistogram<2>;

/// An answer is overdue after so long, however quick the others are: half of the shortest delayed
/// acknowledgement's time, so that one which comes alone tells that the host lives.
const OVERDUE_NS: i64 = 20_000_000;

/// A reply, as a tracker sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// First byte.
    pub time_ns: i64,
    /// Last byte.
    pub last_ns: i64,
    pub frame: u64,
    pub last_frame: u64,
    /// Since when the client waited for it: the first send; of a duplicate, the last.
    pub start_ns: i64,
    pub last_send_ns: i64,
    pub sent_again: bool,
    pub duplicate: bool,
    pub udp: bool,
    /// It says that the client is to ask again later.
    pub later: bool,
}

/// What happened since the last reply.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    sent: u32,
    /// First send of anything: when, frame, whether its call had been answered before.
    first: Option<(i64, u64, bool)>,
    again: u32,
    tcp_again: u32,
    /// Calls outstanding when it began.
    waiting: u32,
    /// Calls outstanding when it began, those taken for lost among them.
    unanswered: u32,
    signs: Signs,
    zero_windows: u32,
    lost_bytes: u64,
    peak: u32,
}

/// Gaps of one kind.
#[derive(Clone, Debug)]
pub(super) struct Found {
    lengths: Durations,
    pub longest: Longest,
}

/// Count, time and longest of the gaps above a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub count: u64,
    pub time_ns: u64,
}

impl Default for Found {
    fn default() -> Self {
        Found::new(LONGEST)
    }
}

impl Found {
    pub fn new(longest: usize) -> Self {
        Found {
            lengths: Durations::default(),
            longest: Longest::new(longest),
        }
    }

    pub fn add(&mut self, gap: Gap) {
        self.lengths.record_with_sum(gap.length_ns());
        self.longest.add(gap);
    }

    /// All of it, leaving nothing.
    fn taken(&mut self) -> Self {
        let limit = self.longest.limit();
        std::mem::replace(self, Found::new(limit))
    }

    /// Those of another kind, which turned out to be of this one.
    fn add_all(&mut self, other: &Found, kind: Kind) {
        self.lengths.add_all(&other.lengths);
        for gap in other.longest.iter() {
            self.longest.add(Gap { kind, ..*gap });
        }
    }

    pub fn total(&self, threshold_ns: i64) -> Total {
        let (count, time_ns) = self.lengths.from(threshold_ns.unsigned_abs());
        Total { count, time_ns }
    }
}

/// Watches one server or one client of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracker {
    pub server: Endpoint,
    pub client: Option<Endpoint>,
    pub scope: Scope,
    last_reply: Option<(i64, u64)>,
    since: Since,
    pub outstanding: u32,
    /// Calls that were sent and not answered, however long ago.
    unanswered: u32,
    /// Anything came from the server.
    pub heard: bool,
    pub replies: u64,
    pub waits: Durations,
    pub idles: Durations,
    latencies: Durations,
    silence: Option<Box<Silence>>,
    /// The client's window, and the server's.
    shut: [Shut; 2],
    told_later_at_ns: Option<i64>,
    /// Up to here calls may have been answered by what could not be read.
    blind_until_ns: i64,
    /// The last long silence, settled or not.
    pub last_silence: Option<(i64, i64)>,
    pub found: [Found; KINDS],
    /// Stalls of the server, and pauses.
    pub cycles: Cycles,
    pub pauses: Cycles,
}

impl Tracker {
    pub fn new(server: Endpoint, client: Option<Endpoint>, longest: usize) -> Self {
        Tracker {
            server,
            client,
            blind_until_ns: i64::MIN,
            found: std::array::from_fn(|_| Found::new(longest)),
            ..Tracker::default()
        }
    }

    /// Time of the last reply.
    #[inline(always)]
    pub fn last_reply_ns(&self) -> i64 {
        self.last_reply.map_or(i64::MIN, |(time_ns, _)| time_ns)
    }

    /// Above which length a silence is a gap: while calls wait, and while none does.
    pub fn thresholds_ns(&self) -> (i64, i64) {
        let threshold = |usual: &Durations| {
            let usual_ns = usual.quantile(USUAL).unwrap_or(0);
            let limit_ns = usual_ns.saturating_mul(FACTOR).max(FLOOR_NS);
            Durations::bound_at_least(limit_ns.unsigned_abs()) as i64
        };
        (threshold(&self.waits), threshold(&self.idles))
    }

    /// How soon after a send a reply counts as coming at once, after a silence of this length.
    pub fn prompt_ns(&self, length_ns: i64) -> i64 {
        let usual_ns = self.latencies.quantile(USUAL).unwrap_or(0);
        let prompt_ns = usual_ns.saturating_mul(PROMPT_FACTOR);
        prompt_ns.max(PROMPT_FLOOR_NS).min(length_ns / 4)
    }

    /// A call was sent, for the first time or `again`; `answered`: it was answered before.
    #[inline(always)]
    pub fn sent(&mut self, time_ns: i64, frame: u64, again: bool, answered: bool) {
        if self.since.first.is_none() {
            self.since.first = Some((time_ns, frame, answered));
            match self.last_reply {
                // Silence is measured from the first call on where no reply came before.
                None => self.last_reply = Some((time_ns, frame)),
                Some((last_ns, _)) if self.outstanding == 0 => {
                    self.idles.record((time_ns - last_ns).max(0));
                }
                Some(_) => {}
            }
        }
        self.since.signs.sent(time_ns);
        if again {
            self.since.again += 1;
        } else {
            self.since.sent += 1;
            self.unanswered += 1;
            self.outstanding += 1;
            self.since.peak = self.since.peak.max(self.outstanding);
        }
    }

    /// Something passed below RPC.
    pub fn transport(&mut self, kind: TransportKind, from_client: bool, now_ns: i64) {
        self.heard |= !from_client;
        if let TransportKind::Retransmitted { .. } = kind {
            self.since.tcp_again += 1;
        }
        let late = matches!(kind, TransportKind::Acknowledged { .. })
            && !from_client
            && self.is_overdue(now_ns);
        self.since.signs.event(kind, from_client, now_ns, late);
        if let (TransportKind::Selective(Sack::Duplicate), Some(silence)) =
            (kind, &mut self.silence)
            && now_ns - silence.end_ns <= SETTLE_AGAIN_NS
        {
            let signs = &mut silence.since.signs;
            signs.event(kind, from_client, now_ns, false);
        }
    }

    /// Whether an answer should have come by now.
    fn is_overdue(&self, now_ns: i64) -> bool {
        let since_ns = match (self.since.waiting, self.since.first) {
            (0, None) => return false,
            (0, Some((first_ns, ..))) => first_ns,
            (_, _) => self.last_reply_ns(),
        };
        let waited_ns = now_ns.saturating_sub(since_ns);
        waited_ns >= OVERDUE_NS && waited_ns >= self.prompt_ns(i64::MAX)
    }

    /// A connection ended.
    pub fn ended(&mut self, now_ns: i64, by_client: bool, reset: bool) {
        self.heard |= !by_client;
        self.shut = [Shut::default(); 2];
        // Servers close connections that rest: that holds up nothing.
        if reset || self.outstanding > 0 {
            self.since.signs.ended(now_ns, by_client);
        }
    }

    /// A new connection was refused.
    pub fn refused(&mut self) {
        self.heard = true;
        self.since.signs.refused = true;
    }

    /// Bytes passed that cannot be looked into.
    pub fn hidden(&mut self) {
        self.since.signs.hidden = true;
    }

    /// A message of the server came of which nothing can be read: it may answer any call that
    /// waits.
    pub fn unreadable(&mut self, now_ns: i64) {
        self.heard = true;
        self.settle();
        self.outstanding = 0;
        self.unanswered = 0;
        self.blind_until_ns = now_ns;
        self.since = Since::default();
        self.since.signs.hidden = true;
        if let Some((last_ns, _)) = &mut self.last_reply {
            *last_ns = now_ns.max(*last_ns);
        }
    }

    /// A window fell to zero, or opened again.
    pub fn window(&mut self, from_client: bool, shut: bool, now_ns: i64) {
        let last_reply_ns = self.last_reply_ns();
        let side = &mut self.shut[usize::from(!from_client)];
        if shut {
            self.since.zero_windows += 1;
            side.since_ns.get_or_insert(now_ns);
        } else {
            side.open(now_ns, last_reply_ns);
        }
    }

    /// A reply came whose call is not in the capture. `since_begin`: the call may be older than the
    /// capture, so that pauses up to now were none.
    pub fn without_call(&mut self, now_ns: i64, since_begin: bool) {
        self.unreadable(now_ns);
        if since_begin {
            let pauses = [Kind::ClientPaused, Kind::SilentUnlessAtClient];
            for kind in pauses {
                let found = self.found[kind as usize].taken();
                self.found[Kind::Silent as usize].add_all(&found, Kind::Silent);
            }
        }
    }

    /// The capture lacks bytes.
    pub fn lost(&mut self, bytes: u64) {
        self.since.lost_bytes = self.since.lost_bytes.saturating_add(bytes);
        if let Some(silence) = &mut self.silence {
            // Told when the hole is given up, which may be after the silence.
            silence.since.lost_bytes = silence.since.lost_bytes.saturating_add(bytes);
        }
    }

    /// A reply came. `counted`: its call was outstanding until now. `covered` tells whether a
    /// silence is mostly one of the whole server.
    #[inline(always)]
    pub fn replied(&mut self, reply: &Reply, counted: bool, covered: impl Fn(i64, i64) -> bool) {
        if let Some(silence) = &self.silence {
            let again = silence.since.again > 0 || silence.since.tcp_again > 0;
            let settle_ns = if again { SETTLE_AGAIN_NS } else { SETTLE_NS };
            if reply.time_ns > silence.end_ns.saturating_add(settle_ns) {
                self.settle();
            } else if let Some(silence) = &mut self.silence {
                silence.note(reply);
            }
        }
        let (last_ns, last_frame) = self.last_reply.unwrap_or((reply.time_ns, reply.frame));
        self.waits
            .record((reply.time_ns - last_ns.max(reply.start_ns)).max(0));
        if !reply.duplicate {
            self.replies += 1;
            if !reply.sent_again {
                self.latencies
                    .record((reply.time_ns - reply.start_ns).max(0));
            }
        }
        if reply.time_ns - last_ns >= FLOOR_NS {
            let is_covered = covered(last_ns, reply.time_ns);
            self.silent(reply, last_ns, last_frame, is_covered);
        }
        if reply.later {
            self.told_later_at_ns = Some(reply.time_ns);
        }
        self.shut.iter_mut().for_each(|side| side.total_ns = 0);
        self.outstanding -= u32::from(counted && self.outstanding > 0);
        self.unanswered -= u32::from(!reply.duplicate && self.unanswered > 0);
        self.since = Since {
            peak: self.outstanding,
            waiting: self.outstanding,
            unanswered: self.unanswered,
            ..Since::default()
        };
        if reply.last_ns >= last_ns {
            self.last_reply = Some((reply.last_ns, reply.last_frame));
        }
    }

    /// How long before `now_ns` the server asked to be asked later.
    fn told_later_ns(&self, now_ns: i64) -> Option<i64> {
        self.told_later_at_ns.map(|at_ns| now_ns - at_ns)
    }

    #[cold]
    fn silent(&mut self, reply: &Reply, last_ns: i64, last_frame: u64, covered: bool) {
        self.settle();
        let mut silence = Silence {
            begin_ns: last_ns,
            end_ns: reply.time_ns,
            frame_before: last_frame,
            frame_after: reply.frame,
            since: self.since,
            prompt_ns: self.prompt_ns(reply.time_ns - last_ns),
            earliest_ns: reply.time_ns,
            at_begin: 0,
            prompt: 0,
            late: 0,
            duplicates: 0,
            covered,
            udp: reply.udp,
            shut_ns: self.shut.map(|side| side.within(last_ns, reply.time_ns)),
            told_later_ns: self.told_later_ns(last_ns),
        };
        silence.note(reply);
        self.last_silence = Some((silence.begin_ns, silence.end_ns));
        self.silence = Some(Box::new(silence));
    }

    fn gap(&self, silence: &Silence, kind: Kind, begin_ns: i64, end_ns: i64) -> Gap {
        Gap {
            kind,
            scope: self.scope,
            covered: silence.covered,
            server: self.server,
            client: self.client,
            begin_ns,
            end_ns,
            silent_from_ns: silence.begin_ns,
            open: false,
            outstanding_at_begin: silence.at_begin,
            outstanding_peak: silence.since.peak.max(silence.at_begin),
            sent: silence.since.sent,
            again: silence.since.again,
            tcp_again: silence.since.tcp_again,
            zero_windows: silence.since.zero_windows,
            lost_bytes: silence.since.lost_bytes,
            frame_before: silence.frame_before,
            frame_after: silence.frame_after,
        }
    }

    fn add(&mut self, gap: Gap) {
        if gap.kind.name() == "server_stalled" && gap.length_ns() >= self.thresholds_ns().0 {
            self.cycles.slow(gap.begin_ns, gap.end_ns);
        }
        if !gap.kind.waited() && !gap.open && gap.length_ns() >= self.thresholds_ns().1 {
            self.pauses.slow(gap.begin_ns, gap.end_ns);
        }
        self.found[gap.kind as usize].add(gap);
    }

    /// The capture ended. `covered`: as of a reply.
    pub fn finish(&mut self, end_ns: i64, covered: impl Fn(i64, i64) -> bool) {
        self.settle();
        let Some((last_ns, last_frame)) = self.last_reply else {
            return;
        };
        let since = self.since;
        if !self.heard && self.replies == 0 {
            // One direction alone, or a server that is not there: nothing tells of a silence.
            return;
        }
        let (waits, begin_ns) = match since.first {
            Some((first_ns, ..)) if self.outstanding <= since.sent => (true, first_ns.max(last_ns)),
            _ => (self.outstanding > 0, last_ns),
        };
        let signs = &since.signs;
        let kind = if signs.restarted() || (waits && signs.ended_ns.is_some()) {
            self.connection(signs)
        } else if waits && signs.process_late(end_ns, 0) && !signs.hidden {
            Kind::ProcessSlow
        } else if waits {
            Kind::WaitedUnlessAtServer
        } else if self.unanswered > 0
            || since.lost_bytes > 0
            || signs.hidden
            || signs.server_again.is_some()
        {
            Kind::Silent
        } else {
            Kind::SilentUnlessAtClient
        };
        if end_ns - begin_ns < FLOOR_NS {
            return;
        }
        let mut silence = Silence {
            begin_ns: last_ns,
            end_ns,
            frame_before: last_frame,
            frame_after: 0,
            since,
            prompt_ns: 0,
            earliest_ns: begin_ns,
            at_begin: self
                .outstanding
                .saturating_sub(since.sent)
                .max(u32::from(since.sent > 0)),
            prompt: 0,
            late: 0,
            duplicates: 0,
            covered: covered(begin_ns, end_ns),
            udp: false,
            shut_ns: self.shut.map(|side| side.within(last_ns, end_ns)),
            told_later_ns: self.told_later_ns(last_ns),
        };
        silence.prompt_ns = self.prompt_ns(end_ns - begin_ns);
        let kind = silence.asked_to_wait(waits).unwrap_or(kind);
        let kind = self.of_scope(kind, &silence);
        let gap = self.gap(&silence, kind, begin_ns, end_ns);
        self.add(Gap { open: true, ..gap });
    }
}
