//! Plays the journals of a capture's files, in their order, to lenses that follow it as a whole.
//!
//! A thread plays, and may have others for lenses. A journal is removed when it was played.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use arrow_array::RecordBatch;
use measure::clock::thread_cpu_ns;

use super::super::dispatch::Dispatch;
use super::super::lens_threads::LensThreads;
use super::super::{Findings, Options};
use super::numbering::Numbering;
use super::part::Joint;
use super::{Apart, Part};
use crate::error::TraceError;
use crate::journal::file::{ChunkError, Chunks};
use crate::journal::{PlayError, Player, Shift};
use crate::lens::{Extent, LENSES, LensOptions, Section};
use crate::names::Beyond;
use crate::stream::Facts;

/// What was found by lenses that were told by journals.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) sections: Vec<(String, Section)>,
    /// Files named, and what of them did not fit.
    pub(super) files: u64,
    pub(super) beyond: Beyond,
    pub(super) cpu_ns: u64,
}

/// Why following ends.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The files have to be read in a row.
    #[error(transparent)]
    Apart(#[from] Apart),
    /// A journal cannot be read, or a thread failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl From<PlayError> for FollowError {
    fn from(error: PlayError) -> Self {
        FollowError::Apart(match error {
            PlayError::Damaged(_) => Apart::Wrong,
            PlayError::Full => Apart::Full,
            PlayError::ReachedBack => Apart::ReachedBack,
        })
    }
}

/// A journal that goes once it was played, or never will be.
#[derive(Debug)]
struct Spool {
    path: PathBuf,
    told: Arc<Told>,
}

impl Spool {
    fn new(path: PathBuf, told: &Arc<Told>) -> Self {
        told.waiting.fetch_add(1, Relaxed);
        let told = Arc::clone(told);
        Spool { path, told }
    }

    /// The file, if it is a regular one of this length: whoever wrote it may be on another machine.
    fn open(&self, length: u64) -> Result<File, FollowError> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path);
        let file = opened.map_err(|error| TraceError::of_file(&self.path, error))?;
        let found = file
            .metadata()
            .map_err(|error| TraceError::of_file(&self.path, error))?;
        match found.is_file() && found.len() == length {
            true => Ok(file),
            false => Err(Apart::Wrong.into()),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // It is one file of a folder that goes as a whole, at the latest.
        let _ = std::fs::remove_file(&self.path);
        self.told.waiting.fetch_sub(1, Relaxed);
    }
}

/// What is to be played.
struct Job {
    spool: Spool,
    file: File,
    from: u64,
    end: u64,
    frames: u64,
    calls: u64,
    numbering: Option<Numbering>,
    facts: Vec<(u32, Facts)>,
}

enum Order {
    Play(Job),
    Finish(Extent),
}

struct Follower {
    orders: Sender<Order>,
    thread: JoinHandle<Result<Followed, FollowError>>,
}

/// What the thread tells.
#[derive(Debug, Default)]
struct Told {
    stop: Arc<AtomicBool>,
    /// Journals that are there.
    waiting: AtomicUsize,
    failed: Mutex<Option<FollowError>>,
}

impl Told {
    fn fail(&self, error: FollowError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
        self.stop.store(true, Relaxed);
    }
}

/// Frames in front of each file that was followed so far.
#[derive(Clone, Debug, Default)]
pub struct Begun(Arc<Mutex<Vec<u64>>>);

impl Begun {
    /// In the order of the files.
    pub fn so_far(&self) -> Vec<u64> {
        let begun = self.0.lock();
        begun.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, before: u64, begun: impl Iterator<Item = u64>) {
        let begun = begun.map(|frames| before.wrapping_add(frames));
        let so_far = self.0.lock();
        so_far.unwrap_or_else(PoisonError::into_inner).extend(begun);
    }
}

/// Lenses that follow.
pub struct Following {
    /// All parts so far, without their tables.
    whole: Option<Part>,
    frames: u64,
    calls: u64,
    begun: Begun,
    follower: Option<Follower>,
    told: Arc<Told>,
}

impl std::fmt::Debug for Following {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Following({} calls in front)", self.calls)
    }
}

impl Following {
    /// These lenses, which get at most so many threads beside the one that plays (as many as gain
    /// something here, if it is not said), and the rows of the calls if somebody takes them.
    ///
    /// # Errors
    /// A lens is not known or does not like its options; no thread can be begun.
    pub fn begin(
        lenses: &[String],
        options: &LensOptions,
        threads: Option<usize>,
        rows: Option<SyncSender<RecordBatch>>,
    ) -> Result<Self, TraceError> {
        let told = Arc::new(Told::default());
        let first = LENSES.first().map(|(name, ..)| (*name).to_owned());
        let options = Options {
            lenses: first.into_iter().chain(lenses.iter().cloned()).collect(),
            lens: options.clone(),
            ..Options::default()
        };
        let mut dispatch = Dispatch::new(&options, Arc::clone(&told.stop))?;
        if let Some(rows) = rows {
            dispatch.set_columns(rows);
        }
        dispatch.begin_threads(threads.unwrap_or_else(LensThreads::useful))?;
        Ok(Following {
            whole: None,
            frames: 0,
            calls: 0,
            begun: Begun::default(),
            follower: Some(Follower::begin(dispatch, &told)?),
            told,
        })
    }

    /// The next part, with its journal, which is removed in any case.
    ///
    /// # Errors
    /// It does not go on where the last one ended; the journal is not as long as the part says; or
    /// following failed before.
    pub fn follow(&mut self, part: &Part, journal: PathBuf) -> Result<(), FollowError> {
        let spool = Spool::new(journal, &self.told);
        self.check()?;
        let end = part.journal_bytes();
        let file = spool.open(end)?;
        let mut part = part.clone().without_tables();
        let begun = std::mem::take(&mut part.begun);
        let next = part.next_begins();
        let mut job = Job {
            spool,
            file,
            from: 0,
            end,
            frames: 0,
            calls: 0,
            numbering: None,
            facts: Vec::new(),
        };
        let first = self.whole.is_none();
        let whole = match self.whole.take() {
            None => part,
            Some(whole) => {
                let (both, joint) = whole.meet(part)?;
                let Joint {
                    numbering,
                    journal_from,
                    before,
                    calls,
                    facts,
                } = joint;
                self.frames = self.frames.wrapping_add(before);
                self.calls = self.calls.wrapping_add(calls);
                job = Job {
                    from: journal_from,
                    frames: self.frames,
                    calls: self.calls,
                    numbering: Some(numbering),
                    facts,
                    ..job
                };
                both
            }
        };
        self.whole = Some(whole);
        // In front of the first row of it. Some calls of the next file are in this journal.
        let known = usize::from(!first);
        let begun = begun.into_iter().skip(known).chain(next);
        self.begun.add(self.frames, begun);
        if let Some(follower) = &self.follower {
            // One that is gone has said why.
            let _ = follower.orders.send(Order::Play(job));
        }
        self.check()
    }

    /// Journals that wait to be played, or are being played.
    ///
    /// # Errors
    /// Following failed.
    pub fn waiting(&self) -> Result<usize, FollowError> {
        self.check()?;
        // One that panicked has said nothing.
        if self
            .follower
            .as_ref()
            .is_some_and(|it| it.thread.is_finished())
        {
            self.check()?;
            return Err(TraceError::Thread("lenses that follow ended".to_owned()).into());
        }
        Ok(self.told.waiting.load(Relaxed))
    }

    /// Frames in front of each file that was followed, now and later.
    pub fn begun(&self) -> Begun {
        self.begun.clone()
    }

    fn check(&self) -> Result<(), FollowError> {
        let failed = self.told.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// What ends it soon, whatever waits, once it is true.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.told.stop)
    }

    /// What was found in a capture of which `whole` is the part, and all journals were given:
    /// [`Part::findings`].
    ///
    /// # Errors
    /// Following failed, or it is not the whole capture.
    pub fn findings(
        mut self,
        whole: Part,
        moved: u64,
        inputs: &[String],
    ) -> Result<Findings, FollowError> {
        let follower = self.follower.take();
        whole.findings_with(moved, inputs, |extent| {
            let Some(Follower { orders, thread }) = follower else {
                return Err(TraceError::Interrupted.into());
            };
            let _ = orders.send(Order::Finish(*extent));
            let ended = thread.join();
            self.check()?;
            ended.map_err(|_| TraceError::Thread("it panicked".to_owned()))?
        })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.told.stop.store(true, Relaxed);
        if let Some(Follower { orders, thread }) = self.follower.take() {
            drop(orders);
            let _ = thread.join();
        }
    }
}

impl Follower {
    fn begin(dispatch: Dispatch, told: &Arc<Told>) -> Result<Self, TraceError> {
        let told = Arc::clone(told);
        let (orders, received) = channel();
        let thread = Builder::new()
            .name("journals".to_owned())
            .spawn(move || {
                measure::thread::leave_signals_to_others();
                follow(dispatch, &received, &told)
            })
            .map_err(|error| TraceError::Thread(error.to_string()))?;
        Ok(Follower { orders, thread })
    }
}

/// The thread's work.
fn follow(
    mut dispatch: Dispatch,
    orders: &Receiver<Order>,
    told: &Told,
) -> Result<Followed, FollowError> {
    let mut player = Player::default();
    for order in orders {
        match order {
            Order::Play(job) => {
                if let Err(error) = play(&mut player, &mut dispatch, job, told) {
                    told.fail(error);
                    break;
                }
            }
            Order::Finish(extent) => {
                let (sections, others_ns) = dispatch.finish(player.names(), &extent)?;
                return Ok(Followed {
                    sections: sections.into_iter().skip(1).collect(),
                    files: player.names().files() as u64,
                    beyond: player.names().beyond(),
                    cpu_ns: thread_cpu_ns().saturating_add(others_ns),
                });
            }
        }
    }
    Err(TraceError::Interrupted.into())
}

fn play(
    player: &mut Player,
    dispatch: &mut Dispatch,
    job: Job,
    told: &Told,
) -> Result<(), FollowError> {
    let path = &job.spool.path;
    let of_chunk = |error: ChunkError| match error {
        ChunkError::Damaged(_) => FollowError::Apart(Apart::Wrong),
        ChunkError::Io(source) => TraceError::of_file(path, source).into(),
    };
    for (connection, facts) in &job.facts {
        player.know(*connection, facts);
    }
    let numbering = job.numbering;
    player.next_reader(Shift {
        frames: job.frames,
        calls: job.calls,
        connection: Box::new(move |it| numbering.as_ref().map_or(it, |known| known.of(it))),
    });
    let chunks = Chunks::of(job.file, job.from, job.end);
    let mut chunks = chunks.map_err(|error| of_chunk(error.into()))?;
    while let Some((records, anew)) = chunks.next_chunk().map_err(of_chunk)? {
        if told.stop.load(Relaxed) {
            return Err(TraceError::Interrupted.into());
        }
        if anew {
            player.begin_anew();
        }
        player.play(records, dispatch)?;
        dispatch.hand_over();
        if let Some(failure) = dispatch.take_failure() {
            return Err(failure.into());
        }
    }
    Ok(())
}
