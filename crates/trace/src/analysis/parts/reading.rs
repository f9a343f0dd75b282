//! Reads one file of many, or some in a row, and the beginning of the next one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{Options, Pass, Progress};
use super::part::{End, Part};
use super::stretch::{Known, Stretch, Sums};
use crate::block::Block;
use crate::ends::Ends;
use crate::error::TraceError;
use crate::lens::{LENSES, LensOptions};
use crate::source::{Bounds, Reader};

/// Blocks in front of the first checkpoint: 4 MiB.
const FIRST_BLOCKS: u64 = 8;
/// Blocks between two times that progress is told: 16 MiB.
const TELL_BLOCKS: u64 = 32;

/// What is to be read.
#[derive(Clone, Debug)]
pub struct Task {
    /// The files, in their order; mostly one.
    pub files: Vec<PathBuf>,
    /// The one behind them, if there is one.
    pub next: Option<PathBuf>,
    /// Names of lenses beside the table by operation: of those that can be put together.
    pub lenses: Vec<String>,
    /// Sizes of blocks.
    pub bounds: Bounds,
    /// Blocks in front of the first checkpoint.
    pub first_blocks: u64,
}

impl Task {
    /// With the usual sizes.
    pub fn new(files: Vec<PathBuf>, next: Option<PathBuf>) -> Self {
        Task {
            files,
            next,
            lenses: Vec::new(),
            bounds: Bounds::default(),
            first_blocks: FIRST_BLOCKS,
        }
    }

    /// The checkpoint's number behind so many blocks: each is twice as far from the file's
    /// beginning as the one before.
    fn checkpoint(&self, blocks: u64) -> Option<u32> {
        let times = blocks / self.first_blocks.max(1);
        let whole = times * self.first_blocks == blocks;
        (whole && times.is_power_of_two()).then(|| times.ilog2())
    }
}

/// A pass with its reader.
struct Walk {
    reader: Reader,
    pass: Pass,
    block: Block,
    sums: Sums,
}

impl Walk {
    fn new(paths: &[PathBuf], task: &Task) -> Result<Self, TraceError> {
        let table = LENSES.first().map(|(name, ..)| (*name).to_owned());
        let options = Options {
            lenses: table.into_iter().chain(task.lenses.clone()).collect(),
            lens: LensOptions {
                of_a_part: true,
                ..LensOptions::default()
            },
            ..Options::default()
        };
        Ok(Walk {
            reader: Reader::open_of_many(paths, task.bounds)?,
            pass: Pass::new(&options, Arc::default())?,
            block: Block::default(),
            sums: Sums::default(),
        })
    }

    fn frames(&self) -> u64 {
        self.reader.totals().frames
    }
}

/// The beginning of the next file, as its own reader sees it.
struct Beside {
    walk: Walk,
    /// Frames of the files in front of it.
    before: u64,
    times_ns: Ends,
}

impl Beside {
    fn new(next: &Path, task: &Task, before: u64) -> Result<Self, TraceError> {
        Ok(Beside {
            walk: Walk::new(&[next.to_owned()], task)?,
            before,
            times_ns: Ends::default(),
        })
    }

    /// Reads the next block; whether it ends where the other way of reading is.
    fn follow(&mut self, frames: u64) -> Result<bool, TraceError> {
        let Walk {
            reader,
            pass,
            block,
            ..
        } = &mut self.walk;
        if reader.read(block)? {
            pass.block(block)?;
        }
        if let Some((least, most)) = block.times_ns {
            self.times_ns.add(Ends { least, most });
        }
        Ok(self.walk.frames() + self.before == frames)
    }
}

/// Reads a task's files; `progress` is told now and then how far it is, and ends it with false.
///
/// # Errors
/// A file cannot be read, or `progress` said so.
pub fn read(task: &Task, mut progress: impl FnMut(Progress) -> bool) -> Result<Part, TraceError> {
    let paths: Vec<PathBuf> = task.files.iter().chain(&task.next).cloned().collect();
    let own = task.files.len() as u64;
    let mut walk = Walk::new(&paths, task)?;
    let watcher = walk.reader.watcher();
    let mut part = Part::new();
    let mut beside: Option<Beside> = None;
    let (mut blocks, mut told, mut frames) = (0u64, 0u64, 0u64);
    while walk.reader.read(&mut walk.block)? {
        let input = walk.reader.totals().inputs;
        if let Some(next) = task
            .next
            .as_ref()
            .filter(|_| input > own && beside.is_none())
        {
            blocks = 0;
            beside = Some(Beside::new(next, task, frames)?);
        }
        walk.pass.block(&walk.block)?;
        frames = walk.frames();
        blocks += 1;
        told += 1;
        if told % TELL_BLOCKS == 0 {
            let state = Progress {
                read_bytes: watcher.read_bytes(),
                total_bytes: watcher.total_bytes(),
                frames,
                calls: walk.pass.settled(),
                finished: false,
            };
            if !progress(state) {
                return Err(TraceError::Interrupted);
            }
        }
        match &mut beside {
            None => {
                part.saw(&walk.block, input, walk.reader.begun_ns());
                if task.checkpoint(blocks).is_some() {
                    checkpoint(&mut part, &mut walk);
                }
            }
            Some(beside) => {
                let together = beside.follow(frames)?;
                if let Some(checkpoint) = task.checkpoint(blocks).filter(|_| together)
                    && let Some(end) = agreed(&mut walk, beside, checkpoint)
                {
                    return Ok(ended(part, walk, end, Some(&beside.walk.pass)));
                }
            }
        }
    }
    let end = match task.next {
        None => End::Last,
        Some(_) => End::Open,
    };
    Ok(ended(part, walk, end, None))
}

/// A checkpoint of the task's own files.
fn checkpoint(part: &mut Part, walk: &mut Walk) {
    let number = part.stretches.len();
    let newcomers = newcomers(part, walk);
    cut(part, walk, newcomers);
    walk.pass.streams().note_horizon(number);
}

/// Connections that were first seen since this was asked last.
fn newcomers(part: &mut Part, walk: &mut Walk) -> BTreeSet<Known> {
    let streams = walk.pass.streams();
    let since = streams.seen_since(part.seen);
    let newcomers = since.map(Known::of).collect();
    part.seen = streams.seen();
    newcomers
}

fn cut(part: &mut Part, walk: &mut Walk, newcomers: BTreeSet<Known>) {
    let totals = walk.reader.totals();
    let stretch = walk.pass.checkpoint(&totals, &mut walk.sums);
    let opened = walk.pass.streams().take_opened();
    part.stretches.push(Stretch {
        newcomers,
        opened: opened
            .into_iter()
            .map(|(it, syn)| (Known::of(it), syn))
            .collect(),
        ..stretch
    });
}

/// Where the other file's reader is right from, if both ways of reading are in the same state.
fn agreed(walk: &mut Walk, beside: &mut Beside, checkpoint: u32) -> Option<End> {
    let later = &mut beside.walk;
    later.pass.streams().checkpoint();
    walk.pass.streams().checkpoint();
    let (_, waits) = walk.reader.fragments();
    let (came, _) = later.reader.fragments();
    let (_, now_ns) = beside.times_ns.known()?;
    if waits || came {
        return None;
    }
    let paired = walk.pass.pair(&later.pass, now_ns, beside.before)?;
    let numbered = [&mut walk.pass, &mut later.pass].map(|pass| pass.streams().numbered());
    Some(End::Agrees {
        checkpoint: checkpoint as usize,
        numbers: paired.numbers.into_iter().collect(),
        numbered,
        rest: (paired.rest.into_iter())
            .map(|(ends, rest)| (Known::of(ends), rest))
            .collect(),
        now_ns,
    })
}

fn ended(mut part: Part, mut walk: Walk, end: End, later: Option<&Pass>) -> Part {
    // In front of what follows, which empties the tables.
    let newcomers = newcomers(&mut part, &mut walk);
    let began = walk.pass.streams().began();
    part.began = began.map(|(it, how)| (Known::of(it), how)).collect();
    match later {
        // Nothing ends where the next reader goes on.
        Some(later) => walk.pass.let_go(later),
        None => walk.pass.end(),
    }
    cut(&mut part, &mut walk, newcomers);
    part.fragments = walk.reader.fragments().0;
    part.lists = walk.pass.operation_lists().iter().cloned().collect();
    part.cpu_ns = measure::clock::thread_cpu_ns();
    part.end = end;
    part
}
