//! Text that `strace` or `perf trace` wrote, read into the records of [`crate::record`].
//!
//! ```text
//! bytes ──> lines ──> front (thread, time) ──> unfinished and resumed put together
//!       ──> name, arguments, result ([`scan`], [`line`], [`perf`])
//!       ──> what it means for files and descriptors ([`calls`], [`descriptors`]) ──> tally
//! ```
//!
//! Made for `strace -f -ttt -T -y`, and reads what lacks some of it, or has more (`-yy`, `-tt`,
//! `-t`, `-r`, `-i`, `-n`, `-Y`, `-X verbose`, `-v`, a file of `-o` or standard error). What is
//! missing is counted ([`Figures`]), never made up: without `-T` calls have no duration, without
//! times they begin at 0, without `-y` descriptors are followed from opens that were seen.
//! Instants are what was printed: since 1970, since midnight (days are added when midnight
//! passes), or since the first line; [`Clock`] says which.
//!
//! `perf trace` looks a descriptor's path up when it prints the line, which may be after the
//! descriptor stands for another file: such paths are used unless its open was seen with a path,
//! and counted ([`Figures::late_paths`]).
//!
//! Limits: a line ([`LINE_MAX`]), calls under way ([`PENDING_MAX`], [`PENDING_BYTES_MAX`]), and
//! those of descriptors and tally. Calls that strace was asked to leave out are not known here:
//! with `-e trace=` they may move positions, close and duplicate descriptors unseen, so that
//! without `-y` a filter should leave `open`, `close`, `dup` and `clone` in.

mod calls;
mod descriptors;
mod errno;
mod line;
mod lines;
mod names;
mod numbers;
mod pending;
mod perf;
mod printed;
mod scan;

use std::io::BufRead;

use crate::tally::{Lost, Options, Taken, Tally};
use calls::State;
use numbers::Numbers;
use pending::Pending;

/// Longest line that is read; longer ones are counted as not understood.
pub const LINE_MAX: usize = 1 << 20;
/// Most calls that are under way.
pub const PENDING_MAX: usize = 1 << 16;
/// Most text that is kept of calls under way.
pub const PENDING_BYTES_MAX: usize = 16 << 20;
/// Text without one line that is understood, after which it is not taken for a trace.
pub const UNRECOGNISED_BYTES_MAX: usize = 1 << 20;

/// It is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATrace {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// There are bytes that no text has.
    #[error("it is not text (byte {0} is zero): unpack it first if it is packed")]
    Binary(u64),
    /// Counts only.
    #[error("it is a summary (strace -c, perf trace -s), which has no single calls")]
    Summary,
    /// Text, but not one line of a trace.
    #[error("no line of it is one of strace or perf trace; the first one is: {0}")]
    NoLine(String),
}

/// What the instants are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Nothing was printed: all are 0.
    #[default]
    None,
    /// ns since 1970.
    Epoch,
    /// ns since the midnight before the first line, local time.
    OfDay,
    /// ns since the first line, or since the machine began (`perf trace -T`).
    Relative,
}

impl Clock {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Clock::None => "none",
            Clock::Epoch => "epoch",
            Clock::OfDay => "time of day",
            Clock::Relative => "relative",
        }
    }
}

/// What was read, and what is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Lines.
    pub lines: u64,
    /// Calls of any kind.
    pub calls: u64,
    /// Lines that are not understood.
    pub not_understood: u64,
    /// Calls that had not returned at the end, or whose thread ended.
    pub unfinished: u64,
    /// Calls that returned, but whose beginning is missing.
    pub without_start: u64,
    /// Lines without a time.
    pub without_time: u64,
    /// Calls under way for which there was no room, tables and descriptors likewise.
    pub beyond: u64,
    /// Calls on files.
    pub file_calls: u64,
    /// Calls whose result is `?`: they are made again, or never ended.
    pub interrupted: u64,
    /// Calls on files without a duration.
    pub without_duration: u64,
    /// Reads and writes of files whose offset is not known.
    pub without_place: u64,
    /// Calls on descriptors of which nothing is known, left out: they may be sockets.
    pub unknown_descriptors: u64,
    /// Writes through descriptors whose open was not seen: whether they are synchronous is not
    /// known, and they are not counted as such.
    pub unknown_flags: u64,
    /// Calls that name a path which was not printed.
    pub without_path: u64,
    /// Calls on files without the number of a process.
    pub without_pid: u64,
    /// Paths of perf trace, which asks for them when it prints the line: of a descriptor that is
    /// soon used again they may be those of a later file.
    pub late_paths: u64,
    /// Requests through io_uring or io_submit: what they read, wrote and synced is no call.
    pub unseen_requests: u64,
    /// What found no room.
    pub lost: Lost,
}

/// Reads.
#[derive(Debug)]
pub struct StraceReader {
    state: State,
    clock: Clock,
    /// The last instant, ns; days that passed.
    now_ns: u64,
    day_ns: u64,
    carry: Vec<u8>,
    /// The line in `carry` is longer than is read.
    too_long: bool,
    read_bytes: u64,
    understood: u64,
    perf: bool,
    /// Whose the last line without a number was.
    speaker: u32,
    pending: Numbers<u32, Pending>,
    pending_bytes: usize,
    /// The thread whose line was cut by a remark.
    cut: Option<u32>,
    first_not_understood: Option<String>,
    first_line: Option<String>,
    summary: bool,
}

impl StraceReader {
    /// Nothing read yet.
    pub fn new(options: Options) -> Self {
        StraceReader {
            state: State {
                tally: Tally::new(options),
                descriptors: Default::default(),
                figures: Figures::default(),
            },
            clock: Clock::None,
            now_ns: 0,
            day_ns: 0,
            carry: Vec::new(),
            too_long: false,
            read_bytes: 0,
            understood: 0,
            perf: false,
            speaker: 0,
            pending: Numbers::default(),
            pending_bytes: 0,
            cut: None,
            first_not_understood: None,
            first_line: None,
            summary: false,
        }
    }

    /// More of the text, cut anywhere.
    ///
    /// # Errors
    /// [`NotATrace`] as soon as that is certain.
    pub fn feed(&mut self, mut data: &[u8]) -> Result<(), NotATrace> {
        if self.understood == 0
            && let Some(at) = data.iter().position(|byte| *byte == 0)
        {
            return Err(NotATrace::Binary(self.read_bytes + at as u64));
        }
        self.read_bytes += data.len() as u64;
        while let Some(end) = end_of_line(data) {
            let (line, rest) = (&data[..end], &data[end + 1..]);
            data = rest;
            if self.carry.is_empty() && !self.too_long {
                self.whole_line(line);
                continue;
            }
            self.keep(line);
            let carry = std::mem::take(&mut self.carry);
            self.whole_line(&carry);
            self.carry = carry;
            self.carry.clear();
            self.too_long = false;
        }
        self.keep(data);
        if self.understood == 0 && self.read_bytes > UNRECOGNISED_BYTES_MAX as u64 {
            return Err(self.verdict());
        }
        Ok(())
    }

    fn keep(&mut self, data: &[u8]) {
        if self.carry.len() + data.len() > LINE_MAX {
            self.too_long = true;
            let room = LINE_MAX - self.carry.len();
            self.carry.extend_from_slice(&data[..room.min(data.len())]);
        } else {
            self.carry.extend_from_slice(data);
        }
    }

    /// The text has ended.
    ///
    /// # Errors
    /// [`NotATrace`] if nothing of it was understood.
    pub fn end(&mut self) -> Result<(), NotATrace> {
        if !self.carry.is_empty() || self.too_long {
            let carry = std::mem::take(&mut self.carry);
            self.whole_line(&carry);
            self.too_long = false;
        }
        self.state.figures.unfinished += self.pending.len() as u64;
        self.pending.clear();
        self.pending_bytes = 0;
        if self.understood == 0 {
            return Err(self.verdict());
        }
        Ok(())
    }

    fn verdict(&self) -> NotATrace {
        match &self.first_line {
            _ if self.summary => NotATrace::Summary,
            Some(line) => NotATrace::NoLine(line.clone()),
            None => NotATrace::Empty,
        }
    }

    /// What was gathered since the last time.
    pub fn take(&mut self) -> Taken {
        self.state.tally.take()
    }

    /// The totals so far.
    pub fn tally(&self) -> &Tally {
        &self.state.tally
    }

    /// What the instants are.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The first line that was not understood, cut short.
    pub fn first_not_understood(&self) -> Option<&str> {
        self.first_not_understood.as_deref()
    }

    /// What was read, and what is missing.
    pub fn figures(&self) -> Figures {
        let figures = self.state.figures;
        Figures {
            beyond: figures.beyond + self.state.descriptors.beyond,
            lost: self.state.tally.lost(),
            ..figures
        }
    }
}

/// Where the first line ends.
fn end_of_line(mut data: &[u8]) -> Option<usize> {
    let whole = data;
    let len = data.skip_until(b'\n').ok()?;
    (whole.get(len.checked_sub(1)?) == Some(&b'\n')).then_some(len - 1)
}
