//! One thread of one phase: opens its files, waits for the common start, runs the phase's loop.
//!
//! Inside the time: the loop, the final fsync (if asked) and closing the files, where NFS reports
//! lost writes. Outside: opening, allocating, making the random pool.

use std::ops::Range;
use std::path::PathBuf;

use measure::ThreadUsage;

use crate::buffer::AlignedBuffer;
use crate::config::Plan;
use crate::content::Content;
use crate::error::{Blame, FilesError};
use crate::layout::{Layout, part};
use crate::meter::{Meter, Stop};
use crate::phase::{Phase, SyncKind};
use crate::stream::Stream;
use crate::syscalls::{Descriptor, SyncCall};

/// What a thread does: a phase, or filling files that a phase needs whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A timed phase.
    Phase(Phase),
    /// Writes every block that was never written.
    Fill,
}

impl Step {
    /// Name in errors and progress.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phase(phase) => phase.name(),
            Self::Fill => "fill",
        }
    }

    const fn writes(self) -> bool {
        match self {
            Self::Phase(phase) => phase.writes(),
            Self::Fill => true,
        }
    }

    const fn by_character(self) -> bool {
        matches!(self, Self::Phase(phase) if phase.by_character())
    }
}

/// What all workers of a step share.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub plan: &'a Plan,
    pub layout: Layout,
    pub paths: &'a [PathBuf],
    pub content: &'a Content,
    pub step: Step,
    /// Of this process.
    pub threads: u64,
}

impl Shared<'_> {
    /// Of all processes: how many workers there are, and which one is number `index` here.
    fn among_all(&self, index: u64) -> (u64, u64) {
        let first = self.plan.process() * self.threads;
        (self.plan.processes() * self.threads, first + index)
    }
}

/// What a worker hands over.
pub struct Report<'a> {
    pub meter: Meter<'a>,
    pub stop: Stop,
    /// When it really began.
    pub began_ns: u64,
    pub end_ns: u64,
    pub data_end_ns: u64,
    pub usage: ThreadUsage,
    pub final_syncs: u64,
    pub final_sync_ns: u64,
}

/// An open file of a worker's range.
pub enum Handle {
    Plain(Descriptor),
    Stream(Stream),
}

/// A worker that is ready to start.
pub struct Worker<'a> {
    pub shared: Shared<'a>,
    pub index: u64,
    pub range: Range<u64>,
    pub generations: &'a mut [u8],
    pub first_file: u64,
    pub handles: Vec<Handle>,
    pub content: Option<Content>,
    pub buffer: AlignedBuffer,
    pub meter: Meter<'a>,
}

/// Result of a step.
pub type Run<T> = Result<T, FilesError>;

impl<'a> Worker<'a> {
    /// Opens the files of the worker's range and allocates all it needs.
    pub fn prepare(
        shared: Shared<'a>,
        index: u64,
        generations: &'a mut [u8],
        meter: Meter<'a>,
    ) -> Run<Self> {
        let range = shared.layout.range(shared.threads, index);
        let blame = Blame {
            step: shared.step.name(),
            path: &shared.plan.directory,
            direct: shared.plan.direct,
        };
        let memory = |errno| blame.error("malloc", None, errno);
        let block = usize::try_from(shared.plan.block_size_bytes).unwrap_or(usize::MAX);
        let buffer = AlignedBuffer::new(block).map_err(memory)?;
        let makes_content = !matches!(shared.step, Step::Phase(phase) if phase.reads());
        let content = makes_content
            .then(|| shared.content.copy())
            .transpose()
            .map_err(memory)?;
        let mut handles = Vec::new();
        let mut first_file = 0;
        for segment in shared.layout.segments(range.clone()) {
            if handles.is_empty() {
                first_file = segment.file;
            }
            handles.push(open(&shared, segment.file, segment.offset)?);
        }
        Ok(Self {
            shared,
            index,
            range,
            generations,
            first_file,
            handles,
            content,
            buffer,
            meter,
        })
    }

    /// Runs the loop, the final sync and the closing.
    pub fn run(mut self, start_ns: u64) -> Run<Report<'a>> {
        let before = ThreadUsage::now();
        let limit_ns = match self.shared.step {
            Step::Phase(_) => self.shared.plan.time_limit_ns,
            Step::Fill => None,
        };
        self.meter.begin(start_ns, limit_ns);
        let began_ns = self.meter.last_ns();
        let stop = match self.shared.step {
            Step::Fill => self.fill(),
            Step::Phase(Phase::CharWrite | Phase::BlockWrite) => self.write_in_order(),
            Step::Phase(Phase::Rewrite) => self.rewrite(),
            Step::Phase(Phase::CharRead | Phase::BlockRead) => self.read_in_order(),
            Step::Phase(Phase::Seeks) => self.seek(),
            Step::Phase(Phase::RandomRead) => self.read_at_random(),
            Step::Phase(Phase::RandomWrite | Phase::LogWrite) => self.write_and_sync(),
        }?;
        // The limit may come with the very last operation: then nothing was cut off.
        let stop = match stop {
            Stop::TimeLimit if self.meter.operations >= self.planned() => Stop::Done,
            stop => stop,
        };
        let data_end_ns = self.meter.last_ns();
        let (final_syncs, final_sync_ns) = self.finish(stop)?;
        let end_ns = self.meter.now_ns();
        let usage = ThreadUsage::now().since(&before);
        let meter = self.meter;
        Ok(Report {
            meter,
            stop,
            began_ns,
            end_ns,
            data_end_ns,
            usage,
            final_syncs,
            final_sync_ns,
        })
    }

    /// Its number among the workers of all processes.
    pub fn number(&self) -> u64 {
        self.shared.among_all(self.index).1
    }

    /// Operations this worker was asked for.
    pub fn planned(&self) -> u64 {
        let total = match self.shared.step {
            Step::Phase(Phase::Seeks) => self.shared.plan.seeks,
            Step::Phase(Phase::RandomRead | Phase::RandomWrite | Phase::LogWrite) => {
                self.shared.plan.random_operations
            }
            Step::Phase(_) | Step::Fill => return self.range.end - self.range.start,
        };
        let (workers, me) = self.shared.among_all(self.index);
        let mine = part(total, workers, me);
        mine.end - mine.start
    }

    /// Final fsync of every file of the range, then close. Gives the number and time of syncs.
    fn finish(&mut self, stop: Stop) -> Run<(u64, u64)> {
        let asked = match self.shared.step {
            Step::Phase(_) => self.shared.plan.final_sync,
            Step::Fill => true,
        };
        let syncs = asked && self.shared.step.writes() && stop != Stop::Cancelled;
        let (mut count, start_ns) = (0, self.meter.now_ns());
        let mut end_ns = start_ns;
        for (file, handle) in (self.first_file..).zip(&mut self.handles) {
            let fail = |call, errno| blame(&self.shared, file).error(call, None, errno);
            if let Handle::Stream(stream) = handle {
                stream.flush().map_err(|errno| fail("fflush", errno))?;
            }
            if syncs {
                match handle {
                    Handle::Plain(descriptor) => descriptor.sync(SyncCall::Fsync),
                    Handle::Stream(stream) => stream.sync(),
                }
                .map_err(|errno| fail("fsync", errno))?;
                count += 1;
                end_ns = self.meter.now_ns();
            }
        }
        for (file, handle) in (self.first_file..).zip(self.handles.drain(..)) {
            match handle {
                Handle::Plain(descriptor) => descriptor.close(),
                Handle::Stream(stream) => stream.close(),
            }
            .map_err(|errno| blame(&self.shared, file).error("close", None, errno))?;
        }
        Ok((count, end_ns - start_ns))
    }
}

/// What an error on `file` needs to say.
pub fn blame<'a>(shared: &Shared<'a>, file: u64) -> Blame<'a> {
    let (step, direct) = (shared.step.name(), shared.plan.direct);
    let path = &shared.paths[usize::try_from(file).unwrap_or(0)];
    Blame {
        step,
        path,
        direct: direct && !shared.step.by_character(),
    }
}

fn open(shared: &Shared<'_>, file: u64, offset: u64) -> Run<Handle> {
    let blame = blame(shared, file);
    let (plan, step) = (shared.plan, shared.step);
    let mut flags = match (step.writes(), step.by_character()) {
        (true, false) => libc::O_RDWR,  // as Bonnie and fio
        (true, true) => libc::O_WRONLY, // glibc reads around a seek in a stream that may read
        (false, _) => libc::O_RDONLY,
    };
    if matches!(step, Step::Phase(phase) if phase.syncs()) && plan.sync_kind == SyncKind::Dsync {
        flags |= libc::O_DSYNC;
    }
    if blame.direct {
        flags |= libc::O_DIRECT;
    }
    let fail = |call| move |errno| blame.error(call, None, errno);
    let descriptor = Descriptor::open(blame.path, flags).map_err(fail("open"))?;
    if !step.by_character() {
        return Ok(Handle::Plain(descriptor));
    }
    let mode = if step.writes() { c"w" } else { c"r" };
    let mut stream = Stream::over(descriptor, mode).map_err(fail("fdopen"))?;
    stream.seek(offset).map_err(fail("fseeko"))?;
    Ok(Handle::Stream(stream))
}
