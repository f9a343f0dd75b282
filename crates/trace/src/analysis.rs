//! Drives one pass: blocks in, calls, events, columns and sections out.
//!
//! Two threads: one reads and finds segments ([`crate::source`]), one does all the rest. Lenses of
//! mapped files have up to two more, where there are processors for them. Rows of the calls of a
//! mapped file, and the table by operation, are made by one: handing over would cost as much as it
//! gains. Batches of columns go to the caller through a short channel, so that a slow writer slows
//! the reader and memory stays flat.
//!
//! Ends: the capture's; [`Analysis::stop`]; an input that cannot be read any more; the taker of the
//! columns going away; a panic in one of the threads, which becomes an error. In each case both
//! threads end: dropping the blocks stops their reader.

mod dispatch;
mod lens_threads;
mod lenses;
pub mod parts;
mod pass;
mod ports;
mod summary;

use std::any::Any;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

use arrow_array::RecordBatch;
use measure::clock::thread_cpu_ns;
use serde_json::Value;

use crate::block::Block;
use crate::error::TraceError;
use crate::lens::{LensOptions, Section};
use crate::source::{Blocks, Bounds, Input, Reader, Watcher, spawn};

use lens_threads::LensThreads;
pub use pass::Pass;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of lenses; all if empty. `operations` always runs.
    pub lenses: Vec<String>,
    /// What lenses are told.
    pub lens: LensOptions,
    /// Whether batches of columns are wanted.
    pub columns: bool,
    /// Only calls first sent within this time, nanoseconds from the capture's first frame:
    /// a closer look. Matching and paths still see everything.
    pub window_ns: Option<(i64, i64)>,
}

/// How far an analysis is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read of the inputs (as stored: compressed).
    pub read_bytes: u64,
    /// Size of all inputs, if it is known.
    pub total_bytes: Option<u64>,
    /// Frames seen.
    pub frames: u64,
    /// Calls settled.
    pub calls: u64,
    /// Whether the threads have ended (well or badly): `finish` then returns at once.
    pub finished: bool,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// `packets`, `bytes`, `first_ns`, `last_ns`, `lost`, `anomalies`, ...
    pub summary: Value,
    /// Name and section of each lens that ran, in their order.
    pub sections: Vec<(String, Section)>,
    /// CPU time of all threads of the analysis, nanoseconds: what a live collector cost.
    pub cpu_ns: u64,
}

/// Batches of columns that wait for their taker.
const BATCHES: usize = 2;

/// A running analysis.
#[derive(Debug)]
pub struct Analysis {
    watcher: Watcher,
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    batches: Option<Receiver<RecordBatch>>,
    thread: JoinHandle<Result<Findings, TraceError>>,
}

impl Analysis {
    /// Opens the inputs and starts the threads. What is wrong with the first input is told here,
    /// if it is a file; a stream is first read by its thread (a live capture tool may hold its
    /// header back until packets come), and what is wrong with it is told by `finish`.
    ///
    /// # Errors
    /// The first input cannot be read, or the options are wrong.
    pub fn start(inputs: Vec<Input>, options: Options) -> Result<Self, TraceError> {
        let names = inputs.iter().map(Input::name).collect();
        Self::start_reader(Reader::open(inputs)?, names, &options)
    }

    fn start_reader(
        mut reader: Reader,
        names: Vec<String>,
        options: &Options,
    ) -> Result<Self, TraceError> {
        let stop = Arc::new(AtomicBool::new(false));
        let calls = Arc::new(AtomicU64::new(0));
        let mut pass = Pass::new(options, Arc::clone(&stop))?;
        if let Some(window_ns) = options.window_ns {
            reader.count_part(window_ns);
        }
        let batches = options.columns.then(|| {
            let (sender, receiver) = sync_channel(BATCHES);
            pass.set_columns(sender);
            receiver
        });
        // Rows keep a second processor at work by themselves; all else has it read.
        let rows_alone = options.columns && !pass.has_lenses() && reader.is_mapped();
        // To unpack a file takes as long as all the rest, and keeps a second processor at work. Who
        // looks on while something is measured takes less CPU time without them.
        if reader.is_mapped() {
            pass.begin_lens_threads(LensThreads::useful())?;
        }
        let blocks = match rows_alone {
            true => Blocks::read_here(reader),
            false => spawn(reader)?,
        };
        let watcher = blocks.watcher();
        let (stop_seen, calls_seen) = (Arc::clone(&stop), Arc::clone(&calls));
        let thread = Builder::new()
            .name("calls".to_owned())
            .spawn(move || analyse(pass, blocks, &names, &stop_seen, &calls_seen))
            .map_err(|error| TraceError::Thread(error.to_string()))?;
        Ok(Analysis {
            watcher,
            stop,
            calls,
            batches,
            thread,
        })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            read_bytes: self.watcher.read_bytes(),
            total_bytes: self.watcher.total_bytes(),
            frames: self.watcher.frames(),
            calls: self.calls.load(Relaxed),
            finished: self.thread.is_finished(),
        }
    }

    /// Frames in front of each input that was begun: of each that has a row, once the row is there.
    pub fn begun(&self) -> Vec<u64> {
        self.watcher.begun()
    }

    /// Batches of rows in the order of the calls, once, if columns were asked for. They have to be
    /// taken, or the analysis waits.
    pub fn batches(&mut self) -> Option<Receiver<RecordBatch>> {
        self.batches.take()
    }

    /// Asks the threads to end soon; `finish` then gives `Interrupted`.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.watcher.stop();
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// An input could not be read to its end, the analysis was stopped, or a thread failed.
    pub fn finish(self) -> Result<Findings, TraceError> {
        // Columns that nobody took: a thread that waits to hand some over ends.
        drop(self.batches);
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => Err(TraceError::Thread(text_of(&*panic))),
        }
    }
}

/// Analyses a capture on the caller's thread, without columns: for tests, benches and fuzzing.
///
/// # Errors
/// As [`Analysis::start`] and [`Analysis::finish`].
pub fn analyse_bytes(
    bytes: impl Read + Send + 'static,
    options: &Options,
) -> Result<Findings, TraceError> {
    let mut reader = Reader::of_bytes("capture", bytes, Bounds::default())?;
    if let Some(window_ns) = options.window_ns {
        reader.count_part(window_ns);
    }
    let mut pass = Pass::new(options, Arc::default())?;
    let mut block = Block::default();
    while reader.read(&mut block)? {
        pass.block(&block)?;
    }
    pass.finish(&reader.totals(), &[])
}

/// The analysing thread.
fn analyse(
    mut pass: Pass,
    mut blocks: Blocks,
    names: &[String],
    stop: &AtomicBool,
    calls: &AtomicU64,
) -> Result<Findings, TraceError> {
    measure::thread::leave_signals_to_others();
    while let Some(block) = blocks.next_block()? {
        if stop.load(Relaxed) {
            return Err(TraceError::Interrupted);
        }
        pass.block(&block)?;
        calls.store(pass.settled(), Relaxed);
        blocks.recycle(block);
    }
    let mut findings = pass.finish(blocks.totals(), names)?;
    let others_ns = findings.cpu_ns.saturating_add(blocks.cpu_ns());
    findings.cpu_ns = thread_cpu_ns().saturating_add(others_ns);
    Ok(findings)
}

/// What a thread said when it panicked.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}
