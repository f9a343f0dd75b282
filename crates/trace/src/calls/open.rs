//! A call that waits: for its reply, for duplicates, or for its turn.
//!
//! Many thousand of them are held at once and each is written when the call comes, written again
//! when the reply comes and read when it is released. [`Call`] is made for those who read it; this
//! is the same in three cache lines: endpoints by number, frames relative to the first one,
//! options as bits. Where only the table per operation is wanted, [`Kept`] alone is held.

use std::ops::{Deref, DerefMut};

use wire::rpc::ReplyStatus;
use wire::summary::Stability;

use super::peers::Peer;
use crate::call::{Brief, Call, FileId, OperationsId, Outcome, Stamp, marks};

/// Bits of [`Open::has`]: which fields are set.
pub mod has {
    /// `offset`.
    pub const OFFSET: u16 = 1;
    /// `count`.
    pub const COUNT: u16 = 1 << 1;
    /// `file_size_bytes`.
    pub const FILE_SIZE: u16 = 1 << 2;
    /// `user`.
    pub const USER: u16 = 1 << 3;
    /// `slot`.
    pub const SLOT: u16 = 1 << 4;
    /// The reply said end of file.
    pub const END_OF_FILE: u16 = 1 << 5;
    /// Another call took its transaction id: no reply can be told to be its.
    pub const SUPERSEDED: u16 = 1 << 6;
    /// It was given out; its place is freed with the ring's front.
    pub const RELEASED: u16 = 1 << 7;
}

/// How the call's RPCSEC_GSS credential protects arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Not at all, or the header only.
    #[default]
    None,
    /// A checksum around them.
    Integrity,
    /// Encrypted.
    Privacy,
    /// Context control instead of arguments.
    Control,
}

/// What came of a call, without texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    #[default]
    Awaited,
    /// The protocol's status is in [`Open::status`].
    Status,
    /// Success of a procedure without a status.
    Accepted,
    /// RPC refused it: a number of [`REFUSALS`] is in [`Open::status`].
    Refused,
    /// Cut off or encrypted.
    Unreadable,
}

pub const REFUSALS: [&str; 7] = [
    "PROG_UNAVAIL",
    "PROG_MISMATCH",
    "PROC_UNAVAIL",
    "GARBAGE_ARGS",
    "SYSTEM_ERR",
    "RPC_MISMATCH",
    "AUTH_ERROR",
];

/// No operation list; no file, in the bytes of a step.
pub const NONE: u32 = u32::MAX;

/// What matching and counting need of a waiting call: kept of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    pub call_first_ns: i64,
    pub last_send_ns: i64,
    pub reply_first_ns: i64,
    pub reply_last_ns: i64,
    pub peer: u32,
    pub xid: u32,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub operation: u32,
    pub minor_version: u32,
    pub operations: u32,
    pub bytes_read: u32,
    pub bytes_written: u32,
    pub checksum: u32,
    pub status: u32,
    pub operations_done: u16,
    pub sends: u16,
    pub replies: u16,
    pub marks: u16,
    pub has: u16,
    pub answer: Answer,
    pub protection: Protection,
}

/// What lenses and columns that look at single calls need beyond it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    pub call_last_ns: i64,
    /// Frame of the first byte of the first send; the others count from it.
    pub frame: u64,
    pub call_last_frame: i32,
    pub last_send_frame: i32,
    pub reply_first_frame: i32,
    pub reply_last_frame: i32,
    pub offset: u64,
    pub count: u64,
    pub file_size_bytes: u64,
    /// Where its names wait for the reply, in [`super::steps::Pool`].
    pub steps_at: u64,
    pub steps_bytes: u16,
    pub user: u32,
    pub file: Option<FileId>,
    pub slot: u32,
    pub call_bytes: u32,
    pub reply_bytes: u32,
    pub stable: Option<Stability>,
    pub committed: Option<Stability>,
}

// A cache line and a half each: what the module's essay promises.
const _: () = assert!(size_of::<Kept>() <= 96 && size_of::<Detail>() <= 112);

/// The waiting call, taken out of its table to be worked on.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub kept: Kept,
    pub detail: Detail,
}

impl Detail {
    #[inline(always)]
    fn stamp(&self, time_ns: i64, frame: i32) -> Stamp {
        Stamp {
            time_ns,
            frame: self.frame.wrapping_add_signed(frame.into()),
        }
    }

    /// The frame's distance from the first one.
    #[inline(always)]
    pub fn frame_from(&self, frame: u64) -> i32 {
        let distance = frame.wrapping_sub(self.frame).cast_signed();
        i32::try_from(distance).unwrap_or(i32::MAX)
    }
}

impl Deref for Open {
    type Target = Kept;

    #[inline(always)]
    fn deref(&self) -> &Kept {
        &self.kept
    }
}

impl DerefMut for Open {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Kept {
        &mut self.kept
    }
}

impl Kept {
    /// A call that has just been seen; its other fields follow.
    #[inline(always)]
    pub fn new(peer: u32, [xid, program, version, procedure]: [u32; 4]) -> Self {
        Kept {
            peer,
            xid,
            program,
            version,
            procedure,
            operation: procedure,
            operations: NONE,
            sends: 1,
            ..Kept::default()
        }
    }

    /// Whether no reply came and one still may.
    #[inline(always)]
    pub fn is_awaiting(&self) -> bool {
        self.replies == 0 && self.has & has::SUPERSEDED == 0
    }

    /// Whether its transaction id still stands for it.
    #[inline(always)]
    pub fn is_to_be_found(&self) -> bool {
        self.has & (has::SUPERSEDED | has::RELEASED) == 0
    }

    /// Sets marks.
    #[inline(always)]
    pub fn mark(&mut self, mark: u16) {
        self.marks |= mark;
    }

    /// Whether the capture cut it.
    #[inline(always)]
    pub fn is_truncated(&self) -> bool {
        self.marks & marks::TRUNCATED != 0
    }

    fn outcome(&self) -> Outcome {
        match self.answer {
            Answer::Awaited => Outcome::Unanswered,
            Answer::Status => Outcome::Status(self.status),
            Answer::Accepted => Outcome::Accepted,
            Answer::Refused => Outcome::Refused(
                REFUSALS
                    .get(self.status as usize)
                    .copied()
                    .unwrap_or_default(),
            ),
            Answer::Unreadable => Outcome::Unreadable,
        }
    }

    /// With its details, as lenses and columns see it.
    #[inline(always)]
    pub fn with(&self, detail: &Detail, number: u64, peer: &Peer) -> Call {
        let set = |bit| self.has & bit != 0;
        let answered = self.replies > 0;
        let brief = self.brief();
        Call {
            number,
            call_first: detail.stamp(self.call_first_ns, 0),
            call_last: detail.stamp(detail.call_last_ns, detail.call_last_frame),
            last_send: detail.stamp(self.last_send_ns, detail.last_send_frame),
            reply_first: answered
                .then(|| detail.stamp(self.reply_first_ns, detail.reply_first_frame)),
            reply_last: answered.then(|| detail.stamp(self.reply_last_ns, detail.reply_last_frame)),
            client: peer.client,
            server: peer.server,
            transport: peer.transport,
            connection: peer.connection,
            xid: self.xid,
            program: brief.program,
            version: brief.version,
            procedure: brief.procedure,
            operation: brief.operation,
            minor_version: brief.minor_version,
            operations: brief.operations,
            operations_done: brief.operations_done,
            outcome: brief.outcome,
            sends: brief.sends,
            replies: brief.replies,
            user: set(has::USER).then_some(detail.user),
            file: detail.file,
            offset: set(has::OFFSET).then_some(detail.offset),
            count: set(has::COUNT).then_some(detail.count),
            stable: detail.stable,
            committed: detail.committed,
            bytes_read: brief.bytes_read,
            bytes_written: brief.bytes_written,
            call_bytes: detail.call_bytes,
            reply_bytes: detail.reply_bytes,
            end_of_file: set(has::END_OF_FILE),
            file_size_bytes: set(has::FILE_SIZE).then_some(detail.file_size_bytes),
            slot: set(has::SLOT).then_some(detail.slot),
            marks: self.marks,
        }
    }

    /// As the table per operation counts it.
    #[inline(always)]
    pub fn brief(&self) -> Brief {
        Brief {
            call_first_ns: self.call_first_ns,
            latency_ns: (self.replies > 0).then(|| self.reply_first_ns - self.call_first_ns),
            program: self.program,
            version: self.version,
            procedure: self.procedure,
            operation: self.operation,
            minor_version: self.minor_version,
            operations: (self.operations != NONE).then_some(OperationsId(self.operations)),
            operations_done: self.operations_done,
            outcome: self.outcome(),
            sends: self.sends,
            replies: self.replies,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
        }
    }
}

impl Open {
    /// A call that has just been seen; its fields follow.
    pub fn new(peer: u32, place: [u32; 4]) -> Self {
        Open {
            kept: Kept::new(peer, place),
            detail: Detail::default(),
        }
    }

    /// Sets a field that may be missing, and its bit.
    #[inline(always)]
    pub fn set_offset(&mut self, offset: Option<u64>) {
        self.detail.offset = offset.unwrap_or(0);
        self.has |= if offset.is_some() { has::OFFSET } else { 0 };
    }

    /// Sets a field that may be missing, and its bit.
    #[inline(always)]
    pub fn set_count(&mut self, count: Option<u64>) {
        self.detail.count = count.unwrap_or(0);
        self.has |= if count.is_some() { has::COUNT } else { 0 };
    }

    /// The frame's distance from the first one.
    #[inline(always)]
    pub fn frame_from(&self, frame: u64) -> i32 {
        self.detail.frame_from(frame)
    }

    /// What RPC says of the reply.
    pub fn set_refused(&mut self, status: ReplyStatus) {
        let name = status.name();
        let place = REFUSALS.iter().position(|refusal| *refusal == name);
        self.answer = Answer::Refused;
        self.status = place.unwrap_or(0) as u32;
    }

    /// As lenses and columns see it.
    pub fn call(&self, number: u64, peer: &Peer) -> Call {
        self.kept.with(&self.detail, number, peer)
    }
}
