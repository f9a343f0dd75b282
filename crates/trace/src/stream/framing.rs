//! Record marking (RFC 5531 section 11) over a stream that arrives in pieces, with gaps.
//!
//! A record that lies whole in one segment is handed on where it lies. One that spans segments is
//! kept: its head always, its inside only if the sink wants it, its tail. What is not kept passes
//! by arithmetic; its bytes are never read. A gap inside a record is passed by the same
//! arithmetic; a gap in which a record mark lies ends it, and the next record is searched
//! ([`super::search`]).
//!
//! The record mark's first byte counts as the message's first: its segment gives
//! [`Message::first`].

mod marks;
mod state_eq;

use wire::programs::is_callback;
use wire::record::{MARK_BYTES, RecordMark};

use super::anomaly::Anomaly;
use super::flight::tell;
use super::plausibility::{MIN_HEAD_BYTES, Plausible, Trust, plausible};
use super::record::{Fill, Kept};
use super::search::{CARRY_BYTES, Carry};
use super::sender::Sender;
use super::shared::{Scene, Shared};
use super::{Front, HEAD_BYTES, Keep, Message, Sink, TAIL_BYTES};
use crate::block::Transport;
use crate::call::Stamp;
use crate::event::TransportKind;

/// What the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// Of a record mark.
    Mark,
    /// Of a fragment.
    Record,
    /// Not known: a record is searched.
    #[default]
    Search,
}

/// What is missing of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Missing {
    /// Nothing.
    #[default]
    Nothing,
    /// Bytes that the snapshot length cut away.
    Cut,
    /// Bytes that were lost, or not kept.
    Lost,
}

/// Who sends calls in this direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// No call was seen.
    #[default]
    Unknown,
    /// The client: calls of forward programs.
    Client,
    /// The server: callbacks.
    Server,
}

/// The records of one direction.
#[derive(Debug, Default)]
pub(super) struct Framer {
    pub(super) step: Step,
    pub(super) trust: Trust,
    /// Who sends calls here.
    pub(super) role: Role,
    /// A message was handed on.
    pub(super) found_rpc: bool,
    /// TLS records were found where a record was due.
    pub(super) found_tls: bool,
    /// The stream begins as one of iWARP does.
    pub(super) found_mpa: bool,
    missing: Missing,
    /// The record under way was recognised.
    pub(super) recognised: bool,
    /// The record under way was found by searching.
    pub(super) resynchronised: bool,
    last: bool,
    mark_bytes: u8,
    mark: [u8; MARK_BYTES],
    left: u32,
    passed: u32,
    fragments: u32,
    kept: Kept,
    pub(super) first: Stamp,
    seen: Stamp,
    /// Captured bytes passed over by the search under way.
    pub(super) skipped: u64,
    /// The search under way began because the step was lost, not because the stream began.
    pub(super) lost_step: bool,
    pub(super) carry: Option<Box<Carry>>,
    /// The stream did not begin with a record, seen whole, or it is not sure that it did.
    pub(super) begun_within: bool,
}

impl Framer {
    /// `from_start`: the first byte is the connection's first.
    pub(super) fn new(from_start: bool) -> Self {
        Framer {
            step: if from_start { Step::Mark } else { Step::Search },
            ..Framer::default()
        }
    }

    /// Whether no record is under way, nor its mark.
    #[inline(always)]
    pub(super) fn is_at_record(&self) -> bool {
        self.fragments == 0 && self.mark_bytes == 0
    }

    /// Whether it is in the last fragment of a record of which only the ends are kept.
    pub(super) fn keeps_ends(&self) -> bool {
        self.kept.fill() == Fill::Ends && self.last
    }

    /// Where only the ends are kept ([`Framer::keeps_ends`]), passes bytes that are none of them;
    /// false, and nothing is done, if some may be.
    #[inline(always)]
    pub(super) fn pass(&mut self, bytes: usize, stamp: Stamp) -> bool {
        let inside = self.left as usize >= bytes + TAIL_BYTES;
        if inside {
            self.left -= bytes as u32;
            self.passed += bytes as u32;
            self.seen = stamp;
        }
        inside
    }

    /// Takes captured bytes, the next of the stream.
    #[inline(always)]
    pub(super) fn bytes<S: Sink>(&mut self, bytes: &[u8], stamp: Stamp, scene: &mut Scene<'_, S>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.step {
                Step::Mark => self.at_mark(rest, stamp, scene),
                Step::Record => self.in_record(rest, stamp, scene),
                Step::Search => self.search(rest, stamp, scene),
            };
        }
    }

    /// Takes bytes of a record that was found; they end within it.
    pub(super) fn bytes_of_found_record<S: Sink>(
        &mut self,
        bytes: &[u8],
        stamp: Stamp,
        scene: &mut Scene<'_, S>,
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.step {
                Step::Mark => self.at_mark(rest, stamp, scene),
                Step::Record => self.in_record(rest, stamp, scene),
                Step::Search => return,
            };
        }
    }

    fn begin_fragment<S: Sink>(&mut self, mark: RecordMark, scene: &mut Scene<'_, S>) {
        if self.fragments == 0 {
            self.passed = 0;
            self.missing = Missing::Nothing;
            self.kept.begin(scene.shared);
            self.seen = self.first;
        }
        self.fragments += 1;
        self.left = mark.length;
        self.last = mark.last;
        self.step = Step::Record;
        if self.left == 0 {
            self.end_fragment(self.seen, scene);
        }
    }

    #[inline(always)]
    fn in_record<'b, S: Sink>(
        &mut self,
        rest: &'b [u8],
        stamp: Stamp,
        scene: &mut Scene<'_, S>,
    ) -> &'b [u8] {
        let taken = (self.left as usize).min(rest.len());
        let (now, behind) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
        self.left -= taken as u32;
        self.passed += taken as u32;
        self.seen = stamp;
        let inside = self.keeps_ends() && self.left as usize >= TAIL_BYTES;
        if !inside && !self.collect(now, scene) {
            self.lose_step(Anomaly::RecordMarkBad, scene);
            return behind;
        }
        if self.left == 0 {
            self.end_fragment(stamp, scene);
        }
        behind
    }

    /// Keeps what is wanted of a record's next bytes; false if it turns out to be no record.
    fn collect<S: Sink>(&mut self, now: &[u8], scene: &mut Scene<'_, S>) -> bool {
        let mut now = now;
        let mut room = true;
        if self.kept.fill() == Fill::Head {
            let total = (self.passed + self.left) as usize;
            let limit = if self.last && total <= HEAD_BYTES + TAIL_BYTES {
                total
            } else {
                HEAD_BYTES
            };
            let taken = limit.saturating_sub(self.kept.head().len()).min(now.len());
            let (head, behind) = now.split_at_checked(taken).unwrap_or((now, &[]));
            room = self.kept.append(head, scene.shared);
            if !self.recognised {
                let ends = self.last && self.left == 0 && behind.is_empty();
                match plausible(self.trust, self.kept.head(), ends) {
                    Plausible::Yes => self.recognised = true,
                    Plausible::No => return false,
                    Plausible::Open => {}
                }
            }
            now = behind;
            if room && !now.is_empty() {
                let front = Front {
                    connection: scene.connection,
                    from: scene.from,
                    to: scene.to,
                    head: self.kept.head(),
                    total: self.last.then_some(total),
                };
                match scene.sink.keep(&front) {
                    Keep::Whole => self.kept.keep_whole(),
                    Keep::Ends => self.kept.end_head(),
                }
            }
        }
        if !now.is_empty() {
            room &= match self.kept.fill() {
                Fill::Whole => self.kept.append(now, scene.shared),
                _ => {
                    let behind = if self.last { self.left as usize } else { 0 };
                    self.kept.append_tail(now, behind, scene.shared)
                }
            };
        }
        if !room {
            scene.shared.anomalies.count(Anomaly::RecordNotKept);
            self.missing = Missing::Lost;
        }
        true
    }

    #[inline(always)]
    fn end_fragment<S: Sink>(&mut self, stamp: Stamp, scene: &mut Scene<'_, S>) {
        self.step = Step::Mark;
        if self.last {
            self.end_record(stamp, scene);
        }
    }

    /// Hands on the record under way; `last` is the segment of its last byte.
    fn end_record<S: Sink>(&mut self, last: Stamp, scene: &mut Scene<'_, S>) {
        let known = self.recognised || self.trust == Trust::Sure;
        let (head, tail) = self.kept.parts();
        let total = self.passed + self.left;
        match self.missing {
            _ if !known || head.len() < MIN_HEAD_BYTES => {
                self.begun_within |= self.trust != Trust::Sure;
                scene.shared.anomalies.count(Anomaly::RecordUnreadable);
                tell_cut(last.time_ns, scene);
            }
            Missing::Cut => scene.shared.anomalies.count(Anomaly::RecordCut),
            Missing::Lost => scene.shared.anomalies.count(Anomaly::RecordIncomplete),
            Missing::Nothing => {}
        }
        if self.resynchronised && !self.found_rpc {
            self.begun_within |= is_unexpected(head, scene);
        }
        if known && head.len() >= MIN_HEAD_BYTES {
            scene.sink.message(&Message {
                connection: scene.connection,
                from: scene.from,
                to: scene.to,
                transport: Transport::Tcp,
                head,
                missing: (total as usize).saturating_sub(head.len() + tail.len()),
                tail,
                complete: self.missing == Missing::Nothing,
                wire_bytes: total,
                first: self.first,
                last,
                resynchronised: self.resynchronised,
                ip_id: 0,
            });
            self.learn_from_kept();
        }
        self.forget_record(scene);
    }

    fn learn_from_kept(&mut self) {
        self.found_rpc = true;
        if self.role == Role::Unknown {
            self.role = role_of(self.kept.head());
        }
        // A record found by searching is confirmed by the one behind it.
        self.trust = if self.resynchronised {
            Trust::Found
        } else {
            Trust::Sure
        };
    }

    fn forget_record<S: Sink>(&mut self, scene: &mut Scene<'_, S>) {
        self.kept.release(scene.shared);
        self.fragments = 0;
        self.left = 0;
        self.passed = 0;
        self.recognised = false;
        self.resynchronised = false;
    }

    /// Bytes are missing: with a stamp they were cut away, without they were lost.
    #[cold]
    #[inline(never)]
    pub(super) fn gap<S: Sink>(
        &mut self,
        bytes: u64,
        stamp: Option<Stamp>,
        scene: &mut Scene<'_, S>,
    ) {
        let mut bytes = bytes;
        if self.step == Step::Record {
            let inside = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.left);
            bytes -= u64::from(inside);
            self.left -= inside;
            self.passed += inside;
            let kind = stamp.map_or(Missing::Lost, |_| Missing::Cut);
            self.missing = self.missing.max(kind);
            self.kept.end_head();
            self.kept.drop_tail(scene.shared);
            self.seen = stamp.unwrap_or(self.seen);
            if self.left == 0 {
                self.end_fragment(self.seen, scene);
            }
        }
        if bytes == 0 {
            return;
        }
        if self.step == Step::Mark && stamp.is_some() {
            scene.shared.anomalies.count(Anomaly::RecordMarkCut);
            tell_cut(stamp.map_or(self.seen.time_ns, |at| at.time_ns), scene);
        }
        // A record's mark may have been there.
        self.begun_within |= self.step == Step::Search && self.trust == Trust::Fresh;
        self.drop_carry(scene);
        self.abandon(scene);
        self.lost_step |= self.step != Step::Search;
        self.step = Step::Search;
    }

    /// Ends the record under way where it is.
    pub(super) fn abandon<S: Sink>(&mut self, scene: &mut Scene<'_, S>) {
        self.skipped += u64::from(self.mark_bytes);
        if self.fragments > 0 {
            self.missing = Missing::Lost;
            self.end_record(self.seen, scene);
        } else if self.mark_bytes == 0 {
            return;
        }
        self.mark_bytes = 0;
        self.lost_step = true;
        self.step = Step::Search;
    }

    /// Gives all room back, without a word.
    pub(super) fn discard(&mut self, shared: &mut Shared) {
        if self.carry.take().is_some() {
            shared.release_partial(CARRY_BYTES);
        }
        self.kept.release(shared);
        *self = Framer {
            begun_within: true,
            ..Framer::default()
        };
    }

    #[cold]
    #[inline(never)]
    fn lose_step<S: Sink>(&mut self, kind: Anomaly, scene: &mut Scene<'_, S>) {
        match self.trust {
            Trust::Fresh => {}
            Trust::Found => {
                self.begun_within = true;
                scene.shared.anomalies.count(Anomaly::ResynchronisedWrongly);
            }
            Trust::Sure if self.found_tls => {}
            Trust::Sure => scene.shared.anomalies.count(kind),
        }
        self.lost_step |= self.trust != Trust::Fresh;
        if self.recognised {
            self.abandon(scene);
        } else {
            self.skipped += u64::from(self.passed);
            self.mark_bytes = 0;
            self.forget_record(scene);
        }
        self.step = Step::Search;
    }
}

/// Whether it is a reply to no known call: what it counts as depends on how it was found.
#[cold]
fn is_unexpected<S: Sink>(head: &[u8], scene: &Scene<'_, S>) -> bool {
    let xid = head.first_chunk().map(|xid| u32::from_be_bytes(*xid));
    let reply = head.get(4..8) == Some(&[0, 0, 0, 1]);
    reply
        && !xid.is_some_and(|xid| {
            let (from, to) = (scene.from, scene.to);
            scene.sink.expects(scene.connection, from, to, xid)
        })
}

/// A message came of which nothing can be read.
#[cold]
fn tell_cut<S: Sink>(time_ns: i64, scene: &mut Scene<'_, S>) {
    let ends = [*scene.from, *scene.to];
    let sender = Sender {
        client: None,
        low: scene.from <= scene.to,
    };
    tell(scene, time_ns, sender, TransportKind::FrontCut { ends });
}

/// Who sends calls like this message in this direction.
#[cold]
#[inline(never)]
fn role_of(message: &[u8]) -> Role {
    match message.get(4..8).zip(message.get(12..16)) {
        Some(([0, 0, 0, 0], program)) => {
            let program = program
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
            if is_callback(program) {
                Role::Server
            } else {
                Role::Client
            }
        }
        _ => Role::Unknown,
    }
}
